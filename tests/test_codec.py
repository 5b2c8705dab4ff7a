"""The codec gives back what it was given, and refuses everything else without running any of it."""

import contextlib
import dataclasses

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.codec import MAX_ARRAY_BYTES, CodecError, pack, pack_transition, unpack, unpack_transition
from tandem.types import Transition

TRANSITION = Transition(
    observation={"pose": np.arange(3, dtype=np.float32), "image": np.zeros((2, 2, 3), np.uint8)},
    action=np.array([0.5, -1.0], np.float32),
    reward=1.0,
    next_observation={"pose": np.arange(3, 6, dtype=np.float32), "image": np.ones((2, 2, 3), np.uint8)},
    terminated=True,
    truncated=False,
    intervened=True,
    success=True,
    episode=4,
    step=7,
    policy_version=12,
    source="robot",
    seq=99,
)


def assert_same(one: Transition, other: Transition) -> None:
    for field in dataclasses.fields(Transition):
        np.testing.assert_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 4), (2, 3), (1, 2, 3)])
def test_an_array_of_any_known_dtype_and_shape_comes_back_the_same(dtype, shape):
    array = np.arange(int(np.prod(shape, dtype=int))).reshape(shape).astype(dtype)
    back = unpack(pack({"a": array}))["a"]
    assert back.dtype == array.dtype and back.shape == shape
    np.testing.assert_array_equal(back, array)


def test_why_a_person_took_over_travels_with_the_step_and_older_records_have_none() -> None:
    tagged = dataclasses.replace(TRANSITION, tag="wrong way")
    assert_same(unpack_transition(pack_transition(tagged), "robot", 99), tagged)
    plain = pack_transition(TRANSITION)
    assert b"tag" not in plain and unpack_transition(plain, "robot", 99).tag == ""
    with pytest.raises(CodecError, match="'tag' is a int, not a str"):
        unpack_transition(pack({**unpack(plain), "tag": 3}), "robot", 99)


def test_strided_and_fortran_arrays_come_back_by_value():
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(unpack(pack(array[::2, ::-3])), array[::2, ::-3])
    np.testing.assert_array_equal(unpack(pack(np.asfortranarray(array))), array)


def test_nan_and_infinity_survive_so_that_a_validator_can_name_them():
    np.testing.assert_array_equal(unpack(pack(np.array([np.nan, np.inf]))), [np.nan, np.inf])


def test_plain_values_and_numpy_scalars_come_back_as_plain_values():
    assert unpack(pack({"a": [1, 2.5, "x", b"y", None, True], "b": np.float32(0.5)})) == {"a": [1, 2.5, "x", b"y", None, True], "b": 0.5}


def test_decoded_arrays_are_read_only_because_they_share_the_bytes():
    with pytest.raises(ValueError, match="read-only"):
        unpack(pack(np.zeros(3)))[0] = 1


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array(["text"]), np.array([None]), np.zeros(2, ">f4"), np.zeros(2, np.complex64)])
def test_a_value_without_encoding_is_refused(value):
    with pytest.raises(CodecError, match="no encoding"):
        pack(value)


def _array_frame(header: object, payload: bytes) -> bytes:
    packed = pack(header)
    return pack(msgpack.ExtType(1, bytes([len(packed)]) + packed + payload))


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (_array_frame(["<f4", [2]], b"1234"), "needs 8 bytes, got 4"),
        (_array_frame(["<f4", [2**40, 2**40]], b""), "needs"),
        (_array_frame(["<f4", [-1]], b"1234"), "bad array shape"),
        (_array_frame(["<f4", [True]], b"1234"), "bad array shape"),
        (_array_frame(["<f4", [1] * 9], b"1234"), "bad array shape"),
        (_array_frame(["|O", [1]], b"12345678"), "bad array header"),
        (_array_frame([["<f4"], [1]], b"1234"), "bad array header"),
        (_array_frame("<f4", b"1234"), "bad array header"),
        (pack(msgpack.ExtType(1, b"")), "unknown extension"),
        (pack(msgpack.ExtType(2, b"1234")), "unknown extension"),
        (pack(msgpack.ExtType(1, b"\xff")), "not a record"),
    ],
)
def test_an_array_whose_header_lies_is_refused(frame, says):
    with pytest.raises(CodecError, match=says):
        unpack(frame)


def test_an_array_beyond_the_bound_is_refused():
    with pytest.raises(CodecError, match="max_ext_len"):
        unpack(pack(np.zeros(MAX_ARRAY_BYTES // 8 + 1)))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_plain_value_or_a_codec_error(data):
    with contextlib.suppress(CodecError):
        unpack(data)


def test_a_transition_comes_back_whole():
    assert_same(unpack_transition(pack_transition(TRANSITION), "robot", 99), TRANSITION)


def test_every_truncation_of_a_transition_is_refused():
    data = pack_transition(TRANSITION)
    for length in range(len(data)):
        with pytest.raises(CodecError):
            unpack_transition(data[:length], "robot", 99)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("observation", {"pose": 1.0}),
        ("next_observation", [1.0]),
        ("action", [0.5, -1.0]),
        ("reward", "1"),
        ("reward", True),
        ("reward", np.ones(1)),
        ("terminated", 1),
        ("success", 0),
        ("truncated", None),
        ("episode", 1.0),
        ("step", True),
    ],
)
def test_a_field_of_the_wrong_type_is_named(field, value):
    record = unpack(pack_transition(TRANSITION)) | {field: value}
    with pytest.raises(CodecError, match=f"'{field}'"):
        unpack_transition(pack(record), "robot", 99)


def test_a_missing_or_additional_field_is_refused():
    record = unpack(pack_transition(TRANSITION))
    for wrong in (record | {"more": 1}, {name: value for name, value in record.items() if name != "reward"}, [1, 2]):
        with pytest.raises(CodecError, match="not a transition"):
            unpack_transition(pack(wrong), "robot", 99)


def test_a_record_of_a_million_empty_containers_is_refused_before_it_fills_the_memory() -> None:
    for bomb in (
        pack({"observation": [[]] * 10**6}),
        pack({"observation": [[[]] * 900] * 900}),
        pack([{}] * 900),
        pack({"a": {str(i): {} for i in range(900)}}),
    ):
        with pytest.raises(CodecError):
            unpack_transition(bomb, "robot", 0)

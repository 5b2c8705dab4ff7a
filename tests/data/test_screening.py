"""A step that is recognised by its bytes is sound; every other one is looked at closely."""

import dataclasses

import numpy as np
import pytest
from data_samples import SPEC, observation, transition
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.codec import CodecError, pack_transition, unpack_transition
from tandem.data.screening import MAX_BYTES, Screen
from tandem.data.validation import Validator
from tandem.types import Continuous, Entry

SCREEN, VALIDATOR = Screen(SPEC), Validator(SPEC)
RECORD = pack_transition(transition(7, reward=0.5, terminated=True, success=True, episode=300, step=70_000, policy_version=2**40))


def truly_sound(record: bytes) -> bool:
    try:
        return VALIDATOR.reason(unpack_transition(record, "robot", 0)) is None
    except CodecError:
        return False


def test_sound_steps_are_recognised_with_their_place() -> None:
    steps = [
        transition(0),
        transition(1, episode=2, step=3, policy_version=-1, intervened=True),
        transition(2, reward=-99.5, episode=2**40),
        transition(3, success=None),  # the environment does not report it
    ]
    assert SCREEN.places([pack_transition(step) for step in steps]) == [(0, 0), (2, 3), (2**40, 2), (0, 3)]
    assert SCREEN.places([RECORD]) == [(300, 70_000)]
    assert SCREEN.places([]) == []


@pytest.mark.parametrize(
    "change",
    [
        {"reward": float("nan")},
        {"reward": float("inf")},
        {"reward": 1},  # a whole number is sound too, but looks different: it is decoded
        {"action": np.array([0.5, 1.01], np.float32)},
        {"action": np.array([0.5, np.nan], np.float32)},
        {"action": np.zeros(3, np.float32)},
        {"action": np.zeros(2, np.float64)},
        {"observation": observation(0) | {"pose": np.array([0, np.nan, 0], np.float32)}},
        {"next_observation": observation(0) | {"touch": np.array(-np.inf, np.float32)}},
        {"observation": observation(0) | {"extra": np.zeros(1, np.float32)}},
        {"observation": {"pose": observation(0)["pose"]}},
        {"episode": -1},
        {"step": 2**53},
        {"policy_version": -2},
        {"step": 1.0},
        {"episode": True},
    ],
)
def test_a_step_that_differs_is_not_recognised(change: dict) -> None:
    assert SCREEN.places([pack_transition(transition(0)), pack_transition(transition(0, **change))]) == [(0, 0), None]


def test_a_step_cut_off_anywhere_is_not_recognised() -> None:
    assert SCREEN.places([RECORD[:size] for size in range(len(RECORD))]) == [None] * len(RECORD)
    assert SCREEN.places([RECORD + b"\0", b""]) == [None, None]


def test_any_changed_byte_gives_a_sound_step_or_one_that_is_not_recognised() -> None:
    for place in range(len(RECORD)):
        changed = [RECORD[:place] + bytes([value]) + RECORD[place + 1 :] for value in range(256)]
        for record, found in zip(changed, SCREEN.places(changed), strict=True):
            if found is not None:
                step = unpack_transition(record, "robot", 0)
                assert truly_sound(record) and found == (step.episode, step.step)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(RECORD) - 1), st.binary(min_size=1, max_size=4)), max_size=6))
def test_several_changed_bytes_too(changes: list[tuple[int, bytes]]) -> None:
    record = bytearray(RECORD)
    for place, data in changes:
        record[place : place + len(data)] = data
    if SCREEN.places([bytes(record)]) != [None]:
        assert truly_sound(bytes(record))


def test_images_are_left_to_the_closer_look() -> None:
    spec = dataclasses.replace(SPEC, observation={"image": Entry((128, 128, 3), "uint8")})
    image = np.zeros((128, 128, 3), np.uint8)
    record = pack_transition(transition(0, observation={"image": image}, next_observation={"image": image}))
    assert len(record) > MAX_BYTES and Screen(spec).places([record]) == [None]


def test_dtypes_of_other_kinds_have_their_places() -> None:
    entries = {"wide": Entry((2,), "float64"), "count": Entry((3,), "int32"), "on": Entry((), "bool")}
    spec = dataclasses.replace(SPEC, observation=entries, action=(Continuous("lift", 1),))
    now = {"wide": np.array([1e300, -2]), "count": np.array([-1, 2, 3], np.int32), "on": np.array(True)}
    step = transition(0, observation=now, next_observation=now, action=np.array([-1], np.float32))
    bad = dataclasses.replace(step, next_observation=now | {"wide": np.array([0, np.nan])})
    assert Screen(spec).places([pack_transition(step), pack_transition(bad)]) == [(0, 0), None]

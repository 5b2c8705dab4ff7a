"""hil-serl's demo pickles are read for their arrays; whatever else they ask for is refused before it runs."""

import collections
import contextlib
import dataclasses
import os
import pickle
import resource
import time
from pathlib import Path

import numpy as np
import pytest
from data_samples import SPEC, observation
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.data.demos import load_demos, read_demos
from tandem.data.hil_serl import import_hil_serl
from tandem.errors import DataError, FileMissing, FileUnreadable, InvalidTransition, SpecMismatch, TandemError, UnsafePickle
from tandem.types import Discrete, Entry

FLAT = dataclasses.replace(SPEC, observation={"state": Entry((5,))})


def record(number: int = 0, **changes):
    """A transition as hil-serl's record_demos writes it, with the leading axis of its ChunkingWrapper."""
    return {
        "observations": {name: array[None] for name, array in observation(number).items()},
        "actions": np.array([0.5, -0.5], np.float32),
        "next_observations": {name: array[None] for name, array in observation(number + 1).items()},
        "rewards": 0,
        "masks": 1.0,
        "dones": False,
        "infos": {"succeed": False, "grasp_penalty": 0.0},
    } | changes


def last(number: int, **changes):
    return record(number, rewards=1, masks=0.0, dones=True, infos={"succeed": True}) | changes


def write(folder: Path, content, protocol: int = 4) -> Path:
    path = folder / "peg_2_demos.pkl"
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", range(6))
def test_a_file_of_any_protocol_is_read_as_it_was_written(tmp_path, protocol):
    infos = {"succeed": np.bool_(True), "intervene_action": np.array([1.0, 0.25]), "left": np.float32(0.5), "text": np.array(["a", "bc"])}
    records = [
        record(0),
        record(1),
        last(2, infos=infos, rewards=np.float64(1), masks=np.array(0.0), dones=np.bool_(True)),
        record(3),
        last(4),
    ]
    first, second = import_hil_serl(write(tmp_path, records, protocol), SPEC)
    assert [len(first), len(second)] == [3, 2]
    for number, step in enumerate([*first, *second]):
        np.testing.assert_equal(step.observation, observation(number))
        np.testing.assert_equal(step.next_observation, observation(number + 1))
        assert step.observation["pose"].dtype == np.float32
    np.testing.assert_array_equal(first[2].action, np.array([1.0, 0.25], np.float32))  # what the person did, not what was proposed
    assert [step.intervened for step in first] == [False, False, True]
    assert [step.reward for step in first] == [0.0, 0.0, 1.0]
    assert [step.success for step in [*first, *second]] == [False, False, True, False, True]
    assert [(step.episode, step.step, step.seq) for step in [*first, *second]] == [(0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 3), (1, 1, 4)]


def test_a_gripper_column_becomes_the_number_of_a_choice(tmp_path):
    """-1 closes, 0 holds, 1 opens; a press of a person, 0.9 to 1, is rounded and not cut off to 0."""
    spec = dataclasses.replace(SPEC, action=(*SPEC.action, Discrete("gripper", ("close", "hold", "open"), rest=1)))
    values = [-1.0, -0.93, 0.0, 0.2, 0.95, 1.0]
    records = [record(n, actions=np.array([0.5, -0.5, value], np.float32)) for n, value in enumerate(values)]
    [steps] = import_hil_serl(write(tmp_path, [*records[:-1], records[-1] | {"dones": True}]), spec)
    assert [step.action.tolist() for step in steps] == [[0.5, -0.5, choice] for choice in (0, 0, 1, 1, 2, 2)]
    two = dataclasses.replace(spec, action=(*SPEC.action, Discrete("gripper", ("close", "open"))))
    [steps] = import_hil_serl(write(tmp_path, [*records[:-1], records[-1] | {"dones": True}]), two)
    assert [step.action[2] for step in steps] == [0, 0, 0, 1, 1, 1]
    with pytest.raises(InvalidTransition, match="transition 0: the action has 2 in column 2, which is a discrete part of 3 choices"):
        import_hil_serl(write(tmp_path, [last(0, actions=np.array([0.5, -0.5, 2.0], np.float32))]), spec)


def test_masks_say_terminated_and_dones_without_them_say_truncated(tmp_path):
    records = [last(0), record(1, dones=True), record(2)]
    episodes = import_hil_serl(write(tmp_path, records), SPEC)
    assert [(steps[0].terminated, steps[0].truncated) for steps in episodes] == [(True, False), (False, True), (False, False)]


def test_a_file_without_infos_takes_success_from_the_reward_at_the_end(tmp_path):
    plain = [{name: value for name, value in step.items() if name != "infos"} for step in (record(0), last(1), last(2, rewards=0))]
    episodes = import_hil_serl(write(tmp_path, plain), SPEC)
    assert [[step.success for step in steps] for steps in episodes] == [[False, True], [False]]


def test_ordered_dicts_groups_fortran_order_and_other_byte_orders_are_understood(tmp_path):
    image = np.asfortranarray(np.arange(12, dtype=np.uint8).reshape(2, 2, 3))
    spec = dataclasses.replace(SPEC, observation={**SPEC.observation, "wrist": Entry((2, 2, 3), dtype="uint8")})
    grouped = collections.OrderedDict(state=collections.OrderedDict(observation(0)), images={"wrist": image})
    step = last(0, observations=grouped, next_observations=grouped, actions=np.array([0.25, 1], ">f8"))
    [[imported]] = import_hil_serl(write(tmp_path, [step]), spec)
    np.testing.assert_array_equal(imported.observation["wrist"], image)
    np.testing.assert_array_equal(imported.action, np.array([0.25, 1], np.float32))
    assert imported.action.dtype == np.float32


def test_one_flat_array_goes_to_the_only_entry(tmp_path):
    flat = np.arange(5.0)
    for spec in (FLAT, dataclasses.replace(FLAT, observation={"everything": Entry((5,))})):
        [[step]] = import_hil_serl(write(tmp_path, [last(0, observations=flat, next_observations=flat[None])]), spec)
        [array] = step.next_observation.values()
        np.testing.assert_array_equal(array, np.arange(5, dtype=np.float32))


def test_the_same_file_gives_the_same_names_so_that_it_is_stored_once(tmp_path):
    path = write(tmp_path, [last(0)])
    assert import_hil_serl(path, SPEC)[0][0].source == import_hil_serl(path, SPEC)[0][0].source
    other = write(tmp_path, [last(1)])
    assert import_hil_serl(other, SPEC)[0][0].source != SPEC.task


def test_load_demos_knows_a_pickle_by_its_content(tmp_path):
    for protocol in range(6):
        path = write(tmp_path, [record(0), last(1)], protocol).rename(tmp_path / f"{protocol}.db")
        assert [step.step for step in load_demos(path, SPEC)] == [0, 1]


def test_without_a_spec_the_arrays_speak_for_themselves(tmp_path):
    recording = read_demos(write(tmp_path, [record(0), last(1), last(2)]))
    assert {name: entry.shape for name, entry in recording.spec.observation.items()} == {"pose": (3,), "touch": (1,)}
    assert (recording.spec.action_dim, recording.spec.max_episode_steps) == (2, 2)


# ---- what does not fit


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"observations": {"pose": np.zeros((1, 7)), "touch": np.zeros(())}}, r"'pose': shape \(3,\) here, \(1, 7\) there"),
        ({"observations": {"pose": np.zeros(3)}}, r"'touch' \(\): only here"),
        ({"observations": observation(0) | {"wrench": np.zeros(6)}}, r"'wrench' \(6,\): only there"),
        ({"observations": np.zeros(4)}, r"'state' \(4,\): only there"),
        ({"actions": np.zeros(7)}, r"action: shape \(2,\) here, \(7,\) there"),
    ],
)
def test_another_spec_is_refused_with_the_difference(tmp_path, change, difference):
    with pytest.raises(SpecMismatch, match=difference):
        import_hil_serl(write(tmp_path, [last(0, **change)]), SPEC)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"observations": observation(0) | {"pose": np.array([0, np.nan, 0])}},
            r"transition 1 \(episode 0, step 1\): .*'pose' has nan at \[1\]",
        ),
        ({"actions": np.array([0, 1.5])}, r"transition 1 .*action at \[1\] is 1.5"),
        ({"rewards": float("inf")}, "reward is inf"),
        ({"rewards": np.zeros(2)}, "transition 1: expected one number"),
        ({"masks": "no"}, "transition 1: expected an array of numbers, got a str"),
        ({"observations": {"pose": [[0]], "touch": None}}, "transition 1: expected an array of numbers, got a list"),
    ],
)
def test_a_bad_transition_is_named(tmp_path, change, says):
    with pytest.raises(InvalidTransition, match=says):
        import_hil_serl(write(tmp_path, [record(0), record(1, **change), last(2)]), SPEC)


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        ([], DataError, "holds no transitions"),
        ({"observations": 1}, FileUnreadable, "holds a dict"),
        ([1], FileUnreadable, "transition 0 is a int"),
        ([{"observations": 1}], FileUnreadable, "has no 'actions'"),
    ],
)
def test_another_content_is_refused(tmp_path, content, error, says):
    with pytest.raises(error, match=says):
        import_hil_serl(write(tmp_path, content), SPEC)


def test_missing_too_large_and_cut_off_files_are_refused(tmp_path):
    with pytest.raises(FileMissing):
        import_hil_serl(tmp_path / "lost.pkl", SPEC)
    path = write(tmp_path, [last(0)])
    with pytest.raises(DataError, match="more than the 100 that"):
        import_hil_serl(path, SPEC, max_bytes=100)
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(FileUnreadable):
            import_hil_serl(path, SPEC)


# ---- what would run


class Runs:
    """Pickles as a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def stack_global(module: str, name: str, argument: str) -> bytes:
    """A hand-written pickle that calls module.name(argument)."""

    def text(value: str) -> bytes:
        return b"\x8c" + bytes([len(value)]) + value.encode()

    return b"\x80\x04" + text(module) + text(name) + b"\x93" + text(argument) + b"\x85R."


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda mark: Runs(os.system, f"touch {mark}"), "posix.system"),
        (lambda mark: Runs(eval, f"open({str(mark)!r}, 'w')"), "builtins.eval"),
        (lambda mark: Runs(open, str(mark), "w"), "io.open"),
        (lambda mark: Runs(getattr, [], "append"), "builtins.getattr"),
        (lambda mark: Runs(np.save, str(mark), np.zeros(1)), "numpy.save"),
        (lambda mark: Runs(np.fromfile, str(mark)), "numpy.fromfile"),
        (lambda mark: Runs(Path.touch, mark), "getattr|pathlib"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_pickle_that_would_act_is_refused_and_does_not_act(tmp_path, call, named, protocol):
    mark = tmp_path / "mark"
    path = write(tmp_path, [record(0, infos={"x": call(mark)}), last(1)], protocol)
    with pytest.raises(UnsafePickle, match=r"nothing of it was run") as refused:
        load_demos(path, SPEC)
    if protocol >= 4:
        assert any(name in str(refused.value) for name in named.split("|"))
    assert not mark.exists()


def test_a_call_hidden_in_an_array_of_objects_is_refused_and_does_not_act(tmp_path):
    mark = tmp_path / "mark"
    hidden = np.array([Runs(os.system, f"touch {mark}")], dtype=object)
    for protocol in range(6):
        with pytest.raises((UnsafePickle, FileUnreadable)):
            import_hil_serl(write(tmp_path, [last(0, actions=hidden)], protocol), SPEC)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("numpy._core.multiarray", "_reconstruct.__globals__"),  # a dotted name reaches attributes
        ("numpy", "dtype.__subclasses__"),
        ("numpy._core.multiarray", "fromfile"),
        ("numpy.testing._private.utils", "runstring"),
        ("numpy.lib.npyio", "load"),
        ("numpy", "memmap"),
        ("builtins", "bytes.fromhex"),
        ("collections", "namedtuple"),
        ("codecs", "encode"),
        ("os", "system"),
        ("tandem.data.hil_serl", "os"),
    ],
)
def test_names_near_the_known_ones_are_refused(tmp_path, module, name):
    path = tmp_path / "hostile.pkl"
    path.write_bytes(stack_global(module, name, "x"))
    with pytest.raises(UnsafePickle, match=f"{module}.{name}"):
        import_hil_serl(path, SPEC)


def test_what_honest_pickles_ask_for_is_never_given_to_the_file_itself(tmp_path):
    """BUILD sets attributes of any object on the stack: also of the functions that find_class hands out."""
    before = import_hil_serl(write(tmp_path, [last(0)]), SPEC)
    reconstruct = b"cnumpy._core.multiarray\n_reconstruct\n"
    for state in (b"}U\x01xK\x01s", b"N}U\x05_makeK\x01s\x86"):  # {"x": 1}, and (None, {"_make": 1}) for slots
        path = tmp_path / "hostile.pkl"
        path.write_bytes(b"\x80\x02" + reconstruct + state + b"b.")
        with pytest.raises(FileUnreadable, match="given a state"):
            import_hil_serl(path, SPEC)
    after = import_hil_serl(write(tmp_path, [last(0)]), SPEC)
    np.testing.assert_equal(after[0][0].observation, before[0][0].observation)


@pytest.mark.parametrize(
    ("hostile", "says"),
    [
        (b"\x80\x02]r\xff\xff\xff\x7f.", "memo entry 2147483647 after 2 operations"),  # would be a table of 16 GB
        (b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "expected 9223372036854775807 bytes"),
        (b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\x00\x00.", "expected 281474976710655 bytes"),  # a bytearray of 280 TB
        (b"\x80\x02Pid\n.", "persistent"),
        (b"\x80\x02\x82\x01.", "extension code"),
        (b"\x80\x02N.", "holds a NoneType"),
        (b"\x80\x02})" + b"\x85" * 100_000 + b"Ns.", "more than 16 deep"),  # as a key: a segmentation fault of Python itself
        (b"\x80\x02}(" + b"q\x00(h\x00t" * 20 + b"Ns.", "not a pickle of arrays"),
        (b"\x80\x02]" + b"(" * 50 + b"t" * 50 + b"a.", "more than 16 deep"),
    ],
)
def test_hand_made_hostile_streams_are_refused_before_they_take_memory(tmp_path, hostile, says):
    path = tmp_path / "hostile.pkl"
    path.write_bytes(hostile)
    with pytest.raises(FileUnreadable, match=says):
        import_hil_serl(path, SPEC)


def test_a_file_of_millions_of_objects_is_refused_before_they_are_made(tmp_path, monkeypatch):
    """50 MB of empty dicts took 46 s and 1.3 GB. Here with a lower limit, for the test's own time: it looks no further than that."""
    monkeypatch.setattr("tandem.data.pickled.MAX_OPERATIONS", 200_000)
    path = tmp_path / "bomb.pkl"
    path.write_bytes(b"\x80\x02](" + b"}" * 50_000_000 + b"e.")
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FileUnreadable, match=r"more than 200,000 operations.*split it"):
        import_hil_serl(path, SPEC)
    assert time.monotonic() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000, "kB: the file itself and little more"


@pytest.mark.parametrize("array", [np.array([None]), np.zeros(2, [("a", "f4")]), np.zeros(2, "M8[s]"), np.zeros(2, complex)])
def test_arrays_of_anything_but_numbers_and_text_are_refused(tmp_path, array):
    with pytest.raises(FileUnreadable, match="not a pickle of arrays"):
        import_hil_serl(write(tmp_path, [last(0, actions=array)]), SPEC)


def test_an_array_whose_bytes_do_not_fill_its_shape_is_refused(tmp_path):
    content = pickle.dumps([last(0, actions=np.zeros(2, np.float32))], protocol=2)
    assert content.count(b"K\x02\x85") == 1  # the shape (2,)
    path = tmp_path / "short.pkl"
    path.write_bytes(content.replace(b"K\x02\x85", b"K\x7f\x85"))
    with pytest.raises(FileUnreadable, match=r"shape \(127,\) with 8 bytes"):
        import_hil_serl(path, SPEC)


HONEST = pickle.dumps([last(0)], protocol=4)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(HONEST) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_pickle_is_read_or_refused_in_our_words(tmp_path_factory, changes):
    content = bytearray(HONEST)
    for position, value in changes:
        content[position] = value
    path = tmp_path_factory.getbasetemp() / "damaged.pkl"
    path.write_bytes(content)
    with contextlib.suppress(TandemError):
        import_hil_serl(path, SPEC)

"""Frames at rest: each once, with the step that shows it first, in order, whatever is sent again, lost or thrown away."""

import dataclasses
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from tandem.codec import pack_transition, unpack_transition
from tandem.data.intake import Intake
from tandem.data.journal import Journal
from tandem.data.seen import FrameSender
from tandem.errors import DataError, FileUnreadable
from tandem.link.hub_config import record_limit
from tandem.types import Continuous, Entry, Observation, Spec, Transition

LEFT = Entry((2, 2, 8), "int8", role="features", encoder="e:1", picture=(32, 32, 3))
RIGHT = Entry((1, 4, 8), "int8", role="features", encoder="e:1", picture=(16, 64, 3))
SPEC = Spec("t", {"left": LEFT, "right": RIGHT, "pose": Entry((1,))}, (Continuous("arm", 1),), 10.0, 100, (0.0, 1.0))
NOISE = np.random.default_rng(0).integers(0, 256, (500, 32 * 32 * 3), dtype=np.uint8)


def seen(number: int, keep: bool = True) -> Observation:
    """What an actor hands out: features that say which one it is, and pictures of noise."""
    features = {name: np.full(entry.shape, number % 100, np.int8) for name, entry in (("left", LEFT), ("right", RIGHT))}
    pictures = {f"{name}:picture": NOISE[number].reshape(entry.picture) for name, entry in (("left", LEFT), ("right", RIGHT))}
    return {**features, "pose": np.array([number / 1000], np.float32), **(pictures if keep else {})}


def episode(length: int, source: str = "a.0", start: int = 0, keep: bool = True) -> list[Transition]:
    pairs = [(seen(start + i, keep), seen(start + i + 1, keep)) for i in range(length)]
    made = [Transition(now, np.zeros(1, np.float32), 0.0, then, False, False, source=source) for now, then in pairs]
    numbered = [dataclasses.replace(step, seq=i, step=i) for i, step in enumerate(made)]
    return [*numbered[:-1], dataclasses.replace(numbered[-1], truncated=True)]


def counts(path: Path) -> dict[str, int]:
    with sqlite3.connect(path) as file:
        return {table: file.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("steps", "frames", "features")}


def packed(steps: list[Transition]) -> list[tuple[str, int, bytes]]:
    sender = FrameSender(SPEC)
    return [(step.source, step.seq, sender.pack(step)) for step in steps]


def test_an_episode_of_ten_steps_brings_eleven_pictures_of_each_camera(tmp_path: Path) -> None:
    records = packed(episode(10))
    assert all("left:features" not in unpack_transition(data, "a.0", seq).observation for _, seq, data in records[1:])
    assert max(len(data) for _, _, data in records) <= record_limit(SPEC)
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        assert Intake(journal).append(records) == 10
        assert counts(journal.path) == {"steps": 10, "frames": 11, "features": 22}, "the pictures of both cameras have the same bytes"
        read = [step for _, step in journal.read()]
        assert journal.counts() == (10, 0)
    for number, step in enumerate(read):
        assert step.observation.keys() == SPEC.observation.keys()
        assert np.array_equal(step.observation["left"], seen(number)["left"]) and np.array_equal(
            step.next_observation["right"], seen(number + 1)["right"]
        )
    assert read[0].next_observation["left"] is read[1].observation["left"], "one array, not two"


def test_frames_of_kilobytes_leave_no_pages_half_empty(tmp_path: Path) -> None:
    large = dataclasses.replace(SPEC, observation={**SPEC.observation, "left": dataclasses.replace(LEFT, shape=(8, 8, 32))})
    steps = [
        dataclasses.replace(step, observation=_large(step.observation), next_observation=_large(step.next_observation))
        for step in episode(400)
    ]
    with Journal.create(tmp_path / "journal.db", large, live=False) as journal:
        journal.append(steps)
    stored = 401 * (8 * 8 * 32 + 32 + 32 * 32 * 3)
    assert stored < (tmp_path / "journal.db").stat().st_size < 1.4 * stored, "with pages of 4 kB it is 1.9 times as much"


def _large(observation: Observation) -> Observation:
    return {**observation, "left": np.full((8, 8, 32), 1, np.int8)}


def test_what_is_sent_again_is_stored_once(tmp_path: Path) -> None:
    records = packed(episode(6))
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        intake = Intake(journal)
        intake.append(records[:4])
        before = counts(journal.path)
        intake.append(records[2:4])
        assert counts(journal.path) == before == {"steps": 4, "frames": 5, "features": 10}
    with Journal.open(tmp_path / "journal.db", read_only=False) as journal:  # another hub, which remembers nothing
        Intake(journal).append(records[3:])
        assert counts(journal.path) == {"steps": 6, "frames": 7, "features": 14} and journal.counts() == (6, 0)


def test_a_link_and_one_process_store_the_same(tmp_path: Path) -> None:
    steps = [*episode(5), *episode(4, "a.1", start=50)]
    with Journal.create(tmp_path / "link.db", SPEC) as link, Journal.create(tmp_path / "here.db", SPEC) as here:
        Intake(link).append(packed(steps))
        here.append(steps)
    read = []
    for name in ("link.db", "here.db"):
        with sqlite3.connect(tmp_path / name) as file:
            tables = ("steps ORDER BY ord", "frames ORDER BY digest", "features ORDER BY digest, camera")
            read.append([file.execute(f"SELECT * FROM {table}").fetchall() for table in tables])
    assert read[0] == read[1]


def test_pictures_come_back_to_the_bit_as_the_environment_handed_them_out(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        journal.append(episode(3))
        journal.pictured = True
        read = [step for _, step in journal.read()]
    for number, step in enumerate(read):
        assert np.array_equal(step.observation["left"], seen(number)["left:picture"])
        assert np.array_equal(step.next_observation["right"], seen(number + 1)["right:picture"])


def test_two_black_cameras_of_different_sizes_keep_their_own_features(tmp_path: Path) -> None:
    step = episode(1)[0]
    black = {**step.observation, "left:picture": np.zeros((32, 32, 3), np.uint8), "right:picture": np.zeros((16, 64, 3), np.uint8)}
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        Intake(journal).append(packed([dataclasses.replace(step, observation=black)]))
        [(_, read)] = journal.read()
    assert read.observation["left"].shape == LEFT.shape and read.observation["right"].shape == RIGHT.shape


def test_a_step_whose_picture_was_never_brought_is_rejected_in_words_and_costs_itself_alone(tmp_path: Path) -> None:
    records = packed(episode(5))
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        Intake(journal).append([*records[:1], *records[2:]])  # damaged on the actor's disk
        assert journal.counts() == (3, 1)
        [rejected] = journal.rejected()
        assert "'left' refers to a picture that no step has brought" in rejected.reason and rejected.seq == 2


@pytest.mark.parametrize(
    ("entry", "value", "words"),
    [
        ("left:features", np.zeros((9, 9), np.int8), "shape (9, 9) int8, expected (2, 2, 8) int8"),
        ("left:features", np.zeros((2, 2, 8), np.float32), "float32, expected"),
        ("left:zlib", np.zeros(10**5, np.uint8), "100000 bytes compressed"),
        ("left", np.zeros(7, np.uint8), "left"),
    ],
)
def test_what_is_no_frame_is_rejected(tmp_path: Path, entry: str, value: np.ndarray, words: str) -> None:
    source, seq, data = packed(episode(1))[0]
    step = unpack_transition(data, source, seq)
    broken = pack_transition(dataclasses.replace(step, observation={**step.observation, entry: value}))
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        Intake(journal).append([(source, seq, broken)])
        assert journal.counts() == (0, 1) and words in journal.rejected()[0].reason


def test_a_step_that_was_sent_with_its_features_is_stored_too(tmp_path: Path) -> None:
    """As an actor of an earlier version does."""
    steps = episode(2, keep=False)
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        Intake(journal).append([(step.source, step.seq, pack_transition(step)) for step in steps])
        read = [step for _, step in journal.read()]
        assert [step.observation["left"][0, 0, 0] for step in read] == [0, 1]
        journal.pictured = True
        with pytest.raises(DataError, match="pictures of the camera 'left' are not in this journal"):
            list(journal.read())


def test_without_pictures_features_are_stored_once_all_the_same(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        journal.append(episode(10, keep=False))
        assert journal.path.stat().st_size and journal._rows("SELECT count(*) FROM features") == [(22,)]
        assert not journal._rows("SELECT 1 FROM sqlite_master WHERE name = 'frames'")
        assert [step.observation["left"][0, 0, 0] for _, step in journal.read()] == list(range(10))


def test_features_that_were_cut_in_the_file_are_noticed(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        journal.append(episode(2))
    with sqlite3.connect(tmp_path / "journal.db") as file:
        file.execute("UPDATE features SET record = x'00'")
    with Journal.open(tmp_path / "journal.db") as journal, pytest.raises(FileUnreadable, match="have 1 bytes and not 32"):
        list(journal.read())

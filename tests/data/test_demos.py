"""Demo files hold whole episodes, bear their final name only when finished, and lose nothing on the way."""

import dataclasses
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from data_samples import SPEC, assert_same, episode, in_another_process, observation, transition

from tandem.data.demos import DemoWriter, load_demos, read_demos
from tandem.data.journal import Journal
from tandem.errors import DataError, FileMissing, FileUnreadable, InvalidTransition, SpecMismatch, StorageFull
from tandem.types import Entry


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_finished_recording_is_one_file_named_after_task_count_and_time(tmp_path):
    with DemoWriter(tmp_path, SPEC, operator="scripted", seed=3) as writer:
        writer.add(episode(4))
        writer.add(episode(6))
        path = writer.finish()
    assert re.fullmatch(r"peg_2_demos_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.db", path.name)
    assert names(tmp_path) == [path.name]
    recording = read_demos(path)
    assert recording.complete and recording.attributes == {"operator": "scripted", "seed": 3}
    assert [len(steps) for steps in recording.episodes()] == [4, 6]


def test_loaded_steps_are_the_recorded_ones_with_names_of_their_own(tmp_path):
    with DemoWriter(tmp_path, SPEC) as writer:
        writer.add(episode(2))
        writer.add(episode(2))  # the same seq, source and episode: still another demonstration
        loaded = load_demos(writer.finish(), SPEC)
    assert [(step.episode, step.step, step.seq) for step in loaded] == [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)]
    for step, recorded in zip(loaded, episode(2) * 2, strict=True):
        assert_same(dataclasses.replace(step, source="robot", seq=recorded.seq, episode=0), recorded)


def test_two_recordings_begun_in_the_same_second_are_two_files(tmp_path):
    with DemoWriter(tmp_path, SPEC) as one, DemoWriter(tmp_path, SPEC) as other:
        for writer in (one, other):
            writer.add(episode(2))
        assert one.finish() != other.finish()
    assert len(names(tmp_path)) == 2


def test_a_task_name_with_separators_stays_inside_the_folder(tmp_path):
    with DemoWriter(tmp_path, dataclasses.replace(SPEC, task="my.module:Peg/../v1")) as writer:
        writer.add(episode(1))
        assert writer.finish().parent == tmp_path


def test_until_it_is_finished_only_the_partial_name_exists(tmp_path):
    with DemoWriter(tmp_path, SPEC) as writer:
        writer.add(episode(3))
        assert [name.endswith(".db.partial") for name in names(tmp_path)] == [True]


def test_an_interrupted_recording_keeps_its_complete_episodes_under_the_partial_name(tmp_path):
    with pytest.raises(KeyboardInterrupt), DemoWriter(tmp_path, SPEC) as writer:
        writer.add(episode(3))
        raise KeyboardInterrupt
    [name] = names(tmp_path)
    assert name.endswith(".db.partial")
    assert len(load_demos(tmp_path / name, SPEC)) == 3
    assert not read_demos(tmp_path / name).complete


def test_an_interrupted_recording_without_an_episode_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), DemoWriter(tmp_path, SPEC):
        raise KeyboardInterrupt
    with DemoWriter(tmp_path, SPEC) as writer, pytest.raises(DataError, match="no episode of 'peg'"):
        writer.finish()
    assert names(tmp_path) == []


@pytest.mark.parametrize("steps", [[], episode(3)[:2], episode(2) + episode(2)])
def test_half_an_episode_or_two_at_once_are_refused(tmp_path, steps):
    with DemoWriter(tmp_path, SPEC) as writer, pytest.raises(ValueError, match="one end, on its last step"):
        writer.add(steps)


def test_an_episode_with_a_bad_step_is_refused_whole(tmp_path):
    steps = episode(3)
    steps[1] = dataclasses.replace(steps[1], observation=observation(0) | {"pose": np.array([0, np.inf, 0], np.float32)})
    with DemoWriter(tmp_path, SPEC) as writer:
        writer.add(episode(2))
        with pytest.raises(InvalidTransition, match=r"step 1 .*'pose' has inf at \[1\]"):
            writer.add(steps)
        writer.add(episode(2))
        assert [len(steps) for steps in read_demos(writer.finish()).episodes()] == [2, 2]


def record_until_the_disk_is_full(folder: Path) -> tuple[str, int]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    with DemoWriter(folder, SPEC) as writer:
        try:
            while True:
                writer.add(episode(20))
        except StorageFull as full:
            return str(full), writer.episodes


def test_a_full_disk_while_recording_keeps_the_complete_episodes_and_says_where(tmp_path):
    message, stored = in_another_process(record_until_the_disk_is_full, tmp_path)
    [name] = names(tmp_path)  # no journal of SQLite's, no file with the final name
    assert name.endswith(".db.partial")
    assert "no more room" in message and f"{stored} complete episodes are kept in {tmp_path / name}" in message
    assert stored > 1 and len(load_demos(tmp_path / name, SPEC)) == 20 * stored


_RECORD_UNTIL_KILLED = """
import sys
sys.path[:0] = {paths!r}
from data_samples import SPEC, episode
from tandem.data.demos import DemoWriter
with DemoWriter({folder!r}, SPEC) as writer:
    while True:
        writer.add(episode(20))
        print(writer.episodes, flush=True)
"""


def test_a_killed_recording_keeps_every_episode_that_was_added(tmp_path):
    script = _RECORD_UNTIL_KILLED.format(paths=[path for path in sys.path if path], folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        added = next(int(line) for line in recorder.stdout if int(line) >= 3)
        os.kill(recorder.pid, signal.SIGKILL)
    [partial] = tmp_path.glob("*.db.partial")
    lengths = [len(steps) for steps in read_demos(partial).episodes()]
    assert len(lengths) >= added and set(lengths) == {20}


# ---- loading


def demo_file(folder: Path) -> Path:
    with DemoWriter(folder, SPEC) as writer:
        writer.add(episode(3))
        return writer.finish()


def test_another_spec_is_refused_with_the_difference(tmp_path):
    other = dataclasses.replace(SPEC, observation={**SPEC.observation, "wrench": Entry((6,))})
    with pytest.raises(SpecMismatch, match=r"'wrench' \(6,\): only here"):
        load_demos(demo_file(tmp_path), other)


def test_a_missing_an_empty_and_a_foreign_file_are_refused(tmp_path):
    with pytest.raises(FileMissing, match=r"lost\.db"):
        load_demos(tmp_path / "lost.db", SPEC)
    (tmp_path / "text.db").write_text("hello")
    with pytest.raises(FileUnreadable, match="not a Tandem journal"):
        load_demos(tmp_path / "text.db", SPEC)
    with pytest.raises(FileUnreadable):
        load_demos(tmp_path, SPEC)
    Journal.create(tmp_path / "empty.db", SPEC).finish()
    with pytest.raises(DataError, match="holds no steps"):
        load_demos(tmp_path / "empty.db", SPEC)


def test_a_truncated_file_is_refused(tmp_path):
    path = demo_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FileUnreadable, match="cut off"):
        load_demos(path, SPEC)


def test_a_file_with_nan_is_refused_with_entry_and_index_unless_told_to_skip(tmp_path):
    path = tmp_path / "online.db"
    with Journal.create(path, SPEC) as journal:
        bad = transition(1, episode=4, next_observation=observation(0) | {"pose": np.array([0, 0, np.nan], np.float32)})
        journal.append([transition(0, episode=4), bad])
        with pytest.raises(InvalidTransition, match=r"episode 4, step 1: next_observation entry 'pose' has nan at \[2\]"):
            load_demos(path, SPEC)
        assert len(load_demos(path, SPEC, skip_rejected=True)) == 1


def test_a_step_that_was_made_bad_afterwards_is_refused(tmp_path):
    path = tmp_path / "online.db"
    with Journal.create(path, SPEC) as journal:
        journal.append([transition(0, reward=float("nan"))])
        journal._connection.execute("UPDATE steps SET status = 'accepted'")
        with pytest.raises(InvalidTransition, match="reward is nan"):
            load_demos(path, SPEC)


def test_the_episodes_of_interleaved_actors_are_told_apart(tmp_path):
    left, right = ([dataclasses.replace(step, source=source) for step in episode(3)] for source in ("left", "right"))
    with Journal.create(tmp_path / "online.db", SPEC) as journal:
        journal.append([step for pair in zip(left, right, strict=True) for step in pair])
    recording = read_demos(tmp_path / "online.db")
    assert [[(step.source, step.step) for step in steps] for steps in recording.episodes()] == [
        [("left", 0), ("left", 1), ("left", 2)],
        [("right", 0), ("right", 1), ("right", 2)],
    ]

"""Counters that hub and trainer share through a mapped file."""

import threading
from pathlib import Path

import pytest

from tandem.errors import FileUnreadable
from tandem.runs.board import PHASES, Board


def test_what_one_process_writes_another_reads(tmp_path: Path) -> None:
    writer, reader = Board(tmp_path), Board(tmp_path)
    assert (reader["learner_step"], reader.updates_per_actor_step, reader.phase) == (0, 0.0, "starting")
    before = reader.trainer_state()
    writer["learner_step"], writer.updates_per_actor_step, writer["phase"] = 1999, 0.3, PHASES.index("evaluating")
    assert (reader["learner_step"], reader.updates_per_actor_step, reader.phase) == (1999, 0.3, "evaluating")
    assert reader.trainer_state() != before
    after = reader.trainer_state()
    writer["trainer_heartbeat"] += 1
    writer["hub_heartbeat"] += 1
    assert reader.trainer_state() == after, "a heartbeat alone is no news"
    writer["phase"] = 99
    assert reader.phase == "starting", "a phase of another version"
    writer.close()
    reader.close()


def test_a_number_is_never_seen_half_written(tmp_path: Path) -> None:
    """Two values that differ in every byte, written in turn: nothing else may ever be read."""
    writer, reader = Board(tmp_path), Board(tmp_path)
    low, high = 0, 0x7F7F7F7F7F7F7F7F
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            writer["learner_step"] = high
            writer["learner_step"] = low

    thread = threading.Thread(target=write)
    thread.start()
    seen = {reader["learner_step"] for _ in range(100_000)}
    stop.set()
    thread.join()
    assert seen <= {low, high}
    writer.close()
    reader.close()


@pytest.mark.parametrize("contents", [b"", b"short", b"x" * 512])
def test_a_file_that_is_not_a_board_is_refused_with_what_to_do(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "board").write_bytes(contents)
    with pytest.raises(FileUnreadable, match="Remove it"):
        Board(tmp_path)

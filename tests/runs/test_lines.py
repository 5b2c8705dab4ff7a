"""Files of JSON lines: a line counts when its newline is there, whatever a crash left of another."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tandem.runs.lines import Tail, append_lines, append_rows, newest_rows, parse_rows, read_rows, whole_lines


def raw(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_what_is_appended_is_read_in_order(path: Path) -> None:
    assert list(read_rows(path)) == [] and whole_lines(path) == [], "there is no file yet"
    append_rows(path, [{"a": 1}, {"a": "two\nlines"}])
    append_rows(path, [])
    append_lines(path, ["not json", "[1, 2]", '{"a": 3}'])
    assert list(read_rows(path)) == [{"a": 1}, {"a": "two\nlines"}, {"a": 3}], "other things than objects are left out"
    assert len(whole_lines(path)) == 5


def test_a_torn_line_is_skipped_and_costs_no_other(path: Path) -> None:
    append_rows(path, [{"a": 1}])
    raw(path, '{"a": 2, "b"')  # a crash in the middle of a write
    assert list(read_rows(path)) == [{"a": 1}]
    append_rows(path, [{"a": 3}])
    assert list(read_rows(path)) == [{"a": 1}, {"a": 3}], "the row after the torn one begins a line of its own"


def test_a_tail_gives_each_whole_line_once(path: Path) -> None:
    tail = Tail(path)
    assert tail.rows() == []
    append_rows(path, [{"a": 1}, {"a": 2}])
    raw(path, '{"a": 3')  # still being written
    assert tail.rows() == [{"a": 1}, {"a": 2}] and tail.rows() == []
    raw(path, ', "b": 4}\n')
    assert tail.rows() == [{"a": 3, "b": 4}], "a line that is being written waits for its end"


def test_a_tail_goes_on_after_a_torn_line(path: Path) -> None:
    tail = Tail(path)
    raw(path, '{"a": 1')
    assert tail.rows() == []
    append_rows(path, [{"a": 2}])  # by the next process
    assert tail.rows() == [{"a": 2}]


def test_a_tail_reads_a_long_file_in_parts_and_never_twice(path: Path) -> None:
    append_rows(path, ({"a": i} for i in range(1000)))
    tail, seen = Tail(path), []
    while rows := tail.rows(max_bytes=500):
        assert len(rows) < 100
        seen += rows
    assert [found["a"] for found in seen] == list(range(1000))
    assert [len(Tail(path).rows(max_rows=7)), Tail(path, at=9).rows(max_rows=1)] == [7, [{"a": 1}]]


def test_a_line_longer_than_a_part_is_read_whole(path: Path) -> None:
    append_rows(path, [{"a": "x" * 5000}, {"a": "y"}])
    tail = Tail(path)
    assert [len(row["a"]) for row in (*tail.rows(max_bytes=100), *tail.rows(max_bytes=100))] == [5000, 1]


def test_a_tail_can_be_stopped_and_begun_again_at_its_byte(path: Path) -> None:
    append_rows(path, [{"a": 1}, {"a": 2}])
    first = Tail(path)
    assert first.rows(max_rows=1) == [{"a": 1}]
    assert Tail(path, at=first.at).rows() == [{"a": 2}]
    last = Tail.from_end(path)
    assert last.rows() == []
    append_rows(path, [{"a": 3}])
    assert last.rows() == [{"a": 3}]


def test_a_file_that_was_replaced_by_a_shorter_one_is_read_anew(path: Path) -> None:
    append_rows(path, [{"a": 1}, {"a": 2}])
    tail = Tail(path)
    tail.rows()
    path.write_text('{"b": 1}\n')
    assert tail.rows() == [{"b": 1}]


def test_the_newest_rows_are_those_in_the_last_bytes(path: Path) -> None:
    assert newest_rows(path, 100) == []
    append_rows(path, ({"a": i} for i in range(100)))
    assert newest_rows(path, 30) == [{"a": 97}, {"a": 98}, {"a": 99}], "10 bytes each"
    assert newest_rows(path, 35) == [{"a": 97}, {"a": 98}, {"a": 99}], "the row that begins before is left out"
    assert len(newest_rows(path, 10**6)) == 100


WRITER = """
import sys
from pathlib import Path
from tandem.runs.lines import append_rows
number = 0
while True:
    append_rows(Path(sys.argv[1]), [{"by": sys.argv[2], "number": number, "filler": "x" * 2000}])
    number += 1
"""


def test_processes_that_are_killed_while_they_write_lose_no_line_of_others(path: Path) -> None:
    """Two writers at once, one killed in the middle of its work: every line but at most one of its own is whole and in order."""
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], env=environment) for name in ("first", "second")]
    try:
        deadline = time.monotonic() + 30
        while len({row["by"] for row in read_rows(path)}) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        writers[0].send_signal(signal.SIGKILL)
        writers[0].wait()
        before = len(list(read_rows(path)))
        while len(list(read_rows(path))) < before + 20 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    for name in ("first", "second"):
        numbers = [row["number"] for row in read_rows(path) if row["by"] == name]
        assert numbers == list(range(len(numbers))) and len(numbers) > 10
    lines = [line for line in whole_lines(path) if line]
    assert len(lines) - len(list(parse_rows(lines))) <= 1, "more than the one line that the killed writer was at is torn"


def test_a_line_that_someone_is_told_is_kept_waits_for_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the name of a new file, and not again for the next line."""
    calls: list[bool] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append(os.path.isdir(f"/proc/self/fd/{descriptor}")), real(descriptor))[1])
    append_rows(path, [{"a": 1}])
    assert calls == []
    path.unlink()
    append_rows(path, [{"a": 1}], "power")
    append_rows(path, [{"a": 2}], "power")
    assert calls == [False, True, False], "the content, the folder, the content"

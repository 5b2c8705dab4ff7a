"""The journal keeps every step once and in order, whatever happens to the processes, the disk and the file."""

import contextlib
import dataclasses
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from data_samples import SPEC, assert_same, in_another_process, observation, transition

from tandem.codec import pack_transition
from tandem.data.intake import Intake
from tandem.data.journal import Journal
from tandem.errors import DataError, FileMissing, FileUnreadable, SpecMismatch, StorageFull
from tandem.types import Entry


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path):
    with Journal.create(path, SPEC, operator="scripted", seed=7) as journal:
        yield journal


def numbers(journal: Journal, *arguments, **options) -> list[int]:
    return [step.seq for _, step in journal.read(*arguments, **options)]


def steps(first: int, stop: int, **changes):
    return [transition(number, **changes) for number in range(first, stop)]


def test_steps_come_back_whole_and_in_order(journal):
    kept = [transition(0, intervened=True, policy_version=3), transition(1, reward=1.0, terminated=True, success=True, episode=2)]
    assert journal.append(kept) == 2
    for (number, back), (expected_number, expected) in zip(journal.read(), [(1, kept[0]), (2, kept[1])], strict=True):
        assert number == expected_number
        assert_same(back, expected)


def test_what_it_was_made_with_is_there_after_reopening(journal, path):
    with Journal.open(path, SPEC) as reader:
        assert reader.spec == SPEC
        assert reader.attributes == {"operator": "scripted", "seed": 7}
        assert reader.created == journal.created


def test_a_step_sent_twice_is_stored_once(journal):
    assert journal.append(steps(0, 3)) == 3
    assert journal.append(steps(0, 5)) == 2  # a sender that missed an acknowledgement begins again
    assert journal.append(steps(4, 5)) == 0
    assert journal.append([*steps(5, 6), *steps(5, 6)]) == 1
    assert numbers(journal) == [0, 1, 2, 3, 4, 5]


def test_two_sources_may_count_alike(journal):
    assert journal.append([transition(0, source="left"), transition(0, source="right")]) == 2
    assert [(source.name, source.steps, source.last_seq) for source in journal.sources()] == [("left", 1, 0), ("right", 1, 0)]


def test_a_step_without_a_name_is_refused_rather_than_taken_for_a_duplicate(journal):
    for nameless in (transition(0, seq=-1), transition(0, source="")):
        with pytest.raises(ValueError, match="source and a seq"):
            journal.append([transition(1), nameless])
    assert journal.counts() == (0, 0)


def test_an_unusable_step_is_kept_with_its_reason_and_never_read(journal):
    bad = transition(1, observation=observation(1) | {"pose": np.array([0, 0, np.nan], np.float32)}, episode=3)
    assert journal.append([transition(0), bad, transition(2)]) == 3
    assert numbers(journal) == [0, 2]
    assert journal.counts() == (2, 1)
    [rejected] = journal.rejected()
    assert rejected == (2, "robot", 1, 3, 1, "observation entry 'pose' has nan at [2]")


def test_a_step_that_has_no_encoding_or_impossible_numbers_is_rejected_not_fatal(journal):
    strange = transition(0, observation=observation(0) | {"pose": np.zeros(3, np.float16)})
    assert journal.append([strange, transition(1, step=2**62), transition(2, episode=None), transition(3)]) == 4
    for row, named in zip(journal.rejected(), ("float16", "step", "episode"), strict=True):
        assert named in row.reason
    assert numbers(journal) == [3]


def test_numpy_numbers_are_stored_as_numbers(journal):
    step = transition(1, step=np.int64(1), episode=np.int32(2), seq=np.int64(1), terminated=np.True_, reward=np.float32(0.5))
    assert journal.append([step]) == 1
    [(_, back)] = journal.read()
    assert_same(back, transition(1, episode=2, terminated=True, reward=0.5))


def test_packed_steps_are_stored_as_they_came_and_damaged_ones_rejected(journal):
    packed = [pack_transition(transition(0)), b"\x00garbage", pack_transition(transition(2, reward=float("nan")))]
    records = [("robot", seq, record) for seq, record in enumerate(packed)]
    assert Intake(journal).append(records) == 3
    assert Intake(journal).append(records) == 0
    [(_, back)] = journal.read()
    assert_same(back, transition(0))
    assert [row.reason.split(":")[0] for row in journal.rejected()] == ["not a record", "reward is nan"]


def test_reading_takes_up_at_a_bookmark(journal):
    journal.append(steps(0, 2500))  # more than two pages of rows
    assert numbers(journal) == list(range(2500))
    assert numbers(journal, 2400) == list(range(2400, 2500))  # seq starts at 0, ord at 1: row 2400 is step 2399
    assert numbers(journal, 10, 3) == [10, 11, 12]
    assert numbers(journal, limit=1500) == list(range(1500))
    assert numbers(journal, 10, up_to_ord=12) == [10, 11]
    assert numbers(journal, 2500) == []


def test_the_last_rows_are_counted_among_the_accepted(journal):
    journal.append([transition(number, reward=float("nan") if number % 2 else 0.0) for number in range(10)])  # 0, 2, 4, 6, 8 accepted
    assert numbers(journal, journal.start_of_last(2)) == [6, 8]
    assert numbers(journal, journal.start_of_last(5)) == [0, 2, 4, 6, 8]
    assert numbers(journal, journal.start_of_last(99)) == [0, 2, 4, 6, 8]
    assert numbers(journal, journal.start_of_last(2, up_to_ord=7), up_to_ord=7) == [4, 6]  # ord 7 is step 6


def test_a_reader_sees_rows_while_they_are_written(journal, path):
    with Journal.open(path) as reader:
        assert numbers(reader) == []
        journal.append(steps(0, 3))
        assert numbers(reader) == [0, 1, 2]


def test_a_reader_in_the_middle_of_reading_stops_neither_the_writer_nor_the_folding_in_of_its_log(journal, path):
    journal.append(steps(0, 1500))
    with Journal.open(path) as reader:
        rows = reader.read()
        next(rows)
        for first in range(1500, 12000, 500):  # 12000 rows of some 400 bytes: more than the 4 MB after which the log is folded in
            journal.append(steps(first, first + 500))
        assert Path(f"{path}-wal").stat().st_size < 6e6
        assert sum(1 for _ in rows) == 11999


def test_a_read_only_journal_cannot_be_written(journal, path):
    with Journal.open(path) as reader, pytest.raises(DataError, match="for reading"):
        reader.append(steps(0, 1))


def test_a_journal_can_be_opened_again_to_append(journal, path):
    journal.append(steps(0, 2))
    journal.close()
    with Journal.open(path, SPEC, read_only=False) as again:
        assert again.append(steps(1, 3)) == 1
        assert numbers(again) == [0, 1, 2]


def test_an_existing_file_is_never_written_over(journal, path):
    journal.append(steps(0, 1))
    with pytest.raises(DataError, match="exists already"):
        Journal.create(path, SPEC)
    assert numbers(journal) == [0]


def test_a_finished_journal_is_one_file_that_can_be_copied_and_read_from_a_read_only_folder(journal, path, tmp_path):
    journal.append(steps(0, 5))
    assert Path(f"{path}-wal").exists()
    journal.finish()
    assert [file.name for file in tmp_path.iterdir()] == ["journal.db"]
    folder = tmp_path / "shelf"
    folder.mkdir()
    shutil.copy(path, folder)
    folder.chmod(0o500)
    with Journal.open(folder / "journal.db", SPEC) as copy:
        assert numbers(copy) == [0, 1, 2, 3, 4]
    folder.chmod(0o700)


def test_a_journal_that_another_has_open_is_not_finished(journal, path, monkeypatch):
    journal.append(steps(0, 1))
    journal._connection.execute("PRAGMA busy_timeout = 50")
    with Journal.open(path) as reader:
        assert numbers(reader) == [0]
        with pytest.raises(DataError, match="cannot be finished"):
            journal.finish()
    journal.finish()


# ---- other processes


def write_in_groups(path: Path, half_was_seen) -> None:
    with Journal.open(path, read_only=False) as journal:
        for first in range(0, 2000, 10):
            journal.append(steps(first, first + 10))
            if first + 10 == 1000 and not half_was_seen.wait(30):
                raise TimeoutError


def test_one_process_writes_while_another_reads_every_row_once_in_order(journal, path):
    context = get_context("spawn")
    half_was_seen = context.Event()
    writer = context.Process(target=write_in_groups, args=(path, half_was_seen))
    writer.start()
    seen, finished = [], False
    with Journal.open(path) as reader:
        while not finished:
            finished = not writer.is_alive()  # asked before the last look, so that nothing written is missed
            seen.extend(reader.read(seen[-1][0] if seen else 0))
            assert len(seen) % 10 == 0  # ten rows are one commit: never seen in part
            if len(seen) >= 1000:
                half_was_seen.set()  # the writer has the file open and waits for this
            time.sleep(0.002)
    writer.join(30)
    assert writer.exitcode == 0
    assert [step.seq for _, step in seen] == list(range(2000))


_WRITE_UNTIL_KILLED = """
import sys
sys.path[:0] = {paths!r}
from data_samples import transition
from tandem.data.intake import Intake
from tandem.data.journal import Journal
with Journal.open({path!r}, read_only=False) as journal:
    for first in range(0, 10**6, 10):
        journal.append([transition(n) for n in range(first, first + 10)])
        print(first + 10, flush=True)
"""


def test_a_killed_writer_loses_nothing_that_was_committed(journal, path):
    script = _WRITE_UNTIL_KILLED.format(paths=[path for path in sys.path if path], path=str(path))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = 0
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged >= 300:
                os.kill(writer.pid, signal.SIGKILL)
                break
        acknowledged = max([acknowledged, *(int(line) for line in writer.stdout if line.endswith("\n"))])
    with Journal.open(path, read_only=False) as again:
        stored = numbers(again)
        assert len(stored) >= acknowledged
        assert stored == list(range(len(stored))) and len(stored) % 10 == 0  # whole groups only
        assert again.append(steps(0, len(stored) + 1)) == 1  # and it goes on


# ---- a full disk


def append_under_a_file_size_limit(path: Path) -> tuple[str, int, int]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    with Journal.open(path, read_only=False) as journal:
        stored = 0
        try:
            while True:
                stored += journal.append(steps(stored, stored + 50))
        except StorageFull as full:
            message = str(full)
        seen = len(numbers(journal))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        journal.append(steps(stored, stored + 50))  # there is room again: the same journal goes on
        return message, stored, seen


@pytest.mark.parametrize("live", [True, False])
def test_a_full_disk_is_told_and_earlier_rows_are_intact(tmp_path, live):
    path = tmp_path / "full.db"
    Journal.create(path, SPEC, live=live).close()
    message, stored, seen = in_another_process(append_under_a_file_size_limit, path)
    assert "no more room" in message and "full.db" in message
    assert stored == seen and stored % 50 == 0 and stored > 0  # the group that did not fit left nothing behind
    with Journal.open(path) as journal:
        journal.check()
        assert numbers(journal) == list(range(stored + 50))


def test_sqlites_own_word_for_full_is_understood(journal):
    journal._connection.execute("PRAGMA max_page_count = 20")  # 80 kB
    with pytest.raises(StorageFull, match="SQLITE_FULL"):
        journal.append(steps(0, 1000))
    assert journal.counts() == (0, 0)
    assert journal.append(steps(0, 10)) == 10


def test_a_group_that_fails_half_way_for_any_reason_leaves_nothing_behind(journal):
    with pytest.raises(UnicodeEncodeError):
        journal.append([transition(0), transition(1, source="\ud800")])  # half a character: not text that a file can hold
    assert journal.counts() == (0, 0)
    assert journal.append(steps(0, 2)) == 2


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot create .*nowhere.*No such file"):
        Journal.create(tmp_path / "nowhere" / "journal.db", SPEC)


# ---- files that are not what they should be


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileMissing, match=r"lost\.db"):
        Journal.open(tmp_path / "lost.db")
    assert list(tmp_path.iterdir()) == []  # looking for it did not create it


@pytest.mark.parametrize(("content", "says"), [(b"", "is empty"), (b"\x80\x04]q\x00.", "begins with"), (b"SQLite format 3\x00", "cut off")])
def test_a_file_that_is_no_database_is_refused(path, content, says):
    path.write_bytes(content)
    with pytest.raises(FileUnreadable, match=says):
        Journal.open(path)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(FileUnreadable, match="directory"):
        Journal.open(tmp_path)


def test_somebody_elses_database_is_refused(path):
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE meta (key, value)")
    other.close()
    with pytest.raises(FileUnreadable, match="not a Tandem journal"):
        Journal.open(path)


def test_another_version_is_refused_with_both_numbers(journal, path):
    journal._connection.execute("UPDATE meta SET value = '2' WHERE key = 'version'")
    journal.finish()
    with pytest.raises(FileUnreadable, match=r"version 2; this Tandem reads .* version 1"):
        Journal.open(path)


def test_damaged_meta_data_is_refused(journal, path):
    journal._connection.execute("""UPDATE meta SET value = '{"task": 1}' WHERE key = 'spec'""")
    journal.finish()
    with pytest.raises(FileUnreadable, match="damaged meta data"):
        Journal.open(path)


def test_another_spec_is_refused_with_the_difference(journal, path):
    other = dataclasses.replace(SPEC, observation={**SPEC.observation, "pose": Entry((7,))})
    with pytest.raises(SpecMismatch, match=r"'pose': shape \(7,\) .* here, shape \(3,\)"):
        Journal.open(path, other)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9, 0.999])
def test_a_file_cut_off_anywhere_is_refused(journal, path, share):
    journal.append(steps(0, 500))
    journal.finish()
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(FileUnreadable):
        Journal.open(path)


def test_a_damaged_page_is_found_by_the_check(journal, path):
    journal.append(steps(0, 500))
    journal.finish()
    content = bytearray(path.read_bytes())
    content[8 * 4096 : 9 * 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    with Journal.open(path) as damaged, pytest.raises(FileUnreadable, match="damaged"):
        damaged.check()


def test_a_damaged_record_is_named_with_its_row(journal):
    journal.append(steps(0, 3))
    journal._connection.execute("UPDATE steps SET record = x'00' WHERE ord = 2")
    with pytest.raises(FileUnreadable, match="row 2 is damaged"):
        numbers(journal)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE meta", f"CREATE VIEW meta AS {ENDLESS} SELECT i AS key, i AS value FROM n"],
        ["DROP TABLE steps", f"CREATE VIEW steps AS {ENDLESS} SELECT i AS ord FROM n"],
        ["CREATE TRIGGER t AFTER INSERT ON steps BEGIN DELETE FROM steps; END"],
        ["CREATE TABLE other (x)"],
        ["CREATE INDEX slow ON steps (length(hex(record)))"],
    ],
)
def test_a_file_with_more_than_the_tables_of_a_journal_is_refused_at_once(tmp_path, statements):
    """One with endless views kept the reader busy for ever."""
    Journal.create(tmp_path / "j.db", SPEC, live=False).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "j.db", isolation_level=None)) as changed:
        for statement in statements:
            changed.execute(statement)
    began = time.monotonic()
    with pytest.raises(FileUnreadable, match=r"that no journal of Tandem has\. It was not used"):
        Journal.open(tmp_path / "j.db")
    assert time.monotonic() - began < 2


def test_a_journal_that_got_its_table_of_discards_later_is_read(tmp_path):
    Journal.create(tmp_path / "j.db", SPEC, live=False).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "j.db", isolation_level=None)) as older:
        older.execute("DROP TABLE discarded")
    Journal.open(tmp_path / "j.db").close()

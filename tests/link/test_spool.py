"""What was appended survives; what was not whole is never read; a spool in use is told from one left behind."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from link_samples import python

from tandem.link.spool import Leftover, Position, Spool, leftovers, nobodys
from tandem.link.steps import Record
from tests.waiting import wait_for

sizes = st.integers(0, 300)
ABOUT = {"run": "r1", "name": "left"}


def record(seq: int, size: int = 20) -> Record:
    return Record("a.0", seq, bytes([seq % 256]) * size)


def everything(spool: Spool | Leftover, max_records: int = 10, max_bytes: int = 1000) -> list[Record]:
    found, position = [], spool.start
    while position < spool.end:
        records, position = spool.read(position, max_records, max_bytes)
        found += records
    return found


@pytest.fixture
def spool(tmp_path: Path):
    spool = Spool.create(tmp_path, "p1", ABOUT)
    yield spool
    spool.close()


def test_records_come_back_in_order_group_by_group(spool: Spool) -> None:
    for first in range(0, 30, 3):
        assert spool.append([record(first), record(first + 1), record(first + 2)])
    records, position = spool.read(spool.start, 4, 10_000)
    assert [r.seq for r in records] == [0, 1, 2, 3]
    records, position = spool.read(position, 100, 100)  # 41 bytes each, with 18 of header and 3 of source: two fit
    assert [r.seq for r in records] == [4, 5]
    assert everything(spool) == [record(seq) for seq in range(30)]


def test_one_record_that_is_larger_than_a_group_comes_alone(spool: Spool) -> None:
    spool.append([record(0), record(1, 5000), record(2)])
    records, position = spool.read(spool.start, 10, 1000)
    assert [r.seq for r in records] == [0]
    records, position = spool.read(position, 10, 1000)
    assert records == [record(1, 5000)]
    assert spool.read(position, 10, 1000)[0] == [record(2)]


def test_nothing_is_read_beyond_the_end(spool: Spool) -> None:
    assert spool.read(spool.start, 10, 1000) == ([], spool.start)
    spool.append([record(0)])
    _, position = spool.read(spool.start, 10, 1000)
    assert position == spool.end and spool.read(position, 10, 1000) == ([], position)


def test_acknowledged_files_are_removed_and_their_room_is_free_again(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT, limit=4000)  # files of 1000 bytes
    count = 0
    while spool.append([record(count, 82)]):  # 18 bytes of header, 3 of source: 103 each
        count += 1
    assert count == 4000 // 103 == 38
    assert spool.bytes == 38 * 103 and len(list(spool.folder.glob("*.rec"))) == 5  # nine whole records a file
    assert [r.seq for r in everything(spool)] == list(range(38))  # the oldest were kept
    _, position = spool.read(spool.start, 9, 10_000)
    spool.release(position)  # the first file is read to its end, and may be appended to no more
    _, position = spool.read(position, 1, 10_000)
    spool.release(position)
    assert len(list(spool.folder.glob("*.rec"))) == 4 and spool.bytes == 29 * 103
    assert spool.append([record(99, 82)])
    assert [r.seq for r in everything(spool)] == [*range(10, 38), 99]
    spool.close()


def test_an_empty_spool_is_removed_and_a_full_one_stays(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT)
    spool.append([record(0)])
    spool.release(spool.end)
    spool.close()
    assert list(tmp_path.iterdir()) == []
    spool = Spool.create(tmp_path, "p2", ABOUT)
    spool.append([record(0)])
    spool.close()
    [left] = leftovers(tmp_path, "r1")
    assert everything(left) == [record(0)] and left.about["name"] == "left"
    left.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_group_that_was_written_in_part_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT)
    assert spool.append([record(0)])
    whole, pwrite = 18 + 3 + 20, os.pwrite
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", lambda file, data, offset: pwrite(file, data[: whole + 5], offset))  # one record and a piece
        assert not spool.append([record(1), record(2)])
    spool.close()  # the process ends before it writes again
    [left] = leftovers(tmp_path, "r1")
    assert everything(left) == [record(0)] and not left.gaps, "what was refused must not be sent"
    left.remove()


def test_a_spool_in_use_is_not_taken(spool: Spool, tmp_path: Path) -> None:
    spool.append([record(0)])
    assert list(leftovers(tmp_path, "r1")) == []


def test_a_spool_left_behind_is_taken_by_one_only(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT)
    spool.append([record(0)])
    spool.close()
    [first] = leftovers(tmp_path, "r1")
    assert list(leftovers(tmp_path, "r1")) == []
    first.close()
    [second] = leftovers(tmp_path, "r1")
    second.remove()


def test_the_spool_of_another_run_is_left_alone(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT)
    spool.append([record(0)])
    spool.close()
    (tmp_path / "not-a-spool").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "about.json").write_text("{")
    assert list(leftovers(tmp_path, "r2")) == []
    assert list(leftovers(tmp_path / "nowhere", "r1")) == []
    assert (tmp_path / "p1" / "00000001.rec").exists()


def test_a_file_cut_off_at_any_byte_gives_the_whole_records_before_it(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT)
    ends = [0]
    for seq in range(4):
        spool.append([record(seq, 5 * seq)])
        ends.append(spool.end.offset)
    spool.close()
    path = tmp_path / "p1" / "00000001.rec"
    content = path.read_bytes()
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        [left] = leftovers(tmp_path, "r1")
        whole = sum(end <= size for end in ends[1:])
        assert everything(left) == [record(seq, 5 * seq) for seq in range(whole)], f"cut at byte {size}"
        assert sum(gap.size for gap in left.gaps) == size - ends[whole] and all("incomplete" in gap.why for gap in left.gaps)
        left.close()


def test_a_changed_byte_costs_its_own_record_only(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT)
    spool.append([record(seq) for seq in range(3)])
    spool.close()
    path = tmp_path / "p1" / "00000001.rec"
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        [left] = leftovers(tmp_path, "r1")
        lost = place // 41  # 18 bytes of header, 3 of source, 20 of data
        assert everything(left) == [record(seq) for seq in range(3) if seq != lost], f"byte {place}"
        assert [(gap.offset, gap.size) for gap in left.gaps] == [(41 * lost, 41)]
        left.close()


damage = st.tuples(st.floats(0, 0.999), st.integers(1, 300), st.integers(0, 255))


@settings(max_examples=40, deadline=None)
@given(st.lists(sizes, min_size=1, max_size=40), st.lists(damage, max_size=4))
def test_damage_anywhere_costs_the_damaged_records_only(tmp_path_factory, lengths, damages) -> None:
    root = tmp_path_factory.mktemp("spool")
    spool, ends = Spool.create(root, "p1", ABOUT), [0]
    for seq, size in enumerate(lengths):
        spool.append([record(seq, size)])
        ends.append(spool.end.offset)
    spool.close()
    path = root / "p1" / "00000001.rec"
    content = bytearray(path.read_bytes())
    before = bytes(content)
    for share, length, value in damages:
        at = int(share * len(content))
        content[at : at + length] = bytes([value]) * len(content[at : at + length])
    path.write_bytes(content)
    [left] = leftovers(root, "r1")
    whole = [seq for seq in range(len(lengths)) if content[ends[seq] : ends[seq + 1]] == before[ends[seq] : ends[seq + 1]]]
    assert everything(left) == [record(seq, lengths[seq]) for seq in whole]
    left.remove()
    assert (root / "unread").exists() == (len(whole) < len(lengths))


def test_a_spool_with_something_unread_is_set_aside_and_not_deleted(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT, limit=400)  # files of 100 bytes: two records of 41 each
    for seq in range(4):
        spool.append([record(seq)])
    spool.close()
    second = tmp_path / "p1" / "00000002.rec"
    damaged = second.read_bytes()[:30] + b"?" + second.read_bytes()[31:]
    second.write_bytes(damaged)
    [left] = leftovers(tmp_path, "r1")
    assert [r.seq for r in everything(left)] == [0, 1, 3]
    left.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["unread"]
    assert (tmp_path / "unread" / "p1_00000002.rec").read_bytes() == damaged
    reason = (tmp_path / "unread" / "p1_00000002.txt").read_text()
    assert "41 bytes from byte 0" in reason and "checksum" in reason and "'left'" in reason and "r1" in reason
    assert not list(leftovers(tmp_path, "r1")), "what was set aside is nobody's spool"


def test_a_running_actor_sets_its_own_damaged_file_aside(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT, limit=400)
    for seq in range(4):
        spool.append([record(seq)])
    first = spool.folder / "00000001.rec"
    first.write_bytes(b"?" + first.read_bytes()[1:])
    assert [r.seq for r in everything(spool)] == [1, 2, 3]
    spool.release(spool.end)
    assert spool.empty and (tmp_path / "unread" / "p1_00000001.rec").exists() and not first.exists()
    spool.close()
    assert [path.name for path in tmp_path.iterdir()] == ["unread"]


def test_a_file_that_is_gone_or_cannot_be_read_is_named_and_the_next_is_sent(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT, limit=400)
    for seq in range(6):
        spool.append([record(seq)])
    spool.close()
    (tmp_path / "p1" / "00000002.rec").unlink()
    [left] = leftovers(tmp_path, "r1")
    assert [r.seq for r in everything(left)] == [0, 1, 4, 5] and "No such file" in left.gaps[0].why
    left.remove()


def test_a_spool_whose_run_is_not_known_is_named_and_kept(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT)
    spool.append([record(0)])
    spool.close()
    assert nobodys(tmp_path) == []
    (tmp_path / "p1" / "about.json").write_text("{")
    assert nobodys(tmp_path) == [tmp_path / "p1"] and not list(leftovers(tmp_path, "r1"))


def test_only_its_owner_can_read_a_spool(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path / "spool", "p1", ABOUT)
    spool.append([record(0)])
    modes = {path.relative_to(tmp_path): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    spool.close()
    names = ("spool", "spool/p1", "spool/p1/lock", "spool/p1/about.json", "spool/p1/00000001.rec")
    assert modes == dict(zip(map(Path, names), (0o700, 0o700, 0o600, 0o600, 0o600), strict=True))


def test_a_torn_file_does_not_hide_the_next_one(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT, limit=400)  # files of 100 bytes: two records of 41 each
    spool.append([record(0)])
    spool.append([record(1)])
    spool.append([record(2)])
    spool.close()
    first = tmp_path / "p1" / "00000001.rec"
    first.write_bytes(first.read_bytes()[:-1])
    [left] = leftovers(tmp_path, "r1")
    assert [r.seq for r in everything(left)] == [0, 2]
    left.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(sizes, min_size=1, max_size=4), max_size=30), st.integers(200, 5000), st.integers(1, 20), st.data())
def test_appending_reading_and_releasing_in_any_order_loses_and_doubles_nothing(tmp_path_factory, groups, limit, max_records, data) -> None:
    spool = Spool.create(tmp_path_factory.mktemp("spool"), "p1", ABOUT, limit=limit)
    kept, read, position, seq = [], [], spool.start, 0
    for group in groups:
        records = [record(seq + index, size) for index, size in enumerate(group)]
        if spool.append(records):
            kept += records
            seq += len(records)
        assert spool.bytes <= limit
        if data.draw(st.booleans()):
            found, position = spool.read(position, max_records, 500)
            read += found
        if data.draw(st.booleans()):
            spool.release(position)
    while position < spool.end:
        found, position = spool.read(position, max_records, 500)
        read += found
    assert read == kept
    spool.release(position)
    assert spool.empty
    spool.close()


def test_one_thread_appends_while_another_reads_and_releases(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "p1", ABOUT, limit=200_000)
    read: list[int] = []
    done = threading.Event()

    def drain() -> None:
        position = spool.start
        while not (done.is_set() and position == spool.end):
            records, position = spool.read(position, 50, 5000)
            read.extend(r.seq for r in records)
            spool.release(position)

    thread = threading.Thread(target=drain)
    thread.start()
    for seq in range(20_000):
        wait_for(lambda: spool.append([record(seq)]), what="room")  # noqa: B023 (called at once)
    done.set()
    thread.join(20)
    assert read == list(range(20_000))
    spool.close()


_APPEND = """
import sys
from pathlib import Path
from tandem.link.steps import Record
from tandem.link.spool import Spool
spool = Spool.create(Path(sys.argv[1]), "p1", {"run": "r1", "name": "left"})
for seq in range(10**6):
    assert spool.append([Record("a.0", seq, b"x" * 200)])
    print(seq, flush=True)
"""


def test_what_a_killed_process_appended_is_there_for_the_next(tmp_path: Path) -> None:
    script = tmp_path / "append.py"
    script.write_text(_APPEND)
    root = tmp_path / "spool"
    with python(script, str(root), stdout=-1) as process:
        assert process.stdout is not None
        last = -1
        for line in process.stdout:
            last = int(line)
            if last >= 2000:
                break
        os.kill(process.pid, signal.SIGKILL)
        last = max([last, *(int(line) for line in process.stdout if line.endswith("\n"))])
    [left] = leftovers(root, "r1")
    found = [r.seq for r in everything(left, 100, 10**6)]
    assert found == list(range(len(found))) and len(found) in (last + 1, last + 2)  # it may have died between a step and its word
    left.close()


_FULL = """
import json, resource, sys
from pathlib import Path
from tandem.link.steps import Record
from tandem.link.spool import Spool
spool = Spool.create(Path(sys.argv[1]), "p1", {"run": "r1", "name": "left"})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
kept = [seq for seq in range(20) if spool.append([Record("a.0", seq, b"x" * 79)])]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
kept += [seq for seq in range(20, 25) if spool.append([Record("a.0", seq, b"x" * 79)])]
print(json.dumps(kept))
"""


def test_a_full_disk_drops_whole_groups_and_later_ones_are_intact(tmp_path: Path) -> None:
    script = tmp_path / "full.py"
    script.write_text(_FULL)
    with python(script, str(tmp_path / "spool"), stdout=-1) as process:
        kept = json.loads(process.communicate()[0])
    assert kept == [*range(10), *range(20, 25)]  # records of 100 bytes: ten fit
    [left] = leftovers(tmp_path / "spool", "r1")
    assert [r.seq for r in everything(left)] == kept and not left.gaps
    left.close()


def test_positions_are_ordered_as_records_are() -> None:
    assert Position(1, 500) < Position(2, 0) < Position(2, 1)


def test_what_was_appended_is_on_the_disk_soon_and_nobody_waits_for_it(tmp_path: Path) -> None:
    """Over several files: each is flushed before it is closed, and its name with it."""
    spool = Spool.create(tmp_path, "p1", ABOUT, limit=4000, durability="power")
    assert spool.flusher is not None
    for seq in range(60):
        assert spool.append([record(seq)])
    assert spool.end.segment > 1
    flusher = spool.flusher
    wait_for(lambda: flusher.flushed == spool.end and not flusher.ended, 5, "everything to be flushed")
    os.close(spool._file)  # the disk fails
    flusher.flushed = Position(1, 0)
    wait_for(lambda: flusher.problem, 5, "the flusher to notice")
    spool._file = os.open(tmp_path / "p1" / f"{spool.end.segment:08d}.rec", os.O_WRONLY)
    assert spool.append([record(60)])
    wait_for(lambda: not flusher.problem and flusher.flushed == spool.end, 5, "the flusher to be well again")
    spool.close()

"""Steps on the actor's own disk until they are acknowledged. They survive the death of the process, and soon a power cut.

    SPOOL/<process>/lock          held (flock) as long as the process lives: a free lock means that the spool was left behind
                    about.json    the run it belongs to; its steps are never sent to another run
                    00000001.rec  records, oldest file first: checksum, sizes, seq, source, the packed step
    SPOOL/unread/                 files with something in them that could not be read, each with its reason in a .txt file

The control loop appends. Another thread reads, and removes files in which every record is acknowledged. They need no common lock:
one moves the end, the other the beginning. Records are read back from the file, so memory is bounded.

A damaged record costs itself only. Every record has a checksum over its sizes and its content, so the next whole record is found by
trying every byte behind the damage. A file in which something could not be read is never deleted: it is moved to `unread`.

A third thread waits for the disk (durability `power`), because a disk may take longer than a control period: a power cut loses at most
the steps of the last 0.05 s and of one flush, and of those only the ones that the hub has not acknowledged.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import json
import os
import shutil
import struct
import threading
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tandem.errors import StorageFull
from tandem.files import Durability, sync
from tandem.link.fields import COUNT_LIMIT, MAX_NAME
from tandem.link.steps import EPISODE_END, Record

SEGMENT_BYTES = 4 * 2**20
"""A file is not appended to beyond this."""
FLUSH_EVERY_S = 0.05
"""Between two flushes: a fast simulation keeps no disk busy."""
_CHECKSUM = struct.Struct("<I")
_SIZES = struct.Struct("<IHq")
_HEADER_SIZE = _CHECKSUM.size + _SIZES.size
_DISK_ROOM = 64 * 2**10
"""Bytes that are left free on the disk: a file also needs room for its name and its table of blocks."""
_MAX_SOURCE = 4 * MAX_NAME
"""Bytes of a source's name in UTF-8."""
UNREAD = "unread"
"""The folder beside the spools, for files in which something could not be read."""


class Position(NamedTuple):
    """A position between two records: number of the file, offset in it."""

    segment: int
    offset: int


class Gap(NamedTuple):
    """Bytes of a file that are no whole record."""

    segment: int
    offset: int
    size: int
    why: str


class Spool:
    """The spool of this process. `append` from one thread, `read` and `release` from another."""

    def __init__(self, folder: Path, lock: int, limit: int, durability: Durability) -> None:
        self.folder, self.limit = folder, limit
        self._lock = lock
        self._segment_bytes = max(1, min(SEGMENT_BYTES, limit // 4))
        self._written = 0  # moved by the thread that appends
        self._freed = 0  # moved by the thread that releases
        self._reader = _Reader(folder)
        self._file = -1
        self.flusher: _Flusher | None = None
        self.end = self.start = Position(1, 0)
        self._open(1)
        self.flusher = _Flusher(self) if durability == "power" else None

    @classmethod
    def create(cls, root: Path, name: str, about: Mapping[str, Any], *, limit: int = 2**30, durability: Durability = "process") -> Spool:
        """A new spool. It is locked before it gets its name, so that no other process takes it for one left behind."""
        hidden, folder = root / f".{name}", root / name
        try:
            root.mkdir(0o700, parents=True, exist_ok=True)
            hidden.mkdir(0o700)
            (hidden / "lock").touch(0o600)
            lock = _lock(hidden)
            assert lock is not None
            (hidden / "about.json").touch(0o600)
            (hidden / "about.json").write_text(json.dumps(dict(about)))
            sync(hidden / "about.json")
            sync(hidden)
            os.rename(hidden, folder)
            sync(root)
            return cls(folder, lock, limit, durability)
        except OSError as problem:
            raise StorageFull(
                f"cannot make the spool {folder}: {problem.strerror}. Give the actor another folder for its spool."
            ) from problem

    @property
    def gaps(self) -> list[Gap]:
        """What could not be read so far."""
        return self._reader.gaps

    @property
    def bytes(self) -> int:
        """Bytes on the disk, acknowledged or not: files are removed as a whole."""
        return self._written - self._freed

    def no_room(self, size: int) -> str:
        """Why a group of so many bytes could not be appended now, in words; empty if it could."""
        if self.bytes + size > self.limit:
            return f"the spool {self.folder.parent} is full (at most {self.limit:,} bytes: --spool-limit)"
        disk = os.fstatvfs(self._file)
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < 2 * size + _DISK_ROOM:
            return f"the disk of the spool {self.folder.parent} is full"
        return ""

    def append(self, records: Sequence[Record]) -> bool:
        """Write all records, or none if they do not fit (the limit, or the disk). Never waits for the network."""
        data = b"".join(_encode(record) for record in records)
        if self.bytes + len(data) > self.limit:
            return False
        segment, offset = self.end
        if offset and offset + len(data) > self._segment_bytes:
            try:
                self._open(segment + 1)
            except OSError:
                return False
            segment, offset = segment + 1, 0
        if not self._write(data, offset):
            return False
        self._written += len(data)
        self.end = Position(segment, offset + len(data))  # last: everything before it is complete
        return True

    def _write(self, data: builtins.bytes, offset: int) -> bool:
        """All of it onto the disk, or nothing."""
        try:
            if os.pwrite(self._file, data, offset) != len(data):
                raise OSError("only a part was written")
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, offset)  # else the next write leaves a part of it behind
            return False
        return True

    def read(self, start: Position, max_records: int, max_bytes: int) -> tuple[list[Record], Position]:
        """Records from `start` on, at least one if there is one, and where the next would begin."""
        return self._reader.read(start, self.end, max_records, max_bytes)

    def release(self, position: Position) -> None:
        """Everything before it is acknowledged: remove the files that end there."""
        for segment in range(self.start.segment, position.segment):
            path = _segment_path(self.folder, segment)
            with contextlib.suppress(FileNotFoundError):
                size = path.stat().st_size
                if _set_aside(self.folder, [gap for gap in self.gaps if gap.segment == segment]):
                    path.unlink(missing_ok=True)
                self._freed += size
        self.start = position

    @property
    def empty(self) -> bool:
        """Every record is acknowledged."""
        return self.start == self.end

    def close(self) -> None:
        """Release it. A spool in which everything is acknowledged is removed; otherwise it stays for the next actor."""
        empty = self.empty
        if self.flusher is not None:
            self.flusher.stop()
        os.close(self._file)
        self._reader.close()
        if empty and _set_aside(self.folder, self.gaps):
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    def _open(self, segment: int) -> None:
        opened = os.open(_segment_path(self.folder, segment), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        if self.flusher is not None:
            self.flusher.ended.append(self._file)  # before it is replaced: the flusher must find it in one of the two places
        elif self._file >= 0:
            os.close(self._file)
        self._file = opened
        self.end = Position(segment, 0)


class _Flusher:
    """The thread that waits for the disk, so that the control loop does not."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self.ended: deque[int] = deque()
        """Files that are full; closed once they are on the disk."""
        self.flushed = Position(1, 0)
        """Everything before it is on the disk."""
        self.problem = ""
        """Why the last flush failed; empty if it did not."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spool flush", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Flush what is left, and end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(FLUSH_EVERY_S):  # it looks by itself: to wake it would cost the control loop more than to write
            if self.flushed != self._spool.end:
                self._flush()
        self._flush()

    def _flush(self) -> None:
        end, file = self._spool.end, self._spool._file  # in this order: what is written from now on belongs to the next flush
        try:
            os.fdatasync(file)
            while self.ended:
                os.fdatasync(self.ended[0])
                os.close(self.ended.popleft())
            if end.segment != self.flushed.segment or not self.flushed.offset:
                sync(self._spool.folder)  # the name of a new file
            self.flushed, self.problem = end, ""
        except OSError as problem:  # the steps are still sent to the hub
            self.problem = problem.strerror or str(problem)


class Leftover:
    """The spool of a process that has ended. This object holds its lock."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder, self._lock = folder, lock
        self.about: dict[str, Any] = _about(folder)
        self._reader = _Reader(folder)
        segments = _segments(folder)
        self.start = Position(segments[0] if segments else 1, 0)
        sizes = [_segment_path(folder, segment).stat().st_size for segment in segments]
        self.end = Position(segments[-1], sizes[-1]) if segments else self.start
        self.size = sum(sizes)
        """Bytes, when it was found."""

    @property
    def gaps(self) -> list[Gap]:
        """What could not be read so far."""
        return self._reader.gaps

    def read(self, start: Position, max_records: int, max_bytes: int) -> tuple[list[Record], Position]:
        """As `Spool.read`. A record that was being written when the process died is incomplete and ends its file."""
        return self._reader.read(start, self.end, max_records, max_bytes)

    def remove(self) -> None:
        """Everything that could be read is acknowledged. Files with something else in them are moved to `unread` first."""
        self._reader.close()
        if _set_aside(self.folder, self.gaps):
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    def close(self) -> None:
        """Leave it as it is, for another process."""
        self._reader.close()
        os.close(self._lock)


def leftovers(root: Path, run: str) -> Iterator[Leftover]:
    """Spools of this run whose process has ended; each stays locked until it is removed or closed."""
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        if folder.name.startswith(".") or _about(folder).get("run") != run:
            continue
        lock = _lock(folder)
        if lock is not None:
            yield Leftover(folder, lock)


def nobodys(root: Path) -> list[Path]:
    """Spools that were left behind and whose `about.json` cannot be read: nobody knows to which run their steps belong."""
    folders = [folder for folder in (root.iterdir() if root.is_dir() else []) if any(folder.glob("*.rec")) and not _about(folder)]
    return sorted(folder for folder in folders if folder.name != UNREAD and not folder.name.startswith("."))


def _set_aside(folder: Path, gaps: Sequence[Gap]) -> bool:
    """Move the files with gaps out of a spool that is about to be removed; False if one of them cannot be moved, and must stay."""
    try:
        for segment in sorted({gap.segment for gap in gaps}):
            path = _segment_path(folder, segment)
            if not path.exists():
                continue
            aside = folder.parent / UNREAD
            aside.mkdir(0o700, exist_ok=True)
            kept = aside / f"{folder.name}_{path.name}"
            os.rename(path, kept)
            with contextlib.suppress(OSError):  # a full disk: the file itself matters more than its reason
                kept.with_suffix(".txt").write_text(_reasons(kept, _about(folder), [gap for gap in gaps if gap.segment == segment]))
    except OSError:
        return False
    return True


def _reasons(path: Path, about: Mapping[str, Any], gaps: Sequence[Gap]) -> str:
    lines = [f"{path.name}: steps of the actor '{about.get('name')}' for the run {about.get('run')}. Not all of it could be read:"]
    lines += [f"  {gap.size} bytes from byte {gap.offset} on: {gap.why}" for gap in gaps]
    lines += ["Every other step in this file was sent to the learner. Nothing reads this file again; remove it when you like."]
    return "\n".join([*lines, ""])


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / "about.json").read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def _lock(folder: Path) -> int | None:
    """The lock of a spool folder; None if its process lives, or if another process sends it already."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        return None  # removed between two looks
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _segment_path(folder: Path, segment: int) -> Path:
    return folder / f"{segment:08d}.rec"


def _segments(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.rec") if path.stem.isdigit())


def _encode(record: Record) -> bytes:
    source = record.source.encode()
    content = b"".join((_SIZES.pack(len(record.data), len(source), record.seq), source, record.data))
    return _CHECKSUM.pack(zlib.crc32(content)) + content


class _Reader:
    """Reads records back from files that grow at the end and are removed at the beginning."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segment, self._file = 0, -1
        self.gaps: list[Gap] = []

    def read(self, start: Position, end: Position, max_records: int, max_bytes: int) -> tuple[list[Record], Position]:
        while start < end:
            last = start.segment == end.segment
            following = end if last else Position(start.segment + 1, 0)
            try:
                left = self._size(start.segment, end.offset if last else None) - start.offset
                records, used = _decode(self._bytes(start.offset, left, max_records, max_bytes), max_records)
                if records:
                    return records, Position(start.segment, start.offset + used)
                skipped = self._skip(start, left) if left > 0 else left
                start = Position(start.segment, start.offset + skipped) if skipped < left else following
            except OSError as problem:  # the disk does not give it back
                self._note(Gap(start.segment, start.offset, 0, f"the rest of the file cannot be read: {problem.strerror}"))
                start = following
        return [], start

    def _skip(self, start: Position, left: int) -> int:
        """How many bytes to the next whole record, or to the end; they are noted as a gap."""
        data = os.pread(self._file, left, start.offset)
        skipped = next((offset for offset in range(1, len(data)) if _record_at(data, offset) is not None), left)
        cut = skipped == left and _whole(data) > left
        why = "an incomplete record; its process died while writing it" if cut else "the checksum does not match: damaged on the disk"
        self._note(Gap(start.segment, start.offset, skipped, why))
        return skipped

    def _note(self, gap: Gap) -> None:
        if gap not in self.gaps:  # after a reconnect it is read again
            self.gaps.append(gap)

    def _bytes(self, offset: int, left: int, max_records: int, max_bytes: int) -> bytes:
        """About as many bytes as hold that many records, at least one whole record."""
        whole = _whole(os.pread(self._file, max(0, min(left, _HEADER_SIZE)), offset))
        return os.pread(self._file, max(0, min(left, max(whole, min(whole * max_records, max_bytes)))), offset)

    def _size(self, segment: int, known: int | None) -> int:
        """Bytes of a file that may be read; `known` if it is still written to."""
        if segment != self._segment:
            self.close()
            self._file = os.open(_segment_path(self._folder, segment), os.O_RDONLY)
            self._segment = segment
        return os.fstat(self._file).st_size if known is None else known

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._segment, self._file = 0, -1


def _decode(data: bytes, max_records: int) -> tuple[list[Record], int]:
    """The whole records at the beginning of `data`, and how many bytes they take."""
    records: list[Record] = []
    offset = 0
    while len(records) < max_records:
        found = _record_at(data, offset)
        if found is None:
            break
        record, offset = found
        records.append(record)
    return records, offset


def _whole(header: bytes) -> int:
    """Bytes of a record, by its header; those of a header where it is incomplete."""
    if len(header) < _HEADER_SIZE:
        return _HEADER_SIZE
    size, source_size, _ = _SIZES.unpack_from(header, _CHECKSUM.size)
    return _HEADER_SIZE + source_size + size


def _record_at(data: bytes, offset: int) -> tuple[Record, int] | None:
    """The whole record that begins here, and where it ends; None if there is none."""
    start = offset + _HEADER_SIZE
    if start > len(data):
        return None
    size, source_size, seq = _SIZES.unpack_from(data, offset + _CHECKSUM.size)
    middle, stop = start + source_size, start + source_size + size
    if stop > len(data) or not 0 < source_size <= _MAX_SOURCE or not EPISODE_END <= seq < COUNT_LIMIT:
        return None
    (checksum,) = _CHECKSUM.unpack_from(data, offset)
    if zlib.crc32(memoryview(data)[offset + _CHECKSUM.size : stop]) != checksum:
        return None
    return Record(data[start:middle].decode(errors="replace")[:MAX_NAME], seq, data[middle:stop]), stop

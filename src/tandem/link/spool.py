"""Steps on the actor's own disk until they are acknowledged. They survive the death of the process, and soon a power cut.

    SPOOL/<process>/lock          held (flock) as long as the process lives: a free lock means that the spool was left behind
                    about.json    the run it belongs to; its steps are never sent to another run
                    00000001.rec  records, oldest file first: length, checksum, source, seq, the packed step

The control loop appends. Another thread reads, and removes files in which every record is acknowledged. They need no common lock:
one moves the end, the other the beginning. Records are read back from the file, so memory is bounded.

A third thread waits for the disk (durability `power`), because a disk may take longer than a control period: a power cut loses at most
the steps of the last 0.05 s and of one flush, and of those only the ones that the hub has not acknowledged.
"""

from __future__ import annotations

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
from tandem.link.steps import Record

SEGMENT_BYTES = 4 * 2**20
"""A file is not appended to beyond this."""
FLUSH_EVERY_S = 0.05
"""Between two flushes: a fast simulation keeps no disk busy."""
_CHECKSUM = struct.Struct("<I")
_SIZES = struct.Struct("<IHq")
_HEADER_SIZE = _CHECKSUM.size + _SIZES.size


class Position(NamedTuple):
    """A position between two records: number of the file, offset in it."""

    segment: int
    offset: int


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
            hidden.mkdir(parents=True)
            (hidden / "lock").touch(0o600)
            lock = _lock(hidden)
            assert lock is not None
            (hidden / "about.json").write_text(json.dumps(dict(about)))
            sync(hidden / "about.json")
            sync(hidden)
            os.rename(hidden, folder)
            sync(root)
            return cls(folder, lock, limit, durability)
        except OSError as problem:
            raise StorageFull(f"cannot make the spool {folder}: {problem.strerror}. Give the actor another folder for its spool.") from None

    @property
    def torn(self) -> int:
        return self._reader.torn

    @property
    def bytes(self) -> int:
        """Bytes on the disk, acknowledged or not: files are removed as a whole."""
        return self._written - self._freed

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
        try:
            if os.pwrite(self._file, data, offset) != len(data):
                raise OSError("only a part was written")
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, offset)  # else the next write leaves a part of it behind
            return False
        self._written += len(data)
        self.end = Position(segment, offset + len(data))  # last: everything before it is complete
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
                path.unlink()
                self._freed += size
        self.start = position

    @property
    def empty(self) -> bool:
        """Every record is acknowledged."""
        return self.start == self.end

    def close(self) -> None:
        """Release it. An empty spool is removed; otherwise it stays for the next actor."""
        empty = self.empty
        if self.flusher is not None:
            self.flusher.stop()
        os.close(self._file)
        self._reader.close()
        if empty:
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
    def torn(self) -> int:
        return self._reader.torn

    def read(self, start: Position, max_records: int, max_bytes: int) -> tuple[list[Record], Position]:
        """As `Spool.read`. A record that was being written when the process died is incomplete and ends its file."""
        return self._reader.read(start, self.end, max_records, max_bytes)

    def remove(self) -> None:
        """Everything in it is acknowledged."""
        self._reader.close()
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


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / "about.json").read_text())
    except (OSError, ValueError):
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
        self.torn = 0
        """Bytes of an incomplete record: the process died while writing it."""

    def read(self, start: Position, end: Position, max_records: int, max_bytes: int) -> tuple[list[Record], Position]:
        records: list[Record] = []
        while not records and start < end:
            last = start.segment == end.segment
            data = self._bytes(start, end.offset if last else None, max_records, max_bytes)
            records, used = _decode(data, max_records)
            if records:
                return records, Position(start.segment, start.offset + used)
            self.torn += len(data)
            start = end if last else Position(start.segment + 1, 0)
        return records, start

    def _bytes(self, start: Position, stop: int | None, max_records: int, max_bytes: int) -> bytes:
        """About as many bytes as hold that many records, at least one whole record."""
        if not self._select(start.segment):
            return b""
        left = (os.fstat(self._file).st_size if stop is None else stop) - start.offset
        header = os.pread(self._file, min(left, _HEADER_SIZE), start.offset)
        if len(header) < _HEADER_SIZE:
            return header
        size, source_size, _ = _SIZES.unpack_from(header, _CHECKSUM.size)
        whole = _HEADER_SIZE + source_size + size
        return os.pread(self._file, min(left, max(whole, min(whole * max_records, max_bytes))), start.offset)

    def _select(self, segment: int) -> bool:
        if segment == self._segment:
            return self._file >= 0
        self.close()
        try:
            self._file = os.open(_segment_path(self._folder, segment), os.O_RDONLY)
        except FileNotFoundError:
            self._file = -1
        self._segment = segment
        return self._file >= 0

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._segment, self._file = 0, -1


def _decode(data: bytes, max_records: int) -> tuple[list[Record], int]:
    """The complete records at the beginning of `data`, and how many bytes they take."""
    records: list[Record] = []
    offset = 0
    view = memoryview(data)
    while len(records) < max_records and offset + _HEADER_SIZE <= len(data):
        (checksum,) = _CHECKSUM.unpack_from(data, offset)
        size, source_size, seq = _SIZES.unpack_from(data, offset + _CHECKSUM.size)
        start = offset + _HEADER_SIZE
        middle, stop = start + source_size, start + source_size + size
        if stop > len(data) or zlib.crc32(view[offset + _CHECKSUM.size : stop]) != checksum:
            break
        records.append(Record(data[start:middle].decode(), seq, data[middle:stop]))
        offset = stop
    return records, offset

"""A disk that forgets what was not flushed, and a power switch. Needs root, loop devices and ext4; no module, no program of its own.

    image on the real disk -> loop device -> ext4 (outer) -> one file -> loop device -> ext4 (inner): `path`, where the run lives

To the inner file system the one file is a disk with a write cache: a write is in the page cache of the outer file system, and a flush
of the disk (what `fsync` ends in) is an `fsync` of the file. `cut` shuts the outer file system down without writing anything back
(EXT4_IOC_SHUTDOWN, no log flush). So what no process asked to flush is gone, at both levels: pages that the system had not
handed to the disk, and writes that the disk had not been told to keep. Before that, a random part of both is written back: a real
system writes when it likes and a real disk in any order. `power_on` mounts again: both file systems recover from their logs, as after
a real power cut.

Device-mapper (flakey, log-writes) would do the same one level lower; many containers and small virtual machines do not have it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
NO_LOG_FLUSH = struct.pack("I", 2)
_WRITE_BACK = 7  # SYNC_FILE_RANGE_WAIT_BEFORE | WRITE | WAIT_AFTER: to the device, without a flush
_CHUNK = 2**16
_libc = ctypes.CDLL(None, use_errno=True)


class NoVolatileDisk(Exception):
    """This machine cannot make one; says why."""


class VolatileDisk:
    """`path` is where it is mounted. Close every file on it before `power_on` and `close`."""

    def __init__(self, folder: Path, megabytes: int = 64) -> None:
        missing = [name for name in ("mkfs.ext4", "losetup", "mount", "umount") if shutil.which(name) is None]
        if os.name != "posix" or os.geteuid() != 0 or missing:
            raise NoVolatileDisk(f"needs root and {', '.join(missing) or 'loop devices'}")
        self._image, self._outer, self.path = folder / "disk.image", folder / "outer", folder / "disk"
        self._file, self._bytes = self._outer / "file", megabytes * 2**20
        for place in (folder, self._outer, self.path):
            place.mkdir(parents=True, exist_ok=True)
        self._loops: dict[Path, str] = {}
        try:
            self._make(megabytes)
        except (OSError, subprocess.CalledProcessError) as problem:
            self.close()
            raise NoVolatileDisk(f"{problem} {getattr(problem, 'stderr', '')}".strip()) from None

    def _make(self, megabytes: int) -> None:
        with self._image.open("wb") as image:
            image.truncate((megabytes + megabytes // 8 + 32) * 2**20)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self._mount(self._image, self._outer)
        with self._file.open("wb") as file:  # every block has its place: later writes to it are data alone
            for _ in range(megabytes):
                file.write(bytes(2**20))
            os.fsync(file.fileno())
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._file))
        self._mount(self._file, self.path)
        os.sync()

    def _mount(self, image: Path, at: Path) -> None:
        self._loops[at] = _run("losetup", "--find", "--show", str(image))
        _run("mount", "-o", "commit=600", self._loops[at], str(at))  # no commit by the clock: the test is not to be saved by chance

    def cut(self, chance: random.Random | None = None) -> None:
        """The power goes. With `chance`, a random part of what was not flushed had been written all the same."""
        if chance is not None:
            for file in [file for file in self.path.rglob("*") if file.is_file()]:
                if chance.random() < 0.5:
                    with contextlib.suppress(OSError):
                        _write_back(file, lambda size: [(0, size)])
            share = chance.random()
            _write_back(self._file, lambda size: [(at, _CHUNK) for at in range(0, size, _CHUNK) if chance.random() < share])
        descriptor = os.open(self._outer, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, NO_LOG_FLUSH)
        finally:
            os.close(descriptor)

    def power_on(self) -> None:
        """Mount what the disk has kept; every process that used it must have ended."""
        self._take_down()
        self._mount(self._image, self._outer)
        self._mount(self._file, self.path)

    def close(self) -> None:
        self._take_down()
        self._image.unlink(missing_ok=True)

    def _take_down(self) -> None:
        for place in (self.path, self._outer):  # the inner one first: its loop device holds a file of the outer one
            if os.path.ismount(place):
                _patiently("umount", str(place))
            if place in self._loops:
                subprocess.run(["losetup", "--detach", self._loops.pop(place)], capture_output=True, check=False)


@contextlib.contextmanager
def volatile_disk(folder: Path, megabytes: int = 64) -> Iterator[VolatileDisk]:
    disk = VolatileDisk(folder, megabytes)
    try:
        yield disk
    finally:
        disk.close()


def _write_back(file: Path, ranges: Callable[[int], list[tuple[int, int]]]) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        for offset, size in ranges(os.fstat(descriptor).st_size):
            _libc.sync_file_range(descriptor, ctypes.c_int64(offset), ctypes.c_int64(size), _WRITE_BACK)
    finally:
        os.close(descriptor)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _patiently(*command: str, seconds: float = 10.0) -> None:
    """A process that was just killed may hold a file for a moment longer."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            _run(*command)
            return
        except subprocess.CalledProcessError as problem:
            if time.monotonic() > deadline:
                raise AssertionError(f"{' '.join(command)}: {problem.stderr}") from None
            time.sleep(0.02)

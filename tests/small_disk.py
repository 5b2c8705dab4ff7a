"""A disk of a few megabytes that a test can fill to its last byte: a tmpfs, mounted for the time of the test."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: float) -> Iterator["SmallDisk"]:
    """Mounted on `folder`; the test is skipped where this machine does not let it mount anything."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={int(megabytes * 1024)}k", "tandem-test", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk here (tests with a full disk need root): {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class SmallDisk:
    """`fill` leaves nothing, or as much as it is told; `clear` gives it back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, but: int = 0) -> None:
        """Until only `but` bytes are free."""
        with self._filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while self.free > but:
                file.write(b"\0" * min(2**16, max(4096, self.free - but)))

    def clear(self) -> None:
        self._filler.unlink(missing_ok=True)

    @property
    def free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

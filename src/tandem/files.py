"""Onto the disk, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from tandem.errors import StorageFull


def write_atomically(path: Path, data: bytes) -> None:
    """The whole new content or the old one, whatever happens: temporary name, fsync, rename."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as problem:
        partial.unlink(missing_ok=True)
        raise StorageFull(f"cannot write {path}: {problem.strerror}. What was there before is intact; free space and resume.") from problem
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

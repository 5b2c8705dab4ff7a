"""Onto the disk, whole or not at all; and what people write, read with words for what is wrong."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from tandem.errors import ConfigError, FileMissing, StorageFull


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


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """A settings file; `what` says in an error what it is of."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise FileMissing(f"there is no {what} {path}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise ConfigError(f"the {what} {path} cannot be read: {problem}") from None

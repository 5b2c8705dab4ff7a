"""Whole files or none: how something gets onto the disk. And settings files that people write, read with clear errors."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from tandem.errors import ConfigError, FileMissing, StorageFull
from tandem.types import environment_id

Durability = Literal["power", "process"]
"""What a stored step survives. `power`: a power cut; the process that stores it waits until the disk has it. `process`: the death of every
process, but not a power cut; nobody waits for the disk."""
DURABILITY_IN_WORDS: dict[Durability, str] = {
    "power": "a step is on the disk before it is acknowledged, and survives a power cut",
    "process": "an acknowledged step survives the death of every process, but a power cut may lose the newest ones (--durability power)",
}

_MAX_SETTINGS = 2**20


def name_for_files(task: str) -> str:
    """The environment's id as a part of a file's name, whatever Python runs it: the path of an interpreter says nothing of the data."""
    return re.sub(r"[^\w.-]+", "_", environment_id(task))


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write the whole new content or keep the old one, whatever happens: temporary name, fsync, rename.

    `durable=False` leaves out the fsync. That is right for files which another process reads while the run goes on and which are
    written anew after a power failure (`policy.bin`, `live.json`, `hub.json`): a reader still sees a whole file, and the writer does
    not wait for the disk.
    """
    try:
        with whole_or_nothing(path, durable=durable) as partial:
            partial.write_bytes(data)
    except OSError as problem:
        advice = "free space and resume." if problem.errno in (errno.ENOSPC, errno.EDQUOT) else "look at the folder and its permissions."
        raise StorageFull(f"cannot write {path}: {problem.strerror}. What was there before is intact; {advice}") from problem


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Files that are made meanwhile are their owner's alone (mode 0600, folders 0700), also those of processes that are started here."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def whole_or_nothing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A temporary path to write a file to; it becomes `path` when the block ends without an error, else it is removed."""
    partial = partial_path(path)
    try:
        yield partial
        if durable:
            sync(partial)
        os.replace(partial, path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    if durable:
        sync(path.parent)


def partial_path(path: Path) -> Path:
    """Hidden, in the same folder, with the same suffix: encoders choose the format by it."""
    return path.with_name(f".{path.stem}.partial{path.suffix}")


def make_once(path: Path, make: Callable[[Path], object]) -> Path:
    """Create a file that several processes want at the same time: the first one makes it, and all use that one.

    It is made under another name and linked to its own when it is whole and on the disk, so nobody opens half of it, and a power cut
    does not take back what others have built on (steps that wait in a spool belong to a `run_id`).
    """
    if not path.exists():
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.unlink(missing_ok=True)
        try:
            make(partial)
            sync(partial)
            with contextlib.suppress(FileExistsError):
                os.link(partial, path)
            sync(path.parent)
        except OSError as problem:
            raise StorageFull(f"cannot write {path}: {problem.strerror}") from problem
        finally:
            partial.unlink(missing_ok=True)
    return path


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """A settings file; `what` says in an error what it is of. A pipe or a device, which could go on for ever, is no file."""
    if not path.is_file():
        raise FileMissing(f"there is no {what} {path}" if not path.exists() else f"{path} is no file; expected a {what}")
    if path.stat().st_size > _MAX_SETTINGS:
        raise ConfigError(f"the {what} {path} has {path.stat().st_size:,} bytes, at most {_MAX_SETTINGS:,} are read: is it another file?")
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as problem:  # also of Unicode, and of numbers with thousands of digits
        raise ConfigError(f"the {what} {path} cannot be read: {problem}") from None

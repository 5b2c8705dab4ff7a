"""Why a robot must stand still, on the actor's own disk: it outlives the actor, the hub, the trainer and the supervisor.

    STOP, pause, a lost hand, a violated limit   ──► halt ──► written here ──► shown and acknowledged
    resume by an operator, `tandem latch --release` ──► taken out here ──► the robot may move

One small file for each robot: the same task and the same name of an actor find it again, whatever process and run they belong to.
Actors of the same task and name that run at the same time have a file each, in order of their start (a lock says which are in use); one
that starts takes a file that holds it first. At the pace of the real world it also takes over what holds another actor of that name: it may
be the same robot, held by a process that hangs.

A file that cannot be read, or is damaged, holds the robot. Where a record cannot be written because the disk is full, the file is
emptied, which needs no room: an empty file is a damaged one.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem.errors import ConfigError, StorageFull
from tandem.files import name_for_files, sync, write_atomically
from tandem.runs.printable import printable

KINDS = ("stop", "pause", "lost", "limit", "damaged")
"""A person's STOP, a pause, a hand that was lost, a violated limit, and a file that does not say what holds the robot."""
FOLDER = Path.home() / ".local" / "state" / "tandem" / "latch"
"""Where the files are unless another folder is named."""
_MAX_BYTES = 64 * 1024
_MAX_TEXT = 300
_MOST = 64
"""Actors of one task and name at once."""
_AGAIN_S = 1.0
"""Between two attempts to write what could not be written."""


@dataclass(frozen=True)
class Hold:
    """One reason to stand still."""

    kind: str
    """One of `KINDS`."""
    who: str
    why: str
    at: float
    """Seconds since 1970, by this machine's clock."""

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.at))
        return f"{self.why} (by {self.who}, {when} UTC)"


class Latch:
    """What holds one robot. `hold` returns when it is on the disk; all methods are for the control loop's thread."""

    def __init__(self, path: Path, lock: int, task: str, name: str, wall: Callable[[], float] = time.time) -> None:
        self.path, self._lock, self._about, self._wall = path, lock, {"task": task, "name": name}, wall
        self.holds: dict[str, Hold] = read_latch(path).holds
        """What holds the robot, by kind; empty while it may move."""
        self.problem = ""
        """Why the file does not say what it should; empty if it does."""
        self._tried = 0.0
        if not self.holds:
            self._save()  # the file is there from now on, so that it can be emptied when the disk is full

    @classmethod
    def open(cls, folder: Path, task: str, name: str, *, takes_over: bool) -> Latch:
        """The latch of this robot. `takes_over`: also what holds other actors of the same task and name (see above)."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path, lock = _free_file(folder, _key(task, name))
        except OSError as problem:
            raise ConfigError(
                f"the folder {folder}, in which this machine remembers that a robot must stand still, cannot be used: "
                f"{problem.strerror}. Give another one with --latch FOLDER."
            ) from None
        latch = cls(path, lock, task, name)
        if takes_over:
            for other in folder.glob(f"{_key(task, name)}.*.json"):
                if other != path:
                    latch._take_over(other)
        return latch

    def _take_over(self, path: Path) -> None:
        """Be held by what holds another actor; the file of one that does not run any more is then empty, so that one resume is enough."""
        found = read_latch(path).holds
        if found:
            self.holds = found | self.holds
            self._save()
            if not self.problem:
                release_file(path)

    def hold(self, kind: str, who: str, why: str) -> None:
        """Another reason to stand still, on the disk when this returns. Where it cannot be written it holds all the same: see `problem`."""
        assert kind in KINDS
        self.holds[kind] = Hold(kind, short(who) or "somebody", short(why), self._wall())
        self._save()

    def release(self, kind: str | None = None) -> None:
        """Somebody who may has said that the robot may move; with `kind` only this reason is gone."""
        gone = [each for each in self.holds if kind in (None, each)]
        for each in gone:
            del self.holds[each]
        if gone or self.problem:
            self._save()

    def try_again(self) -> None:
        """Write what could not be written; costs nothing where all is well."""
        if self.problem and time.monotonic() - self._tried > _AGAIN_S:
            self._save()

    @property
    def words(self) -> str:
        """Why the robot stands still; empty if nothing holds it."""
        return "; ".join(map(str, self.holds.values()))

    def _save(self) -> None:
        self._tried = time.monotonic()
        try:
            write_atomically(self.path, _packed(self._about, self.holds.values()))
            self.problem = ""
        except StorageFull as problem:
            self.problem = f"that the robot {'must stand still' if self.holds else 'may move'} is not on the disk: {problem}"
            if self.holds:
                self._empty_file()

    def _empty_file(self) -> None:
        try:
            os.truncate(self.path, 0)
            sync(self.path)
            self.problem += " Its file was emptied, so that the robot stands still after a restart too."
        except OSError:
            self.problem += " A restart of the actor would forget it."

    def close(self) -> None:
        """Let another process have the file; what holds the robot stays in it."""
        os.close(self._lock)


@dataclass(frozen=True)
class Entry:
    """The file of a latch as it was found."""

    path: Path
    holds: dict[str, Hold] = dataclasses.field(default_factory=dict)
    task: str = ""
    name: str = ""


def read_latch(path: Path) -> Entry:
    """What a file says; one that is not there holds nothing, one that cannot be understood holds the robot."""
    data = b""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES)
        return _unpacked(path, data)
    except FileNotFoundError:
        return Entry(path)
    except OSError as problem:
        why = f"cannot be read ({problem.strerror})"
    except (ValueError, KeyError, TypeError) as problem:
        why = "is empty: the disk was full when it should have been written" if not data else f"is damaged ({short(str(problem))})"
    said = f"the latch {path} {why}, so nobody knows whether the robot was stopped"
    return Entry(path, {"damaged": Hold("damaged", "nobody", said, time.time())})


def all_latches(folder: Path) -> list[Entry]:
    return [read_latch(path) for path in sorted(folder.glob("*.json"))]


def release_file(path: Path) -> bool:
    """Take everything out of the latch of a robot whose actor does not run; False if it runs: then send it `resume`."""
    lock = _try_lock(path)
    if lock is None:
        return False
    try:
        found = read_latch(path)
        write_atomically(path, _packed({"task": found.task, "name": found.name}, ()))
    finally:
        os.close(lock)
    return True


def short(text: str) -> str:
    """Names come from other machines: of bounded length, and no control characters in a file or on a terminal."""
    return printable(text[:_MAX_TEXT])


def _key(task: str, name: str) -> str:
    """A file name that people can read, and that no other task and name has."""
    digest = hashlib.sha256(json.dumps([name_for_files(task), name]).encode()).hexdigest()[:10]
    return f"{name_for_files(task)[:60]}-{re.sub(r'[^A-Za-z0-9_-]+', '_', name)[:40]}-{digest}"


def _free_file(folder: Path, key: str) -> tuple[Path, int]:
    """The first file that no running actor has, those that hold a robot before the others, and its lock."""
    files = [folder / f"{key}.{number}.json" for number in range(_MOST)]
    for path in sorted(files, key=lambda path: not read_latch(path).holds):
        lock = _try_lock(path)
        if lock is not None:
            return path, lock
    raise ConfigError(f"{_MOST} actors of this task and name run on this machine; give this one another --name")


def _try_lock(path: Path) -> int | None:
    """A lock that the system lets go of when the process is gone, however it ended."""
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _packed(about: dict[str, str], holds: Any) -> bytes:
    body = json.dumps({**about, "holds": [dataclasses.asdict(hold) for hold in holds]}).encode()
    return body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def _unpacked(path: Path, data: bytes) -> Entry:
    body, _, digest = data.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest.strip():
        raise ValueError("its checksum is wrong")
    told = json.loads(body)
    return Entry(path, {hold.kind: hold for hold in _holds(told["holds"])}, str(told["task"]), str(told["name"]))


def _holds(told: list[dict[str, Any]]) -> Iterator[Hold]:
    for each in told:
        if each["kind"] not in KINDS:
            raise ValueError(f"no reason is called {each['kind']!r:.40}")
        yield Hold(each["kind"], short(str(each["who"])), short(str(each["why"])), float(each["at"]))

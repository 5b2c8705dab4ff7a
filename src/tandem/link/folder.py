"""Hub and trainer, side by side on one machine: they meet in the run folder, and neither ever waits for the other.

journal.db       the hub alone writes it; the trainer reads accepted rows in order
policy.bin       the newest policy, exactly the bytes that actors receive
board            a small mapped file of counters: where the trainer is, what the hub has stored
live.json        how hub, trainer and actors were a moment ago; the hub writes it every two seconds, and when it ends
commands.jsonl   what people want of the trainer, one line each
run_id           names this run in all the world
token            who may speak to the hub
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import secrets
import struct
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from tandem.data.journal import Journal
from tandem.errors import FileMissing, FileUnreadable, StorageFull
from tandem.link.messages import BadFrame, Command, pack_policy, parse_policy
from tandem.types import PolicySnapshot, Spec, Transition

PHASES = ("starting", "filling", "training", "evaluating", "paused", "stopped")
_BOARD_FORMAT = int.from_bytes(b"TNDMBRD1", "little")
_LOOK_ANYWAY_S = 1.0


class RunInfo(NamedTuple):
    """What `config.json` says of a run."""

    task: str
    spec: Spec


def run_info(run: Path) -> RunInfo:
    path = run / "config.json"
    if not path.exists():
        raise FileMissing(f"{run} is not a run folder: it has no config.json (looked in {run.absolute()})")
    try:
        described = json.loads(path.read_text())
        return RunInfo(described["task"], Spec.from_json(described["spec"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise FileUnreadable(f"{path} is damaged ({type(problem).__name__}: {problem}). Restore it from a copy.") from None


def run_id(run: Path) -> str:
    """Made by whoever asks first."""
    return _made_once(run / "run_id", lambda path: path.write_text(uuid.uuid4().hex)).read_text().strip()


def run_token(run: Path) -> str:
    """The run's own token, made by whoever asks first, readable by its owner alone."""

    def make(path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))

    return _made_once(run / "token", make).read_text().strip()


def open_journal(run: Path, spec: Spec, *, read_only: bool) -> Journal:
    """The run's journal; made by whoever asks first. It gets its name when it is whole, so that nobody opens half of one."""
    path = _made_once(run / "journal.db", lambda path: Journal.create(path, spec, kind="online").close())
    return Journal.open(path, spec, read_only=read_only)


def _made_once(path: Path, make: Any) -> Path:
    """Make a file under another name and give it its own, unless somebody was faster."""
    if not path.exists():
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.unlink(missing_ok=True)
        try:
            make(partial)
            with contextlib.suppress(FileExistsError):
                os.link(partial, path)
        except OSError as problem:
            raise StorageFull(f"cannot write {path}: {problem.strerror}") from problem
        finally:
            partial.unlink(missing_ok=True)
    return path


class Board:
    """Counters in a mapped file, each written whole by one process and read by another.

    A dead process is told by a heartbeat that does not move; no clock is compared with another's.
    """

    _FIELDS = (
        "format",
        "trainer_heartbeat",
        "learner_step",
        "policy_version",
        "trainer_ord",
        "steps_before",
        "updates_per_actor_step",
        "phase",
        "hub_heartbeat",
        "accepted",
        "hub_ord",
        "discards",
    )
    _INDEX = {name: index for index, name in enumerate(_FIELDS)}  # noqa: RUF012 (never written to)

    def __init__(self, run: Path) -> None:
        path = _made_once(run / "board", lambda path: path.write_bytes(struct.pack("<q", _BOARD_FORMAT).ljust(512, b"\0")))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 512)
        # Items of a cast view are stored and loaded as one machine word: a reader never sees half of a number.
        self._counts = memoryview(self._map).cast("q")
        self._numbers = memoryview(self._map).cast("d")
        if self._counts[0] != _BOARD_FORMAT:
            raise FileUnreadable(f"{path} is not a board of this version. Remove it; it is made anew.")

    def __getitem__(self, name: str) -> int:
        return self._counts[self._INDEX[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self._counts[self._INDEX[name]] = value

    @property
    def updates_per_actor_step(self) -> float:
        return self._numbers[self._INDEX["updates_per_actor_step"]]

    @updates_per_actor_step.setter
    def updates_per_actor_step(self, value: float) -> None:
        self._numbers[self._INDEX["updates_per_actor_step"]] = value

    @property
    def phase(self) -> str:
        code = self["phase"]
        return PHASES[code] if 0 <= code < len(PHASES) else "starting"

    def trainer_state(self) -> tuple[int, ...]:
        """Changes whenever the trainer has something new to say."""
        return tuple(self._counts[2:8])

    def close(self) -> None:
        self._counts.release()
        self._numbers.release()
        self._map.close()


class TrainerEnd:
    """The trainer's end of the link: accepted rows in order, policies out, commands in. Needs no running hub."""

    def __init__(self, run: Path, spec: Spec, after_ord: int = 0) -> None:
        self._run = run
        self._journal = open_journal(run, spec, read_only=True)
        self._board = Board(run)
        self.ord = after_ord
        """The last row that was received."""
        self._looked_at = -1
        self._discards_seen = -1
        self._discarded: set[tuple[str, int]] = set()
        self._look_anyway_at = 0.0
        self._commands = (run / "commands.jsonl").open("ab+")
        self._commands.seek(0, os.SEEK_END)  # what was wanted of an earlier trainer is over

    def receive(self) -> list[Transition]:
        """Accepted steps since the last call, in the order in which they were committed."""
        stored, now = self._board["hub_ord"], time.monotonic()
        # A hub that was killed between its commit and its word about it: look now and then without being told.
        if stored == self._looked_at and now < self._look_anyway_at:
            return []
        received = list(self._journal.read(self.ord, with_discarded=True))
        self._looked_at, self._look_anyway_at = stored, now + _LOOK_ANYWAY_S
        if received:
            self.ord = received[-1][0]
        return [transition for _, transition in received]

    def discarded(self) -> set[tuple[str, int]]:
        """Episodes that people have thrown away since the last call; the first time, all of this run's."""
        count = self._board["discards"]
        if count == self._discards_seen:
            return set()
        self._discards_seen = count
        found = self._journal.discarded() - self._discarded
        self._discarded |= found
        return found

    def publish(self, snapshot: PolicySnapshot) -> None:
        """The newest policy, for the hub to pass on. The whole file or the one before it; the version is safe elsewhere."""
        path = self._run / "policy.bin"
        partial = path.with_name(".policy.bin.partial")
        try:
            partial.write_bytes(pack_policy(snapshot))
            os.replace(partial, path)
        except OSError as problem:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise StorageFull(f"cannot write {path}: {problem.strerror}. The actors keep the policy they have.") from problem
        self._board["policy_version"] = snapshot.version  # last: it tells the hub to look

    def beat(self, *, learner_step: int, phase: str, steps_before: int, updates_per_actor_step: float) -> None:
        """Say where training is; cheap enough for every turn of a loop."""
        board = self._board
        board["learner_step"] = learner_step
        board["steps_before"] = steps_before
        board.updates_per_actor_step = updates_per_actor_step
        board["phase"] = PHASES.index(phase)
        board["trainer_ord"] = self.ord
        board["trainer_heartbeat"] += 1

    def commands(self) -> list[Command]:
        """What people want, since the last call; a line that is being written waits for its end."""
        wanted = []
        while True:
            start = self._commands.tell()
            line = self._commands.readline()
            if not line.endswith(b"\n"):
                self._commands.seek(start)
                return wanted
            with contextlib.suppress(ValueError, KeyError, TypeError):  # not one of ours
                told = json.loads(line)
                wanted.append(Command.from_fields({name: told[name] for name in ("command", "to", "detail")}))

    def actor_steps(self) -> int:
        """Accepted steps in the journal, by the hub's count."""
        return self._board["accepted"]

    def close(self) -> None:
        self._commands.close()
        self._board.close()
        self._journal.close()


def read_policy_file(run: Path) -> tuple[PolicySnapshot, bytes] | None:
    """The published policy and the bytes to pass on; None if there is none, or not a sound one."""
    try:
        data = (run / "policy.bin").read_bytes()
        return parse_policy(data), data
    except (OSError, BadFrame):
        return None

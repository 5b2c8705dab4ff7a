"""The supervisor: starts the parts of a run, watches them, and stops them in the right order.

A part that was killed is started again and continues: the journal, the spools, the checkpoints and the counters are on the disk.
A part that ends by itself with an error stops the run, because it would fail again. One that could not start because the disk is full
is tried again until there is room.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tandem.errors import TandemError
from tandem.programs.launcher import DISK_FULL, Handle, Launcher, Part
from tandem.runs.folder import RunFolder, read_json

_LOOK_S = 0.1
_QUICK_DEATH_S = 5.0
_MAX_QUICK_DEATHS = 25
"""In a row: a part that dies that often does not die by chance."""
_FAULTS = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")
"""Signals that a process gets for a fault of its own code, unlike SIGKILL, which others send."""
_FAULT_S = 60.0
_MAX_FAULTS = 5
"""In a row, each within a minute of the start: the same fault again. A simulator may take longer to start than `_QUICK_DEATH_S`."""
_FULL_S = 5.0
"""Between two starts of a part that a full disk keeps from starting."""
_STOP_S = 15.0
_SAVE_S = 120.0
"""For the trainer, which finishes its step or its evaluation and then saves."""
_START_S = 60.0


class PartFailed(TandemError):
    """A part of the run ended with an error, which it has printed itself."""


@dataclass
class Supervised:
    """A part with its newest handle and how often it died soon after its start."""

    part: Part
    launcher: Launcher
    handle: Handle | None = None
    began: float = 0.0
    quick_deaths: int = 0
    faults: int = 0
    """How often in a row it died of a fault of its own, within a minute of its start."""
    told_full: bool = False
    next_try: float | None = None
    """When it is started again after it ended because the disk is full."""

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def code(self) -> int | None:
        return self.handle.code if self.handle else None

    @property
    def log(self) -> str:
        return self.handle.log if self.handle else "nothing: it was not started"

    def start(self, run: Path) -> None:
        RunFolder(run).last_words(self.name).unlink(missing_ok=True)
        self.began = time.monotonic()
        self.handle = self.launcher.start(self.part)

    def ask_to_stop(self) -> None:
        if self.handle is not None:
            self.handle.ask_to_stop()

    def stop(self, seconds: float) -> None:
        if self.handle is not None:
            self.handle.stop(seconds)


@dataclass
class Supervisor:
    """The parts of one run, started by `launcher`. `say` prints a line; `event` writes one to the run's events."""

    run: Path
    launcher: Launcher
    say: Callable[[str], None]
    event: Callable[..., None]
    listening: Callable[[], None] = field(default=lambda: None)
    """Called once the hub listens."""

    def supervise(self, hub: Part, trainer: Part, actors: Sequence[Part]) -> dict[str, Any]:
        """Run all parts until the trainer is done; returns its summary."""
        serving, training, *acting = (Supervised(part, self.launcher) for part in (hub, trainer, *actors))
        folder = RunFolder(self.run)
        folder.summary_file.unlink(missing_ok=True)  # written when the run stopped earlier
        self.event("launched", parts=[part.name for part in (hub, trainer, *actors)])
        try:
            with asked_to_stop() as asked:
                serving.start(self.run)
                self._wait_for_hub(serving, asked)
                self.listening()
                for part in (training, *acting):
                    part.start(self.run)
                self._watch(training, [serving, training, *acting], asked)
        finally:
            for actor in acting:
                actor.ask_to_stop()
            training.stop(_SAVE_S)
            for actor in acting:
                actor.stop(_STOP_S)  # while the hub can still take their last steps
            serving.stop(_STOP_S)
        summary = folder.summary()
        if summary is None and training.code == -signal.SIGTERM:
            raise KeyboardInterrupt(f"The trainer had not begun; `--resume {self.run}` begins it.")
        if summary is None:
            raise PartFailed(f"the trainer of {self.run} ended without a summary; see {training.log}. Continue with `--resume {self.run}`.")
        return summary

    def _watch(self, trainer: Supervised, parts: Sequence[Supervised], asked: Callable[[], bool]) -> None:
        """Until the trainer has ended by itself or a stop was asked for. A person may stop an actor before that."""
        while not asked():
            for part in parts:
                if part.code == 0 and part is trainer:
                    return
                if part.code == DISK_FULL:
                    self._start_when_there_is_room(part)
                elif part.code:
                    self._start_again(part, part.code)
            time.sleep(_LOOK_S)

    def _start_again(self, part: Supervised, code: int) -> None:
        if code > 0:
            raise self._failed(part, f"ended with code {code}")
        lasted, how = time.monotonic() - part.began, signal.Signals(-code).name
        part.quick_deaths = part.quick_deaths + 1 if lasted < _QUICK_DEATH_S else 0
        part.faults = part.faults + 1 if lasted < _FAULT_S and how in _FAULTS else 0
        for count, most, seconds in ((part.quick_deaths, _MAX_QUICK_DEATHS, _QUICK_DEATH_S), (part.faults, _MAX_FAULTS, _FAULT_S)):
            if count >= most:
                raise self._failed(part, f"was ended by {how} {count} times in a row, each time within {seconds:.0f} s of its start")
        hint = " (out of memory?)" if how == "SIGKILL" else " (a fault in compiled code)" if how in _FAULTS else ""
        self.say(f"the {part.name} was ended by {how}{hint}; it is started again")
        self.event("restarted", part=part.name, signal=how)
        part.start(self.run)

    def _start_when_there_is_room(self, part: Supervised) -> None:
        """A full disk ends no run: the part is tried again until it can start. Said once, and again if it had run for a while."""
        now = time.monotonic()
        if part.next_try is None:
            if not part.told_full or now - part.began > _FAULT_S:
                self.say(f"the {part.name} ended: the disk of {self.run} is full. Make room; it is started again every {_FULL_S:.0f} s")
            part.told_full, part.next_try = True, now + _FULL_S
        elif now >= part.next_try:
            part.next_try = None
            self.event("restarted", part=part.name, signal="disk full")
            part.start(self.run)

    def _failed(self, part: Supervised, how: str) -> PartFailed:
        """The run ends because of this part: said here, and kept for the doctor, who would otherwise see only that the run was stopped."""
        left = read_json(RunFolder(self.run).last_words(part.name)) or {}
        error = str(left.get("error", ""))
        self.event("part_failed", part=part.name, how=how, error=error, environment=bool(left.get("environment")))
        if error:
            return PartFailed(f"the {part.name} {how}: {error}")
        return PartFailed(
            f"the {part.name} {how} and left no error of its own ({part.log} may say more). Likely cause: the environment's code, or a "
            f"library that it uses, ended the process."
        )

    def _wait_for_hub(self, hub: Supervised, asked: Callable[[], bool]) -> None:
        deadline, folder = time.monotonic() + _START_S, RunFolder(self.run)
        assert hub.handle is not None
        while not asked():
            if (folder.hub() or {}).get("pid") == hub.handle.pid:
                return
            if hub.code is not None:
                raise PartFailed(f"the hub ended with code {hub.code} before it listened; see {hub.log}")
            if time.monotonic() > deadline:
                raise PartFailed(f"the hub does not listen after {_START_S:.0f} s; see {folder.events_file}")
            time.sleep(0.02)


@contextlib.contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Ctrl-C or SIGTERM ask once; a second Ctrl-C ends the program at once."""
    asked = threading.Event()

    def handler(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread
        before = {}
    try:
        yield asked.is_set
    finally:
        for number, old in before.items():
            signal.signal(number, old)

"""The board: a small mapped file of counters by which hub and trainer know about each other without ever waiting.

trainer writes    trainer_heartbeat, learner_step, policy_version, trainer_ord, steps_before, updates_per_actor_step, phase
hub writes        hub_heartbeat, accepted, hub_ord, discards, and the newest command that it could not write to commands.jsonl: asked_count
                  changes with each, asked_command says which
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from tandem.errors import FileUnreadable
from tandem.files import make_once
from tandem.runs.folder import RunFolder

PHASES = ("starting", "filling", "training", "evaluating", "paused", "stopped")
_FORMAT = int.from_bytes(b"TNDMBRD1", "little")
_BYTES = 512


class Board:
    """Counters in a mapped file, each written whole by one process and read by another.

    A process is dead when its heartbeat does not move; no clock is compared with another machine's.
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
        "asked_command",
        "asked_count",
    )
    _INDEX = {name: index for index, name in enumerate(_FIELDS)}  # noqa: RUF012 (never written to)

    def __init__(self, run: Path) -> None:
        path = make_once(RunFolder(run).board_file, lambda path: path.write_bytes(struct.pack("<q", _FORMAT).ljust(_BYTES, b"\0")))
        with path.open("r+b") as file:
            try:
                self._map = mmap.mmap(file.fileno(), _BYTES)
            except ValueError:
                raise FileUnreadable(f"{path} is too short for a board. Remove it; it is made anew.") from None
        # Items of a cast view are stored and loaded as one machine word: a reader never sees half of a number.
        self._counts = memoryview(self._map).cast("q")
        self._numbers = memoryview(self._map).cast("d")
        if self._counts[0] != _FORMAT:
            self.close()
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

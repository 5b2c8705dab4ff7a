"""The trainer's newest policy, as the hub sends it to actors."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from tandem.link.trainer_end import read_policy_file


class PublishedPolicy:
    """The newest policy that the trainer wrote into the run folder, and when each version came."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self.version = -1
        """-1 before the first one."""
        self.hash = ""
        self.frame: bytes | None = None
        """The bytes that actors receive."""
        self._published: deque[tuple[int, float]] = deque(maxlen=4096)

    def read(self, now: float) -> bool:
        """Read `policy.bin` again. True if it is newer than before; a damaged or older file is ignored."""
        found = read_policy_file(self._run)
        if found is None or found[0].version <= self.version:
            return False
        snapshot, self.frame = found
        self.version, self.hash = snapshot.version, snapshot.hash
        self._published.append((snapshot.version, now))
        return True

    def newer_since_s(self, version: int, now: float) -> float:
        """Seconds since something newer than `version` was published; 0 if nothing is newer."""
        return next((now - at for published, at in self._published if published > version), 0.0)

"""The hub's own lines in `events.jsonl`, at a bounded rate."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAX_BURST, PER_S = 200, 2.0


class HubEvents:
    """Appends events to the run folder. A full disk is no reason to stop the hub, and a client that misbehaves cannot fill the disk."""

    def __init__(self, run: Path, wall: Callable[[], float] = time.time) -> None:
        self._path, self._wall = run / "events.jsonl", wall
        self._left, self._counted_at = float(MAX_BURST), time.monotonic()

    def add(self, kind: str, **details: Any) -> None:
        now = time.monotonic()
        self._left = min(MAX_BURST, self._left + (now - self._counted_at) * PER_S)
        self._counted_at = now
        if self._left < 1:
            return
        self._left -= 1
        with contextlib.suppress(OSError), self._path.open("a") as file:
            file.write(json.dumps({"time": self._wall(), "kind": kind, "by": "hub", **details}) + "\n")

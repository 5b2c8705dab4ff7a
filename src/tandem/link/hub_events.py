"""The hub's own lines in `events.jsonl`, at a bounded rate."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from tandem.runs.folder import RunFolder
from tandem.runs.isolation import Bucket
from tandem.runs.lines import append_rows

MAX_BURST, PER_S = 200, 2.0


class HubEvents:
    """Appends events to the run folder. A full disk is no reason to stop the hub, and a client that misbehaves cannot fill the disk."""

    def __init__(self, folder: RunFolder, wall: Callable[[], float] = time.time) -> None:
        self._path, self._wall = folder.events_file, wall
        self._limit = Bucket(PER_S, MAX_BURST)

    def add(self, kind: str, **details: Any) -> None:
        if not self._limit.take():
            return
        with contextlib.suppress(OSError, ValueError):
            append_rows(self._path, [{"time": self._wall(), "kind": kind, "by": "hub", **details}])

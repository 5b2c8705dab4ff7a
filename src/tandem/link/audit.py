"""The audit log: who asked for what, when, from where, and whether it was allowed. `audit.jsonl` in the run folder.

Each line: `time`, `who` (name of the credential), `role`, `address`, `via` (api, page, link), `what`, `allowed`, and what belongs to it.
The log is bounded: a file that has grown to `MAX_BYTES` becomes `audit.1.jsonl`, in place of an older one. And nobody pushes the lines of
others out of it: of one credential, or one address without one, only so many lines a second are written. The next one counts the rest.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tandem.link.access import Asker
from tandem.runs.isolation import Bucket
from tandem.runs.lines import append_rows

MAX_BYTES = 4 * 2**20
BURST, PER_S = 100, 2.0
"""Lines of one credential or address at once, and in the long run."""
STRANGERS_BURST, STRANGERS_PER_S = 10, 0.05
_MAX_KEYS = 1000


class Allowances:
    """One `Bucket` for each key; the key that was used longest ago is forgotten first."""

    def __init__(self, burst: float, per_s: float) -> None:
        self._new = lambda: Bucket(per_s, burst)
        self._of: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, key: str) -> bool:
        found = self._of.pop(key, None) or self._new()
        self._of[key] = found
        if len(self._of) > _MAX_KEYS:
            self._of.popitem(last=False)
        return found.take()


class Audit:
    """Appends to the log. A full disk is no reason to refuse a command: the line is then missing."""

    def __init__(self, path: Path, wall: Callable[[], float] = time.time) -> None:
        self._path, self._wall = path, wall
        self._known = Allowances(BURST, PER_S)
        self._strangers = Allowances(STRANGERS_BURST, STRANGERS_PER_S)
        self._left_out = 0

    def asked(self, asker: Asker, what: str, allowed: bool, **details: Any) -> None:
        """Somebody with a credential asked for something."""
        if self._known.take(asker.who.name):
            row = {"who": asker.who.name, "role": asker.who.role, "address": asker.address, "via": asker.via}
            self._write({**row, "what": what, "allowed": allowed, **details})
        else:
            self._left_out += 1

    def failed_login(self, address: str, what: str) -> None:
        """Somebody showed a wrong token."""
        if self._strangers.take(address.rpartition(":")[0]):
            self._write({"who": "", "role": "", "address": address, "via": "", "what": what, "allowed": False})
        else:
            self._left_out += 1

    def _write(self, row: dict[str, Any]) -> None:
        if self._left_out:
            row["left_out_before"], self._left_out = self._left_out, 0
        with contextlib.suppress(OSError):
            if self._path.exists() and self._path.stat().st_size > MAX_BYTES:
                os.replace(self._path, self._path.with_name(f"{self._path.stem}.1{self._path.suffix}"))
            if not self._path.exists():
                os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600))
            append_rows(self._path, [{"time": self._wall(), **row}])

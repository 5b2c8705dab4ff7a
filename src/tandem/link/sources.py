"""Which credential brought which source: a step under a source that belongs to another credential is refused.

A source is a process of an actor and its rows (`actor-5f0c2d9a1b3e`, `actor-5f0c2d9a1b3e.0`, ...), so what stands before the first dot is
bound, once, to the credential that first brings a step of it. It is bound to the *name* of the credential, not to a process or a token: a
new actor sends the spools that an earlier one left behind, also after its credential was revoked and made anew under the same name.
`sources.jsonl` in the run folder keeps it: a restart of the hub opens no gap.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

from tandem.runs.folder import RunFolder
from tandem.runs.lines import append_rows, read_rows

MAX_SOURCES = 100_000
"""The most sources of a run; a process has one. More are refused, so that nobody fills the memory with names."""


class Sources:
    """The owners of the sources of one run."""

    def __init__(self, folder: RunFolder, wall: Callable[[], float] = time.time) -> None:
        self._path, self._wall = folder.sources_file, wall
        self._owners: dict[str, str] = {}
        self._unsaved: list[dict[str, object]] = []
        for row in read_rows(self._path):
            self._owners.setdefault(str(row.get("source")), str(row.get("credential")))
        self.refused = 0
        """Steps that came under the source of another credential."""
        self.last_refusal = ""

    def problem(self, credential: str, sources: Iterable[str]) -> str:
        """Bind new sources to this credential. Returns the empty text, or why it may not bring them."""
        for root in {source.partition(".")[0] for source in sources}:
            owner = self._owners.get(root)
            if owner is None and len(self._owners) >= MAX_SOURCES:
                return f"this run has {MAX_SOURCES} sources already"
            if owner is None:
                self._owners[root] = credential
                self._unsaved.append({"time": self._wall(), "source": root, "credential": credential})
            elif owner != credential:
                return f"source '{root[:60]}' belongs to the credential '{owner[:60]}', not to '{credential[:60]}'"
        if self._unsaved:
            with contextlib.suppress(OSError):  # a full disk: tried again with the next new source
                append_rows(self._path, self._unsaved)
                self._unsaved = []
        return ""

    def refuse(self, steps: int, text: str) -> None:
        self.refused += steps
        self.last_refusal = text

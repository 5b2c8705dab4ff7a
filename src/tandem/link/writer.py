"""The hub's writer: groups of steps into the journal, one transaction for all that has come in meanwhile.

A thread of its own, so that a slow disk never holds up the network. A full disk holds up nothing but the acknowledgements: the same
groups are tried again until there is room, in the same order, and actors keep what is not acknowledged.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tandem.data.journal import Journal, Rejected
from tandem.errors import DataError, FileUnreadable, StorageFull
from tandem.link.messages import EPISODE_END, BadFrame, EpisodeEnd, Record, parse
from tandem.runs.board import Board
from tandem.runs.folder import RunFolder
from tandem.runs.lines import append_rows

_MAX_STEPS_AT_ONCE = 2000
_TRY_AGAIN_S = 0.5


class Group(NamedTuple):
    """One `Steps` message of one connection."""

    connection: Any
    number: int
    own: bool
    steps: int
    """Of its records, the rest are episode ends."""
    size: int
    records: Sequence[Record]


class Stored(NamedTuple):
    """What became of some groups."""

    groups: list[Group]
    accepted: int
    """New steps to learn from; what was known already is not counted."""
    rejected: list[Rejected]


class Writer:
    """Takes groups from the hub's loop and tells it, from its own thread, when they are safe."""

    def __init__(
        self,
        run: Path,
        journal: Journal,
        board: Board,
        *,
        stored: Callable[[Stored], None],
        trouble: Callable[[str], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._episodes = RunFolder(run).episodes_file
        self._journal, self._board = journal, board
        self._tell_stored, self._tell_trouble, self._tell_failed = stored, trouble, failed
        self._queue: queue.SimpleQueue[Group | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._ord = journal.last_ord()
        self.accepted, self.rejected = journal.counts()
        self._show()
        self._thread = threading.Thread(target=self._run, name="journal writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, group: Group) -> None:
        self._queue.put(group)

    def stop(self) -> None:
        """Store what is there and end; what does not fit on a full disk is not acknowledged, so it is not lost."""
        self._stopping.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                groups = self._take()
                if groups:
                    self._store(groups)
                elif self._stopping.is_set():
                    return
        except BaseException as problem:
            self._tell_failed(problem)

    def _take(self) -> list[Group]:
        """Wait for a group, then take all that have come in with it."""
        groups, steps = [], 0
        group = self._queue.get()
        while True:
            if group is not None:
                groups.append(group)
                steps += len(group.records)
            if steps >= _MAX_STEPS_AT_ONCE:
                return groups
            try:
                group = self._queue.get_nowait()
            except queue.Empty:
                return groups

    def _store(self, groups: list[Group]) -> None:
        records = [record for group in groups for record in group.records]
        steps = [record for record in records if record.seq != EPISODE_END]
        ends = [record for record in records if record.seq == EPISODE_END]
        troubled = False
        while True:
            try:
                self._journal.append_records(steps)
                self._note(ends)
                break
            except (DataError, StorageFull, OSError) as problem:
                if isinstance(problem, FileUnreadable):
                    raise
                troubled = True
                self._tell_trouble(str(problem))
                if self._stopping.wait(_TRY_AGAIN_S):
                    return
        if troubled:
            self._tell_trouble("")
        accepted, rejected = self._journal.counts(self._ord)
        reasons = self._journal.rejected(self._ord) if rejected else []
        self._ord += accepted + rejected  # rows are numbered without gaps: nothing is ever removed while a hub runs
        self.accepted += accepted
        self.rejected += rejected
        self._show()
        self._tell_stored(Stored(groups, accepted, reasons))

    def _show(self) -> None:
        self._board["accepted"] = self.accepted
        self._board["hub_ord"] = self._ord

    def _note(self, ends: Sequence[Record]) -> None:
        """Episode ends; one that was sent twice is noted twice, (source, episode) tells. Their steps are stored already."""
        rows, unwanted = [], []
        for record in ends:
            try:
                end = parse(record.data, (EpisodeEnd.kind,))
            except BadFrame:
                continue
            assert isinstance(end, EpisodeEnd)
            rows.append({"time": time.time(), **end.fields()})
            if not end.kept:
                unwanted.append((end.source, end.episode))
        if unwanted:
            self._journal.discard(unwanted)
            self._board["discards"] += 1  # tells the trainer to look
        append_rows(self._episodes, rows)

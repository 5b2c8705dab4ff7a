"""The hub's writer: stores groups of steps in the journal, one transaction for all that arrived meanwhile.

A thread of its own, so that a slow disk never delays the network. A full disk delays only the acknowledgements: the same groups are
tried again, in the same order, until there is room, and actors keep what is not acknowledged.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tandem.data.journal import Journal
from tandem.data.journal_questions import Rejected
from tandem.errors import DataError, FileUnreadable, StorageFull
from tandem.link.messages import BadFrame, EpisodeEnd, parse
from tandem.link.steps import EPISODE_END, Record
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
    """Records that are steps; the others are episode ends."""
    size: int
    records: Sequence[Record]


class Stored(NamedTuple):
    """The result of storing some groups."""

    groups: list[Group]
    accepted: int
    """New steps; steps that were stored before are not counted."""
    rejected: list[Rejected]


class Writer:
    """Takes groups from the hub's loop. Calls `stored` from its own thread once they are committed."""

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
        self._on_stored, self._on_trouble, self._on_failed = stored, trouble, failed
        self._queue: queue.SimpleQueue[Group | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._ord = journal.last_ord()
        self.accepted, self.rejected = journal.counts()
        self._update_board()
        self._thread = threading.Thread(target=self._run, name="journal writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, group: Group) -> None:
        self._queue.put(group)

    def stop(self) -> None:
        """Store what is queued and end. On a full disk the rest is not acknowledged, so it is not lost."""
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
            self._on_failed(problem)

    def _take(self) -> list[Group]:
        """Wait for a group, then take all that are queued."""
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
        failed = False
        while True:
            try:
                self._journal.append_records(steps)
                self._write_episode_ends(ends)
                break
            except (DataError, StorageFull, OSError) as problem:
                if isinstance(problem, FileUnreadable):
                    raise
                failed = True
                self._on_trouble(str(problem))
                if self._stopping.wait(_TRY_AGAIN_S):
                    return
        if failed:
            self._on_trouble("")
        accepted, rejected = self._journal.counts(self._ord)
        reasons = self._journal.rejected(self._ord) if rejected else []
        self._ord += accepted + rejected  # rows are numbered without gaps: nothing is removed while a hub runs
        self.accepted += accepted
        self.rejected += rejected
        self._update_board()
        self._on_stored(Stored(groups, accepted, reasons))

    def _update_board(self) -> None:
        self._board["accepted"] = self.accepted
        self._board["hub_ord"] = self._ord

    def _write_episode_ends(self, ends: Sequence[Record]) -> None:
        """Write episode ends. One that was sent twice is written twice, with the same (source, episode). Their steps are stored already."""
        rows, discarded = [], []
        for record in ends:
            try:
                end = parse(record.data, (EpisodeEnd.kind,))
            except BadFrame:
                continue
            assert isinstance(end, EpisodeEnd)
            if end.source != record.source:  # nobody ends, or discards, an episode of another source
                continue
            rows.append({"time": time.time(), **end.fields()})
            if not end.kept:
                discarded.append((end.source, end.episode))
        if discarded:
            self._journal.discard(discarded)
            self._board["discards"] += 1  # the trainer looks when this changes
        append_rows(self._episodes, rows)

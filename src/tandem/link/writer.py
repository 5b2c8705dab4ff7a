"""The hub's writer: stores groups of steps in the journal, one transaction for all that arrived meanwhile.

A thread of its own, so that a slow disk never delays the network. A full disk delays only the acknowledgements: the same groups are
tried again, in the same order, until there is room, and actors keep what is not acknowledged.

Some room on the disk is left to checkpoints, policies and commands (`reserve`): below it no step is stored. It goes on by itself.

A record that cannot be handled costs itself alone: it is kept as rejected, with its bytes and the reason, and acknowledged.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tandem.data.intake import Intake
from tandem.data.journal import Journal
from tandem.data.journal_questions import Rejected
from tandem.errors import DataError, FileUnreadable, StorageFull
from tandem.files import Durability
from tandem.link.messages import EpisodeEnd, parse
from tandem.link.steps import EPISODE_END, Record
from tandem.runs.board import Board
from tandem.runs.folder import RunFolder
from tandem.runs.lines import append_rows

_MAX_STEPS_AT_ONCE = 2000
_TRY_AGAIN_S = 0.5
_NOT_STORED = (DataError, StorageFull, OSError)
"""The disk's fault, not a record's."""


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
        durability: Durability,
        stored: Callable[[Stored], None],
        trouble: Callable[[str], None],
        failed: Callable[[BaseException], None],
        reserve: int = 0,
    ) -> None:
        """`reserve`: bytes of the disk that steps do not use."""
        self._run_folder, self._reserve = run, reserve
        self._refusing = False
        self._episodes = RunFolder(run).episodes_file
        self._journal, self._intake, self._board = journal, Intake(journal), board
        self._durability: Durability = durability
        self._on_stored, self._on_trouble, self._on_failed = stored, trouble, failed
        self._queue: queue.SimpleQueue[Group | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._ord = journal.last_ord()
        self._bad_ends = 0
        self.accepted, self.rejected = journal.counts()
        self._update_board()
        self._thread = threading.Thread(target=self._run, name="journal writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, group: Group) -> None:
        self._queue.put(group)

    @property
    def unreadable(self) -> int:
        """Records since the hub started that could not be read."""
        return self._intake.quarantined.count + self._bad_ends

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
                if self._stopping.is_set() and self._queue.empty():  # the end may have come together with the last groups
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
                self._require_room(sum(len(record.data) for record in records))
                self._append(steps)
                self._write_episode_ends(ends)
                break
            except _NOT_STORED as problem:
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

    def _require_room(self, size: int) -> None:
        """Below the reserve no step is stored, and then not before there is a tenth more, so that it does not go to and fro.

        New steps are written twice, to the journal's WAL and from there to the journal: what is in the WAL now still has to move.
        """
        wal = self._journal.path.with_name(f"{self._journal.path.name}-wal")
        coming = 2 * size + (wal.stat().st_size if wal.exists() else 0)
        free = shutil.disk_usage(self._run_folder).free - coming
        self._refusing = free < self._reserve * (1.1 if self._refusing else 1.0)
        if self._refusing:
            raise StorageFull(
                f"storage_full: less than {self._reserve / 1e6:,.1f} MB are free on the disk of {self._run_folder}, which are kept for "
                "checkpoints and commands (--disk-reserve-mb). New steps wait at the actors and none is lost. Make room; it then goes on "
                "by itself."
            )

    def _append(self, steps: Sequence[Record]) -> None:
        """All in one transaction. If a record among them makes that impossible, one by one."""
        try:
            self._intake.append(steps)
        except _NOT_STORED:
            raise
        except Exception:
            for record in steps:
                self._append_alone(record)

    def _append_alone(self, record: Record) -> None:
        try:
            self._intake.append([record])
        except _NOT_STORED:
            raise
        except Exception as problem:
            with contextlib.suppress(sqlite3.Error, ValueError):  # not even as bytes: it is counted
                self._intake.quarantine(record.source, record.seq, problem, record.data)

    def _update_board(self) -> None:
        self._board["accepted"] = self.accepted
        self._board["hub_ord"] = self._ord

    def _write_episode_ends(self, ends: Sequence[Record]) -> None:
        """Write episode ends. One that was sent twice is written twice, with the same (source, episode). Their steps are stored already."""
        rows, discarded = [], []
        for record in ends:
            try:
                end = parse(record.data, (EpisodeEnd.kind,))
            except Exception:  # whatever it is, it says nothing about an episode
                self._bad_ends += 1
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
        append_rows(self._episodes, rows, self._durability)  # acknowledged with the steps, so as durable as they are

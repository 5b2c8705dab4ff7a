"""The durable file: steps in the order they arrived, each stored once. SQLite, for demos and online data alike.

    meta    key, value            format, version, spec (JSON), created, attributes (JSON: operator, seed, ...)
    steps   ord                   the order of arrival, 1, 2, 3, ...: a reader's bookmark
            source, seq           globally unique name of the step; the same step twice is stored once
            episode, step         its place in the episode
            status, reason        'accepted', or 'rejected' and why; rejected rows are kept, never trained on
            record                the step itself (`codec.pack_transition`), byte for byte as it was sent; of steps that cannot be
                                  read only so much that a client that sends nonsense does not fill the disk (`quarantine.py`)
    discarded   source, episode   episodes that a person discarded: their steps are kept, but no longer trained on
    frames  digest, codec, record pictures of the steps, each once, where a task has any (`frames.py`)
    features    digest, camera, record      what a run made of its pictures, each once (`seen.py`)

One process writes while others read. A journal that is being written has two companions
(`-wal`, `-shm`); `finish` merges them, so that copying one file copies everything.

Here steps are stored and read again. `intake.py` stores those that came packed over a link, `journal_file.py` makes, opens and finishes the
file, `journal_questions.py` counts what is in it.
"""

from __future__ import annotations

import contextlib
import numbers
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandem.codec import CodecError, pack_transition, unpack_transition
from tandem.data.journal_file import CREATE_DISCARDED, storage_error
from tandem.data.journal_questions import JournalQuestions
from tandem.data.quarantine import storable
from tandem.data.validation import COUNT_LIMIT, Validator
from tandem.errors import DataError, FileUnreadable
from tandem.types import Spec, Transition

if TYPE_CHECKING:
    import numpy as np

    from tandem.data.frames import FrameTable
    from tandem.data.seen import FeatureTable

_PAGE_OF_ROWS = 1000
Row = tuple[Any, ...]
"""Columns of `steps` in the order of `_INSERT`."""
_INSERT = """
INSERT INTO steps (source, seq, episode, step, status, reason, record) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (source, seq) DO NOTHING
"""


class Journal(JournalQuestions):
    """One journal file, open for reading or for reading and writing. Use from one thread at a time."""

    def __init__(self, path: Path, connection: sqlite3.Connection, spec: Spec, created: str, attributes: Mapping[str, Any]) -> None:
        super().__init__(path, connection, spec, created, attributes)
        self._validator = Validator(spec)
        self.frames: FrameTable | FeatureTable | None = None
        """What stores the frames of the steps; None in a journal of a task without cameras."""
        self.pictured = False
        """Read the steps of a run with its pictures in the place of features."""
        roles = {entry.role for entry in spec.observation.values()}
        if roles & {"image", "features"}:  # only tasks with cameras need these
            from tandem.data.frames import FrameTable
            from tandem.data.seen import FeatureTable

            self.frames = FeatureTable(spec) if "features" in roles else FrameTable(spec)

    def append(self, transitions: Iterable[Transition]) -> int:
        """Store these steps in one transaction; returns how many were new. A step known already is not stored again."""
        return self.insert([self.row(transition) for transition in transitions])

    def insert(self, rows: list[Row]) -> int:
        """Store these rows in one transaction; returns how many were new."""

        def change(connection: sqlite3.Connection) -> int:
            new = connection.executemany(_INSERT, rows).rowcount
            if self.frames is not None:
                self.frames.store(connection)
            return new

        return self._change(change) if rows else 0

    def read(
        self, after_ord: int = 0, limit: int | None = None, *, up_to_ord: int | None = None, with_discarded: bool = False
    ) -> Iterator[tuple[int, Transition]]:
        """Accepted steps in order, from the one after `after_ord` up to and with `up_to_ord`, at most `limit`.

        Steps of discarded episodes are left out unless `with_discarded`.
        """
        # Page by page: an open query keeps its snapshot, and the writer's WAL file could never be merged.
        last = COUNT_LIMIT if up_to_ord is None else up_to_ord
        left = COUNT_LIMIT if limit is None else limit
        kept = "" if with_discarded else self._kept()
        while left > 0:
            rows = self._rows(
                "SELECT ord, source, seq, record FROM steps "
                f"WHERE ord > ? AND ord <= ? AND status = 'accepted' {kept} ORDER BY ord LIMIT ?",
                (after_ord, last, min(left, _PAGE_OF_ROWS)),
            )
            for number, source, seq, record in rows:
                yield number, self._decoded(number, source, seq, record)
            if len(rows) < min(left, _PAGE_OF_ROWS):
                return
            after_ord, left = rows[-1][0], left - len(rows)

    def pictures(self, places: Sequence[int]) -> dict[str, list[np.ndarray]]:
        """What the cameras of a run showed before the step after each of these bookmarks; nothing where it keeps no pictures."""
        cameras = [name for name, entry in self.spec.observation.items() if entry.role == "features"]
        if not cameras:
            return {}
        self.pictured = True
        try:
            steps = [step for place in dict.fromkeys(places) for _, step in self.read(place, 1)]
            return {name: [step.observation[name] for step in steps] for name in cameras} if steps else {}
        except DataError:  # none were kept
            return {}
        finally:
            self.pictured = False

    def forget_after(self, ord: int) -> int:
        """Remove the steps after a bookmark, for a simulation that restarts there; returns how many. Frames stay: they come again."""
        return self._change(lambda connection: connection.execute("DELETE FROM steps WHERE ord > ?", (ord,)).rowcount)

    def discard(self, episodes: Iterable[tuple[str, int]]) -> int:
        """Discard episodes, by source and number; returns how many were not discarded before. Their steps stay in the file."""
        rows = list(episodes)

        def change(connection: sqlite3.Connection) -> int:
            connection.execute(CREATE_DISCARDED)
            return connection.executemany("INSERT OR IGNORE INTO discarded VALUES (?, ?)", rows).rowcount

        return self._change(change) if rows else 0

    def row(self, transition: Transition) -> Row:
        """The columns of a step. Its frames wait for the transaction that stores it."""
        require_name(transition.source, transition.seq)
        whole, slim, reason = transition, transition, ""
        if self.frames is not None:
            whole, slim, reason = self.frames.parted(transition, self._connection)
        try:
            record, reason = pack_transition(slim), reason or self._validator.reason(whole)
        except CodecError as problem:
            record, reason = b"", str(problem)
        return row_of(transition, reason, record)

    def _change(self, change: Callable[[sqlite3.Connection], int]) -> int:
        """Apply a change in one transaction, or not at all; returns how many rows it changed."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            changed = change(connection)
            connection.execute("COMMIT")
            return changed
        except BaseException as problem:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # report the first error
                    connection.execute("ROLLBACK")
            if isinstance(problem, sqlite3.Error):
                raise storage_error(problem, self.path) from problem
            raise

    def _rows(self, query: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._connection.execute(query, parameters).fetchall()
        except sqlite3.Error as problem:
            raise storage_error(problem, self.path) from problem

    def _decoded(self, number: int, source: str, seq: int, record: bytes) -> Transition:
        try:
            step = unpack_transition(record, source, seq)
            if self.frames is None:
                return step
            return (self.frames.pictured if self.pictured else self.frames.put_back)(step, self._connection)
        except CodecError as problem:
            raise FileUnreadable(f"{self.path}: row {number} is damaged ({problem}). Restore the file from a copy.") from None


def row_of(transition: Transition, reason: str | None, record: bytes) -> Row:
    """The columns of a step; `reason` says why it is rejected."""
    status, why = ("rejected", storable(reason)) if reason else ("accepted", None)
    return transition.source, int(transition.seq), _column(transition.episode), _column(transition.step), status, why, record


def _column(count: Any) -> int:
    """A count that fits the column; -1 for anything else, which is then the reason of rejection."""
    return int(count) if isinstance(count, numbers.Integral) and 0 <= int(count) < COUNT_LIMIT else -1


def require_name(source: str, seq: int) -> None:
    if not source or not 0 <= seq < COUNT_LIMIT:
        raise ValueError(f"a step needs a source and a seq from 0 to be stored exactly once; got source {source!r}, seq {seq}")

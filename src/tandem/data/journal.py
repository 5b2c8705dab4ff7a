"""The durable file: steps in the order they arrived, each stored once. SQLite, for demos and online data alike.

    meta    key, value            format, version, spec (JSON), created, attributes (JSON: operator, seed, ...)
    steps   ord                   the order of arrival, 1, 2, 3, ...: a reader's bookmark
            source, seq           globally unique name of the step; the same step twice is stored once
            episode, step         its place in the episode
            status, reason        'accepted', or 'rejected' and why; rejected rows are kept, never trained on
            record                the step itself (`codec.pack_transition`), byte for byte as it was sent
    discarded   source, episode   episodes that a person discarded: their steps are kept, but no longer trained on

One process writes while others read. A journal that is being written has two companions
(`-wal`, `-shm`); `finish` merges them, so that copying one file copies everything.
"""

from __future__ import annotations

import contextlib
import json
import numbers
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from tandem.codec import CodecError, pack_transition, unpack_transition
from tandem.data.journal_file import (
    CREATE_DISCARDED,
    FORMAT,
    VERSION,
    check_header,
    connect,
    read_meta,
    reserve,
    set_durability,
    storage_error,
    write_schema,
)
from tandem.data.screening import Place, Screen
from tandem.data.validation import COUNT_LIMIT, Validator
from tandem.errors import DataError, FileUnreadable, SpecMismatch
from tandem.types import Spec, Transition

_PAGE_OF_ROWS = 1000
_NOT_DISCARDED = """
AND NOT EXISTS (SELECT 1 FROM discarded WHERE discarded.source = steps.source AND discarded.episode = steps.episode)
"""
_INSERT = """
INSERT INTO steps (source, seq, episode, step, status, reason, record) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (source, seq) DO NOTHING
"""


class Rejected(NamedTuple):
    """A step that was kept and is not trained on."""

    ord: int
    source: str
    seq: int
    episode: int
    step: int
    reason: str


class Source(NamedTuple):
    """A process, or one row of it, that sent steps."""

    name: str
    steps: int
    first_seq: int
    last_seq: int


class EpisodeRows(NamedTuple):
    """The rows of an episode's accepted steps."""

    source: str
    episode: int
    steps: int
    first_ord: int
    last_ord: int


class Counts(NamedTuple):
    accepted: int
    rejected: int


class Journal:
    """One journal file, open for reading or for reading and writing. Use from one thread at a time."""

    def __init__(self, path: Path, connection: sqlite3.Connection, spec: Spec, created: str, attributes: Mapping[str, Any]):
        self.path = path
        self.spec = spec
        self.created = created
        """Local time with its offset, ISO 8601."""
        self.attributes = attributes
        self._connection = connection
        self._validator = Validator(spec)
        self._screen = Screen(spec)

    @classmethod
    def create(cls, path: Path | str, spec: Spec, *, live: bool = True, **attributes: Any) -> Journal:
        """A new file. `live`: written often and read meanwhile (WAL); otherwise each commit goes to the disk and to the one file."""
        path = Path(path)
        created = datetime.now().astimezone().isoformat(timespec="seconds")
        meta = {
            "format": FORMAT,
            "version": str(VERSION),
            "spec": json.dumps(spec.to_json()),
            "created": created,
            "attributes": json.dumps(attributes),
        }
        reserve(path)
        try:
            connection = connect(path, read_only=False)
            try:
                write_schema(connection, meta, live)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as problem:
            path.unlink(missing_ok=True)
            raise storage_error(problem, path) from problem
        return cls(path, connection, spec, created, attributes)

    @classmethod
    def open(cls, path: Path | str, spec: Spec | None = None, *, read_only: bool = True) -> Journal:
        """An existing file, read-only by default. With `spec`, a file of another spec is refused."""
        path = Path(path)
        check_header(path)
        try:
            connection = connect(path, read_only)
            try:
                meta = read_meta(connection, path)
                set_durability(connection)
                journal = cls(path, connection, meta.spec, meta.created, meta.attributes)
                if spec is not None:
                    journal._require(spec)
                return journal
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as problem:
            raise storage_error(problem, path) from problem

    def append(self, transitions: Iterable[Transition]) -> int:
        """Store these steps in one transaction; returns how many were new. A step known already is not stored again."""
        return self._insert([self._row(transition) for transition in transitions])

    def append_records(self, records: Iterable[tuple[str, int, bytes]]) -> int:
        """`append` for packed steps: (source, seq, `pack_transition` bytes), stored as they are."""
        known = list(records)
        places = self._screen.places([record for _, _, record in known])
        return self._insert(
            [
                self._packed_row(source, seq, record) if place is None else self._sound_row(source, seq, place, record)
                for (source, seq, record), place in zip(known, places, strict=True)
            ]
        )

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

    def start_of_last(self, count: int, *, up_to_ord: int | None = None) -> int:
        """The bookmark after which the last `count` accepted steps follow: `read(start_of_last(n))` yields n, or all there are."""
        last = COUNT_LIMIT if up_to_ord is None else up_to_ord
        rows = self._rows(
            f"SELECT ord FROM steps WHERE ord <= ? AND status = 'accepted' {self._kept()} ORDER BY ord DESC LIMIT 1 OFFSET ?",
            (last, count),
        )
        return rows[0][0] if rows else 0

    def forget_after(self, ord: int) -> int:
        """Remove the steps after a bookmark, for a simulation that restarts there; returns how many."""
        return self._change(lambda connection: connection.execute("DELETE FROM steps WHERE ord > ?", (ord,)))

    def discard(self, episodes: Iterable[tuple[str, int]]) -> int:
        """Discard episodes, by source and number; returns how many were not discarded before. Their steps stay in the file."""
        rows = list(episodes)

        def change(connection: sqlite3.Connection) -> None:
            connection.execute(CREATE_DISCARDED)
            connection.executemany("INSERT OR IGNORE INTO discarded VALUES (?, ?)", rows)

        return self._change(change) if rows else 0

    def discarded(self) -> set[tuple[str, int]]:
        """Discarded episodes, by source and number."""
        return set(self._rows("SELECT source, episode FROM discarded")) if self._kept() else set()

    def _kept(self) -> str:
        """The part of a query that leaves out discarded episodes; empty if the journal has no such table yet."""
        return _NOT_DISCARDED if self._rows("SELECT 1 FROM sqlite_master WHERE name = 'discarded'") else ""

    def rejected(self, after_ord: int = 0) -> list[Rejected]:
        rows = self._rows(
            "SELECT ord, source, seq, episode, step, reason FROM steps WHERE ord > ? AND status = 'rejected' ORDER BY ord", (after_ord,)
        )
        return [Rejected(*row) for row in rows]

    def counts(self, after_ord: int = 0) -> Counts:
        found = dict(self._rows("SELECT status, count(*) FROM steps WHERE ord > ? GROUP BY status", (after_ord,)))
        return Counts(found.get("accepted", 0), found.get("rejected", 0))

    def reasons(self, limit: int = 5) -> list[tuple[str, int]]:
        """Reasons for rejected steps with their counts, the most frequent first."""
        query = "SELECT reason, count(*) AS n FROM steps WHERE status = 'rejected' GROUP BY reason ORDER BY n DESC LIMIT ?"
        return [(str(reason), count) for reason, count in self._rows(query, (limit,))]

    def sources(self) -> list[Source]:
        """All sources with their counts. A source without gaps has last seq + 1 steps."""
        return [Source(*row) for row in self._rows("SELECT source, count(*), min(seq), max(seq) FROM steps GROUP BY source")]

    def episodes(self, count: int, *, before: int = 0) -> list[EpisodeRows]:
        """The `count` episodes that began last, newest first; with `before`, only those that began before that row."""
        query = (
            "SELECT source, episode, count(*), min(ord) AS first, max(ord) FROM steps WHERE status = 'accepted' "
            "GROUP BY source, episode HAVING first < ? ORDER BY first DESC LIMIT ?"
        )
        return [EpisodeRows(*row) for row in self._rows(query, (before or COUNT_LIMIT, count))]

    def episode(self, source: str, episode: int, *, between: tuple[int, int] = (0, COUNT_LIMIT)) -> list[Transition]:
        """Its accepted steps in order. `between`: the rows to search, if known, which is faster."""
        query = "SELECT ord, seq, record FROM steps WHERE source = ? AND episode = ? AND ord BETWEEN ? AND ? AND status = 'accepted'"
        rows = self._rows(f"{query} ORDER BY seq", (source, episode, *between))
        return [self._decoded(number, source, seq, record) for number, seq, record in rows]

    def last_ord(self) -> int:
        """The bookmark after everything stored so far."""
        [(last,)] = self._rows("SELECT max(ord) FROM steps")
        return last or 0

    def check(self) -> None:
        """Read every page, so that a damaged file is found now and not during use."""
        [(verdict,), *_] = self._rows("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise FileUnreadable(f"{self.path} is damaged ({verdict}). Restore it from a copy.")

    def finish(self) -> None:
        """Merge it into one file and close it. No other process may have it open."""
        try:
            [(mode,)] = self._rows("PRAGMA journal_mode = DELETE")
        except DataError as problem:
            raise DataError(f"{self.path} cannot be finished: {problem}") from None
        if mode != "delete":
            raise DataError(f"{self.path} cannot be finished: another process has it open. Close that process first.")
        self.close()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require(self, spec: Spec) -> None:
        differences = spec.data_difference(self.spec)
        if differences:
            raise SpecMismatch(
                f"{self.path} was recorded with another spec than the task '{spec.task}' has: {'; '.join(differences)} "
                "(here: the task, there: the file). Record it again with this task, or use the task it was recorded with."
            )

    def _row(self, transition: Transition) -> tuple[Any, ...]:
        _require_name(transition.source, transition.seq)
        try:
            record, reason = pack_transition(transition), self._validator.reason(transition)
        except CodecError as problem:
            record, reason = b"", str(problem)
        return self._columns(transition, reason, record)

    def _sound_row(self, source: str, seq: int, place: Place, record: bytes) -> tuple[Any, ...]:
        _require_name(source, seq)
        return source, seq, place.episode, place.step, "accepted", None, record

    def _packed_row(self, source: str, seq: int, record: bytes) -> tuple[Any, ...]:
        _require_name(source, seq)
        try:
            transition = unpack_transition(record, source, seq)
        except CodecError as problem:
            return source, seq, -1, -1, "rejected", str(problem), record
        return self._columns(transition, self._validator.reason(transition), record)

    def _columns(self, transition: Transition, reason: str | None, record: bytes) -> tuple[Any, ...]:
        status = "rejected" if reason else "accepted"
        return transition.source, int(transition.seq), _column(transition.episode), _column(transition.step), status, reason, record

    def _insert(self, rows: list[tuple[Any, ...]]) -> int:
        return self._change(lambda connection: connection.executemany(_INSERT, rows)) if rows else 0

    def _change(self, change: Callable[[sqlite3.Connection], object]) -> int:
        """Apply a change in one transaction, or not at all; returns how many rows it touched."""
        connection = self._connection
        before = connection.total_changes
        try:
            connection.execute("BEGIN IMMEDIATE")
            change(connection)
            connection.execute("COMMIT")
        except BaseException as problem:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # report the first error
                    connection.execute("ROLLBACK")
            if isinstance(problem, sqlite3.Error):
                raise storage_error(problem, self.path) from problem
            raise
        return connection.total_changes - before

    def _rows(self, query: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._connection.execute(query, parameters).fetchall()
        except sqlite3.Error as problem:
            raise storage_error(problem, self.path) from problem

    def _decoded(self, number: int, source: str, seq: int, record: bytes) -> Transition:
        try:
            return unpack_transition(record, source, seq)
        except CodecError as problem:
            raise FileUnreadable(f"{self.path}: row {number} is damaged ({problem}). Restore the file from a copy.") from None


def _column(count: Any) -> int:
    """A count that fits the column; -1 for anything else, which is then the reason of rejection."""
    return int(count) if isinstance(count, numbers.Integral) and 0 <= int(count) < COUNT_LIMIT else -1


def _require_name(source: str, seq: int) -> None:
    if not source or not 0 <= seq < COUNT_LIMIT:
        raise ValueError(f"a step needs a source and a seq from 0 to be stored exactly once; got source {source!r}, seq {seq}")

"""The durable file: steps in the order they arrived, each stored once. SQLite, for demos and online data alike.

    meta    key, value            format, version, spec (JSON), created, attributes (JSON: operator, seed, ...)
    steps   ord                   the order of arrival, 1, 2, 3, ...: a reader's bookmark
            source, seq           names the step in all the world; the same step twice is stored once
            episode, step         where it belongs
            status, reason        'accepted', or 'rejected' and why; rejected rows are kept, never trained on
            record                the step itself (`codec.pack_transition`), byte for byte as it was sent
    discarded   source, episode   episodes that a person threw away: their steps are kept, never trained on from then on

One process writes while others read. A journal that is being written has two companions
(`-wal`, `-shm`); `finish` folds them in, so that copying one file copies everything.
"""

from __future__ import annotations

import contextlib
import errno
import json
import numbers
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from tandem.codec import CodecError, pack_transition, unpack_transition
from tandem.data.screening import Place, Screen
from tandem.data.validation import COUNT_LIMIT, Validator
from tandem.errors import DataError, FileMissing, FileUnreadable, SpecMismatch, StorageFull
from tandem.types import Spec, Transition

FORMAT = "tandem-journal"
VERSION = 1
APPLICATION_ID = int.from_bytes(b"TNDM", "big")
"""In the header of every journal, so that any SQLite file is told from one of ours before it is queried."""

_MAGIC = b"SQLite format 3\x00"
_PAGE_OF_ROWS = 1000
_WAIT_FOR_LOCK_S = 10.0

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE steps (
    ord INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    seq INTEGER NOT NULL,
    episode INTEGER NOT NULL,
    step INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('accepted', 'rejected')),
    reason TEXT,
    record BLOB NOT NULL,
    UNIQUE (source, seq)
);
CREATE TABLE IF NOT EXISTS discarded (source TEXT NOT NULL, episode INTEGER NOT NULL, PRIMARY KEY (source, episode)) WITHOUT ROWID;
"""
_DISCARDED = _SCHEMA.strip().split(";\n")[-1].removesuffix(";")
"""The last statement of the schema: journals of before have no such table until the first episode is thrown away."""
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
    """One process, or one row of it, that sent steps."""

    name: str
    steps: int
    first_seq: int
    last_seq: int


class EpisodeRows(NamedTuple):
    """Where the accepted steps of an episode lie."""

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
        _reserve(path)
        try:
            connection = _connect(path, read_only=False)
            try:
                _write_schema(connection, meta, live)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as problem:
            path.unlink(missing_ok=True)
            raise _translated(problem, path) from problem
        return cls(path, connection, spec, created, attributes)

    @classmethod
    def open(cls, path: Path | str, spec: Spec | None = None, *, read_only: bool = True) -> Journal:
        """An existing file, read-only unless told otherwise; with `spec`, one of another spec is refused."""
        path = Path(path)
        _check_header(path)
        try:
            connection = _connect(path, read_only)
            try:
                meta = _read_meta(connection, path)
                _set_durability(connection)
                journal = cls(path, connection, meta.spec, meta.created, meta.attributes)
                if spec is not None:
                    journal._require(spec)
                return journal
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as problem:
            raise _translated(problem, path) from problem

    def append(self, transitions: Iterable[Transition]) -> int:
        """Store these steps in one transaction; returns how many were new. A step known already is not stored again."""
        return self._insert([self._row(transition) for transition in transitions])

    def append_packed(self, source: str, records: Iterable[tuple[int, bytes]]) -> int:
        """`append` for steps as they came over a link: (seq, `pack_transition` bytes), stored as they are."""
        return self.append_records((source, seq, record) for seq, record in records)

    def append_records(self, records: Iterable[tuple[str, int, bytes]]) -> int:
        """`append_packed` for steps of many sources, in one transaction."""
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

        Those of episodes that were thrown away are left out unless asked for.
        """
        # Page by page: a query left open would hold its snapshot, and the writer's WAL file could never be folded in.
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
        """Remove the steps after a bookmark, for a simulation that goes back there and lives them again; returns how many."""
        return self._change(lambda connection: connection.execute("DELETE FROM steps WHERE ord > ?", (ord,)))

    def discard(self, episodes: Iterable[tuple[str, int]]) -> int:
        """Throw away episodes, by source and number; returns how many had not been thrown away before. Their steps stay in the file."""
        rows = list(episodes)

        def change(connection: sqlite3.Connection) -> None:
            connection.execute(_DISCARDED)
            connection.executemany("INSERT OR IGNORE INTO discarded VALUES (?, ?)", rows)

        return self._change(change) if rows else 0

    def discarded(self) -> set[tuple[str, int]]:
        """Episodes that were thrown away."""
        return set(self._rows("SELECT source, episode FROM discarded")) if self._kept() else set()

    def _kept(self) -> str:
        """The part of a query that leaves out what was thrown away; empty in a journal where nothing ever was."""
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
        """Why steps were rejected, and how many for that reason; the most frequent first."""
        query = "SELECT reason, count(*) AS n FROM steps WHERE status = 'rejected' GROUP BY reason ORDER BY n DESC LIMIT ?"
        return [(str(reason), count) for reason, count in self._rows(query, (limit,))]

    def sources(self) -> list[Source]:
        """Who sent steps, and how many: a source without gaps has as many as its last seq says."""
        return [Source(*row) for row in self._rows("SELECT source, count(*), min(seq), max(seq) FROM steps GROUP BY source")]

    def episodes(self, count: int, *, before: int = 0) -> list[EpisodeRows]:
        """The `count` episodes that began last, newest first; with `before`, of those that began before that row."""
        query = (
            "SELECT source, episode, count(*), min(ord) AS first, max(ord) FROM steps WHERE status = 'accepted' "
            "GROUP BY source, episode HAVING first < ? ORDER BY first DESC LIMIT ?"
        )
        return [EpisodeRows(*row) for row in self._rows(query, (before or COUNT_LIMIT, count))]

    def episode(self, source: str, episode: int, *, between: tuple[int, int] = (0, COUNT_LIMIT)) -> list[Transition]:
        """Its accepted steps, in their order; `between` which rows they lie, where that is known, saves looking at all others."""
        query = "SELECT ord, seq, record FROM steps WHERE source = ? AND episode = ? AND ord BETWEEN ? AND ? AND status = 'accepted'"
        rows = self._rows(f"{query} ORDER BY seq", (source, episode, *between))
        return [self._decoded(number, source, seq, record) for number, seq, record in rows]

    def last_ord(self) -> int:
        """The bookmark after everything stored so far."""
        [(last,)] = self._rows("SELECT max(ord) FROM steps")
        return last or 0

    def last_seq(self, source: str) -> int:
        """The highest seq stored from this source, -1 if none: where a sender may take up again."""
        [(seq,)] = self._rows("SELECT max(seq) FROM steps WHERE source = ?", (source,))
        return -1 if seq is None else seq

    def check(self) -> None:
        """Read every page: a damaged file is refused here rather than in the middle of its use."""
        [(verdict,), *_] = self._rows("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise FileUnreadable(f"{self.path} is damaged ({verdict}). Restore it from a copy.")

    def finish(self) -> None:
        """Make it one plain file and close it. Nobody else may have it open."""
        try:
            [(mode,)] = self._rows("PRAGMA journal_mode = DELETE")
        except DataError as problem:
            raise DataError(f"{self.path} cannot be finished: {problem}") from None
        if mode != "delete":
            raise DataError(f"{self.path} cannot be finished: another process has it open. Close that one first.")
        self.close()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require(self, spec: Spec) -> None:
        differences = spec.difference(self.spec)
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
        """In one transaction, or not at all; returns how many rows it touched."""
        connection = self._connection
        before = connection.total_changes
        try:
            connection.execute("BEGIN IMMEDIATE")
            change(connection)
            connection.execute("COMMIT")
        except BaseException as problem:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # the first error is the one to tell
                    connection.execute("ROLLBACK")
            if isinstance(problem, sqlite3.Error):
                raise _translated(problem, self.path) from problem
            raise
        return connection.total_changes - before

    def _rows(self, query: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._connection.execute(query, parameters).fetchall()
        except sqlite3.Error as problem:
            raise _translated(problem, self.path) from problem

    def _decoded(self, number: int, source: str, seq: int, record: bytes) -> Transition:
        try:
            return unpack_transition(record, source, seq)
        except CodecError as problem:
            raise FileUnreadable(f"{self.path}: row {number} is damaged ({problem}). Restore the file from a copy.") from None


class _Meta(NamedTuple):
    spec: Spec
    created: str
    attributes: dict[str, Any]


def _reserve(path: Path) -> None:
    try:
        path.open("xb").close()
    except FileExistsError:
        raise DataError(f"{path} exists already; a journal is never written over. Choose another name, or open it to append.") from None
    except OSError as problem:
        kind = StorageFull if problem.errno in (errno.ENOSPC, errno.EDQUOT) else DataError
        raise kind(f"cannot create {path}: {problem.strerror}.") from None


def _connect(path: Path, read_only: bool) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
    # Autocommit: transactions are begun and ended where they can be seen.
    return sqlite3.connect(uri, uri=True, timeout=_WAIT_FOR_LOCK_S, isolation_level=None, check_same_thread=False)


def _write_schema(connection: sqlite3.Connection, meta: Mapping[str, str], live: bool) -> None:
    if live:
        connection.execute("PRAGMA journal_mode = WAL")  # readers and the writer do not wait for each other
    _set_durability(connection)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA.strip().split(";\n"):
        connection.execute(statement)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    connection.execute("COMMIT")


def _set_durability(connection: sqlite3.Connection) -> None:
    """FULL: a commit is on the disk when it returns. NORMAL, in WAL mode: no wait for the disk.

    With NORMAL a commit survives the death of the process at once, and the loss of power once the WAL has been
    folded in (every 4 MB). The file stays sound in any case, and a group costs microseconds instead of a disk flush.
    """
    [(mode,)] = connection.execute("PRAGMA journal_mode").fetchall()
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")


def _read_meta(connection: sqlite3.Connection, path: Path) -> _Meta:
    [(application_id,)] = connection.execute("PRAGMA application_id").fetchall()
    if application_id != APPLICATION_ID:
        raise FileUnreadable(f"{path} is an SQLite database, but not a Tandem journal (application id {application_id:#x}).")
    meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    if meta.get("format") != FORMAT or meta.get("version") != str(VERSION):
        raise FileUnreadable(
            f"{path} is a '{meta.get('format')}' of version {meta.get('version')}; this Tandem reads '{FORMAT}' of version {VERSION}. "
            "Use the version of Tandem that wrote it, or a newer one."
        )
    try:
        return _Meta(Spec.from_json(json.loads(meta["spec"])), meta["created"], json.loads(meta["attributes"]))
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise FileUnreadable(f"{path} has damaged meta data ({type(problem).__name__}: {problem}). Restore it from a copy.") from None


def _check_header(path: Path) -> None:
    """Tell apart what SQLite would call by one name: missing, not a database, cut off."""
    if not path.exists():
        raise FileMissing(f"there is no file {path} (looked in {path.absolute().parent}).")
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as problem:
        raise FileUnreadable(f"cannot read {path}: {problem.strerror}") from None
    size = path.stat().st_size
    if not header.startswith(_MAGIC):
        raise FileUnreadable(f"{path} is not a Tandem journal: it {'is empty' if not header else f'begins with {header[:8]!r}'}.")
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    pages = int.from_bytes(header[28:32], "big")
    pending = any(Path(f"{path}{suffix}").exists() for suffix in ("-wal", "-journal"))  # these may hold the rest
    if len(header) < 100 or (size < pages * page_size and not pending):
        raise FileUnreadable(
            f"{path} is cut off: it has {size} bytes and should have {pages * page_size}. "
            "A copy that was interrupted? Copy it again, with its '-wal' file if there is one."
        )


def _translated(problem: sqlite3.Error, path: Path) -> Exception:
    """Our word for an SQLite failure; what is a mistake in the program stays what it is."""
    name = getattr(problem, "sqlite_errorname", "")
    # A file-size limit or a quota is not SQLITE_FULL but a failed write.
    if name == "SQLITE_FULL" or name.startswith(("SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_SHM", "SQLITE_IOERR_TRUNCATE")):
        return StorageFull(
            f"no more room to write {path} ({problem}; {name}): disk full, quota or file-size limit. "
            "What was stored before is intact; the last group was not stored. Make room and continue."
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return DataError(
            f"{path} is locked by another process ({problem}); waited {_WAIT_FOR_LOCK_S:.0f} s. One process writes, others only read."
        )
    if name.startswith("SQLITE_READONLY"):
        return DataError(f"{path} was opened for reading, or cannot be written ({problem}).")
    if name.startswith(
        ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_ERROR", "SQLITE_PERM", "SQLITE_AUTH")
    ):
        return FileUnreadable(f"cannot read {path} ({problem}; {name}): damaged, cut off, or not ours.")
    return problem


def _column(count: Any) -> int:
    """A count as the file can hold it; -1 for what is no count, which is then part of the row's reason."""
    return int(count) if isinstance(count, numbers.Integral) and 0 <= int(count) < COUNT_LIMIT else -1


def _require_name(source: str, seq: int) -> None:
    if not source or not 0 <= seq < COUNT_LIMIT:
        raise ValueError(f"a step needs a source and a seq from 0 to be stored exactly once; got source {source!r}, seq {seq}")

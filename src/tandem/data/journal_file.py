"""A journal as an SQLite file: made, opened, checked and finished; header, schema, meta data, and errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import json
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from tandem.errors import DataError, FileMissing, FileUnreadable, SpecMismatch, StorageFull
from tandem.files import Durability, sync
from tandem.types import Spec

FORMAT = "tandem-journal"
VERSION = 1
APPLICATION_ID = int.from_bytes(b"TNDM", "big")
"""In the header of every journal, to recognise other SQLite files before any query."""

_MAGIC = b"SQLite format 3\x00"
_WAIT_FOR_LOCK_S = 10.0
_UNREADABLE = tuple(f"SQLITE_{name}" for name in ("CORRUPT", "NOTADB", "CANTOPEN", "IOERR", "ERROR", "PERM", "AUTH", "INTERRUPT"))
_FRAME_PAGE = 2**15
"""Bytes of a page in a file with frames: of 4 kB, SQLite's own, frames of 2 to 4 kB would leave half empty."""
_OPENING_S = 5.0
"""To read the meta data; it takes milliseconds."""

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
CREATE_DISCARDED = _SCHEMA.strip().split(";\n")[-1].removesuffix(";")
"""The last statement of the schema: older journals get this table with their first discarded episode."""
CREATE_FRAMES = "CREATE TABLE IF NOT EXISTS frames (digest BLOB PRIMARY KEY, codec TEXT NOT NULL, record BLOB NOT NULL)"
"""Only journals of tasks with pictures have this table (`frames.py`). Without row numbers every picture would take whole pages."""

CREATE_FEATURES = (
    "CREATE TABLE IF NOT EXISTS features (digest BLOB NOT NULL, camera TEXT NOT NULL, record BLOB NOT NULL, PRIMARY KEY (digest, camera))"
)
"""Only journals of runs with cameras have this table (`seen.py`)."""


class Meta(NamedTuple):
    """The meta data of a journal."""

    spec: Spec
    created: str
    attributes: dict[str, Any]


class JournalFile(ABC):
    """The file of a journal and the connection to it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, spec: Spec, created: str, attributes: Mapping[str, Any]) -> None:
        self.path = path
        self.spec = spec
        self.created = created
        """Local time with its offset, ISO 8601."""
        self.attributes = attributes
        self._connection = connection

    @classmethod
    def create(cls, path: Path | str, spec: Spec, *, live: bool = True, durability: Durability = "power", **attributes: Any) -> Self:
        """A new file. `live`: written often and read meanwhile (WAL); otherwise each commit goes to the one file, and to the disk."""
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
                seen = any(entry.role in ("image", "features") for entry in spec.observation.values())
                write_schema(connection, meta, live, durability, _FRAME_PAGE if seen else None)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as problem:
            path.unlink(missing_ok=True)
            raise storage_error(problem, path) from problem
        return cls(path, connection, spec, created, attributes)

    @classmethod
    def open(cls, path: Path | str, spec: Spec | None = None, *, read_only: bool = True, durability: Durability = "power") -> Self:
        """An existing file, read-only by default. With `spec`, a file of another spec is refused."""
        path = Path(path)
        check_header(path)
        try:
            connection = connect(path, read_only)
            try:
                meta = read_meta(connection, path)
                set_durability(connection, durability)
                journal = cls(path, connection, meta.spec, meta.created, meta.attributes)
                if spec is not None:
                    journal._require(spec)
                return journal
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as problem:
            raise storage_error(problem, path) from problem
        except UnicodeDecodeError as problem:  # in the name of a table
            raise FileUnreadable(f"cannot read {path} ({problem}): damaged, or not a Tandem journal.") from None

    def describe(self, **attributes: Any) -> None:
        """Add to the attributes of the file."""
        self.attributes = {**self.attributes, **attributes}
        try:  # autocommit: one statement is one transaction
            self._connection.execute("UPDATE meta SET value = ? WHERE key = 'attributes'", (json.dumps(self.attributes),))
        except sqlite3.Error as problem:
            raise storage_error(problem, self.path) from problem

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

    def flush(self) -> None:
        """Wait until everything stored so far is on the disk: for a journal with durability `process`, before something relies on it."""
        for file in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            with contextlib.suppress(FileNotFoundError):
                sync(file)
        sync(self.path.parent)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
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

    @abstractmethod
    def _rows(self, query: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """All rows that a query finds."""
        ...


def reserve(path: Path) -> None:
    """Create an empty file that did not exist before."""
    try:
        path.open("xb").close()
    except FileExistsError:
        raise DataError(f"{path} exists already; a journal is never written over. Choose another name, or open it to append.") from None
    except OSError as problem:
        kind = StorageFull if problem.errno in (errno.ENOSPC, errno.EDQUOT) else DataError
        raise kind(f"cannot create {path}: {problem.strerror}.") from None


def connect(path: Path, read_only: bool) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
    # Autocommit: transactions are begun and ended explicitly.
    return sqlite3.connect(uri, uri=True, timeout=_WAIT_FOR_LOCK_S, isolation_level=None, check_same_thread=False)


def write_schema(
    connection: sqlite3.Connection, meta: Mapping[str, str], live: bool, durability: Durability, page_bytes: int | None = None
) -> None:
    if page_bytes is not None:
        connection.execute(f"PRAGMA page_size = {page_bytes}")
    if live:
        connection.execute("PRAGMA journal_mode = WAL")  # readers and the writer do not block each other
    set_durability(connection, durability)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA.strip().split(";\n"):
        connection.execute(statement)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    connection.execute("COMMIT")


def set_durability(connection: sqlite3.Connection, durability: Durability) -> None:
    """FULL: a commit is on the disk when it returns, and only then do other processes see it. NORMAL: no wait for the disk.

    With NORMAL a commit survives the death of the process at once, but the loss of power only once the WAL has been merged into the
    file (every 4 MB). The file stays intact in any case. Without WAL there is no such middle: NORMAL could damage the file.
    """
    [(mode,)] = connection.execute("PRAGMA journal_mode").fetchall()
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' and durability == 'process' else 'FULL'}")


def read_meta(connection: sqlite3.Connection, path: Path) -> Meta:
    [(application_id,)] = connection.execute("PRAGMA application_id").fetchall()
    if application_id != APPLICATION_ID:
        raise FileUnreadable(f"{path} is an SQLite database, but not a Tandem journal (application id {application_id:#x}).")
    with _time_bound(connection):
        _check_schema(connection, path)
        meta = dict(connection.execute("SELECT key, value FROM meta LIMIT 100").fetchall())
    if meta.get("format") != FORMAT or meta.get("version") != str(VERSION):
        raise FileUnreadable(
            f"{path} is a '{meta.get('format')}' of version {meta.get('version')}; this Tandem reads '{FORMAT}' of version {VERSION}. "
            "Use the version of Tandem that wrote it, or a newer one."
        )
    try:
        return Meta(Spec.from_json(json.loads(meta["spec"])), meta["created"], json.loads(meta["attributes"]))
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        raise FileUnreadable(f"{path} has damaged meta data ({type(problem).__name__}: {problem}). Restore it from a copy.") from None


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Only the tables of a journal, word for word. A view or a trigger is a program: a hostile one may never end."""
    connection.execute("PRAGMA trusted_schema = OFF")
    known = {_words(statement) for statement in (*_SCHEMA.split(";\n"), CREATE_FRAMES, CREATE_FEATURES)}
    for kind, name, statement in connection.execute("SELECT type, name, sql FROM sqlite_master LIMIT 100"):
        if not str(name).startswith("sqlite_") and _words(str(statement)) not in known:
            raise FileUnreadable(
                f"{path} has a {kind} '{name!s:.60}' that no journal of Tandem has. It was not used. The file was changed by another "
                f"program, or it is hostile; use the original."
            )


def _words(statement: str) -> str:
    return " ".join(statement.replace("IF NOT EXISTS ", "").split())


@contextlib.contextmanager
def _time_bound(connection: sqlite3.Connection) -> Iterator[None]:
    """Queries that take a moment in every journal end with an error after seconds."""
    until = time.monotonic() + _OPENING_S
    connection.set_progress_handler(lambda: time.monotonic() > until, 10_000)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def check_header(path: Path) -> None:
    """Distinguish what SQLite reports as one error: missing, not a database, truncated."""
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
            "Was a copy interrupted? Copy it again, with its '-wal' file if there is one."
        )


def storage_error(problem: sqlite3.Error, path: Path) -> Exception:
    """The error that a person reads, for an SQLite failure. A programming mistake is returned unchanged."""
    try:
        name = problem.sqlite_errorname
    except AttributeError:  # raised by Python's sqlite3 itself, not by SQLite
        name = ""
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
    if name.startswith(_UNREADABLE) or "decode to UTF-8" in str(problem):
        return FileUnreadable(f"cannot read {path} ({problem}; {name}): damaged, cut off, or not a Tandem journal.")
    return problem

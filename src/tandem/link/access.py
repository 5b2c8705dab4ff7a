"""Credentials of a run, and the sessions of its pages.

    access.json     credentials, written by `tandem access` and read again by a living hub when it changes (mode 0600)
    sessions.json   pages that are logged in, written by the hub (mode 0600), so that they outlive a restart of the hub

Neither file holds a secret, only an HMAC-SHA256 of each under a random salt of its own. A slow hash, as for passwords, would add nothing:
a secret here is 256 random bits, which nobody finds by trying, and a hub checks one for every request.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tandem.errors import ConfigError, FileUnreadable, StorageFull
from tandem.files import whole_or_nothing
from tandem.link.fields import MAX_NAME
from tandem.link.roles import ROLES, Role, may
from tandem.runs.folder import RunFolder, read_json

TOKEN_NAME = "token"
"""The name of the credential in the run's file `token`; its role is admin."""
ACTORS_NAME = "actors"
"""The name of the credential in the file `actors_token`: of the actors that `tandem train` starts itself."""
MAX_SESSIONS = 500
_LOOK_S = 0.5
"""Between two looks at the files: how soon a change takes effect."""


@dataclass(frozen=True)
class Credential:
    """One line of access.json."""

    name: str
    role: Role
    id: str
    """The first part of its token, by which it is found."""
    salt: str
    hash: str
    made_at: float
    expires_at: float | None = None
    """Seconds since 1970; None: until it is revoked."""


@dataclass(eq=False)
class Who:
    """Somebody who has shown a credential. One object for each credential, and one for each session of a page."""

    name: str
    role: Role
    ends: float | None = None
    """By the monotonic clock; None: when it is revoked."""
    valid: bool = True
    """False once it was revoked or its time is over."""

    def may(self, right: str) -> bool:
        return self.valid and may(self.role, right)


@dataclass(frozen=True)
class Asker:
    """Who asks for something, from where, and over which way in."""

    who: Who
    address: str = "here"
    via: str = "here"

    @property
    def label(self) -> str:
        """For the lines in `commands.jsonl`."""
        return f"{self.via}: {self.who.name}"


HERE = Asker(Who("this process", "admin"))
"""The program that runs the hub itself."""


@dataclass(frozen=True)
class Session:
    """A page that is logged in. Its id is in the browser's cookie alone, its key in what the browser keeps for this server's pages alone.

    A cookie goes to every port of its host, so that another server there could use it again; the key goes to this one only.
    """

    hash: str
    key: str
    name: str
    credential: str
    """Which credential logged it in: with that one it ends."""
    role: Role
    expires_at: float


# ---- the file, for `tandem access`


class AccessFile:
    """Makes, lists and revokes the credentials of a run."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def list(self) -> list[Credential]:
        return list(_read_credentials(self._folder.access_file))

    def add(self, name: str, role: Role, hours: float | None = None) -> str:
        """Make a credential; returns its token, which is nowhere else from then on."""
        if role not in ROLES:
            raise ConfigError(f"no role '{role}'; there are {', '.join(ROLES)}")
        if not 0 < len(name) <= MAX_NAME or not name.isprintable() or name == TOKEN_NAME:
            raise ConfigError(
                f"a credential has a name of 1 to {MAX_NAME} printable characters other than '{TOKEN_NAME}'; got {name!r:.120}"
            )
        if hours is not None and not 0 < hours < 1e6:
            raise ConfigError(f"--hours must be more than 0, got {hours}")
        with self._alone():
            known = self.list()
            if any(credential.name == name for credential in known):
                raise ConfigError(
                    f"there is a credential '{name}' already; revoke it first (`tandem access {self._folder.path} revoke '{name}'`)"
                )
            token, now = f"{secrets.token_hex(4)}.{secrets.token_urlsafe(32)}", time.time()
            salt = secrets.token_hex(16)
            made = Credential(
                name, role, token.partition(".")[0], salt, _hash(salt, token), now, None if hours is None else now + 3600 * hours
            )
            self._write([*known, made])
        return token

    def make_for_actors(self) -> None:
        """The credential of the actors that a new run starts itself: they need no more than an actor's role.

        One for all of them: they share the run's spool folder, and each sends what another has left behind.
        """
        _write_private(self._folder.actors_token_file, self.add(ACTORS_NAME, "actor").encode())

    def revoke(self, name: str) -> None:
        """From a second later on it opens nothing, and what it has opened is closed. The token of the run is replaced by a new one."""
        with self._alone():
            if name == TOKEN_NAME:
                _write_private(self._folder.token_file, secrets.token_urlsafe(32).encode())
                return
            known = self.list()
            if all(credential.name != name for credential in known):
                names = ", ".join(f"'{credential.name}'" for credential in known) or "none"
                raise ConfigError(f"there is no credential '{name}' in {self._folder.access_file}; there are: {names}, and '{TOKEN_NAME}'")
            self._write([credential for credential in known if credential.name != name])

    def _write(self, credentials: list[Credential]) -> None:
        _write_private(self._folder.access_file, json.dumps({"credentials": [asdict(each) for each in credentials]}, indent=1).encode())

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One command at a time changes the file."""
        folder = os.open(self._folder.path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def _read_credentials(path: Path) -> Iterator[Credential]:
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError) as problem:
        raise FileUnreadable(f"the credentials in {path} cannot be read: {problem}. Make them anew: move the file away.") from None
    try:
        for each in data["credentials"]:
            credential = Credential(**each)
            times = (credential.made_at, 0.0 if credential.expires_at is None else credential.expires_at)
            if credential.role not in ROLES or not all(type(time) in (int, float) and abs(time) < 1e15 for time in times):
                raise ValueError(f"role {credential.role!r:.50}, times {times!r:.50}")
            if not all(_is_plain(text) for text in (credential.id, credential.salt, credential.hash)) or type(credential.name) is not str:
                raise ValueError("a name, id, salt or hash that is no text")
            yield credential
    except (KeyError, TypeError, ValueError) as problem:
        raise FileUnreadable(f"{path} is no list of credentials: {problem!r:.200}. Make them anew: move the file away.") from None


def _is_plain(text: object) -> bool:
    """Hashes are compared as ASCII."""
    return isinstance(text, str) and text.isascii()


def _write_private(path: Path, data: bytes) -> None:
    """For its owner alone from the first byte on."""
    try:
        with whole_or_nothing(path) as partial:
            partial.unlink(missing_ok=True)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
    except OSError as problem:
        raise StorageFull(f"cannot write {path}: {problem.strerror}. What was there before is intact.") from problem


def _hash(salt: str, secret: str) -> str:
    return hmac.new(salt.encode(), secret.encode(), "sha256").hexdigest()


# ---- for the hub


class Access:
    """Checks tokens and sessions, and looks at the files again when they change.

    `token`: in place of the run's own. What was revoked, or is over, has `Who.valid` False from the next `look` on.
    """

    def __init__(
        self,
        folder: RunFolder,
        token: str | None = None,
        session_hours: float = 12.0,
        wall: Callable[[], float] = time.time,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._folder, self._token, self._session_hours, self._wall, self._say = folder, token, session_hours, wall, say
        self._salt = secrets.token_hex(16)
        self._credentials: dict[str, tuple[Credential, Who]] = {}
        self._sessions: dict[str, tuple[Session, Who]] = {}
        self._stamps: tuple[object, ...] = ()
        self._looked_at = 0.0
        self._admin = self._run_token()
        self._read_sessions()
        self.look(at_once=True)

    def by_token(self, token: str) -> Who | None:
        """Who has this token; None for a wrong one."""
        id = token.partition(".")[0]
        self.look(at_once=id not in self._credentials)  # it may have been made a moment ago
        credential, who = self._credentials.get(id, self._admin)
        right = hmac.compare_digest(_hash(credential.salt, token), credential.hash)  # constant time
        return who if right and who.valid else None

    def by_cookie(self, secret: str) -> Who | None:
        """Whose cookie this is. It may have come from another server on this host, so it opens nothing but the empty page."""
        self.look()
        _, who = self._sessions.get(_hash("session", secret), (None, None))
        return who if who is not None and who.valid else None

    def by_session(self, secret: str, key: str) -> Who | None:
        """Who is at this page, by its cookie and its key."""
        who = self.by_cookie(secret)
        session, _ = self._sessions.get(_hash("session", secret), (None, None))
        return who if session is not None and hmac.compare_digest(session.key, _hash("page", key)) else None

    def open_session(self, who: Who) -> tuple[str, str]:
        """Log a page in; returns what its cookie holds, and its key."""
        secret, key, ends = secrets.token_urlsafe(32), secrets.token_urlsafe(32), time.monotonic() + 3600 * self._session_hours
        page = Who(who.name, who.role, ends if who.ends is None else min(ends, who.ends))
        expires_at = self._wall() + 3600 * self._session_hours
        session = Session(_hash("session", secret), _hash("page", key), who.name, self._id_of(who), who.role, expires_at)
        while len(self._sessions) >= MAX_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))[1].valid = False
        self._sessions[session.hash] = (session, page)
        self._save_sessions()
        return secret, key

    def end_session(self, secret: str) -> None:
        found = self._sessions.pop(_hash("session", secret), None)
        if found is not None:
            found[1].valid = False
            self._save_sessions()

    def look(self, at_once: bool = False) -> None:
        """Read the files again if they have changed, at most twice a second, and end what is over."""
        now = time.monotonic()
        if not at_once and now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        stamps = tuple(_stamp(path) for path in (self._folder.access_file, self._folder.token_file))
        if stamps != self._stamps:
            self._stamps = stamps
            self._read_token()
            self._read_credentials()
        for _, who in (*self._credentials.values(), *self._sessions.values()):
            who.valid = who.valid and (who.ends is None or now < who.ends)
        self._end_sessions()

    def _run_token(self) -> tuple[Credential, Who]:
        token = self._token or self._folder.token
        return Credential(TOKEN_NAME, "admin", _hash("token", token)[:16], self._salt, _hash(self._salt, token), 0.0), Who(
            TOKEN_NAME, "admin"
        )

    def _read_token(self) -> None:
        found = self._run_token()
        if found[0] != self._admin[0]:
            self._admin[1].valid = False
            self._admin = found

    def _read_credentials(self) -> None:
        """A file that cannot be read changes nothing: a damaged one neither locks everyone out nor lets anyone in."""
        try:
            found = {credential.id: credential for credential in _read_credentials(self._folder.access_file)}
        except FileUnreadable as problem:
            self._say(f"[HUB] {problem}")
            return
        for id, (credential, who) in list(self._credentials.items()):
            if found.get(id) != credential:
                who.valid = False
                del self._credentials[id]
        for id, credential in found.items():
            if id not in self._credentials:
                self._credentials[id] = (credential, Who(credential.name, credential.role, self._deadline(credential.expires_at)))

    def _read_sessions(self) -> None:
        found = read_json(self._folder.sessions_file)
        for row in found if isinstance(found, list) else []:
            with contextlib.suppress(TypeError, OverflowError):  # a page whose row is damaged logs in again
                session = Session(**row)
                if not all(_is_plain(text) for text in (session.hash, session.key, session.credential)) or session.role not in ROLES:
                    continue
                self._sessions[session.hash] = (session, Who(session.name, session.role, self._deadline(session.expires_at)))

    def _deadline(self, expires_at: float | None) -> float | None:
        """By the monotonic clock: a wall clock that jumps later on ends nothing and prolongs nothing."""
        return None if expires_at is None else time.monotonic() + expires_at - self._wall()

    def _end_sessions(self) -> None:
        """Those whose time is over, and those of a credential that is not valid any more."""
        living = {credential.id for credential, who in (self._admin, *self._credentials.values()) if who.valid}
        over = [key for key, (session, who) in self._sessions.items() if not who.valid or session.credential not in living]
        for key in over:
            self._sessions.pop(key)[1].valid = False
        if over:
            self._save_sessions()

    def _id_of(self, who: Who) -> str:
        return next((credential.id for credential, known in (self._admin, *self._credentials.values()) if known is who), "")

    def _save_sessions(self) -> None:
        with contextlib.suppress(StorageFull):  # a full disk: they live as long as this hub
            rows = [asdict(session) for session, _ in self._sessions.values()]
            _write_private(self._folder.sessions_file, json.dumps(rows).encode())


def _stamp(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size

"""The check in front of everything, for HTTP requests and WebSockets alike: is it meant for this server, who is it, and may they?

A program sends its token in a header. A browser sends it once, as `/?token=TOKEN`, and gets the two halves of a session:

    cookie   its id. Scripts cannot read it and other sites cannot make the browser send it, but browsers send it to every port of this host
    key      in the address of the redirect, behind a '#'. The page keeps it in the browser's storage, which belongs to this port alone,
             and shows it with every request and WebSocket (assets/session.js)

The cookie alone opens the page without any content, its scripts and nothing else. Requests that change something, and WebSockets, must
also come from pages of this server (`Origin`). The link of actors takes no session.

    roles.py    who may do what        access.py   credentials and sessions        door.py    connections that have shown nothing yet
    hosts.py    names of this server   audit.py    the log of who did what
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
import urllib.parse
from collections import Counter, deque
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tandem.link.access import Access, Asker, Who
from tandem.link.audit import Allowances, Audit
from tandem.link.door import BACKLOG, Door, guarded_protocol
from tandem.link.hosts import HostNames
from tandem.link.roles import why_not

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_ADVICE = (
    "The token is missing or wrong. Send the header 'Authorization: Bearer TOKEN' with the token of the run "
    "(the file 'token' in its folder on the learner's machine), or with one that `tandem access RUN add` made."
)
_LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tandem</title><style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:12vh auto;
padding:0 1rem}input,button{font:inherit;padding:.5rem .7rem;width:100%;box-sizing:border-box;margin:.3rem 0}</style>
<h1>Tandem</h1><p id="why">This page needs a token of the run. Open the link that was printed when the run started, or enter the
content of the file <code>token</code> in the run folder, or the token that you were given. A session ends after some hours.</p>
<form action="/" method="get"><label for="token">Token</label><input id="token" name="token" type="password" autocomplete="off" autofocus>
<button>Open the page</button></form><p><small>Programs: ADVICE</small></p></html>""".replace("ADVICE", _ADVICE)
PAGE_HEADERS = [
    # nothing is loaded from other sites, and no other site can put this page into a frame
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'; "
        b"frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
FREE_FAILURES, FAILURES_PER_S, SLOWED_S = 40, 0.1, 1.0
"""Wrong tokens of one address that are answered at once, how many more of them per second, and how long every further answer waits. A right
token is never made to wait."""
RECENT_S = 600.0
"""Failed logins are shown for so long."""
_LOOK_S = 0.5
_EMPTY_PAGE, _SCRIPTS = ("/", "/favicon.ico"), ("/page/assets/", "/_nicegui/", "/_nicegui_ws/")
"""What a browser may load with the cookie alone: nothing of the run is in it, except the name of its task."""
_FOR_ACTORS_TOO = ("/api/status", "/api/clocks", "/api/findings", "/api/me")


MESSAGES_AFTER_CLOSE = 100
"""Messages that may be under way when the hub closes a WebSocket."""


@dataclass(eq=False)
class _OpenSocket:
    """A WebSocket that was let in."""

    who: Who
    send: Send


class FailedLogins:
    """Wrong tokens: counted, written to the audit log, and slowed."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._free = Allowances(FREE_FAILURES, FAILURES_PER_S)
        self._recent: deque[tuple[float, str]] = deque(maxlen=10_000)

    async def add(self, address: str, what: str) -> None:
        """Returns when the answer may be sent."""
        host = address.rpartition(":")[0]
        self._recent.append((time.monotonic(), host))
        self._audit.failed_login(address, what)
        if not self._free.take(host):
            await asyncio.sleep(SLOWED_S)

    def recent(self) -> tuple[int, str]:
        """How many there were in the last minutes, and the address that most of them came from."""
        while self._recent and time.monotonic() - self._recent[0][0] > RECENT_S:
            self._recent.popleft()
        hosts = Counter(host for _, host in self._recent)
        return len(self._recent), max(hosts, key=lambda host: hosts[host], default="")


class FirmlyClosed(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, which would read and discard for ten seconds what a client sends that does not care that it was closed."""

    _since_closed = 0

    def send_receive_event_to_app(self) -> None:
        self._since_closed += self.close_sent
        if self._since_closed > MESSAGES_AFTER_CLOSE:
            self.transport.abort()
        else:
            super().send_receive_event_to_app()


class Guard:
    """Lets those through who may: actors to `link`, everybody else to `app`. Both find the `Asker` in the scope."""

    def __init__(self, app: App, link: App, access: Access, door: Door, hosts: HostNames, audit: Audit) -> None:
        self._app, self._link = app, link
        self._access, self._door, self._hosts, self._audit = access, door, hosts, audit
        self.failed = FailedLogins(audit)
        self._sockets: set[_OpenSocket] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            watching = asyncio.create_task(self._watch())
            try:
                await self._app(scope, receive, send)
            finally:
                watching.cancel()
            return
        if not self._hosts.known(_header(scope, b"host"), (scope.get("server") or ("", 0))[0]):
            await _refuse(scope, receive, send, 421, "wrong_host", "This server does not answer under this name (--host-name adds one).")
            self._door.forget(scope["client"])
            return
        address = ":".join(str(part) for part in scope.get("client") or ())
        token, who, via = self._recognise(scope)
        if who is None:
            if token is not None:
                await self.failed.add(address, f"{scope['path'][:100]} with a wrong token")
            await _refuse(scope, receive, send, 401, "wrong_token", _ADVICE, _LOGIN)
            self._door.forget(scope["client"])  # the guarded protocol does not see an upgraded connection any more
            return
        self._door.forget(scope["client"])
        scope["asker"] = asker = Asker(who, address, via)
        await self._let_in(asker, scope, receive, send)

    async def _let_in(self, asker: Asker, scope: Scope, receive: Receive, send: Send) -> None:
        right = _right(scope)
        if not asker.who.may(right):
            self._audit.asked(asker, right, False, path=scope["path"][:100])
            await _refuse(scope, receive, send, 403, "not_allowed", why_not(asker.who.name, asker.who.role, right))
        elif asker.via == "login":
            self._audit.asked(asker, "login", True)
            await self._log_in(asker, scope, send)
        elif scope["type"] == "http" and scope["path"] == "/logout" and scope["method"] == "POST":
            await self._log_out(asker, scope, send)
        elif scope["type"] == "websocket":
            await self._serve_socket(asker.who, scope, receive, send)
        else:
            await self._app(scope, receive, _with_page_headers(send))

    async def _serve_socket(self, who: Who, scope: Scope, receive: Receive, send: Send) -> None:
        """Until it closes, or what let it in is not valid any more: from then on nothing that it sends arrives."""

        async def receive_while_valid() -> MutableMapping[str, Any]:
            event = await receive()
            return event if who.valid else {"type": "websocket.disconnect", "code": 1008}

        socket = _OpenSocket(who, send)
        self._sockets.add(socket)
        try:
            await (self._link if scope["path"] == "/link" else self._app)(scope, receive_while_valid, send)
        finally:
            self._sockets.discard(socket)

    async def _watch(self) -> None:
        """Close the WebSockets of those who were revoked."""
        while True:
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(Exception):  # whatever it is: looking again in half a second is better than never
                self._access.look()
                await self._close_invalid()

    async def _close_invalid(self) -> None:
        for socket in [socket for socket in self._sockets if not socket.who.valid]:
            self._sockets.discard(socket)
            with contextlib.suppress(Exception):  # it is closing already
                async with asyncio.timeout(_LOOK_S):
                    await socket.send({"type": "websocket.close", "code": 1008, "reason": "this credential or session has ended"})

    # ---- who it is

    def _recognise(self, scope: Scope) -> tuple[str | None, Who | None, str]:
        """The token or session that was shown, if any; who that is; and the way: api, link, page or login."""
        via = "link" if scope["type"] == "websocket" and scope["path"] == "/link" else "api"
        shown = [value.decode("latin-1") for value in _header(scope, b"authorization")]
        if shown:
            kind, _, token = shown[0].partition(" ")
            right_form = len(shown) == 1 and kind == "Bearer" and token.isascii()
            return token, self._access.by_token(token) if right_form else None, via
        if scope["type"] == "http" and scope["path"] == "/" and scope["method"] == "GET":
            tokens = urllib.parse.parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
            if tokens:
                return tokens[0], self._access.by_token(tokens[0]) if len(tokens) == 1 else None, "login"
        session = _cookie(scope)
        return None, None if session is None or via == "link" else self._by_session(session, scope), "page"

    def _by_session(self, session: str, scope: Scope) -> Who | None:
        """A browser that has logged in. Requests that change something, and WebSockets, must come from a page of this server."""
        harmless = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if not harmless and not _from_here(scope):
            return None
        if scope["path"] in _EMPTY_PAGE or scope["path"].startswith(_SCRIPTS):
            return self._access.by_cookie(session)  # a browser loads these by itself, without the key
        return self._access.by_session(session, _page_key(scope))

    # ---- sessions

    async def _log_in(self, asker: Asker, scope: Scope, send: Send) -> None:
        """Redirect to the same page without the token in its address, so that it does not stay in the browser's history."""
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        session, key = self._access.open_session(asker.who)
        await _redirect(send, f"{_cookie_name(scope)}={session}; Path=/; HttpOnly; SameSite=Strict{secure}", f"/#page={key}")

    async def _log_out(self, asker: Asker, scope: Scope, send: Send) -> None:
        session = _cookie(scope)
        if session is not None:
            self._access.end_session(session)
            self._audit.asked(asker, "logout", True)
            await self._close_invalid()
        await _redirect(send, f"{_cookie_name(scope)}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")


def guarded(guard: Guard, door: Door, tls: ssl.SSLContext | None = None, **more: Any) -> uvicorn.Config:
    """The settings of every server here: the guard in front, no log, no version header, no trust in proxy headers."""
    return uvicorn.Config(
        guard,
        http=guarded_protocol(door, tls),
        loop="auto" if tls is None else "asyncio",  # uvloop reads on before a handshake that is not its own, also while paused
        ws=FirmlyClosed,
        ws_per_message_deflate=False,
        backlog=BACKLOG,
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        **more,
    )


def _right(scope: Scope) -> str:
    """What a request needs, before anything looks at its content. A command needs its own right as well (`roles.right_for`)."""
    if scope["path"] == "/link":
        return "join"
    return "ask_how_it_is" if scope["path"] in _FOR_ACTORS_TOO else "see"


def _cookie_name(scope: Scope) -> str:
    """Browsers share cookies between the ports of a machine, so each server has a name of its own: that of its port."""
    return f"tandem_{(scope.get('server') or ('', 0))[1]}"


def _cookie(scope: Scope) -> str | None:
    pairs = [part.strip().partition("=") for line in _header(scope, b"cookie") for part in line.decode("latin-1").split(";")]
    shown = [value for name, _, value in pairs if name == _cookie_name(scope)]
    return shown[0] if len(shown) == 1 else None


def _page_key(scope: Scope) -> str:
    """The key of the page: in a header, or in the address of a WebSocket, for which a browser sets no headers. Empty if there is none."""
    shown = [value.decode("latin-1") for value in _header(scope, b"x-tandem-page")]
    if scope["type"] == "websocket" and not shown:
        shown = urllib.parse.parse_qs(scope["query_string"].decode("latin-1")).get("page", [])
    return shown[0] if len(shown) == 1 else ""


def _header(scope: Scope, wanted: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == wanted]


def _from_here(scope: Scope) -> bool:
    """Whether the request comes from a page of this host. Browsers set `Origin`, and scripts cannot change it."""
    origin, host = _header(scope, b"origin"), _header(scope, b"host")
    return len(origin) == len(host) == 1 and origin[0].partition(b"://")[2].lower() == host[0].lower()


def _with_page_headers(send: Send) -> Send:
    async def sending(event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            event["headers"] = [*event.get("headers", ()), *PAGE_HEADERS]
        await send(event)

    return sending


async def _redirect(send: Send, cookie: str, to: str = "/") -> None:
    headers = [(b"location", to.encode()), (b"set-cookie", cookie.encode()), (b"cache-control", b"no-store"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": [*headers, *PAGE_HEADERS]})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, error: str, message: str, page: str = "") -> None:
    """`page`: what a person's browser gets in place of JSON."""
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    if scope["type"] == "websocket":
        await receive()
    a_person = bool(page) and any(b"text/html" in accepted for accepted in _header(scope, b"accept"))
    body = page.encode() if a_person else json.dumps({"error": error, "message": message}).encode()
    headers: Sequence[tuple[bytes, bytes]] = [
        *PAGE_HEADERS,
        (b"content-type", b"text/html; charset=utf-8" if a_person else b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *([(b"www-authenticate", b"Bearer")] if status == 401 else []),
        (b"connection", b"close"),
    ]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})

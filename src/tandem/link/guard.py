"""The token check. It comes before everything else, for HTTP requests and WebSockets alike.

A program sends the token in a header. A browser sends it once, as `/?token=TOKEN`, and gets a cookie that scripts cannot read and
that other sites cannot make it send. Requests that change something, and WebSockets, are accepted by cookie only from pages of
this hub (`Origin`).

Connections that have not shown the token yet are limited in number, time and size, so that they cannot crowd out the actors.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import urllib.parse
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_ADVICE = (
    "The token is missing or wrong. Send the header 'Authorization: Bearer TOKEN' with the token of the run "
    "(the file 'token' in its folder on the learner's machine)."
)
_LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tandem</title><style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:12vh auto;
padding:0 1rem}input,button{font:inherit;padding:.5rem .7rem;width:100%;box-sizing:border-box;margin:.3rem 0}</style>
<h1>Tandem</h1><p id="why">This page needs the token of the run. Open the link that was printed when the run started, or enter the
content of the file <code>token</code> in the run folder.</p>
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

MAX_FIRST_BYTES = 64 * 2**10
"""Bytes that a connection may send before it has shown the token; request line and headers are far smaller."""


MESSAGES_AFTER_CLOSE = 100
"""Messages that may be under way when the hub closes a WebSocket."""


class UnknownConnections:
    """Connections that have not shown the token yet: how many at once, for how many seconds each, and how many bytes."""

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit, self.seconds = limit, seconds
        self._timers: dict[Any, asyncio.TimerHandle] = {}
        self._received: dict[Any, int] = {}
        self.turned_away = 0

    def opened(self, peer: Any, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        if len(self._timers) >= self.limit:
            self.turned_away += 1
            transport.abort()
            return
        self._timers[peer] = loop.call_later(self.seconds, self._abort, peer, transport)
        self._received[peer] = 0

    def within_limit(self, peer: Any, size: int, transport: asyncio.Transport) -> bool:
        """Count received bytes. False, and the connection is closed, if there are too many without a token."""
        if peer not in self._received:
            return True
        self._received[peer] += size
        if self._received[peer] > MAX_FIRST_BYTES:
            self._abort(peer, transport)
            return False
        return True

    def forget(self, peer: Any) -> None:
        """It has shown the token, or has closed."""
        timer = self._timers.pop(peer, None)
        self._received.pop(peer, None)
        if timer is not None:
            timer.cancel()

    def _abort(self, peer: Any, transport: asyncio.Transport) -> None:
        self.forget(peer)
        self.turned_away += 1
        transport.abort()


def guarded_protocol(unknown: UnknownConnections) -> type[HttpToolsProtocol]:
    """uvicorn's HTTP protocol, which also counts connections without a token."""

    class Guarded(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().connection_made(transport)
            unknown.opened(self.client, transport, self.loop)

        def data_received(self, data: bytes) -> None:
            if unknown.within_limit(self.client, len(data), self.transport):
                super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            unknown.forget(self.client)
            super().connection_lost(exc)

    return Guarded


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
    """Lets requests with the token through: actors to `link`, everything else to `app`."""

    def __init__(self, app: App, link: App, token: str, unknown: UnknownConnections) -> None:
        self._app, self._link, self._unknown = app, link, unknown
        self._token = token
        self._expected = f"Bearer {token}".encode()
        self._cookie, self._ticket = page_cookie(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        logs_in = self._logs_in(scope)
        if not (logs_in or self._by_header(scope) or self._by_cookie(scope)):
            await _refuse(scope, receive, send)
            if scope["type"] == "websocket":  # the guarded protocol does not see an upgraded connection any more
                self._unknown.forget(scope["client"])
            return
        self._unknown.forget(scope["client"])
        if logs_in:
            await self._let_in(scope, send)
        elif scope["type"] == "websocket" and scope["path"] == "/link":
            await self._link(scope, receive, send)
        else:
            await self._app(scope, receive, _with_page_headers(send))

    def _by_header(self, scope: Scope) -> bool:
        shown = _header(scope, b"authorization")
        return len(shown) == 1 and hmac.compare_digest(shown[0], self._expected)  # constant time

    def _by_cookie(self, scope: Scope) -> bool:
        """A browser that has logged in. Requests that change something, and WebSockets, must come from a page of this hub."""
        pairs = [part.strip().partition(b"=") for line in _header(scope, b"cookie") for part in line.split(b";")]
        shown = [value for name, _, value in pairs if name == self._cookie]
        if len(shown) != 1 or not hmac.compare_digest(shown[0], self._ticket):
            return False
        harmless = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        return harmless or _from_here(scope)

    def _logs_in(self, scope: Scope) -> bool:
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            return False
        shown = urllib.parse.parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return len(shown) == 1 and hmac.compare_digest(shown[0].encode(), self._token.encode())

    async def _let_in(self, scope: Scope, send: Send) -> None:
        """Redirect to the same page without the token in its address, so that it does not stay in the browser's history."""
        secure = b"; Secure" if scope.get("scheme") == "https" else b""
        cookie = self._cookie + b"=" + self._ticket + b"; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000" + secure
        headers = [(b"location", b"/"), (b"set-cookie", cookie), (b"cache-control", b"no-store"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 303, "headers": [*headers, *PAGE_HEADERS]})
        await send({"type": "http.response.body", "body": b""})


def guarded(app: App, link: App, token: str, unknown: UnknownConnections, **more: Any) -> uvicorn.Config:
    """The settings of every server here: token check in front, no log, no version header, no trust in proxy headers."""
    return uvicorn.Config(
        Guard(app, link, token, unknown),
        http=guarded_protocol(unknown),
        ws=FirmlyClosed,
        ws_per_message_deflate=False,
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        **more,
    )


def page_cookie(token: str) -> tuple[bytes, bytes]:
    """Name and value. Browsers share cookies between ports of one machine, so each run has its own name. The value is not the token."""
    made = hmac.new(token.encode(), b"a page of this run", "sha256").hexdigest().encode()
    return b"tandem_" + made[:8], made[8:]


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


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    if scope["type"] == "websocket":
        await receive()
    a_person = any(b"text/html" in accepted for accepted in _header(scope, b"accept"))
    body = _LOGIN.encode() if a_person else json.dumps({"error": "wrong_token", "message": _ADVICE}).encode()
    headers = [
        *PAGE_HEADERS,
        (b"content-type", b"text/html; charset=utf-8" if a_person else b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b"Bearer"),
        (b"connection", b"close"),
    ]
    await send({"type": f"{kind}.start", "status": 401, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})

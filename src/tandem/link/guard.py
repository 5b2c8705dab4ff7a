"""Nobody comes in without the token: checked before anything else looks at a request, WebSocket or not.

Connections that have not shown a token yet are few and short-lived, so that strangers cannot use up what the actors need.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_ADVICE = (
    "This hub does not know you. Send the header 'Authorization: Bearer TOKEN' with the token of the run "
    "(the file 'token' in its folder on the learner's machine)."
)


MAX_FIRST_BYTES = 64 * 2**10
"""What a connection may send before it has shown a token: request line and headers are far smaller."""


class Strangers:
    """Connections without a token: how many at once, for how long each, and how much they may say."""

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit, self.seconds = limit, seconds
        self._timers: dict[Any, asyncio.TimerHandle] = {}
        self._said: dict[Any, int] = {}
        self.turned_away = 0

    def arrived(self, peer: Any, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        if len(self._timers) >= self.limit:
            self.turned_away += 1
            transport.abort()
            return
        self._timers[peer] = loop.call_later(self.seconds, self._send_away, peer, transport)
        self._said[peer] = 0

    def says(self, peer: Any, size: int, transport: asyncio.Transport) -> bool:
        """False if it has said too much without a token."""
        if peer not in self._said:
            return True
        self._said[peer] += size
        if self._said[peer] > MAX_FIRST_BYTES:
            self._send_away(peer, transport)
            return False
        return True

    def gone(self, peer: Any) -> None:
        """Has shown a token, or has left."""
        timer = self._timers.pop(peer, None)
        self._said.pop(peer, None)
        if timer is not None:
            timer.cancel()

    def _send_away(self, peer: Any, transport: asyncio.Transport) -> None:
        self.gone(peer)
        self.turned_away += 1
        transport.abort()


def guarded_protocol(strangers: Strangers) -> type[HttpToolsProtocol]:
    """uvicorn's HTTP protocol, with a look at who comes in."""

    class Guarded(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().connection_made(transport)
            strangers.arrived(self.client, transport, self.loop)

        def data_received(self, data: bytes) -> None:
            if strangers.says(self.client, len(data), self.transport):
                super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            strangers.gone(self.client)
            super().connection_lost(exc)

    return Guarded


class Guard:
    """Passes on who shows the token: actors to `link`, everyone else to `app`."""

    def __init__(self, app: App, link: App, token: str, strangers: Strangers) -> None:
        self._app, self._link, self._strangers = app, link, strangers
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if not self._known(scope):
            await _turn_away(scope, receive, send)
            if scope["type"] == "websocket":  # an upgraded connection is not the guarded protocol's any more
                self._strangers.gone(scope["client"])
            return
        self._strangers.gone(scope["client"])
        if scope["type"] == "websocket" and scope["path"] == "/link":
            await self._link(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _known(self, scope: Scope) -> bool:
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(shown) == 1 and hmac.compare_digest(shown[0], self._expected)  # takes as long for any wrong one


async def _turn_away(scope: Scope, receive: Receive, send: Send) -> None:
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    if scope["type"] == "websocket":
        await receive()
    body = json.dumps({"error": "wrong_token", "message": _ADVICE}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b"Bearer"),
        (b"connection", b"close"),
    ]
    await send({"type": f"{kind}.start", "status": 401, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})

"""Connections that have not shown a credential yet, from the moment they are accepted, TLS handshake included.

They are limited in number (in all, and of one address), in time and in bytes. When there are too many, the newest comes in and the oldest
of the address with the most goes: a program that only holds connections open loses them, and one with a credential, which shows it
within milliseconds, gets in. That works on one machine too, where everyone has the same address.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_FIRST_BYTES = 64 * 2**10
"""Bytes that a connection may send before it has shown a credential; request line and headers are far smaller."""
BACKLOG = 128
"""Connections that the system accepts ahead of the hub, and that the hub accepts before it looks at any of them: a flood must not use up
the files that a process may open."""
Peer = Any


@dataclass
class _Unknown:
    """One connection."""

    address: str
    transport: asyncio.WriteTransport
    timer: asyncio.TimerHandle
    received: int = 0


class Door:
    """All connections that nobody is known to be behind. `limit`: at once; half of that from one address. `seconds`: for each."""

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit, self.seconds = limit, seconds
        self._unknown: dict[Peer, _Unknown] = {}  # the oldest first
        self.turned_away = 0

    def opened(self, peer: Peer, transport: asyncio.WriteTransport, loop: asyncio.AbstractEventLoop) -> None:
        """A new connection; makes room for it. Another one from the same port has ended, though its end is not known here yet."""
        self.forget(peer)
        address = str(peer[0]) if peer else ""
        by_address: dict[str, int] = {}
        for unknown in self._unknown.values():
            by_address[unknown.address] = by_address.get(unknown.address, 0) + 1
        if by_address.get(address, 0) >= max(1, self.limit // 2):
            self._turn_away_oldest(address)
        elif len(self._unknown) >= self.limit:
            self._turn_away_oldest(max(by_address, key=lambda each: by_address[each]))
        timer = loop.call_later(self.seconds, self._turn_away, peer)
        self._unknown[peer] = _Unknown(address, transport, timer)

    def within_limit(self, peer: Peer, size: int) -> bool:
        """Count received bytes. False, and the connection is closed, if there are too many without a credential."""
        unknown = self._unknown.get(peer)
        if unknown is None:
            return True
        unknown.received += size
        if unknown.received > MAX_FIRST_BYTES:
            self._turn_away(peer)
            return False
        return True

    def forget(self, peer: Peer) -> None:
        """It has shown a credential."""
        unknown = self._unknown.pop(peer, None)
        if unknown is not None:
            unknown.timer.cancel()

    def closed(self, peer: Peer, transport: asyncio.WriteTransport) -> None:
        """This connection has ended; another one from the same port may be there already."""
        unknown = self._unknown.get(peer)
        if unknown is not None and unknown.transport is transport:
            self.forget(peer)

    def _turn_away_oldest(self, address: str) -> None:
        self._turn_away(next(peer for peer, unknown in self._unknown.items() if unknown.address == address))

    def _turn_away(self, peer: Peer) -> None:
        unknown = self._unknown[peer]
        self.forget(peer)
        self.turned_away += 1
        unknown.transport.abort()


def _peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Address and port, as in the `client` of a request."""
    found = transport.get_extra_info("peername")
    return (str(found[0]), int(found[1])) if found else None


def guarded_protocol(door: Door, tls: ssl.SSLContext | None) -> type[HttpToolsProtocol]:
    """uvicorn's HTTP protocol, counted from the first byte on. It makes the TLS handshake itself: uvicorn's own is not counted."""

    class Guarded(HttpToolsProtocol):
        _peer: Peer = None
        _early = b""
        """What came before uvicorn was told of the connection."""
        _gone = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            self._peer, self._opened = _peer_of(transport), transport
            door.opened(self._peer, transport, self.loop)
            if tls is None:
                super().connection_made(transport)
            else:
                transport.pause_reading()  # not a byte may come before the handshake
                self._handshake = self.loop.create_task(self._make_secure(transport, tls))

        async def _make_secure(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
            try:
                secured = await self.loop.start_tls(transport, self, tls, server_side=True, ssl_handshake_timeout=door.seconds)
            except Exception:  # whatever a stranger sent: it concerns this connection alone
                door.closed(self._peer, transport)
                with contextlib.suppress(Exception):
                    transport.abort()
                return
            if self._gone:
                return
            super().connection_made(cast(asyncio.Transport, secured))
            early, self._early = self._early, b""
            if early:
                self.data_received(early)

        def data_received(self, data: bytes) -> None:
            if self.transport is None:  # the first request can come with the end of the handshake
                self._early = (self._early + data)[: MAX_FIRST_BYTES + 1]
            elif door.within_limit(self._peer, len(data)):
                super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            door.closed(self._peer, self._opened)
            self._gone = True
            if self.transport is not None:
                super().connection_lost(exc)

    return Guarded

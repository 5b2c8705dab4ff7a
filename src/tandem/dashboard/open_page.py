"""One open page: the messages that wait to be sent to it, and how they are encoded."""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import struct
import time
from collections import deque
from collections.abc import Mapping as Map
from typing import Any

from starlette.websockets import WebSocket

from tandem.link.access import HERE, Asker

MAX_WAITING = 256
"""Messages that may wait for a page. Beyond that it is disconnected; it then reconnects and gets the whole state once."""
_LENGTH = struct.Struct("<I")


class OpenPage:
    """One page and its send queues. A page that reads slowly gets fewer messages; nothing waits for it."""

    def __init__(self, asker: Asker = HERE) -> None:
        self.id = f"page-{secrets.token_hex(4)}"
        self.asker = asker
        """Who is at this page."""
        self.heard_at = time.monotonic()
        """When it last sent something."""
        self._patience: asyncio.Timeout | None = None
        self.source = ""
        """The actor it looks at."""
        self.camera = ""
        """The camera it looks through; empty: the drawn scene."""
        self.visible = True
        self.overflowed = False
        self._wake = asyncio.Event()
        self._waiting: deque[str] = deque()
        self._newest: dict[str, str] = {}
        self._frames: dict[str, bytes] = {}

    def send(self, text: str) -> None:
        """A message that must arrive."""
        if len(self._waiting) >= MAX_WAITING:
            self.overflowed = True
        else:
            self._waiting.append(text)
        self._wake.set()

    def send_newest(self, kind: str, text: str) -> None:
        """A message that replaces an unsent one of the same kind."""
        self._newest[kind] = text
        self._wake.set()

    def send_frame(self, kind: str, data: bytes) -> None:
        """A binary message that replaces an unsent one of the same kind."""
        self._frames[kind] = data
        self._wake.set()

    async def next_message(self, socket: WebSocket, patience_s: float | None) -> str:
        """Raises TimeoutError when the page sends nothing for so long, or when `give_up` is called."""
        async with asyncio.timeout(patience_s) as self._patience:
            text = await socket.receive_text()
        self.heard_at = time.monotonic()
        return text

    def give_up(self) -> None:
        """Wait no longer for this page: it makes room for another one."""
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def deliver(self, socket: WebSocket) -> None:
        """Send what waits, until the page is too slow or the connection ends."""
        while not self.overflowed:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await socket.send_text(self._waiting.popleft())
            for kind in list(self._newest):
                await socket.send_text(self._newest.pop(kind))
            for kind in list(self._frames):
                await socket.send_bytes(self._frames.pop(kind))
        await socket.close(1013, "too slow")


def as_json(message: Map[str, Any]) -> str:
    """JSON for browsers. They do not read NaN; a NaN in one event must not cost the page all others."""
    try:
        return json.dumps(message, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(message), default=str)


def as_frame(header: Map[str, Any], payload: bytes) -> bytes:
    """A binary message: 4 bytes (length of the header), the header (JSON), the payload."""
    encoded = json.dumps(header).encode()
    return b"".join((_LENGTH.pack(len(encoded)), encoded, payload))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

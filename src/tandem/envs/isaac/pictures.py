"""The pictures that Isaac's gear server pushes over Socket.IO."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

from tandem.envs.http_robot.pictures import Shelf
from tandem.envs.http_robot.wire import MAX_BYTES, RETRY_S
from tandem.errors import extras_named


class PushedPictures:
    """The newest picture of each camera, received in a thread of its own; it comes back by itself when the connection breaks."""

    def __init__(self, url: str) -> None:
        with extras_named("pictures of a robot's server"):
            import socketio
        self._url, self.shelf, self._problem = url, Shelf(), "not connected yet"
        self._closed = threading.Event()
        self._client = socketio.AsyncClient(reconnection=False)
        self._client.on("image", self._receive)
        self._client.on("disconnect", self._disconnected)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._stay()), name="pictures", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str:
        return self._problem

    def _receive(self, data: Any) -> None:
        """One byte with the length of the name, the name, a JPEG."""
        if not isinstance(data, bytes) or not 2 <= len(data) <= MAX_BYTES or len(data) <= 1 + data[0]:
            return
        self.shelf.put(data[1 : 1 + data[0]].decode(errors="replace"), data[1 + data[0] :])

    async def _stay(self) -> None:
        while not self._closed.is_set():
            self._broken = asyncio.Event()  # `client.wait` would sleep for a second after the connection broke
            try:
                await asyncio.wait_for(self._client.connect(self._url, transports=["websocket", "polling"], wait_timeout=2), 5)
                self._problem = "connected, and no picture arrived"
                await self._until_closed(self._broken)
                self._problem = "the Socket.IO connection broke"
            except Exception as problem:  # aiohttp, engineio and socketio each have their own
                self._problem = f"no Socket.IO connection: {str(problem) or type(problem).__name__}"
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._client.disconnect(), 0.5)
            await asyncio.sleep(RETRY_S)

    async def _disconnected(self, *_: object) -> None:
        self._broken.set()

    async def _until_closed(self, broken: asyncio.Event) -> None:
        while not (self._closed.is_set() or broken.is_set()):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(broken.wait(), 0.1)

    def close(self) -> None:
        self._closed.set()
        self._thread.join(5)

"""A small TCP proxy that does to a connection what networks do: cut it in the middle of a frame, slow it down, let it fall silent."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any


class Proxy:
    """Listens on `port` and passes everything on to `target`; settings may be changed at any time, from any thread."""

    def __init__(self, target: int, host: str = "127.0.0.1") -> None:
        self.target, self.host = target, host
        self.delay_s = 0.0
        """Latency in each direction."""
        self.bytes_per_s: float | None = None
        """In each direction."""
        self.silent = False
        """Connections stay open, but nothing gets through: a cable pulled out. What was sent meanwhile is lost for good."""
        self.refusing = False
        self.connections = 0
        """So far."""
        self.forwarded = 0
        """Bytes towards the target, so far."""
        self._cut_at: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, host, 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def cut_after(self, count: int) -> None:
        """Drop every connection once this many more bytes have gone to the target: usually in the middle of a frame."""
        self._cut_at = self.forwarded + count

    def drop(self) -> None:
        """Every connection, now, without a farewell."""
        self._loop.call_soon_threadsafe(self._drop)

    def close(self) -> None:
        """Twice does no harm."""
        if self._loop.is_closed():
            return
        self._server.close()
        self.drop()
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _end(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _drop(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.refusing:
            writer.transport.abort()
            return
        try:
            target_reader, target_writer = await asyncio.open_connection(self.host, self.target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, target_writer}
        self._writers |= both
        try:
            await asyncio.gather(self._pump(reader, target_writer, True), self._pump(target_reader, writer, False))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._writers -= both
            for end in both:
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, towards_target: bool) -> None:
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=64)
        arriving = asyncio.create_task(self._arrive(reader, due, towards_target))
        try:
            while True:
                at, data = await due.get()
                if not data:
                    raise ConnectionError("the other end closed")
                await asyncio.sleep(max(0.0, at - self._loop.time()))
                if self.bytes_per_s is not None:
                    await asyncio.sleep(len(data) / self.bytes_per_s)
                if self.silent:
                    continue
                writer.write(data)
                await writer.drain()
        finally:
            arriving.cancel()

    async def _arrive(self, reader: asyncio.StreamReader, due: asyncio.Queue[tuple[float, bytes]], towards_target: bool) -> None:
        while True:
            try:
                data = await reader.read(4096)
            except OSError:
                data = b""
            if towards_target and self._cut_at is not None and self.forwarded + len(data) >= self._cut_at:
                await due.put((0.0, data[: max(0, self._cut_at - self.forwarded)] or b"\0"))
                self._cut_at = None
                await asyncio.sleep(0.01)
                self._drop()
                return
            if towards_target:
                self.forwarded += len(data)
            await due.put((self._loop.time() + self.delay_s, data))
            if not data:
                return

"""A bad network between two processes: passes bytes on, slowly, late, or not at all, as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import threading


class Proxy:
    """Listens on a port of its own and passes everything to `target`, on this machine."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._delay_s, self._bytes_per_s = 0.0, 0.0
        self._left: int | None = None
        """Bytes until everything is cut."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        started: threading.Event = threading.Event()
        self.port = 0

        async def serve() -> None:
            server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            started.set()
            async with server:
                await server.serve_forever()

        def run() -> None:
            with contextlib.suppress(asyncio.CancelledError):
                self._main = self._loop.create_task(serve())
                self._loop.run_until_complete(self._main)
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    self._loop.run_until_complete(task)
            self._loop.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        started.wait()

    def slow(self, bytes_per_s: float, delay_s: float) -> None:
        self._bytes_per_s, self._delay_s = bytes_per_s, delay_s

    def fast(self) -> None:
        self.slow(0.0, 0.0)

    def cut(self) -> None:
        """Reset every connection, now."""
        self._loop.call_soon_threadsafe(self._reset)

    def cut_after(self, count: int) -> None:
        """Reset every connection once so many more bytes have passed: in the middle of a frame."""
        self._left = count

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._main.cancel)
            self._thread.join()

    def _reset(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, there_writer}
        try:
            await asyncio.gather(self._one_way(reader, there_writer), self._one_way(there_reader, writer))
        finally:
            for each in (writer, there_writer):
                self._writers.discard(each)
                each.transport.abort()

    async def _one_way(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(4096 if self._bytes_per_s else 65536):
                if self._delay_s or self._bytes_per_s:
                    await asyncio.sleep(self._delay_s + (len(data) / self._bytes_per_s if self._bytes_per_s else 0.0))
                if self._left is not None:
                    data, self._left = data[: self._left], self._left - len(data)
                    if self._left <= 0:
                        self._left = None
                        writer.write(data)
                        await asyncio.sleep(0)
                        self._reset()
                        return
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

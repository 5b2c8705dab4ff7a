"""A TCP proxy in front of a server: it cuts connections at the moments that a test or a benchmark chooses."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType


class Proxy:
    """Forwards bytes both ways until `cut` is called."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._refusing = False
        self._dropping = 0
        self.cuts = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._listening.close()
        self.cut()

    def cut(self) -> None:
        """Break every connection now."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        self.cuts += bool(pairs)
        for pair in pairs:
            for sock in pair:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()

    def refuse(self) -> None:
        """Break every connection, and accept none until `accept`."""
        self._refusing = True
        self.cut()

    def accept(self) -> None:
        self._refusing = False

    def drop_answers(self, count: int) -> None:
        """The next bytes that come from the server are thrown away, and the connection is cut."""
        self._dropping = count

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.append((client, server))
            threading.Thread(target=self._forward, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, client, True), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if answers and self._dropping > 0:
                    self._dropping -= 1
                    self.cut()
                    return
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

"""The hub's socket, its server, its signals, and the lock that keeps a second hub out of a run folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn

from tandem.errors import ConfigError, HubBusy
from tandem.runs.folder import RunFolder

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Server(uvicorn.Server):
    """A uvicorn server that calls `listening` once it accepts connections."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 lets the system choose one."""
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a hub that was killed can be restarted at once
        listening.bind(address)
        return listening
    except OSError as problem:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {problem.strerror}. Is another hub running there? Choose another --port."
        ) from None


def lock_run(folder: RunFolder) -> int:
    """The file descriptor of the run's hub lock. Held as long as the process lives, or until it is closed."""
    lock = os.open(folder.hub_lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise HubBusy(f"another hub serves {folder.path} already (see {folder.hub_file}). Stop that one first.") from None
    return lock


@contextlib.contextmanager
def signals_handled_once() -> Iterator[None]:
    """uvicorn stops on SIGTERM and SIGINT and then raises the signal a second time. Ignore that second one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""The hub's socket, its server, its signals, and the lock that keeps a second hub out of a run folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from tandem.errors import ConfigError, HubBusy
from tandem.link.hosts import is_loopback
from tandem.runs.folder import RunFolder

OTHER_FILES = 512
"""Files that a hub has open beside a connection to each actor: the journal, pages, those that have shown no credential yet."""


def plaintext_warning(host: str, certificate: Path | None, insecure: bool) -> str:
    """What a person must know who lets other machines in without TLS; empty where that is not so. Refused unless it was asked for."""
    if certificate is not None or is_loopback(host):
        return ""
    if not insecure:
        raise ConfigError(
            f"--host {host} lets other machines in, and without TLS they can read tokens and data, and change them: give --certificate and "
            "--key (docs/link.md#security), or type --insecure in a network that you trust."
        )
    return (
        f"INSECURE: listening on {host} without TLS. Everybody in this network can read the tokens and move the robot with them. "
        "Give --certificate and --key."
    )


def server_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """TLS 1.2 or newer; None without a certificate."""
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except OSError as problem:
        raise ConfigError(f"the certificate {certificate} with the key {key} cannot be used: {problem}") from None
    return context


class Server(uvicorn.Server):
    """A uvicorn server that calls `listening` once it accepts connections."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()


def files_for(actors: int) -> str:
    """Have the system allow this process a connection to each of so many actors; a warning if it does not, else empty."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = actors + OTHER_FILES
    if allowed == resource.RLIM_INFINITY or allowed >= needed:
        return ""
    granted = needed if most == resource.RLIM_INFINITY else min(needed, most)
    with contextlib.suppress(OSError, ValueError):  # a system with a lower limit of its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, most))
        allowed = granted
    if allowed >= needed:
        return ""
    return (
        f"the system allows this process {allowed:,} open files, and {actors:,} actors need {needed:,}: those beyond that cannot join. "
        f"Raise the limit (ulimit -n {needed}), or give fewer --max-actors."
    )


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

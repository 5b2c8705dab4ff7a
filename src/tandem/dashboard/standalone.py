"""`tandem dashboard RUN`: the page of a run. A running hub serves it itself; otherwise this process serves the run folder."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from tandem.dashboard.mount import mount
from tandem.doctor.diagnosis import diagnose_run
from tandem.errors import ConfigError
from tandem.link.access import Access
from tandem.link.audit import Audit
from tandem.link.door import Door
from tandem.link.guard import Guard, Receive, Scope, Send, guarded
from tandem.link.hosts import HostNames
from tandem.link.listening import plaintext_warning
from tandem.runs.clocks import Clocks
from tandem.runs.folder import RunFolder, RunInfo
from tandem.runs.lines import Tail
from tandem.runs.live import ClockView, LiveView, read_live

Say = Callable[[str], None]
SILENT_S = 120.0
"""A run that has logged nothing for so long counts as over; an iteration of PPO takes seconds."""


class FolderSource:
    """A run folder as the source of a page: the run is over, or trains in a single process (PPO, `--sync`)."""

    remote = None

    def __init__(self, run: Path) -> None:
        self.run = run
        self._folder = RunFolder.open(run)
        self.info: RunInfo = self._folder.info
        self._clocks = Clocks(0, 0, 0)
        self._metrics = Tail(self._folder.metrics_file)

    def live(self) -> LiveView | None:
        return read_live(self._folder.live_file)

    def clocks(self) -> ClockView:
        """By the newest row of metrics: no hub has written how the run is."""
        while rows := self._metrics.rows():
            self._clocks = Clocks(*(int(rows[-1].get(name, 0)) for name in ("learner_step", "actor_step", "policy_version")))
        seen = ClockView(**dataclasses.asdict(self._clocks), phase="stopped" if self._is_over() else "training")
        every = int(self.info.settings.get("steps_per_update") or 0)
        return seen.related(every) if every else seen

    def ending(self) -> dict[str, Any]:
        return {"over": self._is_over(), "summary": self._folder.summary() or {}}

    def _is_over(self) -> bool:
        """It has a summary, or has logged nothing for a while."""
        with contextlib.suppress(OSError):
            return self._folder.summary_file.exists() or time.time() - self._metrics.path.stat().st_mtime > SILENT_S
        return True

    async def findings(self, lang: str) -> dict[str, Any]:
        return await asyncio.to_thread(diagnose_run, self.run, "zh" if lang == "zh" else "en")


def hub_link(run: Path) -> str | None:
    """The link to the page of this run's hub, with the token; None if no hub answers."""
    folder = RunFolder(run)
    hub = folder.hub()
    if hub is None:
        return None
    address = reachable(hub["address"])
    host, _, port = address.rpartition(":")
    try:  # a hub that was killed leaves its file behind
        socket.create_connection((host.strip("[]"), int(port)), 3).close()
    except OSError:
        return None
    return f"{'https' if hub['tls'] else 'http'}://{address}/?token={folder.token}"


def reachable(address: str) -> str:
    """The address on this machine of a hub that listens on all interfaces."""
    host, _, port = address.rpartition(":")
    return f"{'127.0.0.1' if host in ('0.0.0.0', '[::]') else host}:{port}"


def show_run(run: Path, say: Say, *, host: str = "127.0.0.1", port: int = 0, browser: bool = True, insecure: bool = False) -> None:
    """Print the link to the page, and open it where there is a screen. Without a hub, serve the run folder until Ctrl-C."""
    folder = RunFolder.open(run)
    link = hub_link(run)
    if link is not None:
        say(f"page: {link} (the run is going on)")
        _open(link, browser)
        return
    warning = plaintext_warning(host, None, insecure)
    listening = _listen(host, port)
    address = f"{host}:{listening.getsockname()[1]}"
    app = FastAPI(title="Tandem", docs_url=None, redoc_url=None, openapi_url=None)
    mount(app, FolderSource(run), say)
    link = f"http://{reachable(address)}/?token={folder.token}"
    say(f"page: {link} (Ctrl-C ends it; no hub serves {run})")
    if warning:
        say(warning)
    _open(link, browser)
    server(app, folder, host).run(sockets=[listening])


def server(app: FastAPI, folder: RunFolder, host: str = "127.0.0.1") -> uvicorn.Server:
    """The app behind the same guard as a hub's."""
    door = Door(64, 10.0)
    guard = Guard(app, _no_actors, Access(folder), door, HostNames(host), Audit(folder.audit_file))
    return uvicorn.Server(guarded(guard, door, timeout_graceful_shutdown=1))


async def _no_actors(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse actors: there is no hub here."""
    del scope
    await receive()
    await send({"type": "websocket.close", "code": 1008, "reason": "this run is over"})


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as problem:
        raise ConfigError(f"cannot listen on {host}:{port}: {problem.strerror}. Choose another --port.") from None


def _open(link: str, wanted: bool) -> None:
    if wanted and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        webbrowser.open(link)

"""Adds the page to an app, before the app is served: NiceGUI for the page itself, a WebSocket for its numbers, files for its scripts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from tandem.dashboard.episodes import Library
from tandem.dashboard.socket import Pages, Source
from tandem.errors import TandemError
from tandem.link.hub import Hub
from tandem.link.hub_api import whole_number
from tandem.runs.folder import RunFolder
from tandem.runs.live import ClockView

ASSETS = Path(__file__).parent / "assets"


def mount(app: FastAPI, source: Source, say: Callable[[str], None] = lambda line: None, mapping: Path | None = None) -> Pages:
    """Once per process: NiceGUI has one app. `mapping`: file for keys and gamepad; default RUN/mapping.toml, else the built-in one."""
    # Nothing is stored, but the package creates a folder on import. It must not be in the working directory.
    os.environ.setdefault("NICEGUI_STORAGE_PATH", str(RunFolder(source.run).page_storage))
    from nicegui import ui

    pages = Pages(source, say, mapping)
    _add_routes(app, pages, Library(source.run, source.info))

    @ui.page("/", title=f"{source.info.task} · Tandem", dark=None)
    def page() -> None:
        _build(ui)

    logging.getLogger("nicegui").setLevel(logging.CRITICAL)  # faults of a browser do not belong in the terminal
    ui.run_with(
        app,
        dark=None,
        tailwind=False,
        binding_refresh_interval=None,  # nothing is bound, so an open page costs no time
        show_welcome_message=False,
        favicon=ASSETS / "icon.svg",
    )
    return pages


def _build(ui: Any) -> None:
    """The HTML skeleton; scripts fill it. It is one element, so that a page costs the server almost nothing."""
    ui.add_head_html('<link rel="stylesheet" href="/page/assets/page.css">')
    ui.query(".nicegui-content").classes("tandem")
    ui.html((ASSETS / "page.html").read_text(), sanitize=False).classes("tandem-root")
    ui.add_body_html('<script type="module" src="/page/assets/page.js"></script>')


def _add_routes(app: FastAPI, pages: Pages, library: Library) -> None:
    async def socket(websocket: WebSocket) -> None:
        await pages.serve(websocket)

    async def files() -> list[dict[str, Any]]:
        return await _answer(library.files)

    async def episodes(file: str, before: str = "0", count: str = "50") -> dict[str, Any]:
        most = min(whole_number("count", count, lowest=1), 200)
        return await _answer(library.episodes, file, whole_number("before", before), most)

    async def episode(file: str, source: str, number: str) -> dict[str, Any]:
        return await _answer(library.episode, file, source, whole_number("number", number))

    async def noticing() -> dict[str, Any]:
        return await _answer(library.noticing)

    app.add_api_websocket_route("/page/socket", socket)
    app.add_api_route("/page/files", files)
    app.add_api_route("/page/episodes", episodes)
    app.add_api_route("/page/episode", episode)
    app.add_api_route("/page/noticing", noticing)
    app.mount("/page/assets", UncachedFiles(directory=ASSETS))


async def _answer(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return await asyncio.to_thread(function, *arguments)
    except TandemError as problem:
        raise HTTPException(404, str(problem)) from None


class UncachedFiles(StaticFiles):
    """Never cached: a page of an older version does not fit a newer hub."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "no-cache"
        return response


class HubSource:
    """A hub as the source of a page."""

    def __init__(self, hub: Hub) -> None:
        self.run, self.remote, self.info = hub.run, hub.remote, hub.info
        self.live, self.findings = hub.live, hub.findings

    def clocks(self) -> ClockView:
        return self.live().clocks

    def ending(self) -> dict[str, Any]:
        return {}


def mount_on_hub(hub: Hub, say: Callable[[str], None], mapping: Path | None = None) -> None:
    """Add the page to a hub. If that fails, log it; the run goes on without a page."""
    try:
        mount(hub.app, HubSource(hub), say, mapping)
    except Exception as fault:  # whatever it is: a page must not end a run
        with contextlib.suppress(OSError):
            say(f"[PAGE] the page cannot be served: {type(fault).__name__}: {fault}")

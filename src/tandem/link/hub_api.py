"""The hub's HTTP API: JSON for programs, documented in docs/link.md."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from fastapi import FastAPI, HTTPException, Request

from tandem.errors import NotAllowed
from tandem.link.access import HERE, Asker
from tandem.link.fields import COUNT_LIMIT
from tandem.link.messages import PROTOCOL, Command
from tandem.link.roles import rights_of
from tandem.runs.folder import RunFolder
from tandem.runs.lines import Tail
from tandem.runs.live import ActorView, ClockView, HubView, LiveView

MAX_BODY = 10_000
FINDINGS_KEPT_S = 3.0
"""Findings are computed at most this often, however many clients ask."""
_ROWS_PER_ANSWER = 1000


class ApiSource(Protocol):
    """What the API needs of a hub."""

    folder: RunFolder
    command_problem: str

    def status(self) -> HubView: ...

    def clocks(self) -> ClockView: ...

    def actors(self) -> list[ActorView]: ...

    async def findings(self, lang: str = "en") -> dict[str, Any]: ...

    def send_command(self, command: Command, asker: Asker = HERE) -> list[str]: ...


class FindingsCache:
    """The doctor's findings about the run, computed in a thread because it reads files."""

    def __init__(self, compute: Callable[[LiveView, str], dict[str, Any]], live: Callable[[], LiveView]) -> None:
        self._compute, self._live = compute, live
        self._computing = asyncio.Lock()
        self._kept: dict[str, tuple[float, dict[str, Any]]] = {}

    async def get(self, lang: str) -> dict[str, Any]:
        async with self._computing:
            now = time.monotonic()
            made_at, found = self._kept.get(lang, (-FINDINGS_KEPT_S, {}))
            if now - made_at >= FINDINGS_KEPT_S:
                found = await asyncio.to_thread(self._compute, self._live(), lang)
                self._kept = {lang: (time.monotonic(), found)}
        return {"protocol": PROTOCOL, **found}


def add_routes(app: FastAPI, hub: ApiSource) -> None:
    async def status() -> dict[str, Any]:
        return hub.status().to_json()

    async def clocks() -> dict[str, Any]:
        return hub.clocks().to_json()

    async def actors() -> list[dict[str, Any]]:
        return [actor.to_json() for actor in hub.actors()]

    async def metrics(after: str = "0") -> dict[str, Any]:
        return _rows_after(hub.folder.metrics_file, whole_number("after", after))

    async def events(after: str = "0") -> dict[str, Any]:
        return _rows_after(hub.folder.events_file, whole_number("after", after))

    async def findings(lang: str = "en") -> dict[str, Any]:
        return await hub.findings("zh" if lang == "zh" else "en")

    async def command(request: Request) -> dict[str, Any]:
        try:
            asked = json.loads(await _small_body(request))
            command = Command.from_fields({"to": "all", "detail": {}, **asked})
        except (ValueError, TypeError, RecursionError) as problem:
            raise HTTPException(422, f"not a command: {problem}") from None
        try:
            told = hub.send_command(command, request.scope["asker"])
        except NotAllowed as problem:
            raise HTTPException(403, str(problem)) from None
        return {"told": told} | ({"problem": hub.command_problem} if "trainer" in told and hub.command_problem else {})

    async def me(request: Request) -> dict[str, Any]:
        who = request.scope["asker"].who
        return {"name": who.name, "role": who.role, "may": rights_of(who.role)}

    for route in (status, clocks, actors, metrics, events, findings, me):
        app.add_api_route(f"/api/{route.__name__}", route)
    app.add_api_route("/api/command", command, methods=["POST"])


def whole_number(name: str, text: str, lowest: int = 0) -> int:
    """A parameter of a request; a wrong one is answered with 400 and what was expected."""
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or not lowest <= number < COUNT_LIMIT:
        raise HTTPException(400, f"{name}={text[:50]} is not a whole number from {lowest} to {COUNT_LIMIT - 1}")
    return number


async def _small_body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise HTTPException(413, f"at most {MAX_BODY} bytes")
    return body


def _rows_after(path: Path, after: int) -> dict[str, Any]:
    """Rows of a JSON-lines file from a byte on, and the byte to ask for next time."""
    tail = Tail(path, after)
    return {"rows": tail.rows(max_rows=_ROWS_PER_ANSWER), "next": tail.at}

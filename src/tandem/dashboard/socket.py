"""The WebSocket between the hub and each open page: numbers go out, a person's commands come back.

What all pages show alike is encoded once and sent to each: the state twice a second, new points of the plots, events, findings.
Views of the robot are passed on as they come, only the newest. A page that reads slowly gets less, and nothing waits for it.

    to a page      text: JSON with a `kind`            binary: see `open_page.as_frame`
    from a page    text: JSON with `do`. `steer`, while it has control, comes when a key changes, and at 20 Hz as heartbeat
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter, deque
from collections.abc import Callable
from collections.abc import Mapping as Map
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from tandem.dashboard.advice import advise, clock_words, figures, reference
from tandem.dashboard.help_worth import disagreement, phases, worth
from tandem.dashboard.open_page import OpenPage, as_frame, as_json
from tandem.dashboard.page_input import PageInput, mapping_for_page
from tandem.dashboard.plots import in_iterations, plots
from tandem.dashboard.series import Series
from tandem.errors import NotAllowed
from tandem.layouts import ActionLayout
from tandem.link.commands import RECORD_PHASES
from tandem.link.messages import Camera, View
from tandem.link.remote_control import RemoteControl
from tandem.link.roles import rights_of
from tandem.runs.events import FREQUENT
from tandem.runs.folder import RunFolder, RunInfo
from tandem.runs.lines import Tail
from tandem.runs.live import ClockView, LiveView
from tandem.teleop.axes import axes_of
from tandem.teleop.mapping import Mapping

STATE_S = 0.5
SERIES_S = 1.0
FINDINGS_S = 10.0
FINDINGS_SHARE = 0.02
"""Share of one core for the diagnosis: a long run takes longer to diagnose, and is diagnosed less often."""
EVENTS_KEPT = 60
MAX_MESSAGE = 10_000
MAX_PAGES = 50
FIRST_WORD_S = 5.0
"""A page that says nothing for so long after it was opened is closed; one of ours says at once what it looks at. Later on, one whose
connection is dead is noticed by pings, and when there are too many, those go first that have been silent for longest."""
CLOSE_S = 1.0


class Source(Protocol):
    """Where a page's numbers come from: a hub, or the folder of a run without one."""

    @property
    def run(self) -> Path: ...

    @property
    def remote(self) -> RemoteControl | None:
        """Watching and steering; None where nothing can be controlled."""
        ...

    @property
    def info(self) -> RunInfo:
        """What `config.json` says."""
        ...

    def live(self) -> LiveView | None:
        """None where no hub serves this run, or ever did."""
        ...

    def clocks(self) -> ClockView: ...

    def ending(self) -> Map[str, Any]:
        """Whether the run is `over`, and its `summary`; empty while a hub serves it."""
        ...

    async def findings(self, lang: str) -> dict[str, Any]: ...


class Pages:
    """All open pages of one run."""

    def __init__(self, source: Source, say: Callable[[str], None] = lambda line: None, mapping: Path | None = None) -> None:
        self._source, self._say = source, say
        self._pages: dict[str, OpenPage] = {}
        self._folder = RunFolder(source.run)
        self._series = Series(self._folder.metrics_file)
        self._events = Tail(self._folder.events_file)
        self._recent: deque[dict[str, Any]] = deque(maxlen=EVENTS_KEPT)
        self._findings = json.dumps({"kind": "findings", "findings": [], "checklist": []})
        self._stages: Map[str, Any] | None = None
        """Where episodes fail, for tasks that name their stages."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unwatch: dict[tuple[str, str], Callable[[], None]] = {}
        self._scenes: dict[str, Any] = {}
        self._pictures: dict[str, Camera] = {}
        self._reading = asyncio.Lock()
        self._failed: set[str] = set()
        self._mapping: Mapping | None = None
        self._input: PageInput | None = None
        if source.remote is not None:
            own = self._folder.mapping_file
            self._mapping = Mapping.load(axes_of(ActionLayout.of(source.info.spec)), mapping or (own if own.exists() else None))
            self._input = PageInput(source.remote, self._mapping)

    # ---- one page

    async def serve(self, socket: WebSocket) -> None:
        """One page, from its opening to its end. A fault in it affects nothing else."""
        await socket.accept()
        page = OpenPage(socket.scope["asker"])
        if len(self._pages) >= MAX_PAGES and not self._make_room():
            await socket.close(1013, f"{MAX_PAGES} pages are open")
            return
        sender = asyncio.create_task(self._deliver(page, socket))
        try:
            with self._isolated("opening"):
                await self._read_all()
                page.send(as_json(self._hello(page)))
                page.send_newest("findings", self._findings)
            self._pages[page.id] = page
            self._start_tasks()
            patience_s: float | None = FIRST_WORD_S
            while True:
                self._receive(page, await page.next_message(socket, patience_s))
                patience_s = None
        except (WebSocketDisconnect, RuntimeError, KeyError):  # closed by either side, or not a text
            pass
        except TimeoutError:  # half open, or another page needs its place
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_S):
                    await socket.close(1013, "this page has been silent")
        finally:
            sender.cancel()
            self._close(page)

    def _make_room(self) -> bool:
        """Close a page: of those who have the most pages open, the one that has been silent for longest and steers no robot."""
        remote = self._source.remote
        steering = set() if remote is None else {remote.holder(source) for source in remote.actors()}
        pages = [page for page in self._pages.values() if page.id not in steering]
        if not pages:
            return False
        counts = Counter(page.asker.who.name for page in pages)
        silent = max(pages, key=lambda page: (counts[page.asker.who.name], -page.heard_at))
        self._pages.pop(silent.id)
        silent.give_up()
        return True

    def _start_tasks(self) -> None:
        """What runs while a page is open."""
        for name, work in (("numbers", self._send_numbers), ("findings", self._send_findings)):
            if name not in self._tasks or self._tasks[name].done():
                self._tasks[name] = asyncio.create_task(work())

    async def _deliver(self, page: OpenPage, socket: WebSocket) -> None:
        with contextlib.suppress(OSError, RuntimeError, WebSocketDisconnect):  # it has closed; `serve` notices it too
            await page.deliver(socket)

    def _close(self, page: OpenPage) -> None:
        self._pages.pop(page.id, None)
        if self._source.remote is not None:
            self._source.remote.page_closed(page.id)
        self._update_watched()

    def _hello(self, page: OpenPage) -> dict[str, Any]:
        info = self._source.info
        return {
            "kind": "hello",
            "page": page.id,
            "me": {"name": page.asker.who.name, "role": page.asker.who.role, "may": rights_of(page.asker.who.role)},
            "run": str(self._source.run),
            "task": info.task,
            "spec": info.spec.to_json(),
            "live": self._source.remote is not None,
            "episodes": self._folder.journal.exists(),
            "ppo": in_iterations(info.kind),
            "notice": bool(info.settings.get("notice")),
            "plots": plots(info.kind),
            "mapping": None if self._mapping is None else mapping_for_page(self._mapping),
            "record_phases": dict(RECORD_PHASES),
            "series": self._series.all(),
            "events": list(self._recent),
        }

    def _receive(self, page: OpenPage, text: str) -> None:
        """One message of a page. The page gets the problem, if there is one."""
        message: dict[str, Any] = {}
        try:
            if len(text) > MAX_MESSAGE:
                raise ValueError("too long")
            message = json.loads(text)
            problem = self._handle_command(page, message)
        except NotAllowed as refused:
            problem = str(refused)
        except Exception as fault:  # a page of an older version, or a bug: it must not affect anything else
            message, problem = {}, f"not understood: {type(fault).__name__}: {fault}"
        if problem is not None:
            page.send(json.dumps({"kind": "answer", "to": message.get("do", ""), "number": message.get("number"), "problem": problem}))

    def _handle_command(self, page: OpenPage, message: Map[str, Any]) -> str | None:
        """Returns the problem, the empty text if there is none, or None if the page needs no answer."""
        do = message["do"]
        if do == "look":
            page.source, page.camera, page.visible = str(message["source"]), str(message.get("camera", "")), bool(message["visible"])
            scene = None if self._source.remote is None else self._source.remote.scene(page.source)
            if scene is not None:
                page.send_newest("scene", json.dumps({"kind": "scene", "source": page.source, "scene": scene}))
            self._update_watched()
            return None
        if do == "ping":
            page.send(json.dumps({"kind": "pong", "number": message.get("number")}))
            return None
        return "this run is over: there is nothing to control" if self._input is None else self._input.handle_command(page, message)

    # ---- views

    def _update_watched(self) -> None:
        """Watch the actors that visible pages look at, and no others."""
        remote = self._source.remote
        if remote is None:
            return
        wanted = {(page.source, page.camera) for page in self._pages.values() if page.visible and page.source}
        for source, camera in self._unwatch.keys() - wanted:
            self._unwatch.pop((source, camera))()
        for source, camera in wanted - self._unwatch.keys():
            self._unwatch[source, camera] = remote.watch(source, partial(self._receive_view, remote, source, camera), camera)

    def _receive_view(self, remote: RemoteControl, source: str, camera: str, view: View) -> None:
        with self._isolated("view"):
            self._send_view(remote, source, camera, view)

    def _send_view(self, remote: RemoteControl, source: str, camera: str, view: View) -> None:
        """Send a view to all pages that look at this actor through this camera; it is encoded once."""
        fields = view.fields()
        poses = fields.pop("poses")
        frame = as_frame({"kind": "view", "source": source, **fields}, poses)
        picture = remote.picture(source) if camera else None
        looking = [page for page in self._pages.values() if page.visible and (page.source, page.camera) == (source, camera)]
        for page in looking:
            page.send_frame("view", frame)
        if picture is not None and picture is not self._pictures.get(source):
            self._pictures[source] = picture
            frame = as_frame({"kind": "camera", "source": source, "name": picture.name}, picture.picture)
            for page in looking:
                page.send_frame("camera", frame)
        scene = remote.scene(source)
        if scene is not None and scene is not self._scenes.get(source):
            self._scenes[source] = scene
            text = json.dumps({"kind": "scene", "source": source, "scene": scene})
            for page in self._pages.values():
                if page.source == source:
                    page.send_newest("scene", text)

    # ---- what all pages show alike

    async def _send_numbers(self) -> None:
        series_at = 0.0
        while self._pages:
            with self._isolated("state"):
                self._send_state()
            if time.monotonic() >= series_at:
                series_at = time.monotonic() + SERIES_S
                with self._isolated("series"):
                    await self._read_all()
                    self._send_new_points()
            await asyncio.sleep(STATE_S)

    async def _send_findings(self) -> None:
        """Apart from the numbers: the diagnosis of a long run takes a while, and the numbers do not wait for it."""
        while self._pages:
            began = time.monotonic()
            with self._isolated("findings"):
                await self._diagnose()
            await asyncio.sleep(max(FINDINGS_S, (time.monotonic() - began) / FINDINGS_SHARE))

    @contextlib.contextmanager
    def _isolated(self, part: str) -> Any:
        """Log a fault once and go on."""
        try:
            yield
        except Exception as fault:  # whatever it is: a page must not end a run
            if part not in self._failed:
                self._failed.add(part)
                self._say(f"[PAGE] cannot show its {part}: {type(fault).__name__}: {fault}")

    def _send_state(self) -> None:
        text = as_json(self._state())
        for page in self._pages.values():
            page.send_newest("state", text)

    def _state(self) -> dict[str, Any]:
        live, remote = self._source.live(), self._source.remote
        spec, config = self._source.info.spec, self._source.info.settings
        clocks, every = live.clocks if live else self._source.clocks(), int(config.get("steps_per_update") or 0)
        seen = figures(self._series, clocks.clocks, config, spec.return_range, self._stages)
        state = {
            "kind": "state",
            **(live.to_json() if live else {"status": {}, "clocks": clocks.to_json(), "actors": []}),
            **self._source.ending(),
            "words": clock_words(clocks.clocks, live.connected if live else (), every) if every else [],
            "buffers": self._buffers(config, live),
            "pages": len(self._pages),
            "control": {},
        }
        if every:
            advice = advise(seen)
            state["advice"] = {"phase": advice.phase, "do": advice.do, "because": advice.because}
            measured = phases(self._series)
            rows = [{**row, "measured": str(phase)} for row, phase in zip(reference(seen.clocks, every), measured, strict=True)]
            state["reference"] = {"rows": rows, "note": disagreement(measured)}
            state["help"] = {"facts": worth(self._series, list(self._recent))}
        if remote is not None:
            state["control"] = {source: _control(remote, source) for source in remote.actors()}
        return state

    def _buffers(self, config: Map[str, Any], live: LiveView | None) -> dict[str, Any]:
        last = self._series.last
        return {
            "online": last.get("clock/online_transitions"),
            "demos": last.get("clock/demo_transitions"),
            "capacity": config.get("replay_buffer_capacity"),
            "journal": live.status.journal.to_json() if live else {},
        }

    async def _read_all(self) -> None:
        """Read new metrics and events: in a thread, in small parts, because a long run has a long file."""
        async with self._reading:
            while await asyncio.to_thread(self._series.read):
                pass
            events: list[dict[str, Any]] = []
            while rows := await asyncio.to_thread(self._events.rows):
                events = [*events, *(row for row in rows if row.get("kind") not in FREQUENT)][-EVENTS_KEPT:]
        self._recent.extend(events)
        if events:
            self._broadcast({"kind": "events", "events": events})

    def _send_new_points(self) -> None:
        new = self._series.new_points()
        if new is not None:
            self._broadcast({"kind": "series", **new})

    async def _diagnose(self) -> None:
        found = await self._source.findings("en")
        self._stages = found.get("stages")
        named = ("state", "severity", "findings", "checklist", "stages", "seconds")
        self._findings = as_json({"kind": "findings", **{name: found.get(name) for name in named}})
        for page in self._pages.values():
            page.send_newest("findings", self._findings)

    def _broadcast(self, message: Map[str, Any]) -> None:
        text = as_json(message)
        for page in self._pages.values():
            page.send(text)


def _control(remote: RemoteControl, source: str) -> dict[str, Any]:
    """Who has control of an actor, for a page that gets no views of it."""
    view = remote.newest_view(source)
    fields = {} if view is None else {name: getattr(view, name) for name in ("who", "state", "notice", "episode", "step")}
    return {"holder": remote.holder(source), **fields}

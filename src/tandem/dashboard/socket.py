"""The channel between the hub and each open page: one WebSocket, on which numbers go out and a person's orders come back.

What all pages see alike is put into words once and sent to each: a state twice a second, new points of the plots, events, findings.
Views of the robot are passed on as they come, the newest only. A page that does not read is sent less, and never waited for.

    to a page      text: JSON with a `kind`            binary: 4 bytes (length of the header), the header (JSON), the payload
    from a page    text: JSON with `do`; `steer`, while it holds control, comes when a key changes and 20 times a second as a sign of life
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import secrets
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Map
from pathlib import Path
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from tandem.dashboard.advice import advise, clock_words, figures, reference
from tandem.dashboard.plots import in_iterations, plots
from tandem.dashboard.series import Series
from tandem.link.messages import Camera, View
from tandem.link.stage import Stage
from tandem.runs.events import FREQUENT
from tandem.runs.folder import RunFolder, RunInfo
from tandem.runs.lines import Tail
from tandem.runs.live import ClockView, LiveView
from tandem.teleop.mapping import Mapping

STATE_S = 0.5
SERIES_S = 1.0
FINDINGS_S = 10.0
FINDINGS_SHARE = 0.02
"""Of a core at most, for looking what is wrong: a long run takes longer to look at, and is looked at less often."""
EVENTS_KEPT = 60
MAX_WAITING = 256
"""Messages that may wait for a page before it is sent away; it then opens anew and gets everything at once."""
MAX_MESSAGE = 10_000
MAX_PAGES = 50
_LENGTH = struct.Struct("<I")
ROBOT_ORDERS = ("label", "record", "pause", "resume", "stop")
RUN_ORDERS = ("pause", "resume", "checkpoint", "evaluate", "stop")


class Source(Protocol):
    """Where a page's numbers come from: a hub, or the folder of a run whose hub is gone."""

    @property
    def run(self) -> Path: ...

    @property
    def stage(self) -> Stage | None:
        """Who holds control; None where nothing can be controlled."""
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


class Page:
    """One open page: what is on its way to it."""

    def __init__(self) -> None:
        self.id = f"page-{secrets.token_hex(4)}"
        self.source = ""
        """The actor it looks at."""
        self.camera = ""
        """Through which of its cameras; empty: drawn."""
        self.visible = True
        self._wake = asyncio.Event()
        self._waiting: deque[str] = deque()
        self._newest: dict[str, str] = {}
        self._frames: dict[str, bytes] = {}
        self.overflown = False

    def tell(self, text: str) -> None:
        """Something that must arrive."""
        if len(self._waiting) >= MAX_WAITING:
            self.overflown = True
        else:
            self._waiting.append(text)
        self._wake.set()

    def replace(self, kind: str, text: str) -> None:
        """Something of which only the newest matters."""
        self._newest[kind] = text
        self._wake.set()

    def frame(self, kind: str, data: bytes) -> None:
        self._frames[kind] = data
        self._wake.set()

    async def deliver(self, socket: WebSocket) -> None:
        while not self.overflown:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await socket.send_text(self._waiting.popleft())
            for kind in list(self._newest):
                await socket.send_text(self._newest.pop(kind))
            for kind in list(self._frames):
                await socket.send_bytes(self._frames.pop(kind))
        await socket.close(1013, "too slow")


class Pages:
    """All open pages of one run."""

    def __init__(self, source: Source, say: Callable[[str], None] = lambda line: None, mapping: Path | None = None) -> None:
        self._source, self._say = source, say
        self._pages: dict[str, Page] = {}
        self._folder = RunFolder(source.run)
        self._series = Series(self._folder.metrics_file)
        self._events = Tail(self._folder.events_file)
        self._recent: deque[dict[str, Any]] = deque(maxlen=EVENTS_KEPT)
        self._findings = json.dumps({"kind": "findings", "findings": [], "checklist": []})
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unwatch: dict[tuple[str, str], Callable[[], None]] = {}
        self._scenes: dict[str, Any] = {}
        self._pictures: dict[str, Camera] = {}
        self._reading = asyncio.Lock()
        self._failed: set[str] = set()
        own = self._folder.mapping_file
        file = mapping or (own if own.exists() else None)
        self._mapping = None if source.stage is None else Mapping.load(source.info.spec.action_dim, file)

    # ---- one page

    async def serve(self, socket: WebSocket) -> None:
        """From its opening to its end; whatever happens in it stays in it."""
        await socket.accept()
        if len(self._pages) >= MAX_PAGES:
            await socket.close(1013, f"{MAX_PAGES} pages are open")
            return
        page = Page()
        deliverer = asyncio.create_task(self._deliver(page, socket))
        try:
            with self._isolated("opening"):
                await self._read_all()
                page.tell(_json(self._hello(page)))
                page.replace("findings", self._findings)
            self._pages[page.id] = page
            self._begin()
            while True:
                self._hear(page, await socket.receive_text())
        except (WebSocketDisconnect, RuntimeError, KeyError):  # closed by either side, or not a text
            pass
        finally:
            deliverer.cancel()
            self._close(page)

    def _begin(self) -> None:
        """What runs while a page is open."""
        for name, work in (("numbers", self._tell_numbers), ("findings", self._tell_findings)):
            if name not in self._tasks or self._tasks[name].done():
                self._tasks[name] = asyncio.create_task(work())

    async def _deliver(self, page: Page, socket: WebSocket) -> None:
        with contextlib.suppress(OSError, RuntimeError, WebSocketDisconnect):  # it has gone; its listener knows
            await page.deliver(socket)

    def _close(self, page: Page) -> None:
        self._pages.pop(page.id, None)
        if self._source.stage is not None:
            self._source.stage.gone(page.id)
        self._watch_what_is_looked_at()

    def _hello(self, page: Page) -> dict[str, Any]:
        info = self._source.info
        return {
            "kind": "hello",
            "page": page.id,
            "run": str(self._source.run),
            "task": info.task,
            "spec": info.spec.to_json(),
            "live": self._source.stage is not None,
            "episodes": self._folder.journal.exists(),
            "ppo": in_iterations(info.kind),
            "plots": plots(info.kind),
            "mapping": None if self._mapping is None else _mapping_for_page(self._mapping),
            "series": self._series.all(),
            "events": list(self._recent),
        }

    def _hear(self, page: Page, text: str) -> None:
        """An order of a person. What is wrong with it is told to its page."""
        try:
            if len(text) > MAX_MESSAGE:
                raise ValueError("too long")
            order = json.loads(text)
            problem = self._obey(page, order)
        except Exception as fault:  # a page of an older version, or a mistake of ours: never more than this page's trouble
            order, problem = {}, f"not understood: {type(fault).__name__}: {fault}"
        if problem is not None:
            page.tell(json.dumps({"kind": "answer", "to": order.get("do", ""), "number": order.get("number"), "problem": problem}))

    def _obey(self, page: Page, order: Map[str, Any]) -> str | None:
        """The problem, empty if there is none; None where no answer is wanted."""
        stage, do = self._source.stage, order["do"]
        if do == "look":
            page.source, page.camera, page.visible = str(order["source"]), str(order.get("camera", "")), bool(order["visible"])
            scene = None if stage is None else stage.scene(page.source)
            if scene is not None:
                page.replace("scene", json.dumps({"kind": "scene", "source": page.source, "scene": scene}))
            self._watch_what_is_looked_at()
            return None
        if do == "ping":
            page.tell(json.dumps({"kind": "pong", "number": order.get("number")}))
            return None
        if stage is None:
            return "this run is over: there is nothing to control"
        if do == "steer":
            stage.steer(page.id, self._axes(order))
            return None
        if do == "take":
            return stage.take(page.id, page.source)
        if do == "let_go":
            stage.let_go(page.id)
            return ""
        if do == "robot" and order["command"] in ROBOT_ORDERS:
            return stage.order(order["command"], page.source, dict(order.get("detail") or {}))
        if do == "run" and order["command"] in RUN_ORDERS:
            return stage.order(order["command"], str(order.get("to", "all")), {})
        raise ValueError(f"no such order: {do!r:.50}")

    def _axes(self, order: Map[str, Any]) -> Sequence[float]:
        """What keys and gamepad mean together."""
        assert self._mapping is not None
        turned = None if order.get("turn") is None else _numbers([order["turn"]])[0]
        axes = self._mapping.axes_from_keys({str(code) for code in order.get("keys", ())}, turned)
        pad = order.get("pad")
        if pad is not None:
            axes = axes + self._mapping.axes_from_pad(_numbers(pad["axes"]), _numbers(pad["buttons"]), turned)
        return [max(-1.0, min(1.0, float(value))) for value in axes]

    # ---- views

    def _watch_what_is_looked_at(self) -> None:
        """Ask the actors that are looked at for views, and no others."""
        stage = self._source.stage
        if stage is None:
            return
        wanted = {(page.source, page.camera) for page in self._pages.values() if page.visible and page.source}
        for source, camera in self._unwatch.keys() - wanted:
            self._unwatch.pop((source, camera))()
        for source, camera in wanted - self._unwatch.keys():
            self._unwatch[source, camera] = stage.watch(source, lambda view, s=source, c=camera: self._seen(stage, s, c, view), camera)

    def _seen(self, stage: Stage, source: str, camera: str, view: View) -> None:
        with self._isolated("view"):
            self._pass_on(stage, source, camera, view)

    def _pass_on(self, stage: Stage, source: str, camera: str, view: View) -> None:
        """A view of a robot, to everyone who looks at it like this: put into bytes once."""
        fields = view.fields()
        poses = fields.pop("poses")
        frame = _frame({"kind": "view", "source": source, **fields}, poses)
        picture = stage.picture(source) if camera else None
        looking = [page for page in self._pages.values() if page.visible and (page.source, page.camera) == (source, camera)]
        for page in looking:
            page.frame("view", frame)
        if picture is not None and picture is not self._pictures.get(source):
            self._pictures[source] = picture
            frame = _frame({"kind": "camera", "source": source, "name": picture.name}, picture.picture)
            for page in looking:
                page.frame("camera", frame)
        scene = stage.scene(source)
        if scene is not None and scene is not self._scenes.get(source):
            self._scenes[source] = scene
            text = json.dumps({"kind": "scene", "source": source, "scene": scene})
            for page in self._pages.values():
                if page.source == source:
                    page.replace("scene", text)

    # ---- what all see alike

    async def _tell_numbers(self) -> None:
        series_at = 0.0
        while self._pages:
            with self._isolated("state"):
                self._tell_state()
            if time.monotonic() >= series_at:
                series_at = time.monotonic() + SERIES_S
                with self._isolated("series"):
                    await self._read_all()
                    self._tell_news()
            await asyncio.sleep(STATE_S)

    async def _tell_findings(self) -> None:
        """Apart from the numbers: looking at a long run takes a while, and they do not wait for it."""
        while self._pages:
            began = time.monotonic()
            with self._isolated("findings"):
                await self._look_for_findings()
            await asyncio.sleep(max(FINDINGS_S, (time.monotonic() - began) / FINDINGS_SHARE))

    @contextlib.contextmanager
    def _isolated(self, part: str) -> Any:
        """A fault is told once, and the rest goes on."""
        try:
            yield
        except Exception as fault:  # whatever it is: a page is not worth a run
            if part not in self._failed:
                self._failed.add(part)
                self._say(f"[PAGE] its {part} cannot be shown: {type(fault).__name__}: {fault}")

    def _tell_state(self) -> None:
        text = _json(self._state())
        for page in self._pages.values():
            page.replace("state", text)

    def _state(self) -> dict[str, Any]:
        live, stage = self._source.live(), self._source.stage
        spec, config = self._source.info.spec, self._source.info.settings
        clocks, every = live.clocks if live else self._source.clocks(), int(config.get("steps_per_update") or 0)
        seen = figures(self._series, clocks.clocks, config, spec.return_range)
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
            state["reference"] = {"rows": reference(seen.clocks, every)}
        if stage is not None:
            state["control"] = {source: _control(stage, source) for source in stage.actors()}
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
        """What was written meanwhile: in a thread, in small turns, because a long run has a long file."""
        async with self._reading:
            while await asyncio.to_thread(self._series.read):
                pass
            events: list[dict[str, Any]] = []
            while rows := await asyncio.to_thread(self._events.rows):
                events = [*events, *(row for row in rows if row.get("kind") not in FREQUENT)][-EVENTS_KEPT:]
        self._recent.extend(events)
        if events:
            self._broadcast({"kind": "events", "events": events})

    def _tell_news(self) -> None:
        news = self._series.news()
        if news is not None:
            self._broadcast({"kind": "series", **news})

    async def _look_for_findings(self) -> None:
        found = await self._source.findings("en")
        named = ("state", "severity", "findings", "checklist", "seconds")
        self._findings = _json({"kind": "findings", **{name: found.get(name) for name in named}})
        for page in self._pages.values():
            page.replace("findings", self._findings)

    def _broadcast(self, message: Map[str, Any]) -> None:
        text = _json(message)
        for page in self._pages.values():
            page.tell(text)


def _control(stage: Stage, source: str) -> dict[str, Any]:
    """Who holds an actor, for a page that gets no views of it."""
    view = stage.newest(source)
    fields = {} if view is None else {name: getattr(view, name) for name in ("who", "state", "notice", "episode", "step")}
    return {"holder": stage.holder(source), **fields}


def _json(message: Map[str, Any]) -> str:
    """As browsers read it: they know no NaN, and one in an event must not cost the page all others."""
    try:
        return json.dumps(message, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(message), default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _frame(header: Map[str, Any], payload: bytes) -> bytes:
    told = json.dumps(header).encode()
    return b"".join((_LENGTH.pack(len(told)), told, payload))


def _numbers(values: Any) -> list[float]:
    numbers = [float(value) for value in values[:32]]
    if not all(math.isfinite(value) for value in numbers):
        raise ValueError("a stick that is no number")
    return numbers


def _mapping_for_page(mapping: Mapping) -> dict[str, Any]:
    """What the browser must know: which keys move, which ask for something, and the table for people."""
    tables = mapping.tables
    return {
        "table": mapping.table(),
        "keys": [code for code, does in tables["keys"].items() if does in ("fine",) or does[1:] in mapping.axes],
        "key_commands": dict(tables["key_commands"]),
        "pad_commands": dict(tables["pad_commands"]),
        "hold": [button for button, does in tables["pad_buttons"].items() if does == "hold"],
    }

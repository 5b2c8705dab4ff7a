"""The hub: owns the port, the token, the journal and the list of actors. It never computes, and nothing that computes waits for it.

One port for everything: `/link` for actors (WebSocket), `/api/*` for programs (JSON, see docs/link.md), and room for a page.
With the trainer it shares nothing but the run folder (`link/trainer_end.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import math
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI, HTTPException, Request

from tandem.errors import ConfigError, HubBusy, StorageFull
from tandem.files import write_atomically
from tandem.link import credits
from tandem.link.actors import ActorLine, Rate
from tandem.link.guard import Receive, Scope, Send, Strangers, guarded
from tandem.link.messages import (
    ACTOR_COMMANDS,
    EPISODE_END,
    FROM_ACTOR,
    GROUP_BYTES,
    MAX_FRAME,
    MAX_HEADER,
    PROTOCOL,
    TRAINER_COMMANDS,
    BadFrame,
    Camera,
    Command,
    Hello,
    OtherProtocol,
    Refused,
    Scene,
    Statistics,
    Steps,
    Trouble,
    View,
    Welcome,
    parse,
)
from tandem.link.stage import Stage
from tandem.link.trainer_end import open_journal, read_policy_file
from tandem.link.writer import Group, Stored, Writer
from tandem.runs.board import Board
from tandem.runs.folder import RunFolder
from tandem.runs.lines import Tail, append_rows, newest_rows
from tandem.runs.live import ActorView, ClockView, HubView, JournalView, LiveView, PolicyView, RecordingView, TrainerView
from tandem.types import Spec

LOOPBACK = ("127.0.0.1", "::1", "localhost")
WINDOW_BYTES = 8 * 2**20
_LOOK_S, _LOOK_SELDOM_S = 0.005, 0.02
"""Between two looks at the board; seldom while nobody waits for credit."""
_TICK_S = 0.2
_DEAD_TRAINER_S = 5.0
_REMEMBER_S = 300.0
"""How long an actor that left is still shown."""
_KEEP_LIVE_S = 2.0
_FINDINGS_STAND_S = 3.0
"""However many ask, no more often than this."""
_ROWS_PER_ANSWER = 1000
_MAX_EVENTS, _EVENTS_PER_S = 200, 2.0
MAX_BODY = 10_000
_EPISODE = "environment/episode/"
_TAIL_BYTES = 16_384
"""Of metrics.jsonl: a few rows."""


class Hub:
    """Serves one run folder. `serve` runs until `stop`, or SIGTERM or SIGINT in the main thread."""

    def __init__(
        self,
        run: Path,
        *,
        token: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        certificate: Path | None = None,
        key: Path | None = None,
        actor_settings: Mapping[str, Any] | None = None,
        max_actors: int = 64,
        max_strangers: int = 32,
        ping_s: float = 5.0,
        timeout_s: float = 10.0,
        wall: Callable[[], float] = time.time,
        say: Callable[[str], None] = lambda line: None,
        clocks: Callable[[ClockView], ClockView] = lambda counts: counts,
        findings: Callable[[LiveView, str], dict[str, Any]] = lambda live, language: {},
    ) -> None:
        self.run, self.host, self._wall, self._say, self._clocks, self._findings = run, host, wall, say, clocks, findings
        self.folder = RunFolder.open(run)
        self.info = self.folder.info
        self.run_id = self.folder.run_id
        self._lock = _only_hub(self.folder)
        self._token = token or self.folder.token
        self._settings = dict(actor_settings or {})
        self._max_actors, self._timeout_s = max_actors, timeout_s
        self._record_bytes = record_limit(self.info.spec)
        self._lines: dict[str, ActorLine] = {}
        self._published: deque[tuple[int, float]] = deque(maxlen=4096)
        self._policy: bytes | None = None
        self._version = -1
        self._policy_hash = ""
        self._trouble = ""
        self._failure: BaseException | None = None
        self._learner_rate, self._actor_rate = Rate(), Rate()
        self._began = self._events_at = time.monotonic()
        self._events_left = float(_MAX_EVENTS)
        self._diagnosing = asyncio.Lock()
        self._told: dict[str, tuple[float, dict[str, Any]]] = {}
        self._board = Board(run)
        self._seen = _Seen(heartbeat=self._board["trainer_heartbeat"])
        self._journal = open_journal(run, self.info.spec, read_only=False)
        self._writer = Writer(
            run,
            self._journal,
            self._board,
            stored=lambda result: self._soon(self._stored, result),
            trouble=lambda text: self._soon(self._storage_trouble, text),
            failed=lambda problem: self._soon(self._fail, problem),
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self.stage = Stage(self._connected, self._pass_on)
        """Where people watch and steer the actors; for the page, in the hub's loop."""
        self.recording: RecordingView | None = None
        """How far a person is who records demonstrations here; None while nobody does."""
        self.app = self._make_app()
        """Mount a page on it before `serve`; the routes of the API are there already."""
        self._strangers = Strangers(max_strangers, timeout_s)
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.scheme = "wss" if certificate else "ws"
        if certificate is None and host not in LOOPBACK:
            self._say(
                f"[HUB] listening on {host} without a certificate: token and data can be read on the way. Give --certificate and --key."
            )
        self._server = _Server(
            guarded(
                self.app,
                self._link,
                self._token,
                self._strangers,
                ws_max_size=max(GROUP_BYTES, self._record_bytes) + MAX_HEADER + 1024,
                ws_ping_interval=ping_s,
                ws_ping_timeout=timeout_s,
                lifespan="on",
                timeout_graceful_shutdown=2,
                ssl_certfile=certificate,
                ssl_keyfile=key,
            ),
            self._listening,
        )

    @property
    def address(self) -> str:
        return f"{'[' + self.host + ']' if ':' in self.host else self.host}:{self.port}"

    def serve(self) -> None:
        """Until stopped. Raises what broke the data path, if that is why it ended."""
        with _gentle_signals():
            try:
                self._server.run(sockets=[self._socket])
            finally:
                self.close()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """From any thread."""
        self._server.should_exit = True

    def close(self) -> None:
        """Let go of the run folder; `serve` does it."""
        if self._lock < 0:
            return
        self._writer.stop()
        self._keep_live(closed=True)
        self.folder.hub_file.unlink(missing_ok=True)
        self._socket.close()
        self._board.close()
        self._journal.close()
        os.close(self._lock)
        self._lock = -1

    # ---- life

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        self._writer.start()
        self._take_policy(time.monotonic())  # before the first actor can ask for it
        self._look_at_board()
        yield
        self._next_look.cancel()

    def _listening(self) -> None:
        described = {"address": self.address, "pid": os.getpid(), "tls": self.scheme == "wss", "run": self.run_id}
        with contextlib.suppress(StorageFull):
            write_atomically(self.folder.hub_file, json.dumps(described).encode(), durable=False)
        self._say(f"[HUB] listening on {self.address} ({'TLS' if self.scheme == 'wss' else 'no TLS'}), run {self.run}")

    def _soon(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is left to be told
            self._loop.call_soon_threadsafe(function, *arguments)

    def _fail(self, problem: BaseException) -> None:
        self._failure = problem
        self.stop()

    # ---- the board

    def _look_at_board(self) -> None:
        """Has the trainer anything new to say? Again and again, without waking more than is needed."""
        now = time.monotonic()
        board, seen = self._board, self._seen
        state = board.trainer_state()
        if state != seen.state:
            if board["policy_version"] != seen.version:
                seen.version = board["policy_version"]
                self._take_policy(now)
            seen.state = state
            self._grant()
        if now - seen.ticked_at >= _TICK_S:
            seen.ticked_at = now
            self._feel_pulse(now)
            self._keep_time(now)
            self.stage.keep_time(now)
        if now - seen.kept_at >= _KEEP_LIVE_S:
            seen.kept_at = now
            self._keep_live()
        assert self._loop is not None
        soon = any(line.connected and line.fast for line in self._lines.values())
        self._next_look = self._loop.call_later(_LOOK_S if soon else _LOOK_SELDOM_S, self._look_at_board)

    def _feel_pulse(self, now: float) -> bool:
        """Whether the trainer is alive: its heart has beaten within the last seconds, at the latest just now."""
        if self._board["trainer_heartbeat"] != self._seen.heartbeat:
            self._seen.heartbeat, self._seen.alive_at = self._board["trainer_heartbeat"], now
        return now - self._seen.alive_at < _DEAD_TRAINER_S

    def _keep_time(self, now: float) -> None:
        self._board["hub_heartbeat"] += 1
        self._learner_rate.mark(now, self._board["learner_step"])
        self._actor_rate.mark(now, self._writer.accepted)
        for source, line in list(self._lines.items()):
            line.rate.mark(now, line.stored)
            if not line.connected and now - line.last_seen > _REMEMBER_S:
                del self._lines[source]

    def live(self, closed: bool = False) -> LiveView:
        """All that is known at this moment and stands in no other file."""
        return LiveView(self._wall(), self.status(), self._clocks(self.counts()), self.actors(), closed, self.recording)

    def _keep_live(self, closed: bool = False) -> None:
        """In the run folder, so that a run can be judged without asking the hub, and after it has gone."""
        with contextlib.suppress(StorageFull):
            write_atomically(self.folder.live_file, json.dumps(self.live(closed).to_json()).encode(), durable=False)

    def _take_policy(self, now: float) -> None:
        """Pass on what the trainer published; a file that is damaged or older than what actors have is not."""
        found = read_policy_file(self.run)
        if found is None or found[0].version <= self._version:
            return
        snapshot, self._policy = found
        self._version, self._policy_hash = snapshot.version, snapshot.hash
        self._published.append((snapshot.version, now))
        for line in self._connected():
            line.policy(self._version, self._policy)

    def _grant(self) -> None:
        """Divide among the fast actors what the trainer allows."""
        u = self._board.updates_per_actor_step
        lines = [line for line in self._connected() if line.fast]
        if lines and u > 0:
            pacing = credits.Pacing(self._board["steps_before"], u, self._board["learner_step"])
            credits.divide(pacing, [line.account for line in lines], self._writer.accepted)
            for line in lines:
                line.tell_credit()

    # ---- the writer's words, in the loop

    def _stored(self, result: Stored) -> None:
        rejected: dict[str, str] = {}
        counts: dict[str, int] = {}
        for row in result.rejected:
            counts[row.source] = counts.get(row.source, 0) + 1
            rejected[row.source] = f"step {row.seq} of episode {row.episode}: {row.reason}"
        for line, number, own, steps, size, records in result.groups:
            line.stored += steps
            line.under_way -= size
            if own:
                line.account.acknowledge(steps)
            refused = 0
            for source in {record.source for record in records} & counts.keys() if counts else ():
                refused += counts.pop(source)
                line.last_rejection = rejected[source]
            line.rejected += refused
            line.acknowledge(number, refused)
        if result.rejected:
            self._say(f"[HUB] {len(result.rejected)} steps cannot be used, for instance {next(iter(rejected.values()))}")
        self._grant()

    def _storage_trouble(self, text: str) -> None:
        if text != self._trouble:
            self._trouble = text
            self._event("storage_trouble" if text else "storage_well_again", problem=text)
            self._say(f"[HUB] {text}" if text else "[HUB] there is room again; everything is stored")
            for line in self._connected():
                line.trouble(Trouble("storage" if text else "none", text[:1000]))

    # ---- actors

    def _connected(self) -> list[ActorLine]:
        return [line for line in self._lines.values() if line.connected]

    async def _link(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, from its first word to its end."""
        if (await receive())["type"] != "websocket.connect":
            return
        await send({"type": "websocket.accept"})
        try:
            async with asyncio.timeout(self._timeout_s):
                hello = await self._greet(receive, send)
        except (TimeoutError, OSError):
            return
        if hello is None:
            return
        line = self._welcome(hello, scope, send)
        deliverer = asyncio.create_task(self._deliver(line, self._welcome_frame()))
        try:
            await self._listen_to(line, receive)
        except BadFrame as problem:
            self._event("bad_frame", name=hello.name, source=hello.source, problem=str(problem)[:500])
            with contextlib.suppress(OSError, RuntimeError):
                await send({"type": "websocket.close", "code": 1007, "reason": str(problem).encode()[:120].decode(errors="ignore")})
        finally:
            deliverer.cancel()
            self._leave(line)

    async def _greet(self, receive: Receive, send: Send) -> Hello | None:
        message = await receive()
        if message["type"] != "websocket.receive":
            return None
        name = ""
        try:
            hello = parse(message.get("bytes") or b"", ("hello",))
            assert isinstance(hello, Hello)
            name = hello.name
            code, text = self._objection(hello)
            if not code:
                return hello
        except OtherProtocol as problem:
            code, text = "protocol", f"{problem}. Install the same version of Tandem on both machines."
        except BadFrame as problem:
            code, text = "protocol", f"that was no greeting: {problem}. Is this an actor of Tandem?"
        self._event("refused", code=code, problem=text[:500], name=name)
        self._say(f"[HUB] refused an actor: {text}")
        await send({"type": "websocket.send", "bytes": Refused(code, text[:4000]).pack()})
        await send({"type": "websocket.close", "code": 1008, "reason": code})
        return None

    def _objection(self, hello: Hello) -> tuple[str, str]:
        """Why this actor cannot join, as a code and in words; two empty texts if it can."""
        mine = self.info.spec
        if hello.task != self.info.task:
            return (
                "task",
                f"this run is of the task '{self.info.task}', the actor '{hello.name}' has '{hello.task}'. Start it with the same task.",
            )
        difference = _difference(mine, hello)
        if difference:
            return "spec", (
                f"the actor '{hello.name}' sees, does or is paid something else than this run of '{mine.task}': {difference} "
                "(here: the run, there: the actor). Use the same version and options of the task at both ends."
            )
        if hello.run and hello.run != self.run_id:
            return "run", (
                f"the actor '{hello.name}' joined run {hello.run}, this is run {self.run_id}. Its steps stay in its spool: "
                "start a new actor for this run, or the hub of the other run."
            )
        others = sum(line.hello.source != hello.source for line in self._connected())
        if others >= self._max_actors:
            return "busy", f"{others} actors are connected, as many as this hub takes. Stop one, or start the hub with more."
        return "", ""

    def _welcome(self, hello: Hello, scope: Scope, send: Send) -> ActorLine:
        now = time.monotonic()
        address = ":".join(str(part) for part in scope.get("client") or ())
        line = ActorLine(hello, send, joined_at=now, last_seen=now, address=address)
        before = self._lines.pop(hello.source, None)
        if before is not None:  # the same process over a new connection
            line.stored, line.rejected, line.last_rejection, line.rate = before.stored, before.rejected, before.last_rejection, before.rate
            line.statistics = before.statistics
            if before.connected:
                before.connected = False
                before.close(1012, "this actor has connected anew")
        self._lines[hello.source] = line
        self._event("actor_joined", name=hello.name, source=hello.source, address=address, again=before is not None)
        self._say(f"[HUB] actor '{hello.name}' {'is back' if before else 'joined'} from {address}")
        if self._policy is not None:
            line.policy(self._version, self._policy)
        if self._trouble:
            line.trouble(Trouble("storage", self._trouble[:1000]))
        self._grant()
        return line

    def _welcome_frame(self) -> bytes:
        settings = {**self._settings, "actor_steps": self._writer.accepted}
        return Welcome(self.run_id, self.info.task, self._version, WINDOW_BYTES, self._record_bytes, settings).pack()

    async def _deliver(self, line: ActorLine, welcome: bytes) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # it has gone; its listener knows
            await line.send({"type": "websocket.send", "bytes": welcome})
            await line.deliver()

    async def _listen_to(self, line: ActorLine, receive: Receive) -> None:
        while True:
            event = await receive()
            if event["type"] != "websocket.receive":
                return
            line.last_seen = time.monotonic()
            message = parse(event.get("bytes") or b"", FROM_ACTOR)
            if isinstance(message, Steps):
                self._take_steps(line, message)
            elif isinstance(message, Statistics):
                line.tell(message, self._wall())
            elif isinstance(message, Command):
                self._pass_on(message, line.hello.name)
            elif isinstance(message, Scene | View | Camera):
                self.stage.seen(line.hello.source, message)
            else:
                raise BadFrame("a second greeting")

    def _take_steps(self, line: ActorLine, steps: Steps) -> None:
        if steps.group != line.last_group + 1:
            raise BadFrame(f"group {steps.group} after {line.last_group}")
        sizes = [len(record.data) for record in steps.records]
        size = sum(sizes)
        if max(sizes) > self._record_bytes:
            raise BadFrame(f"a step of {max(sizes)} bytes; at most {self._record_bytes} for this task")
        if line.under_way and line.under_way + size > WINDOW_BYTES:
            raise BadFrame(f"{line.under_way + size} bytes without waiting for an acknowledgement; at most {WINDOW_BYTES}")
        line.last_group = steps.group
        line.under_way += size
        count = sum(record.seq != EPISODE_END for record in steps.records)
        self._writer.put(Group(line, steps.group, steps.own, count, size, steps.records))

    def _leave(self, line: ActorLine) -> None:
        if line.connected:
            line.connected = False
            line.last_seen = time.monotonic()
            self.stage.left(line.hello.source)
            self._event("actor_left", name=line.hello.name, source=line.hello.source)
            self._say(f"[HUB] actor '{line.hello.name}' left")
            self._grant()

    # ---- commands and events

    def _pass_on(self, command: Command, asked_by: str) -> list[str]:
        """To whom it may concern; returns who was told."""
        told = []
        if command.to in ("trainer", "all") and command.command in TRAINER_COMMANDS:
            append_rows(self.folder.commands_file, [{"time": self._wall(), "from": asked_by, **command.fields()}])
            told.append("trainer")
        if command.command in ACTOR_COMMANDS:
            self.stage.ordered(command)
            for actor in self._connected():
                named = command.to in ("all", "actors", actor.hello.name, actor.hello.source)
                if named and actor.command(command):
                    told.append(actor.hello.source)
        return told

    def _event(self, kind: str, **details: Any) -> None:
        """What happened, beside the trainer's own events; a full disk is no reason to stop, and a busy intruder fills none."""
        now = time.monotonic()
        self._events_left = min(_MAX_EVENTS, self._events_left + (now - self._events_at) * _EVENTS_PER_S)
        self._events_at = now
        if self._events_left < 1:
            return
        self._events_left -= 1
        with contextlib.suppress(OSError):
            append_rows(self.folder.events_file, [{"time": self._wall(), "kind": kind, "by": "hub", **details}])

    # ---- the API

    def _make_app(self) -> FastAPI:
        app = FastAPI(title="Tandem", docs_url=None, redoc_url=None, openapi_url=None, lifespan=self._lifespan)
        app.add_api_route("/api/status", self._api_status)
        app.add_api_route("/api/clocks", self._api_clocks)
        app.add_api_route("/api/actors", self._api_actors)
        app.add_api_route("/api/metrics", self._api_metrics)
        app.add_api_route("/api/events", self._api_events)
        app.add_api_route("/api/findings", self._api_findings)
        app.add_api_route("/api/command", self._api_command, methods=["POST"])
        return app

    async def _api_status(self) -> dict[str, Any]:
        return self.status().to_json()

    async def _api_clocks(self) -> dict[str, Any]:
        return self._clocks(self.counts()).to_json()

    async def _api_actors(self) -> list[dict[str, Any]]:
        return [actor.to_json() for actor in self.actors()]

    async def _api_metrics(self, after: int = 0) -> dict[str, Any]:
        return _rows_after(self.folder.metrics_file, after)

    async def _api_events(self, after: int = 0) -> dict[str, Any]:
        return _rows_after(self.folder.events_file, after)

    async def _api_findings(self, lang: str = "en") -> dict[str, Any]:
        return await self.findings(lang)

    async def findings(self, lang: str = "en") -> dict[str, Any]:
        """What is wrong with this run, by whoever was given to the hub to tell; in a thread, for it reads files."""
        async with self._diagnosing:
            now = time.monotonic()
            made_at, told = self._told.get(lang, (-_FINDINGS_STAND_S, {}))
            if now - made_at >= _FINDINGS_STAND_S:
                told = await asyncio.to_thread(self._findings, self.live(), lang)
                self._told = {lang: (time.monotonic(), told)}
        return {"protocol": PROTOCOL, **told}

    async def _api_command(self, request: Request) -> dict[str, Any]:
        try:
            asked = json.loads(await _small_body(request))
            command = Command.from_fields({"to": "all", "detail": {}, **asked})
        except (ValueError, TypeError) as problem:
            raise HTTPException(422, f"not a command: {problem}") from None
        return {"told": self._pass_on(command, "api")}

    def counts(self) -> ClockView:
        """The three clocks and what they depend on, as they stand."""
        now, board = time.monotonic(), self._board
        return ClockView(
            learner_step=board["learner_step"],
            actor_step=self._writer.accepted,
            policy_version=max(self._version, 0),
            learner_steps_per_s=round(self._learner_rate.per_s(now, board["learner_step"]), 2),
            actor_steps_per_s=round(self._actor_rate.per_s(now, self._writer.accepted), 2),
            steps_before=board["steps_before"],
            updates_per_actor_step=board.updates_per_actor_step,
            phase=board.phase,
        )

    def actors(self) -> list[ActorView]:
        now = time.monotonic()
        return [line.view(now, self._version, self._out_of_date_s(line, now)) for line in self._lines.values()]

    def _out_of_date_s(self, line: ActorLine, now: float) -> float:
        """Since something newer than what it acts with was published."""
        version = line.statistics.version if line.statistics else -1
        return next((now - at for published, at in self._published if published > version), 0.0)

    def status(self) -> HubView:
        now = time.monotonic()
        return HubView(
            trainer=TrainerView(self._feel_pulse(now), self._board.phase, self._board["trainer_ord"]),
            policy=PolicyView(self._version, self._policy_hash, len(self._policy or b"")),
            journal=JournalView(self._writer.accepted, self._writer.rejected, self._trouble),
            up_s=round(now - self._began, 1),
            run=self.run_id,
            folder=str(self.run),
            task=self.info.task,
            spec_hash=self.info.spec.hash,
            time=self._wall(),
            episodes=_episodes(self.folder.metrics_file),
            actors=len(self._connected()),
            strangers_turned_away=self._strangers.turned_away,
        )


@dataclass
class _Seen:
    """What was on the board at the last look."""

    heartbeat: int
    state: tuple[int, ...] = ()
    version: int = -1
    alive_at: float = -math.inf
    """When the trainer's heartbeat last moved."""
    ticked_at: float = -math.inf
    kept_at: float = -math.inf


class _Server(uvicorn.Server):
    """Tells when it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell_listening()


def record_limit(spec: Spec) -> int:
    """Bytes that a packed step may have: a sound one has two observations and an action, an unsound one is still to be kept."""
    one = sum(entry.size * np.dtype(entry.dtype).itemsize for entry in spec.observation.values())
    needed = 2 * one + spec.action.size * 8 + 4096
    if needed > MAX_FRAME // 2:
        raise ConfigError(f"a step of '{spec.task}' has {needed} bytes; the link takes at most {MAX_FRAME // 2}. Use smaller images.")
    return min(2 * needed + 2**16, MAX_FRAME - 2**20)


def _difference(mine: Spec, hello: Hello) -> str:
    """In words, empty if there is none. More than the hash is compared: that of a sparse and of a dense reward is the same."""
    try:
        told = "; ".join(mine.difference(Spec.from_json(hello.spec)))[:2000]
        return told or ("the same words, but another hash" if hello.spec_hash != mine.hash else "")
    except (KeyError, TypeError, ValueError, AttributeError):
        return "its spec cannot be read"


async def _small_body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise HTTPException(413, f"at most {MAX_BODY} bytes")
    return body


def _rows_after(path: Path, after: int) -> dict[str, Any]:
    """Rows of a JSON-lines file from a byte on, and the byte to ask for next time."""
    tail = Tail(path, max(0, after))
    return {"rows": tail.rows(max_rows=_ROWS_PER_ANSWER), "next": tail.at}


def _episodes(path: Path) -> dict[str, float]:
    """How the last episodes went, by the newest row of metrics that says so: with a person's help and without."""
    for row in reversed(newest_rows(path, _TAIL_BYTES)):
        found = {name.removeprefix(_EPISODE): value for name, value in row.items() if name.startswith(_EPISODE)}
        if found:
            return found
    return {}


def _only_hub(run: RunFolder) -> int:
    lock = os.open(run.hub_lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise HubBusy(f"another hub serves {run.path} already (see {run.hub_file}). Stop that one first.") from None
    return lock


def _listen(host: str, port: int) -> socket.socket:
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a hub that was killed can be followed at once
        listening.bind(address)
        return listening
    except OSError as problem:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {problem.strerror}. Is another hub running there? Choose another --port."
        ) from None


@contextlib.contextmanager
def _gentle_signals() -> Iterator[None]:
    """uvicorn ends on SIGTERM and SIGINT and then raises the signal again; here the first time was enough."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

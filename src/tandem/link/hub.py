"""The hub: owns the port, the credentials, the journal and the list of actors. It computes nothing, and no loop waits for it.

One port serves `/link` for actors (WebSocket), `/api/*` for programs (JSON, see docs/link.md), and the page, if one is mounted.
Hub and trainer share only the run folder (`link/trainer_end.py`).

    hub_config.py       settings, and what the parts share
    hub_actors.py       the actors: greeting, steps, acknowledgements
    board_watch.py      looks at the trainer's board
    published_policy.py the newest policy
    remote_control.py   people who watch and steer actors
    writer.py           the thread that writes the journal
    hub_api.py          the HTTP API
    guard.py            the check in front of everything: who is it, and may they?
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from tandem.errors import NotAllowed, StorageFull
from tandem.files import DURABILITY_IN_WORDS, write_atomically
from tandem.link import credits
from tandem.link.access import HERE, Access, Asker
from tandem.link.actors import ActorConnection, Rate
from tandem.link.audit import Audit
from tandem.link.board_watch import BoardWatch
from tandem.link.commands import ACTOR_COMMANDS, TRAINER_COMMANDS
from tandem.link.door import Door
from tandem.link.fields import MAX_HEADER
from tandem.link.guard import Guard, guarded
from tandem.link.hosts import HostNames
from tandem.link.hub_actors import HubActors
from tandem.link.hub_api import FindingsCache, add_routes
from tandem.link.hub_config import HubConfig, HubContext, disk_reserve, record_limit
from tandem.link.hub_events import HubEvents
from tandem.link.listening import Server, files_for, listen, lock_run, plaintext_warning, server_tls, signals_handled_once
from tandem.link.messages import Command
from tandem.link.published_policy import PublishedPolicy
from tandem.link.remote_control import RemoteControl
from tandem.link.roles import right_for, why_not
from tandem.link.sources import Sources
from tandem.link.steps import GROUP_BYTES
from tandem.link.trainer_end import open_journal
from tandem.link.writer import Writer
from tandem.runs.board import Board
from tandem.runs.folder import RunFolder
from tandem.runs.isolation import Bucket, Lines
from tandem.runs.lines import append_rows, newest_rows
from tandem.runs.live import ActorView, ClockView, HubView, JournalView, LiveView, PolicyView, RecordingView, TrainerView

_SAVE_LIVE_S = 2.0
_LINES_PER_S, _LINES_AT_ONCE = 2.0, 200.0
_COMMANDS_PER_S, _COMMANDS_AT_ONCE = 5.0, 100.0
"""Lines in the log, and commands in their file: what comes from outside does not fill the disk."""
_EPISODE = "environment/episode/"
_TAIL_BYTES = 16_384
"""The last bytes of metrics.jsonl: a few rows."""


class Hub:
    """Serves one run folder. `serve` runs until `stop`, or SIGTERM or SIGINT in the main thread.

    `say` writes a line to a log, `warn` one that somebody must see now. `clocks` and `findings` complete what the hub shows: rates and
    phases, and the doctor's findings.
    """

    def __init__(
        self,
        run: Path,
        config: HubConfig = HubConfig(),  # noqa: B008 (frozen)
        *,
        say: Callable[[str], None] = lambda line: None,
        warn: Callable[[str], None] | None = None,
        wall: Callable[[], float] = time.time,
        clocks: Callable[[ClockView], ClockView] = lambda counts: counts,
        findings: Callable[[LiveView, str], dict[str, Any]] = lambda live, language: {},
    ) -> None:
        self.run, self.config, self._clocks = run, config, clocks
        self.folder = folder = RunFolder.open(run)
        self.info = info = folder.info
        self._warning = plaintext_warning(config.host, config.certificate, config.insecure)
        self._tls = server_tls(config.certificate, config.key)
        self._lock = lock_run(folder)
        self._audit = Audit(folder.audit_file, wall)
        lines, warnings = Lines(say, Bucket(_LINES_PER_S, _LINES_AT_ONCE)), Lines(warn or say)
        self._hub = _context(config, folder, self._audit, lines, warnings, wall)
        self._commands_written = Bucket(_COMMANDS_PER_S, _COMMANDS_AT_ONCE)
        self.unwritten_commands = 0
        """Commands to the trainer that are not in `commands.jsonl`; it got them by the board."""
        self.command_problem = ""
        """Why the newest one is not."""
        self._failure: BaseException | None = None
        self._learner_rate, self._actor_rate = Rate(), Rate()
        self._began, self._saved_at = time.monotonic(), -math.inf
        self._address_owed = False
        """It listens, and no file says where: the disk was full."""
        self._findings = FindingsCache(findings, self.live)
        self._board = Board(run)
        self._journal = open_journal(run, info.spec, read_only=False, durability=config.durability)
        self._writer = self._make_writer()
        self.loop: asyncio.AbstractEventLoop | None = None
        """The hub's event loop while it serves."""
        self.remote = RemoteControl(lambda: self._actors.connected(), self.send_command, self.require)
        """People who watch and steer the actors; for the page, in the hub's loop."""
        self._actors = HubActors(self._hub, self._writer, self.remote, command=self.send_command, changed=self._grant)
        self._watch = BoardWatch(self._board, changed=self._trainer_changed, tick=self._tick, hurry=self._credit_matters)
        self.recording: RecordingView | None = None
        """Progress of a person who records demonstrations here; None while nobody does."""
        self.app = FastAPI(title="Tandem", docs_url=None, redoc_url=None, openapi_url=None, lifespan=self._lifespan)
        """Mount a page on it before `serve`; the routes of the API are there already."""
        add_routes(self.app, self)
        self._door = Door(config.max_unknown_connections, config.timeout_s)
        access = Access(folder, config.token, config.session_hours, wall, say)
        hosts = HostNames(config.host, config.host_names)
        self._guard = Guard(self.app, self._actors.serve, access, self._door, hosts, self._audit)
        self._socket = listen(config.host, config.port)
        self.port: int = self._socket.getsockname()[1]
        self._server = self._make_server()

    def _make_writer(self) -> Writer:
        return Writer(
            self.run,
            self._journal,
            self._board,
            durability=self.config.durability,
            stored=lambda result: self._in_loop(self._actors.stored, result),
            trouble=lambda text: self._in_loop(self._actors.storage_trouble, text),
            failed=lambda problem: self._in_loop(self._fail, problem),
            reserve=disk_reserve(self.run, self.config.disk_reserve_mb),
        )

    def _make_server(self) -> Server:
        config = self.config
        for warning in filter(None, (self._warning, files_for(config.max_actors))):
            self._hub.say(f"[HUB] {warning}")
        settings = guarded(
            self._guard,
            self._door,
            self._tls,
            ws_max_size=max(GROUP_BYTES, self._hub.record_bytes) + MAX_HEADER + 1024,
            ws_ping_interval=config.ping_s,
            ws_ping_timeout=config.timeout_s,
            lifespan="on",
            timeout_graceful_shutdown=2,
        )
        return Server(settings, self._begin_listening)

    @property
    def address(self) -> str:
        host = self.config.host
        return f"{'[' + host + ']' if ':' in host else host}:{self.port}"

    # ---- lifetime

    def serve(self) -> None:
        """Until stopped. If the data path failed, raises that error at the end."""
        with signals_handled_once():
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
        """Release the run folder; `serve` does it."""
        if self._lock < 0:
            return
        self._writer.stop()
        self._save_live(closed=True)
        self.folder.hub_file.unlink(missing_ok=True)
        self._socket.close()
        self._board.close()
        self._journal.close()
        os.close(self._lock)
        self._lock = -1

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        self.loop = asyncio.get_running_loop()
        self._writer.start()
        self._hub.policy.read(time.monotonic())  # before the first actor can ask for it
        self._watch.start()
        yield
        self._watch.stop()

    def _begin_listening(self) -> None:
        self._write_address()
        self._hub.say(f"[HUB] listening on {self.address} ({'TLS' if self.config.certificate else 'no TLS'}), run {self.run}")
        durability = self.config.durability
        self._hub.say(f"[HUB] durability '{durability}': {DURABILITY_IN_WORDS[durability]}")

    def _write_address(self) -> None:
        """`hub.json`: where this hub listens. On a full disk there is none, not that of the hub before, until there is room."""
        described = {"address": self.address, "pid": os.getpid(), "tls": self.config.certificate is not None, "run": self._hub.run_id}
        try:
            write_atomically(self.folder.hub_file, json.dumps(described).encode(), durable=False)
            self._address_owed = False
        except StorageFull:
            self.folder.hub_file.unlink(missing_ok=True)
            self._address_owed = True

    def _in_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self.loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(function, *arguments)

    def _fail(self, problem: BaseException) -> None:
        self._failure = problem
        self.stop()

    # ---- what happens again and again

    def _trainer_changed(self, published: bool) -> None:
        if published and self._hub.policy.read(time.monotonic()):
            self._actors.send_policy()
        self._grant()

    def _tick(self, now: float) -> None:
        self._board["hub_heartbeat"] += 1
        self._learner_rate.mark(now, self._board["learner_step"])
        self._actor_rate.mark(now, self._writer.accepted)
        self._actors.tick(now)
        self.remote.tick(now)
        if now - self._saved_at >= _SAVE_LIVE_S:
            self._saved_at = now
            self._save_live()
            if self._address_owed:
                self._write_address()

    def _credit_matters(self) -> bool:
        return any(actor.fast for actor in self._actors.connected())

    def _grant(self) -> None:
        """Divide the steps that the trainer allows among the fast actors."""
        u = self._board.updates_per_actor_step
        actors = [actor for actor in self._actors.connected() if actor.fast]
        if actors and u > 0:
            pacing = credits.Pacing(self._board["steps_before"], u, self._board["learner_step"])
            credits.divide(pacing, [actor.account for actor in actors], self._writer.accepted)
            for actor in actors:
                actor.send_credit()

    def send_command(self, command: Command, asker: Asker = HERE) -> list[str]:
        """Send a command to the actors and the trainer it is meant for; returns who got it. Raises `NotAllowed`.

        Robots first: a stop does not wait for a disk, and a full one does not keep it back. The hub adds who gave it.
        """
        self.require(asker, right_for(command.command, command.detail), to=command.to, detail=command.detail)
        actors, trainer = [], []
        named_command = replace(command, detail={**command.detail, "who": asker.who.name})
        if command.command in ACTOR_COMMANDS:
            self.remote.command_passed(command)
            for actor in self._actors.connected():
                named = command.to in ("all", "actors", actor.hello.name, actor.hello.source)
                if named and actor.send_command(named_command):
                    actors.append(actor.hello.source)
        only_robots = command.command == "stop" and command.detail.get("stay") is True
        if command.to in ("trainer", "all") and command.command in TRAINER_COMMANDS and not only_robots:
            self._tell_trainer(command, asker.label)
            trainer.append("trainer")
        return [*trainer, *actors]

    def _tell_trainer(self, command: Command, asked_by: str) -> None:
        """By a line in a file; by the board where that is impossible, or so many come that they would fill the disk."""
        try:
            if not self._commands_written.take():
                raise OSError(f"more than {_COMMANDS_PER_S:g} commands a second")
            append_rows(self.folder.commands_file, [{"time": self._hub.wall(), "from": asked_by, **command.fields()}])
            self.command_problem = ""
        except OSError as problem:
            self._board["asked_command"] = TRAINER_COMMANDS.index(command.command)
            self._board["asked_count"] += 1
            self.unwritten_commands += 1
            self.command_problem = f"'{command.command}' was passed on, but is not in {self.folder.commands_file}: {problem}"
            self._hub.say(f"[HUB] {self.command_problem}")

    def require(self, asker: Asker, right: str, **details: Any) -> None:
        """Raises `NotAllowed`. Either way it is in the audit log."""
        allowed = asker.who.may(right)
        self._audit.asked(asker, right, allowed, **details)
        if not allowed:
            raise NotAllowed(why_not(asker.who.name, asker.who.role, right))

    # ---- what it shows

    def live(self, closed: bool = False) -> LiveView:
        """Everything known at this moment that is in no other file."""
        return LiveView(self._hub.wall(), self.status(), self.clocks(), self.actors(), closed, self.recording)

    def _save_live(self, closed: bool = False) -> None:
        """In the run folder, so that a run can be diagnosed without its hub, also after the hub has ended."""
        with contextlib.suppress(StorageFull):
            write_atomically(self.folder.live_file, json.dumps(self.live(closed).to_json()).encode(), durable=False)

    def clocks(self) -> ClockView:
        return self._clocks(self.counts())

    def counts(self) -> ClockView:
        """The three clocks and what they depend on."""
        now, board = time.monotonic(), self._board
        return ClockView(
            learner_step=board["learner_step"],
            actor_step=self._writer.accepted,
            policy_version=max(self._hub.policy.version, 0),
            learner_steps_per_s=round(self._learner_rate.per_s(now, board["learner_step"]), 2),
            actor_steps_per_s=round(self._actor_rate.per_s(now, self._writer.accepted), 2),
            steps_before=board["steps_before"],
            updates_per_actor_step=board.updates_per_actor_step,
            phase=board.phase,
        )

    def actors(self) -> list[ActorView]:
        now = time.monotonic()
        return [self._actor_view(actor, now) for actor in self._actors.all()]

    def _actor_view(self, actor: ActorConnection, now: float) -> ActorView:
        policy, version = self._hub.policy, actor.statistics.version if actor.statistics else -1
        return actor.view(now, policy.version, policy.newer_since_s(version, now))

    def status(self) -> HubView:
        now, info, policy = time.monotonic(), self._hub.info, self._hub.policy
        failed, failed_from = self._guard.failed.recent()
        return HubView(
            run=self._hub.run_id,
            folder=str(self.run),
            task=info.task,
            spec_hash=info.spec.hash,
            up_s=round(now - self._began, 1),
            time=self._hub.wall(),
            trainer=TrainerView(self._watch.trainer_alive(now), self._board.phase, self._board["trainer_ord"]),
            policy=PolicyView(policy.version, policy.hash, len(policy.frame or b"")),
            journal=self._journal_view(),
            episodes=_episodes(self.folder.metrics_file),
            actors=len(self._actors.connected()),
            strangers_turned_away=self._door.turned_away,
            unwritten_commands=self.unwritten_commands,
            failed_logins=failed,
            failed_logins_from=failed_from,
            foreign_steps=self._hub.sources.refused,
            foreign_detail=self._hub.sources.last_refusal,
        )

    def _journal_view(self) -> JournalView:
        trouble = self._actors.storage_problem
        state = "storage_full" if trouble else "ok"
        return JournalView(self._writer.accepted, self._writer.rejected, trouble, state, self._writer.unreadable)

    async def findings(self, lang: str = "en") -> dict[str, Any]:
        """The doctor's findings about this run."""
        return await self._findings.get(lang)


def _episodes(path: Path) -> dict[str, float]:
    """Results of the last episodes, with a person's help and without, from the newest row of metrics that has them."""
    for row in reversed(newest_rows(path, _TAIL_BYTES)):
        found = {name.removeprefix(_EPISODE): value for name, value in row.items() if name.startswith(_EPISODE)}
        if found:
            return found
    return {}


def _context(config: HubConfig, folder: RunFolder, audit: Audit, lines: Lines, warnings: Lines, wall: Callable[[], float]) -> HubContext:
    """What all parts of a hub share."""
    info, limit = folder.info, record_limit(folder.info.spec)
    policy, events, sources = PublishedPolicy(folder.path), HubEvents(folder, wall), Sources(folder, wall)
    return HubContext(config, folder.run_id, info, limit, policy, events, sources, audit, lines, warnings, wall)

"""The actors of a hub: each connection from its greeting to its end.

serve           one connection: greeting, then messages until it ends
stored          the writer committed some groups: acknowledge them
connected       the actors that are connected now
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from tandem.errors import NotAllowed
from tandem.link.access import Asker
from tandem.link.actors import COMMANDS_PER_S, ActorConnection
from tandem.link.greeting import Objection, objection_to, read_hello
from tandem.link.guard import Receive, Scope, Send
from tandem.link.hub_config import HubContext
from tandem.link.messages import (
    FROM_ACTOR,
    BadFrame,
    Camera,
    Command,
    Hello,
    Refused,
    Scene,
    Statistics,
    Trouble,
    View,
    Welcome,
    parse,
)
from tandem.link.remote_control import RemoteControl
from tandem.link.steps import EPISODE_END, Steps
from tandem.link.writer import Group, Stored, Writer

WINDOW_BYTES = 8 * 2**20
"""Bytes of steps that one actor may send without waiting for an acknowledgement."""
KEEP_S = 300.0
"""How long an actor that left is still shown."""


class HubActors:
    """All connections of one hub. Runs in the hub's event loop.

    `command` passes on what an actor asks for; `changed` is called when credit must be divided anew.
    """

    def __init__(
        self,
        hub: HubContext,
        writer: Writer,
        remote: RemoteControl,
        *,
        command: Callable[[Command, Asker], object],
        changed: Callable[[], None],
    ) -> None:
        self._hub, self._writer, self._remote = hub, writer, remote
        self._command, self._changed = command, changed
        self._connections: dict[str, ActorConnection] = {}
        self.storage_problem = ""
        """Why nothing can be stored at the moment; empty when all is well."""

    def all(self) -> list[ActorConnection]:
        """Also those that left within the last minutes."""
        return list(self._connections.values())

    def connected(self) -> list[ActorConnection]:
        return [actor for actor in self._connections.values() if actor.connected]

    def tick(self, now: float) -> None:
        """Update the rates, and drop actors that left long ago."""
        for source, actor in list(self._connections.items()):
            actor.rate.mark(now, actor.stored)
            if not actor.connected and now - actor.last_seen > KEEP_S:
                del self._connections[source]

    def send_policy(self) -> None:
        """The newest policy, to every actor."""
        policy = self._hub.policy
        if policy.frame is not None:
            for actor in self.connected():
                actor.send_policy(policy.version, policy.frame)

    # ---- one connection

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, from its first message to its end."""
        if (await receive())["type"] != "websocket.connect":
            return
        await send({"type": "websocket.accept"})
        try:
            async with asyncio.timeout(self._hub.config.timeout_s):
                hello = await self._greet(scope["asker"], receive, send)
        except (TimeoutError, OSError):
            return
        if hello is None:
            return
        actor = self._admit(hello, scope["asker"], send)
        sender: asyncio.Task[None] | None = None
        try:  # from here on it counts as connected, so whatever happens it must leave
            self._joined(actor)
            sender = asyncio.create_task(self._send_all(actor, self._welcome_frame(actor)))
            await self._receive_all(actor, receive)
        except BadFrame as problem:
            self._hub.events.add("bad_frame", name=hello.name, source=hello.source, problem=str(problem)[:500])
            with contextlib.suppress(OSError, RuntimeError):
                await send({"type": "websocket.close", "code": 1007, "reason": str(problem).encode()[:120].decode(errors="ignore")})
        finally:
            if sender is not None:
                sender.cancel()
            self._leave(actor)

    async def _greet(self, asker: Asker, receive: Receive, send: Send) -> Hello | None:
        """The greeting of an actor that may join; any other actor gets the reason."""
        message = await receive()
        if message["type"] != "websocket.receive":
            return None
        hello, name = read_hello(message.get("bytes") or b""), ""
        objection = hello if isinstance(hello, Objection) else None
        if isinstance(hello, Hello):
            name, others = hello.name, sum(actor.hello.source != hello.source for actor in self.connected())
            objection = objection_to(hello, self._hub, others, asker.who.name)
            if objection is None:
                return hello
        assert objection is not None
        code, text = objection
        self._hub.events.add("refused", code=code, problem=text[:500], name=name)
        self._hub.say(f"[HUB] refused an actor: {text}")
        await send({"type": "websocket.send", "bytes": Refused(code, text[:4000]).pack()})
        await send({"type": "websocket.close", "code": 1008, "reason": code})
        return None

    def _admit(self, hello: Hello, asker: Asker, send: Send) -> ActorConnection:
        now, address = time.monotonic(), asker.address
        actor = ActorConnection(hello, send, joined_at=now, last_seen=now, address=address, asker=asker)
        self._hub.audit.asked(asker, "join", True, name=hello.name, source=hello.source)
        before = self._connections.pop(hello.source, None)
        if before is not None:  # the same process over a new connection
            actor.continue_from(before)
            if before.connected:
                before.connected = False
                before.close(1012, "this actor has connected again")
        self._connections[hello.source] = actor
        return actor

    def _joined(self, actor: ActorConnection) -> None:
        name, again = actor.hello.name, actor.again
        self._hub.events.add("actor_joined", name=name, source=actor.hello.source, address=actor.address, again=again)
        self._hub.say(f"[HUB] actor '{name}' {'is back' if again else 'joined'} from {actor.address}")
        policy = self._hub.policy
        if policy.frame is not None:
            actor.send_policy(policy.version, policy.frame)
        if self.storage_problem:
            actor.send_trouble(Trouble("storage", self.storage_problem[:1000]))
        self._changed()

    def _welcome_frame(self, actor: ActorConnection) -> bytes:
        hub = self._hub
        own = {"actor_steps": self._writer.accepted, "credential": actor.asker.who.name, "linger_s": hub.config.linger_s}
        settings = {**hub.config.actor_settings, **own}
        return Welcome(hub.run_id, hub.info.task, hub.policy.version, WINDOW_BYTES, hub.record_bytes, settings, hub.config.rule).pack()

    async def _send_all(self, actor: ActorConnection, welcome: bytes) -> None:
        try:
            await actor.send({"type": "websocket.send", "bytes": welcome})
            await actor.deliver()
        except (OSError, RuntimeError):
            pass  # the connection ended; `_receive_all` notices it too
        except Exception as problem:  # nothing would reach this robot any more, so it has to connect again
            self._hub.warn(f"[HUB] sending to actor '{actor.hello.name}' failed: {type(problem).__name__}: {problem}")
            with contextlib.suppress(OSError, RuntimeError):
                await actor.send({"type": "websocket.close", "code": 1011, "reason": "the hub failed to send"})

    async def _receive_all(self, actor: ActorConnection, receive: Receive) -> None:
        while True:
            event = await receive()
            if event["type"] != "websocket.receive":
                return
            actor.last_seen = time.monotonic()
            data = event.get("bytes") or b""
            await self._keep_pace(actor, len(data))
            message = parse(data, FROM_ACTOR)
            if isinstance(message, Steps):
                self._take_steps(actor, message)
            elif isinstance(message, Statistics):
                actor.take_statistics(message, self._hub.wall())
            elif isinstance(message, Command):
                if not actor.commands_left.take():
                    raise BadFrame(f"more than {COMMANDS_PER_S:g} commands a second; is there a loop that sends them?")
                with contextlib.suppress(NotAllowed):  # it is in the audit log
                    self._command(message, actor.asker)
            elif isinstance(message, Scene | View | Camera):
                self._remote.receive(actor.hello.source, message)
            else:
                raise BadFrame("a second greeting")

    async def _keep_pace(self, actor: ActorConnection, size: int) -> None:
        """Let a flood wait: what is not read stays in the network, and the other actors have their share of the hub."""
        first, wait = not actor.slowed, actor.seconds_too_early(size)
        if wait:
            if first:
                self._hub.events.add("slowed", name=actor.hello.name, source=actor.hello.source)
                self._hub.say(f"[HUB] actor '{actor.hello.name}' sends more than one actor may; it is read more slowly")
            await asyncio.sleep(wait)

    def _take_steps(self, actor: ActorConnection, steps: Steps) -> None:
        if steps.group != actor.last_group + 1:
            raise BadFrame(f"group {steps.group} after {actor.last_group}")
        sizes = [len(record.data) for record in steps.records]
        size = sum(sizes)
        if max(sizes) > self._hub.record_bytes:
            raise BadFrame(f"a step of {max(sizes)} bytes; at most {self._hub.record_bytes} for this task")
        if actor.uncommitted_bytes and actor.uncommitted_bytes + size > WINDOW_BYTES:
            raise BadFrame(f"{actor.uncommitted_bytes + size} bytes without waiting for an acknowledgement; at most {WINDOW_BYTES}")
        self._refuse_foreign(actor, steps)
        actor.last_group = steps.group
        actor.uncommitted_bytes += size
        count = sum(record.seq != EPISODE_END for record in steps.records)
        self._writer.put(Group(actor, steps.group, steps.own, count, size, steps.records))

    def _refuse_foreign(self, actor: ActorConnection, steps: Steps) -> None:
        """Steps under a source of another credential end the connection: nothing is stored, and nothing is acknowledged as if it were."""
        sources = self._hub.sources
        problem = sources.problem(actor.asker.who.name, (record.source for record in steps.records))
        if problem:
            actor.foreign += len(steps.records)
            sources.refuse(len(steps.records), f"actor '{actor.hello.name}' at {actor.address}: {problem}")
            self._hub.events.add("foreign_steps", name=actor.hello.name, source=actor.hello.source, problem=problem)
            self._hub.audit.asked(actor.asker, "send steps", False, problem=problem)
            raise BadFrame(problem)

    def _leave(self, actor: ActorConnection) -> None:
        if actor.connected:
            actor.connected = False
            actor.last_seen = time.monotonic()
            self._remote.actor_left(actor.hello.source)
            self._hub.events.add("actor_left", name=actor.hello.name, source=actor.hello.source)
            self._hub.say(f"[HUB] actor '{actor.hello.name}' left")
            self._changed()

    # ---- from the writer

    def stored(self, result: Stored) -> None:
        """Acknowledge groups that the writer committed."""
        reasons: dict[str, str] = {}
        counts: dict[str, int] = {}
        for row in result.rejected:
            counts[row.source] = counts.get(row.source, 0) + 1
            reasons[row.source] = f"step {row.seq} of episode {row.episode}: {row.reason}"
        for actor, number, own, steps, size, records in result.groups:
            actor.stored += steps
            actor.uncommitted_bytes -= size
            if own:
                actor.account.acknowledge(steps)
            rejected = 0
            for source in {record.source for record in records} & counts.keys() if counts else ():
                rejected += counts.pop(source)
                actor.last_rejection = reasons[source]
            actor.rejected += rejected
            actor.acknowledge(number, rejected)
        if result.rejected:
            self._hub.say(f"[HUB] rejected {len(result.rejected)} steps, for instance {next(iter(reasons.values()))}")
        self._changed()

    def storage_trouble(self, text: str) -> None:
        """The journal cannot be written (`text` says why), or can be written again (`text` is empty)."""
        if text != self.storage_problem:
            self.storage_problem = text
            self._hub.events.add("storage_trouble" if text else "storage_well_again", problem=text)
            self._hub.warn(f"[HUB] {text}" if text else "[HUB] there is room again; all steps are stored")
            for actor in self.connected():
                actor.send_trouble(Trouble("storage" if text else "none", text[:1000]))

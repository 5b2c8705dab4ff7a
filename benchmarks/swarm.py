"""Many light actors in one process: each has its own connection, name and numbers, and simulates nothing.

They follow the protocol as `link/link_thread.py` does: steps share a message for as long as the hub asks, at most four messages are under
way, a report goes out every second, and after an interruption everything is sent again from the first step that is not acknowledged. In
place of a spool each of them remembers how many steps it has made, for its steps are all alike. So one process holds thousands of them,
and what is measured is the hub.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import random
import resource
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tandem.codec import pack_transition, unpack
from tandem.link.fields import LENGTH
from tandem.link.link_thread import LINGER_S
from tandem.link.messages import MAX_POLICY_FRAME, PROTOCOL, Hello, Statistics
from tandem.link.outbox import MAX_GROUPS_UNDER_WAY
from tandem.link.steps import MAX_RECORDS, Record, Steps
from tandem.types import Spec, Transition

AT_THE_DOOR = 16
"""Actors that connect at the same time: the hub lets so many wait that have not shown a token (`link/door.py`)."""
UNACKNOWLEDGED = 200
"""Where no rate is given, an actor has made so many steps that are not stored yet."""
REPORT_S = 1.0


@dataclass(frozen=True)
class Order:
    """What each actor does next."""

    steps: int
    hz: float = 0.0
    """Steps per second; 0: as many as the hub takes."""
    linger_s: float | None = None
    """How long a step waits for others to share its message; None: as long as the hub asks."""


class LightActor:
    """One actor. `made`, `acknowledged`: its steps so far."""

    def __init__(self, swarm: Swarm, name: str) -> None:
        self._swarm, self._name = swarm, name
        self.source = f"light-{uuid.uuid4().hex[:12]}"
        self.made = self.acknowledged = self.interruptions = self.messages = 0
        self.connected = False
        self._sent, self._wanted, self._before = 0, 0, 0
        self._received = -1
        """The newest policy."""
        self._under_way: deque[int] = deque()
        """How many steps are stored once each of these messages is acknowledged."""
        self._woken = asyncio.Event()
        self._report_due = True
        self._asked_linger_s, self._phase = LINGER_S["realtime"], random.random()

    @property
    def done(self) -> bool:
        return self.acknowledged == self._wanted

    def begin(self, order: Order) -> None:
        self._before, self._wanted = self._wanted, self._wanted + order.steps
        self._woken.set()

    async def live(self) -> None:
        """Connected until cancelled, again and again."""
        while True:
            with contextlib.suppress(OSError, TimeoutError, WebSocketException):
                await self._session()
            self.connected = False
            self.interruptions += 1
            await asyncio.sleep(random.uniform(0.05, 0.3))

    async def _session(self) -> None:
        swarm = self._swarm
        async with swarm.door:
            connection = await connect(
                swarm.uri, additional_headers=swarm.headers, compression=None, proxy=None, max_size=MAX_POLICY_FRAME, ping_interval=None
            )
            await connection.send(swarm.hello(self._name, self.source))
            welcome = _header(await connection.recv())
        if welcome["kind"] != "welcome":
            raise RuntimeError(f"the hub refused a light actor: {welcome}")
        self._asked_linger_s = max(LINGER_S["realtime"], welcome["settings"]["linger_s"])
        self._sent, self.connected, self._report_due = self.acknowledged, True, True
        self._under_way.clear()
        receiving = asyncio.create_task(self._receive(connection))
        try:
            await self._send(connection, receiving)
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
            connection.transport.abort()

    async def _receive(self, connection: ClientConnection) -> None:
        committed = 0
        while True:
            header = _header(await connection.recv())
            if header["kind"] == "acknowledged":
                while committed < header["group"]:
                    self.acknowledged, committed = self._under_way.popleft(), committed + 1
            elif header["kind"] == "policy":
                self._received, self._report_due = header["version"], True
            else:
                continue
            self._woken.set()

    async def _send(self, connection: ClientConnection, receiving: asyncio.Task[None]) -> None:
        group, reported = 0, 0.0
        while not receiving.done():
            self._woken.clear()
            now = time.monotonic()
            self._make(now)
            due = now >= self._due_at()
            if self._report_due or now - reported >= REPORT_S:
                self._report_due, reported, due = False, now, True  # steps travel with it
                await connection.send(self._report(now))
            while due and self._sent < self.made and self._room:
                end, group = min(self.made, self._sent + MAX_RECORDS), group + 1
                self._under_way.append(end)
                records = [Record(self.source, seq, self._swarm.step) for seq in range(self._sent, end)]
                self._sent, self.messages = end, self.messages + 1
                await connection.send(Steps(group, True, records).pack())
            wait_s = reported + REPORT_S - time.monotonic()
            if self._room:
                wait_s = min(wait_s, self._due_at() - time.monotonic())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, wait_s)):
                    await self._woken.wait()
        receiving.result()

    @property
    def _room(self) -> bool:
        return len(self._under_way) < MAX_GROUPS_UNDER_WAY

    def _make(self, now: float) -> None:
        """As many steps as are due."""
        order = self._swarm.order
        if order.hz:
            due = self._before + int(max(0.0, (now - self._swarm.began) * order.hz + self._phase))
        else:
            due = self.acknowledged + UNACKNOWLEDGED
        self.made = max(self.made, min(due, self._wanted))

    def _due_at(self) -> float:
        """When the first step that is not sent has waited long enough for others; never where no more are wanted."""
        order = self._swarm.order
        if self._sent >= self._wanted:
            return math.inf
        if not order.hz:
            return 0.0 if self._sent < self.made else math.inf
        made_at = self._swarm.began + (self._sent + 1 - self._before - self._phase) / order.hz
        return made_at + (self._asked_linger_s if order.linger_s is None else order.linger_s)

    def _report(self, now: float) -> bytes:
        unacknowledged = self.made - self.acknowledged
        return Statistics(now, 0.0, self.made, self._received, "", self._received, unacknowledged, 0, 0, 0.0, 0.0, "", "").pack()


class Swarm:
    """Light actors of one process, and what they share."""

    def __init__(self, address: str, token: str, spec: Spec, names: Sequence[str]) -> None:
        self.uri, self.headers, self._spec = f"ws://{address}/link", {"Authorization": f"Bearer {token}"}, spec
        self.step, self.door = packed_step(spec), asyncio.Semaphore(AT_THE_DOOR)
        self.order, self.began = Order(0), 0.0
        self.actors = [LightActor(self, name) for name in names]

    def hello(self, name: str, source: str) -> bytes:
        spec = self._spec
        return Hello(PROTOCOL, spec.task, spec.hash, spec.to_json(), name, source, "realtime", 1, "").pack()

    def begin(self, order: Order) -> None:
        self.order, self.began = order, time.monotonic()
        for actor in self.actors:
            actor.begin(order)


def packed_step(spec: Spec) -> bytes:
    """The one step that all of them make again and again."""
    seen = {name: np.full(entry.shape, 0.5, entry.dtype) for name, entry in spec.observation.items()}
    return pack_transition(Transition(seen, np.zeros(spec.action_dim, np.float32), 0.0, seen, False, False, policy_version=1))


def _header(frame: str | bytes) -> dict[str, Any]:
    """The header of a message from the hub. What is behind it costs nothing here."""
    assert isinstance(frame, bytes)
    (size,) = LENGTH.unpack_from(frame)
    return unpack(frame[LENGTH.size : LENGTH.size + size])


def serve_swarm(end: Connection, address: str, token: str, spec: Spec, names: Sequence[str], witness: Path) -> None:
    """A process of light actors: answers each `Order` with (CPU seconds, messages with steps) once all its steps are stored.

    `witness`: how many steps each source has made, for `benchmarks.scale.proof`.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(_do_orders(end, address, token, spec, names, witness))


async def _do_orders(end: Connection, address: str, token: str, spec: Spec, names: Sequence[str], witness: Path) -> None:
    swarm = Swarm(address, token, spec, names)
    living = asyncio.gather(*(actor.live() for actor in swarm.actors))
    witness.write_text(json.dumps([actor.source for actor in swarm.actors]))
    made = np.memmap(witness.with_suffix(".made"), np.int64, "w+", shape=(len(swarm.actors),))
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, end.recv)
    await _until(lambda: all(actor.connected for actor in swarm.actors), living)
    end.send("ready")
    while True:
        order = await loop.run_in_executor(None, end.recv)
        used, messages = time.process_time(), sum(actor.messages for actor in swarm.actors)
        swarm.begin(order)
        await _until(lambda: all(actor.done for actor in swarm.actors), living)
        made[:] = [actor.made for actor in swarm.actors]
        end.send((time.process_time() - used, sum(actor.messages for actor in swarm.actors) - messages))


async def _until(condition: Callable[[], bool], living: asyncio.Future[Any]) -> None:
    while not condition():
        await asyncio.wait([living], timeout=0.02)
        if living.done():
            living.result()

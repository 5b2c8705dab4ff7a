"""The actor's thread that talks to the hub: connects, sends steps, receives policies and commands, and reconnects."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
import traceback
from collections.abc import Callable

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tandem.errors import HubUnreachable, LinkError, TandemError
from tandem.link.client_state import ClientConfig, ClientState, FirstAnswer
from tandem.link.connection_errors import checked_token, connection_error, hub_uri, refusal_error
from tandem.link.fields import MAX_TEXT, BadFrame
from tandem.link.messages import (
    FROM_HUB,
    MAX_POLICY_FRAME,
    PROTOCOL,
    Acknowledged,
    Command,
    Control,
    Credit,
    Heard,
    Hello,
    Refused,
    Statistics,
    Trouble,
    Welcome,
    parse,
)
from tandem.link.spool import UNREAD, Spool, leftovers, nobodys
from tandem.types import PolicySnapshot, Spec

LINGER_S = {"realtime": 0.1, "fast": 0.002}
"""How long a step may wait for others to be sent with, unless the control loop waits for credit. A frame costs as much as ten steps."""
_LONGEST_LINGER_S = 1.0
"""A report is sent every second, and steps travel with it."""
_STATISTICS_S = 1.0
_CLOSE_S = 0.5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 3.0


class LinkThread:
    """Runs an event loop in a thread of its own. `start`, `wake` and `stop` are for other threads."""

    def __init__(
        self,
        spec: Spec,
        config: ClientConfig,
        source: str,
        state: ClientState,
        say: Callable[[str], None],
        wall: Callable[[], float],
    ) -> None:
        self._spec, self._config, self._source, self._state = spec, config, source, state
        self._say, self._wall = say, wall
        self.uri, self._tls = hub_uri(config.address, config.ca)
        self._headers = {"Authorization": f"Bearer {checked_token(config.token)}"}
        self.first_answer = FirstAnswer(self.uri)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._work: asyncio.Event | None = None
        """There is something to send; it may wait for more."""
        self._urgent: asyncio.Event | None = None
        """There is something that must not wait."""
        self._woken = False
        self._flush_problem = ""
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)

    # ---- for other threads

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def wake(self, hurry: bool = False) -> None:
        """There is something to do; costs little if the thread knows already."""
        if self._woken and not hurry:
            return
        self._woken = True
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(self._woke, hurry)

    def stop(self) -> None:
        """End the thread. `state.closing` must be set."""
        self.wake(hurry=True)
        if self.alive:
            self._thread.join(_CLOSE_S)
        if self.alive and self._loop is not None and self._main is not None:  # during a greeting, or in a send that is stuck
            self._loop.call_soon_threadsafe(self._main.cancel)
            self._thread.join()

    # ---- connecting

    def _run(self) -> None:
        try:
            asyncio.run(self._stay_connected())
        except asyncio.CancelledError:
            return
        finally:
            self._state.connected = False

    async def _stay_connected(self) -> None:
        self._work, self._urgent, self._main = asyncio.Event(), asyncio.Event(), asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        state, pause = self._state, _FIRST_PAUSE_S
        while not state.closing:
            began, acknowledged = time.monotonic(), state.acknowledged
            try:
                await self._session()
                problem: Exception = HubUnreachable(f"{self.uri} closed the connection")
            except (OSError, TimeoutError, WebSocketException, TandemError, BadFrame) as caught:
                problem = connection_error(caught, self.uri)
            except Exception as caught:  # a bug. Steps are still kept, and the next connection may work
                problem = LinkError(f"the link failed: {type(caught).__name__}: {caught}")
                self._say(f"[ACTOR] {problem}\n{''.join(traceback.format_exception(caught))}")
            self._disconnected(problem)
            if state.closing or self.first_answer.failed(problem):
                return
            worked = state.acknowledged > acknowledged or time.monotonic() - began > 2 * self._config.timeout_s
            pause = _FIRST_PAUSE_S if worked else min(2 * pause, _LONGEST_PAUSE_S)
            await self._pause(pause * random.uniform(0.5, 1.5))

    async def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._state.closing and time.monotonic() < until:
            await asyncio.sleep(min(0.05, seconds))

    def _disconnected(self, problem: Exception) -> None:
        state, refused = self._state, isinstance(problem, LinkError) and not isinstance(problem, HubUnreachable)
        if state.connected:
            state.away_since = time.monotonic()
            if not state.closing:
                self._say(f"[ACTOR] lost the hub: {problem}. Steps are kept in {self._config.spool} until it is back.")
        elif state.welcome is not None and str(problem) != state.problem and refused:
            self._say(f"[ACTOR] the hub refuses this actor: {problem}")
        state.connected, state.problem, state.refused = False, str(problem), refused

    async def _session(self) -> None:
        """One connection, from greeting to end."""
        timeout_s = self._config.timeout_s
        async with connect(
            self.uri,
            ssl=self._tls,
            additional_headers=self._headers,
            compression=None,
            proxy=None,
            max_size=MAX_POLICY_FRAME,
            open_timeout=timeout_s,
            ping_interval=None,  # `_check_heartbeat` notices a hub that does not answer, also while a send is stuck
            close_timeout=1.0,
        ) as connection:
            try:
                async with asyncio.timeout(timeout_s):
                    await connection.send(self._hello())
                    self._welcomed(parse(_binary(await connection.recv()), ("welcome", "refused")))
                await self._exchange(connection)
            finally:
                if not self._state.closing:
                    connection.transport.abort()  # no closing handshake with a hub that may not answer

    async def _exchange(self, connection: ClientConnection) -> None:
        self._state.heard_at = time.monotonic()
        parts = (self._receive_all(connection), self._send_all(connection), self._check_heartbeat())
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _hello(self) -> bytes:
        welcome, spec, config = self._state.welcome, self._spec, self._config
        run = welcome.run if welcome else ""
        return Hello(PROTOCOL, spec.task, spec.hash, spec.to_json(), config.name, self._source, config.pace, config.rows, run).pack()

    def _welcomed(self, answer: object) -> None:
        if isinstance(answer, Refused):
            raise refusal_error(answer)
        assert isinstance(answer, Welcome)
        state, config = self._state, self._config
        if state.spool is None:
            about = {"run": answer.run, "task": answer.task, "name": config.name, "hub": self.uri, "credential": _credential(answer)}
            state.spool = Spool.create(config.spool, self._source, about, limit=config.spool_limit, durability=config.durability)
            state.outbox.add(state.spool, own=True)
        else:
            state.reconnects += 1
            away, unsent = state.status().away_s, state.kept - state.acknowledged
            self._say(f"[ACTOR] the hub is back after {away:.1f} s; {unsent} steps to send")
        for leftover in leftovers(config.spool, answer.run):
            if leftover.about.get("credential", _credential(answer)) != _credential(answer):
                leftover.close()  # the hub takes its steps from an actor with that credential alone
                continue
            self._say(f"[ACTOR] sending {leftover.size:,} bytes of steps that '{leftover.about.get('name')}' left behind")
            state.outbox.add(leftover, own=False)
        if state.welcome is None:
            for folder in nobodys(config.spool):
                self._say(f"[ACTOR] the steps in {folder} are kept, not sent: its about.json is damaged, so their run is not known")
        state.outbox.rewind()
        state.welcome = answer
        state.allowed_steps = state.acknowledged
        state.heard_at = time.monotonic()
        state.connected, state.problem, state.refused = True, "", False
        state.statistics_due = True
        self.first_answer.welcomed(answer)
        self._notify_control_loop()

    async def _check_heartbeat(self) -> None:
        """A hub that sends nothing for too long is away, whatever the socket says."""
        timeout_s = self._config.timeout_s
        while time.monotonic() - self._state.heard_at < timeout_s:
            await asyncio.sleep(min(0.5, timeout_s / 4))
        raise HubUnreachable(f"{self.uri} has not answered for {timeout_s:g} s")

    # ---- receiving

    async def _receive_all(self, connection: ClientConnection) -> None:
        state = self._state
        while True:
            message = parse(_binary(await connection.recv()), FROM_HUB)
            self._state.heard_at = time.monotonic()
            if isinstance(message, Acknowledged):
                self._take_acknowledgement(message)
            elif isinstance(message, Credit):
                self._take_credit(message.credit)
            elif isinstance(message, PolicySnapshot):
                self._take_policy(message)
            elif isinstance(message, Heard):
                self._take_time(message)
            elif isinstance(message, Control):
                state.control = (message, self._state.heard_at)
            elif isinstance(message, Command):
                state.commands.append(message)
            elif isinstance(message, Trouble):
                state.problem = message.message
                self._say(f"[ACTOR] the hub has trouble: {message.message}" if message.message else "[ACTOR] the hub is well again")

    def _take_policy(self, snapshot: PolicySnapshot) -> None:
        """Only a newer one: a restarted hub or trainer does not set the actor back."""
        state = self._state
        if state.policy is None or snapshot.version > state.policy.version:
            state.policy = snapshot
        state.received_version = snapshot.version
        state.statistics_due = True
        self._woke(hurry=True)

    def _take_acknowledgement(self, message: Acknowledged) -> None:
        state, blocked = self._state, not self._room()
        state.acknowledged += state.outbox.acknowledge(message.group)
        state.rejected += message.rejected
        self._take_credit(message.credit)
        if blocked:
            self._woke(hurry=True)

    def _take_credit(self, credit: int) -> None:
        state = self._state
        if state.acknowledged + credit > state.allowed_steps:
            state.allowed_steps = state.acknowledged + credit
            self._notify_control_loop()

    def _notify_control_loop(self) -> None:
        with self._state.stepping:
            self._state.stepping.notify_all()

    def _take_time(self, message: Heard) -> None:
        state = self._state
        state.round_trip_s = max(0.0, time.monotonic() - message.sent_at)
        state.clock_difference_s = message.wall_time - (self._wall() - state.round_trip_s / 2)

    # ---- sending

    async def _send_all(self, connection: ClientConnection) -> None:
        state, statistics_at = self._state, 0.0
        while not state.closing:
            now = time.monotonic()
            if state.statistics_due or now - statistics_at >= _STATISTICS_S:
                state.statistics_due, statistics_at = False, now
                self._report_flushes()
                await connection.send(self._statistics(now))
            while state.outgoing:
                await connection.send(state.outgoing.popleft().pack())
            for kind in ("scene", "view", "camera"):
                if kind in state.shown:
                    await connection.send(state.shown.pop(kind).pack())
            group = self._next_group()
            if group is not None:
                await connection.send(group)
            if group is None or not state.outbox.last_was_full:
                await self._wait_for_work(statistics_at + _STATISTICS_S - now)

    async def _wait_for_work(self, seconds: float) -> None:
        """Until steps have waited long enough to be sent, or something urgent comes."""
        assert self._work is not None and self._urgent is not None
        state = self._state
        self._woken = False
        self._work.clear()
        self._urgent.clear()
        if state.closing or state.statistics_due or state.outgoing or state.shown:
            return
        if not state.outbox.more:
            await _wait(self._work, seconds)
        if state.outbox.more:
            await _wait(self._urgent, min(seconds, self._linger_s()) if self._room() else seconds)

    def _linger_s(self) -> float:
        """A hub with many real-time actors asks them to send fewer, larger messages."""
        own, welcome = LINGER_S[self._config.pace], self._state.welcome
        asked = welcome.settings.get("linger_s") if welcome is not None and self._config.pace == "realtime" else None
        return max(own, min(asked, _LONGEST_LINGER_S)) if isinstance(asked, float) else own

    def _woke(self, hurry: bool) -> None:
        assert self._work is not None and self._urgent is not None
        self._work.set()
        if hurry:
            self._urgent.set()

    def _room(self) -> bool:
        assert self._state.welcome is not None
        return self._state.outbox.room(self._state.welcome)

    def _next_group(self) -> bytes | None:
        outbox = self._state.outbox
        assert self._state.welcome is not None
        group = outbox.next_group(self._state.welcome)
        for folder, gap in outbox.gaps:
            self._say(
                f"[ACTOR] {gap.size} bytes in {folder}/{gap.segment:08d}.rec could not be read ({gap.why}). The steps around them are "
                f"sent; the file is kept in {folder.parent / UNREAD}"
            )
        outbox.gaps.clear()
        return None if group is None else group.pack()

    def _report_flushes(self) -> None:
        flusher = self._state.spool.flusher if self._state.spool else None
        if flusher is not None and flusher.problem != self._flush_problem:
            self._flush_problem = flusher.problem
            how = (
                f"cannot be flushed to the disk ({flusher.problem}): a power cut would lose them"
                if flusher.problem
                else "are flushed again"
            )
            self._say(f"[ACTOR] steps in {self._config.spool} {how}")

    def _statistics(self, now: float) -> bytes:
        status, state = self._state.status(), self._state
        version, policy_hash = state.acting
        return Statistics(
            now,
            self._wall(),
            status.sent,
            version,
            policy_hash,
            state.received_version,
            status.unacknowledged,
            status.spool_bytes,
            status.dropped,
            state.round_trip_s,
            state.clock_difference_s,
            state.standing[:MAX_TEXT],
            state.asks[:MAX_TEXT],
        ).pack()


def _credential(welcome: Welcome) -> str:
    """The name of the credential that the hub knows this actor by."""
    return str(welcome.settings.get("credential", ""))


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until the event is set, or the time is over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()


def _binary(data: str | bytes) -> bytes:
    if isinstance(data, str):
        raise BadFrame("a text frame; expected a binary one")
    return data

"""The actor's end of the link: the control loop writes to its own disk and reads what has arrived; a thread speaks with the hub.

`send` is one write to a file, whatever the network does. The thread reads the file back, sends it in small groups, and lets go of
what the hub has committed. After any interruption it sends again from the first step that is not acknowledged; the hub stores each once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI, WebSocketException

from tandem.codec import pack_transition
from tandem.errors import (
    ConfigError,
    HubBusy,
    HubUnreachable,
    LinkError,
    LinkSpecMismatch,
    OtherRun,
    OtherTask,
    ProtocolMismatch,
    TandemError,
    UntrustedCertificate,
    WrongToken,
)
from tandem.link.messages import (
    COUNT_LIMIT,
    EPISODE_END,
    FROM_HUB,
    GROUP_BYTES,
    MAX_NAME,
    MAX_POLICY_FRAME,
    MAX_RECORDS,
    PROTOCOL,
    Acknowledged,
    BadFrame,
    Camera,
    Command,
    Control,
    Credit,
    EpisodeEnd,
    Heard,
    Hello,
    Pace,
    Record,
    Refused,
    Scene,
    Statistics,
    Steps,
    Trouble,
    View,
    Welcome,
    parse,
)
from tandem.link.spool import Leftover, Position, Spool, leftovers
from tandem.types import ForeignPolicy, PolicySnapshot, Spec, Transition

MAX_GROUPS_UNDER_WAY = 4
"""While these are under way, new steps gather for the next group: at a high rate groups grow by themselves."""
LINGER_S = {"realtime": 0.1, "fast": 0.002}
"""How long a step may wait for others to travel with, but not while the control loop waits for credit: a frame costs as ten steps do."""
_STATISTICS_S = 1.0
_FAREWELL_S = 0.5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 3.0
_MAX_COMMANDS = 256
_REFUSALS: dict[str, type[LinkError]] = {
    "protocol": ProtocolMismatch,
    "task": OtherTask,
    "spec": LinkSpecMismatch,
    "run": OtherRun,
    "busy": HubBusy,
    "storage": HubBusy,
}


@dataclass(frozen=True)
class ClientStatus:
    """How the link is, at this moment."""

    connected: bool
    away_s: float
    """Since the hub was last there; 0 while it is."""
    problem: str
    """Why it is away, or what troubles the hub; empty when all is well."""
    refused: bool
    """The hub is there and does not take this actor; trying again goes on."""
    sent: int
    """Steps handed to `send`."""
    unacknowledged: int
    spool_bytes: int
    dropped: int
    """Steps that found no room in the spool: lost."""
    rejected: int
    """Steps that the hub keeps but cannot use."""
    left_behind: int
    """Bytes of other processes' spools that are being drained."""
    round_trip_s: float
    clock_difference_s: float
    """Hub's wall clock minus this machine's."""
    newest_version: int
    reconnects: int


class _Box:
    """A spool that is being sent: this process's own, or one left behind."""

    def __init__(self, spool: Spool | Leftover, own: bool) -> None:
        self.spool, self.own = spool, own
        self.acknowledged = self.sent = spool.start
        self.under_way = 0
        """Groups."""

    @property
    def more(self) -> bool:
        return self.sent < self.spool.end

    @property
    def done(self) -> bool:
        return not self.more and not self.under_way

    def rewind(self) -> None:
        """A new connection: again from the first record that is not acknowledged."""
        self.sent, self.under_way = self.acknowledged, 0


@dataclass(frozen=True)
class _UnderWay:
    """A group that was sent and is not acknowledged."""

    group: int
    box: _Box
    end: Position
    steps: int
    size: int


class ActorClient:
    """One per actor process. All public methods are for the control loop's thread and return at once, but for `connect`, `close` and
    `may_step` with a time-out."""

    def __init__(
        self,
        address: str,
        spec: Spec,
        *,
        token: str,
        name: str,
        rows: int,
        pace: Pace,
        spool: Path,
        ca: Path | None = None,
        spool_limit: int = 2**30,
        fsync: bool = False,
        while_away: Literal["go_on", "hold"] = "go_on",
        timeout_s: float = 10.0,
        say: Callable[[str], None] = lambda line: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        if not 0 < len(name) <= MAX_NAME or rows < 1:
            raise ConfigError(f"an actor has a name of 1 to {MAX_NAME} characters and 1 row or more; got {name!r:.120}, {rows}")
        self.spec, self.name, self.rows = spec, name, rows
        self.pace: Pace = pace
        self.uri, self._tls = _uri(address, ca)
        self.source = f"actor-{uuid.uuid4().hex[:12]}"
        """This process, in all the world; give it to the actor as the beginning of its sources."""
        self._headers = {"Authorization": f"Bearer {_checked(token)}"}
        self._root, self._limit, self._fsync = spool, spool_limit, fsync
        self._while_away, self._timeout_s, self._say, self._wall = while_away, timeout_s, say, wall
        self.welcome: Welcome | None = None
        self._spool: Spool | None = None
        # Written by the control loop's thread alone:
        self._sent = 0
        self._kept = 0
        self._dropped = 0
        self._acting = (-1, "")
        # Written by the link's thread alone:
        self._policy: PolicySnapshot | None = None
        self._received = -1
        self._connected = False
        self._away_since = time.monotonic()
        self._problem, self._refused = "", False
        self._acknowledged = self._rejected = self._limit_steps = 0
        self._round_trip_s = self._clock_difference_s = 0.0
        self._reconnects = 0
        self._heard_at = 0.0
        self._group = 0
        self._boxes: list[_Box] = []
        self._under_way: deque[_UnderWay] = deque()
        # Between the two:
        self._orders: deque[Command] = deque(maxlen=_MAX_COMMANDS)
        self._outgoing: deque[Command] = deque(maxlen=_MAX_COMMANDS)
        self._shown: dict[str, Scene | View | Camera] = {}
        self._control: tuple[Control, float] | None = None
        self._stepping = threading.Condition()
        self._first = _FirstWord()
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._wake: asyncio.Event | None = None
        self._rush: asyncio.Event | None = None
        self._woken = False
        self._full = False
        self._statistics_due = False
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)

    # ---- the control loop's side

    def connect(self, timeout: float = 30.0) -> Welcome:
        """The first greeting. Waits for a hub that is not there yet; a refusal is raised at once."""
        self._thread.start()
        try:
            return self._first.wait(timeout, self)
        except BaseException:
            self.close(0.0)
            raise

    def send(self, transitions: Sequence[Transition]) -> None:
        """Onto this machine's disk, and on to the hub when it can be. Never waits for the network."""
        records = [Record(step.source, int(step.seq), pack_transition(step)) for step in transitions]
        for source, seq, _ in records:
            if not 0 < len(source) <= MAX_NAME or not 0 <= seq < COUNT_LIMIT:
                raise ValueError(f"a step needs a source of 1 to {MAX_NAME} characters and a seq from 0; got {source!r}, {seq}")
        self._append(records, len(records))

    def episode_end(self, end: EpisodeEnd) -> None:
        """What became of an episode: travels behind its steps, and is as safe."""
        self._append([Record(end.source, EPISODE_END, end.pack())], 0)

    def newest_policy(self, newer_than: int = -1) -> PolicySnapshot | None:
        """The newest policy if it is newer than the one the actor has."""
        policy = self._policy
        return policy if policy is not None and policy.version > newer_than else None

    def acting_with(self, snapshot: PolicySnapshot | ForeignPolicy) -> None:
        """Told to the hub at once when it changes."""
        acting = (snapshot.version, snapshot.hash)
        if acting != self._acting:
            self._acting = acting
            self._statistics_due = True
            self._wake_up(hurry=True)

    def may_step(self, timeout: float) -> bool:
        """Pace `fast`: wait for credit for one step of all rows. Pace `realtime`: at once, False while away if told to hold."""
        if self._now_may_step():
            return True
        self._wake_up(hurry=True)  # credit comes with acknowledgements: what is still here must go out first
        with self._stepping:
            return self._stepping.wait_for(self._now_may_step, timeout)

    def commands(self) -> list[Command]:
        """What people want of this actor, since the last call."""
        wanted = []
        while self._orders:
            wanted.append(self._orders.popleft())
        return wanted

    def command(self, command: Command) -> None:
        """Ask for something from this end: of the trainer, of other actors."""
        self._outgoing.append(command)
        self._wake_up(hurry=True)

    def show(self, seen: Scene | View | Camera) -> None:
        """For people to look at: the newest of each kind, sent when the network can. One that was not sent yet is forgotten."""
        self._shown[seen.kind] = seen
        self._wake_up(hurry=True)

    def control(self) -> tuple[Control, float] | None:
        """The newest word of whoever steers, and when it came (this machine's monotonic clock)."""
        return self._control

    @property
    def status(self) -> ClientStatus:
        policy, spool = self._policy, self._spool
        return ClientStatus(
            connected=self._connected,
            away_s=0.0 if self._connected else time.monotonic() - self._away_since,
            problem=self._problem,
            refused=self._refused,
            sent=self._sent,
            unacknowledged=max(0, self._kept - self._acknowledged),
            spool_bytes=spool.bytes if spool else 0,
            dropped=self._dropped,
            rejected=self._rejected,
            left_behind=sum(box.spool.size for box in self._boxes if isinstance(box.spool, Leftover)),
            round_trip_s=self._round_trip_s,
            clock_difference_s=self._clock_difference_s,
            newest_version=policy.version if policy else -1,
            reconnects=self._reconnects,
        )

    def close(self, drain_s: float = 5.0) -> int:
        """Give what is under way some time; returns the steps still unacknowledged, which stay in the spool for the next actor."""
        deadline = time.monotonic() + drain_s
        self._wake_up(hurry=True)
        while self._thread.is_alive() and self._kept > self._acknowledged and time.monotonic() < deadline:
            time.sleep(0.005)
        self._closing = True
        self._wake_up(hurry=True)
        if self._thread.is_alive():
            self._thread.join(_FAREWELL_S)
        if self._thread.is_alive() and self._loop is not None and self._main is not None:  # in the middle of a greeting, or of a stuck send
            self._loop.call_soon_threadsafe(self._main.cancel)
            self._thread.join()
        for box in self._boxes:
            box.spool.close()
        self._boxes = []
        return self._kept - self._acknowledged

    def _append(self, records: list[Record], steps: int) -> None:
        if self._spool is None or self.welcome is None:
            raise RuntimeError("connect first: a spool belongs to a run")
        self._sent += steps
        fits = all(len(record.data) <= self.welcome.record_bytes for record in records)
        if fits and self._spool.append(records):
            self._kept += steps
        else:
            self._drop(steps, fits)
        self._wake_up()

    def _drop(self, steps: int, fits: bool) -> None:
        before, self._dropped = self._dropped, self._dropped + steps
        if before // 1000 != self._dropped // 1000 or not before:  # the first one and then every thousandth: loud, but no flood
            why = (
                f"the spool {self._root} is full ({self._limit:,} bytes, or its disk)"
                if fits
                else "they are larger than any step of this task"
            )
            self._say(f"[ACTOR] STEPS ARE LOST: {self._dropped:,} so far, because {why}. The hub is away: {self._problem or 'no'}")

    def _now_may_step(self) -> bool:
        if self.pace == "fast":
            return self._connected and self._kept + self.rows <= self._limit_steps
        return self._connected or self._while_away == "go_on"

    def _wake_up(self, hurry: bool = False) -> None:
        """Tell the link's thread that there is something to do; cheap while it knows already."""
        if self._woken and not hurry:
            return
        self._woken = True
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(self._woke, hurry)

    def _woke(self, hurry: bool) -> None:
        assert self._wake is not None and self._rush is not None
        self._wake.set()
        if hurry:
            self._rush.set()

    # ---- the link's thread

    def _run(self) -> None:
        try:
            asyncio.run(self._stay_connected())
        except asyncio.CancelledError:
            return
        finally:
            self._connected = False

    async def _stay_connected(self) -> None:
        self._wake, self._rush, self._main = asyncio.Event(), asyncio.Event(), asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE_S
        while not self._closing:
            began, acknowledged = time.monotonic(), self._acknowledged
            try:
                await self._session()
                problem: Exception = HubUnreachable(f"{self.uri} closed the connection")
            except (OSError, TimeoutError, WebSocketException, TandemError, BadFrame) as caught:
                problem = _named(caught, self.uri)
            except Exception as caught:  # a bug; but steps go on being kept, and the next connection may be better
                problem = LinkError(f"the link failed: {type(caught).__name__}: {caught}")
                self._say(f"[ACTOR] {problem}\n{''.join(traceback.format_exception(caught))}")
            self._lost(problem)
            if self._closing or self._first.failed(problem):
                return
            got_somewhere = self._acknowledged > acknowledged or time.monotonic() - began > 2 * self._timeout_s
            pause = _FIRST_PAUSE_S if got_somewhere else min(2 * pause, _LONGEST_PAUSE_S)
            await self._rest(pause * random.uniform(0.5, 1.5))

    async def _rest(self, seconds: float) -> None:
        assert self._wake is not None
        until = time.monotonic() + seconds
        while not self._closing and time.monotonic() < until:
            await asyncio.sleep(min(0.05, seconds))

    def _lost(self, problem: Exception) -> None:
        if self._connected:
            self._away_since = time.monotonic()
            if not self._closing:
                self._say(f"[ACTOR] lost the hub: {problem}. Steps are kept in {self._root} until it is back.")
        elif (
            self.welcome is not None
            and str(problem) != self._problem
            and isinstance(problem, LinkError)
            and not isinstance(problem, HubUnreachable)
        ):
            self._say(f"[ACTOR] the hub refuses this actor: {problem}")
        self._connected = False
        self._problem = str(problem)
        self._refused = isinstance(problem, LinkError) and not isinstance(problem, HubUnreachable)

    async def _session(self) -> None:
        """One connection, from greeting to end."""
        async with connect(
            self.uri,
            ssl=self._tls,
            additional_headers=self._headers,
            compression=None,
            proxy=None,
            max_size=MAX_POLICY_FRAME,
            open_timeout=self._timeout_s,
            ping_interval=None,  # `_watch` notices a hub that does not answer, also while a send is stuck
            close_timeout=1.0,
        ) as connection:
            try:
                async with asyncio.timeout(self._timeout_s):
                    await connection.send(self._hello())
                    self._welcomed(parse(_binary(await connection.recv()), ("welcome", "refused")))
                await self._talk(connection)
            finally:
                if not self._closing:
                    connection.transport.abort()  # no farewell to a hub that may not answer

    async def _talk(self, connection: ClientConnection) -> None:
        self._heard_at = time.monotonic()
        tasks = [asyncio.create_task(part) for part in (self._listen(connection), self._speak(connection), self._watch())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _hello(self) -> bytes:
        run = self.welcome.run if self.welcome else ""
        spec = self.spec
        return Hello(PROTOCOL, spec.task, spec.hash, spec.to_json(), self.name, self.source, self.pace, self.rows, run).pack()

    def _welcomed(self, answer: object) -> None:
        if isinstance(answer, Refused):
            raise _REFUSALS[answer.code](answer.message)
        assert isinstance(answer, Welcome)
        if self._spool is None:
            about = {"run": answer.run, "task": answer.task, "name": self.name, "hub": self.uri}
            self._spool = Spool.create(self._root, self.source, about, limit=self._limit, fsync=self._fsync)
            self._boxes = [_Box(self._spool, own=True)]
        else:
            self._reconnects += 1
            self._say(f"[ACTOR] the hub is back after {self.status.away_s:.1f} s; {self._kept - self._acknowledged} steps to send")
        self._take_leftovers(answer.run)
        for box in self._boxes:
            box.rewind()
        self._under_way.clear()
        self.welcome = answer
        self._limit_steps = self._acknowledged
        self._connected, self._problem, self._refused = True, "", False
        self._statistics_due = True
        self._group = 0
        self._first.welcomed(answer)
        self._tell_control_loop()

    def _take_leftovers(self, run: str) -> None:
        for leftover in leftovers(self._root, run):
            self._say(f"[ACTOR] draining {leftover.size:,} bytes of steps that '{leftover.about.get('name')}' left behind")
            self._boxes.append(_Box(leftover, own=False))

    async def _listen(self, connection: ClientConnection) -> None:
        while True:
            message = parse(_binary(await connection.recv()), FROM_HUB)
            self._heard_at = time.monotonic()
            if isinstance(message, Acknowledged):
                self._take_acknowledgement(message)
            elif isinstance(message, Credit):
                self._take_credit(message.credit)
            elif isinstance(message, PolicySnapshot):
                self._take_policy(message)
            elif isinstance(message, Heard):
                self._take_time(message)
            elif isinstance(message, Control):
                self._control = (message, self._heard_at)
            elif isinstance(message, Command):
                self._orders.append(message)
            elif isinstance(message, Trouble):
                self._problem = message.message
                self._say(f"[ACTOR] the hub has trouble: {message.message}" if message.message else "[ACTOR] the hub is well again")

    def _take_policy(self, snapshot: PolicySnapshot) -> None:
        """Newer ones only: a hub that lost its memory, or a trainer that went back, does not take the actor back with it."""
        if self._policy is None or snapshot.version > self._policy.version:
            self._policy = snapshot
        self._received = snapshot.version
        self._statistics_due = True
        self._woke(hurry=True)

    def _take_acknowledgement(self, message: Acknowledged) -> None:
        blocked = not self._room()
        while self._under_way and self._under_way[0].group <= message.group:
            group = self._under_way.popleft()
            group.box.acknowledged = group.end
            group.box.under_way -= 1
            if group.box.own:
                self._acknowledged += group.steps
        self._rejected += message.rejected
        self._let_go()
        self._take_credit(message.credit)
        if blocked:
            self._woke(hurry=True)

    def _let_go(self) -> None:
        """Remove files of which everything is acknowledged."""
        for box in list(self._boxes):
            if isinstance(box.spool, Spool):
                box.spool.release(box.acknowledged)
            elif box.done:
                box.spool.remove()
                self._boxes.remove(box)

    def _take_credit(self, credit: int) -> None:
        limit = self._acknowledged + credit
        if limit > self._limit_steps:
            self._limit_steps = limit
            self._tell_control_loop()

    def _tell_control_loop(self) -> None:
        with self._stepping:
            self._stepping.notify_all()

    def _take_time(self, message: Heard) -> None:
        now = time.monotonic()
        self._round_trip_s = max(0.0, now - message.sent_at)
        self._clock_difference_s = message.wall_time - (self._wall() - self._round_trip_s / 2)

    async def _speak(self, connection: ClientConnection) -> None:
        statistics_at = 0.0
        while not self._closing:
            now = time.monotonic()
            if self._statistics_due or now - statistics_at >= _STATISTICS_S:
                self._statistics_due, statistics_at = False, now
                await connection.send(self._statistics(now))
            while self._outgoing:
                await connection.send(self._outgoing.popleft().pack())
            for kind in ("scene", "view", "camera"):
                if kind in self._shown:
                    await connection.send(self._shown.pop(kind).pack())
            group = self._next_group()
            if group is not None:
                await connection.send(group)
            if group is None or not self._full:
                await self._wait_for_work(statistics_at + _STATISTICS_S - now)

    async def _wait_for_work(self, seconds: float) -> None:
        """Until there are steps to send and they have lingered, or there is something that does not wait."""
        assert self._wake is not None and self._rush is not None
        self._woken = False
        self._wake.clear()
        self._rush.clear()
        if self._closing or self._statistics_due or self._outgoing or self._shown:
            return
        if not any(box.more for box in self._boxes):
            await _either(self._wake, seconds)
        if any(box.more for box in self._boxes):
            await _either(self._rush, min(seconds, LINGER_S[self.pace]) if self._room() else seconds)

    def _room(self) -> bool:
        """May another group be under way?"""
        assert self.welcome is not None
        size = sum(group.size for group in self._under_way)
        largest = max(GROUP_BYTES, self.welcome.record_bytes)
        return not self._under_way or (len(self._under_way) < MAX_GROUPS_UNDER_WAY and size + largest <= self.welcome.window_bytes)

    def _next_group(self) -> bytes | None:
        box = next((box for box in self._boxes if box.more), None)
        if box is None or not self._room():
            return None
        self._boxes.remove(box)  # to the end: a busy actor does not keep what others left behind from being sent
        self._boxes.append(box)
        records, end = box.spool.read(box.sent, MAX_RECORDS, GROUP_BYTES)
        box.sent = end
        if not records:
            if box.spool.torn:
                self._say(f"[ACTOR] the last {box.spool.torn} bytes in {box.spool.folder} are no whole step: its process died as it wrote")
            self._let_go()
            return self._next_group()
        self._group += 1
        box.under_way += 1
        steps = sum(record.seq != EPISODE_END for record in records)
        size = sum(len(record.data) for record in records)
        self._under_way.append(_UnderWay(self._group, box, end, steps, size))
        self._full = len(records) == MAX_RECORDS or size >= GROUP_BYTES // 2
        return Steps(self._group, box.own, records).pack()

    def _statistics(self, now: float) -> bytes:
        status = self.status
        version, policy_hash = self._acting
        return Statistics(
            now,
            self._wall(),
            status.sent,
            version,
            policy_hash,
            self._received,
            status.unacknowledged,
            status.spool_bytes,
            status.dropped,
            self._round_trip_s,
            self._clock_difference_s,
        ).pack()

    async def _watch(self) -> None:
        """A hub that says nothing for too long is away, whatever the socket thinks."""
        while time.monotonic() - self._heard_at < self._timeout_s:
            await asyncio.sleep(min(0.5, self._timeout_s / 4))
        raise HubUnreachable(f"{self.uri} has not answered for {self._timeout_s:g} s")


class _FirstWord:
    """What came of the first greeting, for `connect` to return or raise."""

    def __init__(self) -> None:
        self._answered = threading.Event()
        self._result: Welcome | Exception | None = None
        self._latest: Exception | None = None

    def welcomed(self, welcome: Welcome) -> None:
        if not self._answered.is_set():
            self._result = welcome
            self._answered.set()

    def failed(self, problem: Exception) -> bool:
        """True if that was the end of it: before the first welcome, a refusal is not tried again."""
        if self._answered.is_set():
            return isinstance(self._result, Exception)
        self._latest = problem
        if isinstance(problem, HubUnreachable):
            return False
        self._result = problem
        self._answered.set()
        return True

    def wait(self, timeout: float, client: ActorClient) -> Welcome:
        if not self._answered.wait(timeout):
            raise HubUnreachable(
                f"no hub at {client.uri} within {timeout:g} s ({self._latest or 'no answer'}). "
                "Is `tandem learner` running there, is the address right, does a firewall stand between?"
            )
        if isinstance(self._result, Exception):
            raise self._result
        assert self._result is not None
        return self._result


async def _either(event: asyncio.Event, seconds: float) -> None:
    """Until it happens, or the time is over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()


def _named(problem: Exception, uri: str) -> Exception:
    """Our word for what went wrong with a connection."""
    if isinstance(problem, TandemError):
        return problem
    if isinstance(problem, InvalidStatus):
        status = problem.response.status_code
        if status == 401:
            return WrongToken(
                f"the hub at {uri} does not accept this token. Give the one in the file 'token' of its run folder "
                "(by --token-file or the environment variable TANDEM_TOKEN)."
            )
        if status == 503:
            return HubUnreachable(f"the hub at {uri} is overloaded (HTTP 503)")
        return ProtocolMismatch(f"{uri} answered with HTTP {status}: no Tandem hub, or one of another version.")
    if isinstance(problem, BadFrame):
        return ProtocolMismatch(
            f"the hub at {uri} said something this actor does not understand: {problem}. Use the same version of Tandem."
        )
    if isinstance(problem, (InvalidHandshake, InvalidURI)) and not isinstance(problem, InvalidMessage):
        return ProtocolMismatch(f"{uri} is no Tandem hub: {problem}.")
    if isinstance(problem, ssl.SSLCertVerificationError):
        return UntrustedCertificate(
            f"the certificate of {uri} cannot be trusted: {problem.verify_message}. Give the hub's certificate with --ca."
        )
    text = str(problem) or type(problem).__name__
    return HubUnreachable(f"{uri}: {text}")


def _uri(address: str, ca: Path | None) -> tuple[str, ssl.SSLContext | None]:
    scheme, _, rest = address.rpartition("://")
    if scheme not in ("", "ws", "wss", "http", "https") or not rest.strip("/"):
        raise ConfigError(f"'{address}' is no address of a hub; give HOST:PORT, or wss://HOST:PORT for TLS.")
    secure = ca is not None or scheme in ("wss", "https")
    uri = f"{'wss' if secure else 'ws'}://{rest.rstrip('/')}/link"
    if not secure:
        return uri, None
    if ca is not None and not ca.exists():
        raise ConfigError(f"there is no certificate {ca}")
    return uri, ssl.create_default_context(cafile=None if ca is None else str(ca))


def _checked(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("the token is empty or has characters that no token has; give the content of the run's file 'token'.")
    return token


def _binary(data: str | bytes) -> bytes:
    if isinstance(data, str):
        raise BadFrame("a frame of text")
    return data

"""The actor's end of the link.

`send` is one write to a file on the actor's own disk, whatever the network does. Where the disk or the spool has no room, the step waits
in memory and `may_step` says no until it is written: a step that cannot be kept must not be made.

A thread (`link_thread.py`) reads the file back, sends it in small groups, and removes what the hub has committed. After any interruption
it sends again from the first step that is not acknowledged; the hub stores each step once.

    client_state.py       settings, and what the two threads share
    link_thread.py        the thread that talks to the hub
    outbox.py             what is sent next, under way, acknowledged
    spool.py              the files on the actor's disk
    connection_errors.py  the errors that a person reads
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence

from tandem.codec import pack_transition
from tandem.errors import ConfigError
from tandem.link.client_state import ALONE_S, ClientConfig, ClientState, ClientStatus
from tandem.link.fields import COUNT_LIMIT, MAX_NAME
from tandem.link.link_thread import LinkThread
from tandem.link.messages import (
    Camera,
    Command,
    Control,
    EpisodeEnd,
    Scene,
    View,
    Welcome,
)
from tandem.link.steps import EPISODE_END, Record
from tandem.types import ForeignPolicy, PolicySnapshot, Spec, Transition

MAX_WAITING = 1000
"""Calls of `send` whose steps wait in memory for room on the disk. Who asks `may_step` before every step has one at most."""


class ActorClient:
    """One per actor process. The public methods are for the control loop's thread.

    They return at once, except `connect`, `close`, and `may_step` with a time-out.
    """

    def __init__(
        self,
        spec: Spec,
        config: ClientConfig,
        *,
        say: Callable[[str], None] = lambda line: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        name, rows = config.name, config.rows
        if not 0 < len(name) <= MAX_NAME or rows < 1:
            raise ConfigError(f"an actor has a name of 1 to {MAX_NAME} characters and 1 row or more; got {name!r:.120}, {rows}")
        self.spec, self.config, self._say = spec, config, say
        self.name, self.rows, self.pace = name, rows, config.pace
        self.source = f"actor-{uuid.uuid4().hex[:12]}"
        """Globally unique name of this process; the sources of its rows begin with it."""
        self._state = ClientState()
        self._waiting: deque[tuple[list[Record], int]] = deque()
        """Records that wait for room on the disk, and how many of them are steps."""
        self._group_bytes = 0
        """The largest group that was sent so far."""
        self.pack: Callable[[Transition], bytes] = pack_transition
        """Makes a step bytes; with cameras each picture travels once (`data.seen.FrameSender`)."""
        self._link = LinkThread(spec, config, self.source, self._state, say, wall)

    @property
    def uri(self) -> str:
        return self._link.uri

    @property
    def welcome(self) -> Welcome | None:
        """The hub's newest welcome; None before the first."""
        return self._state.welcome

    @property
    def status(self) -> ClientStatus:
        return self._state.status()

    def connect(self, timeout: float = 30.0) -> Welcome:
        """The first greeting. Waits for a hub that is not there yet; a refusal is raised at once."""
        self._link.start()
        try:
            return self._link.first_answer.wait(timeout)
        except BaseException:
            self.close(0.0)
            raise

    def send(self, transitions: Sequence[Transition]) -> None:
        """Write steps to this machine's disk, from where they are sent to the hub. Never waits for the network."""
        records = [Record(step.source, int(step.seq), self.pack(step)) for step in transitions]
        for source, seq, _ in records:
            if not 0 < len(source) <= MAX_NAME or not 0 <= seq < COUNT_LIMIT:
                raise ValueError(f"a step needs a source of 1 to {MAX_NAME} characters and a seq from 0; got {source!r}, {seq}")
        self._append(records, len(records))

    def episode_end(self, end: EpisodeEnd) -> None:
        """How an episode ended. Sent after its steps, and stored as safely."""
        self._append([Record(end.source, EPISODE_END, end.pack())], 0)

    def newest_policy(self, newer_than: int = -1) -> PolicySnapshot | None:
        """The newest policy if it is newer than the one the actor has."""
        policy = self._state.policy
        return policy if policy is not None and policy.version > newer_than else None

    def acting_with(self, snapshot: PolicySnapshot | ForeignPolicy) -> None:
        """Report the policy that the actor acts with. A change is sent to the hub at once."""
        acting = (snapshot.version, snapshot.hash)
        if acting != self._state.acting:
            self._state.acting = acting
            self._state.statistics_due = True
            self._link.wake(hurry=True)

    def stands_still(self, why: str) -> None:
        """Why the robot stands still, empty if it may move. A change is sent to the hub at once."""
        if why != self._state.standing:
            self._state.standing = why
            self._state.statistics_due = True
            self._link.wake(hurry=True)

    def asks_for_help(self, why: str) -> None:
        """Why the robot asks for help, empty if it does not. A change is sent to the hub at once."""
        if why != self._state.asks:
            self._state.asks = why
            self._state.statistics_due = True
            self._link.wake(hurry=True)

    @property
    def alone(self) -> bool:
        """The hub is away, or silent: it answers every second, so nobody could stop the robot from afar."""
        state = self._state
        return not state.connected or time.monotonic() - state.heard_at > min(ALONE_S, self.config.timeout_s)

    def may_step(self, timeout: float) -> bool:
        """Pace `fast`: wait for credit for one step of all rows. Pace `realtime`: at once. False while there is no room to keep a step."""
        if self._may_step_now():
            return True
        self._link.wake(hurry=True)  # credit comes with acknowledgements: unsent steps must go out first
        with self._state.stepping:
            return self._state.stepping.wait_for(self._may_step_now, timeout)

    def no_room(self) -> str:
        """Why the next step could not be kept, in words; empty if it can. Steps that wait for room are written first."""
        state = self._state
        if state.spool is None:
            return ""
        written = self._write_waiting()
        why = state.spool.no_room(self._group_bytes) or ("" if written else f"the disk of the spool {self.config.spool} takes no more")
        return f"standing still until steps can be kept: {why}" if why else ""

    def commands(self) -> list[Command]:
        """Commands for this actor since the last call."""
        found = []
        while self._state.commands:
            found.append(self._state.commands.popleft())
        return found

    def command(self, command: Command) -> None:
        """Send a command from this end, to the trainer or to other actors."""
        self._state.outgoing.append(command)
        self._link.wake(hurry=True)

    def show(self, seen: Scene | View | Camera) -> None:
        """Send something for people to look at. Only the newest of each kind is kept until it can be sent."""
        self._state.shown[seen.kind] = seen
        self._link.wake(hurry=True)

    def control(self) -> tuple[Control, float] | None:
        """The newest steering command, and when it came (this machine's monotonic clock)."""
        return self._state.control

    def close(self, drain_s: float = 5.0) -> int:
        """Wait up to `drain_s` for acknowledgements. Returns the steps still unacknowledged; they stay in the spool for the next actor."""
        state, deadline = self._state, time.monotonic() + drain_s
        self._link.wake(hurry=True)
        while self._link.alive and state.kept > state.acknowledged and time.monotonic() < deadline:
            time.sleep(0.005)
        if not self._write_waiting():
            self._drop(sum(steps for _, steps in self._waiting), f"there was no room for them in {self.config.spool} when the actor ended")
        state.closing = True
        self._link.stop()
        state.outbox.close()
        return state.kept - state.acknowledged

    def _append(self, records: list[Record], steps: int) -> None:
        state = self._state
        if state.spool is None or state.welcome is None:
            raise RuntimeError("connect first: a spool belongs to a run")
        state.sent += steps
        if any(len(record.data) > state.welcome.record_bytes for record in records):
            self._drop(steps, "they are larger than any step of this task")
        elif len(self._waiting) >= MAX_WAITING:
            self._drop(steps, f"there is no room for them in {self.config.spool}")
        else:
            self._group_bytes = max(self._group_bytes, sum(len(record.data) for record in records))
            self._waiting.append((records, steps))
            self._write_waiting()
        self._link.wake()

    def _write_waiting(self) -> bool:
        """Write what waits for room, in its order; False if something still has to wait."""
        state = self._state
        while self._waiting and state.spool is not None:
            records, steps = self._waiting[0]
            if not state.spool.append(records):
                return False
            state.kept += steps
            self._waiting.popleft()
            self._link.wake()
        return True

    def _drop(self, steps: int, why: str) -> None:
        state = self._state
        before, state.dropped = state.dropped, state.dropped + steps
        if before // 1000 != state.dropped // 1000 or not before:  # the first one, and then every thousandth
            self._say(f"[ACTOR] STEPS ARE LOST: {state.dropped:,} so far, because {why}. Problem with the hub: {state.problem or 'none'}")

    def _may_step_now(self) -> bool:
        if self.no_room():
            return False
        return self.pace == "realtime" or self._state.kept + self.rows <= self._state.allowed_steps

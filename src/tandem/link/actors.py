"""One connected actor at the hub: what it reported, and what waits to be sent to it.

The queue to an actor is bounded, whatever the actor does: the newest policy only, one acknowledgement for all groups so far, one
credit, the newest steering command, and a few commands.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from tandem.link.access import HERE, Asker
from tandem.link.credits import Account
from tandem.link.guard import Send
from tandem.link.messages import Acknowledged, Command, Control, Credit, Heard, Hello, Statistics, Trouble
from tandem.runs.isolation import Bucket
from tandem.runs.live import ActorView

MAX_COMMANDS = 64
MESSAGES_PER_S, MESSAGES_AT_ONCE = 3000.0, 6000.0
BYTES_PER_S, BYTES_AT_ONCE = 64 * 2.0**20, 128 * 2.0**20
"""What one actor may send; beyond that it is read more slowly. A fast simulation sends some 1,000 messages and 15 MB a second."""
COMMANDS_PER_S, COMMANDS_AT_ONCE = 5.0, 50.0
"""Commands of one actor to the trainer or to others; beyond that it is disconnected."""
_RATE_OVER_S = 5.0


class Rate:
    """Counts per second over the last five seconds, by a monotonic clock."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()

    def mark(self, now: float, count: int) -> None:
        if not self._marks or now - self._marks[-1][0] >= 0.2:
            self._marks.append((now, count))
        while len(self._marks) > 2 and now - self._marks[1][0] >= _RATE_OVER_S:
            self._marks.popleft()

    def per_s(self, now: float, count: int) -> float:
        if not self._marks:
            return 0.0
        since, before = self._marks[0]
        return (count - before) / (now - since) if now - since > 0.5 else 0.0


@dataclass(eq=False)
class ActorConnection:
    """One connection of an actor that has joined."""

    hello: Hello
    send: Send
    joined_at: float
    address: str
    asker: Asker = HERE
    """With which credential it joined."""
    connected: bool = True
    again: bool = False
    """Its process was connected before."""
    last_seen: float = 0.0
    statistics: Statistics | None = None
    stored: int = 0
    """Steps committed over this connection: its own, and those of other processes that it sent for them."""
    rejected: int = 0
    last_rejection: str = ""
    foreign: int = 0
    """Steps under sources of another credential, which were refused."""
    uncommitted_bytes: int = 0
    """Bytes of steps that arrived and are not committed yet."""
    last_group: int = 0
    rate: Rate = field(default_factory=Rate)
    slowed: int = 0
    """Messages that had to wait."""
    commands_left: Bucket = field(default_factory=lambda: Bucket(COMMANDS_PER_S, COMMANDS_AT_ONCE))

    def __post_init__(self) -> None:
        self.account = Account(self.hello.rows)
        """Steps it may make (pace `fast`)."""
        self._messages_left = Bucket(MESSAGES_PER_S, MESSAGES_AT_ONCE)
        self._bytes_left = Bucket(BYTES_PER_S, BYTES_AT_ONCE)
        self._wake = asyncio.Event()
        self._closing: tuple[int, str] | None = None
        self._policy: tuple[int, bytes] | None = None
        self._policy_under_way: int | None = None
        """Version that was sent and that the actor has not reported as received."""
        self._acknowledge: int | None = None
        self._rejected_since = 0
        self._sent_credit = 0
        self._credit_due = False
        self._heard: Heard | None = None
        self._trouble: Trouble | None = None
        self._commands: deque[Command] = deque()
        self._control: Control | None = None

    @property
    def fast(self) -> bool:
        return self.hello.pace == "fast"

    def continue_from(self, before: ActorConnection) -> None:
        """Take over the counts of an earlier connection of the same process."""
        self.again = True
        self.stored, self.rejected, self.last_rejection, self.rate = before.stored, before.rejected, before.last_rejection, before.rate
        self.statistics, self.commands_left, self.slowed = before.statistics, before.commands_left, before.slowed
        self.foreign = before.foreign

    def seconds_too_early(self, size: int) -> float:
        """How long a message of so many bytes has to wait; 0 for an actor within its limits."""
        wait = max(self._messages_left.take_later(), self._bytes_left.take_later(size))
        self.slowed += wait > 0
        return wait

    # ---- what to send, from the hub's loop

    def send_policy(self, version: int, frame: bytes) -> None:
        """Replaces one that has not been sent yet."""
        self._policy = (version, frame)
        self._wake.set()

    def take_statistics(self, statistics: Statistics, wall_time: float) -> None:
        """Store the actor's report and answer it."""
        self.statistics = statistics
        self._heard = Heard(statistics.sent_at, wall_time)
        if statistics.received == self._policy_under_way:
            self._policy_under_way = None
        self._wake.set()

    def acknowledge(self, group: int, rejected: int) -> None:
        self._acknowledge = group
        self._rejected_since += rejected
        self._wake.set()

    def send_credit(self) -> None:
        """Only if the actor may be waiting for it. Otherwise the next acknowledgement carries it."""
        if self._sent_credit < self.hello.rows and self.account.outstanding > self._sent_credit:
            self._credit_due = True
            self._wake.set()

    def send_trouble(self, message: Trouble) -> None:
        self._trouble = message
        self._wake.set()

    def send_command(self, command: Command) -> bool:
        """False if too many wait already: the actor does not read."""
        if len(self._commands) >= MAX_COMMANDS:
            return False
        self._commands.append(command)
        self._wake.set()
        return True

    def send_control(self, control: Control) -> None:
        """The newest steering command; replaces one that has not been sent yet."""
        self._control = control
        self._wake.set()

    def close(self, code: int, reason: str) -> None:
        self._closing = (code, reason)
        self._wake.set()

    async def deliver(self) -> None:
        """Send what is queued, commands first, until the connection ends."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._closing is not None:
                code, reason = self._closing
                await self.send({"type": "websocket.close", "code": code, "reason": reason})
                return
            while self._commands:  # before the steering commands that may depend on them
                await self._frame(self._commands.popleft().pack())
            if self._control is not None:
                frame, self._control = self._control.pack(), None
                await self._frame(frame)
            if self._acknowledge is not None:
                self._sent_credit, self._credit_due = self.account.outstanding, False
                frame = Acknowledged(self._acknowledge, self._rejected_since, self._sent_credit).pack()
                self._acknowledge, self._rejected_since = None, 0
                await self._frame(frame)
            if self._credit_due:
                self._sent_credit, self._credit_due = self.account.outstanding, False
                await self._frame(Credit(self._sent_credit).pack())
            if self._heard is not None:
                frame, self._heard = self._heard.pack(), None
                await self._frame(frame)
            if self._trouble is not None:
                frame, self._trouble = self._trouble.pack(), None
                await self._frame(frame)
            if self._policy is not None and self._policy_under_way is None:
                (self._policy_under_way, frame), self._policy = self._policy, None
                await self._frame(frame)

    async def _frame(self, data: bytes) -> None:
        await self.send({"type": "websocket.send", "bytes": data})

    # ---- what it shows

    def view(self, now: float, newest: int, newer_since_s: float) -> ActorView:
        """The actor as `/api/actors` shows it. Times are ages, so the clocks of two machines are never compared."""
        reported = self.statistics
        version = reported.version if reported else -1
        return ActorView(
            name=self.hello.name,
            source=self.hello.source,
            address=self.address,
            connected=self.connected,
            pace=self.hello.pace,
            rows=self.hello.rows,
            version=version,
            policy_hash=reported.policy_hash if reported else "",
            lag_versions=max(0, newest - version) if newest >= 0 and version >= 0 else None,
            lag_s=round(newer_since_s, 3),
            steps=reported.steps if reported else 0,
            steps_per_s=round(self.rate.per_s(now, self.stored), 2),
            stored=self.stored,
            rejected=self.rejected,
            last_rejection=self.last_rejection,
            credential=self.asker.who.name,
            foreign=self.foreign,
            last_seen_s=round(now - self.last_seen, 3),
            connected_s=round(now - self.joined_at, 3),
            slowed=self.slowed,
            unacknowledged=reported.unacknowledged if reported else 0,
            spool_bytes=reported.spool_bytes if reported else 0,
            dropped=reported.dropped if reported else 0,
            round_trip_ms=round(reported.round_trip_s * 1e3, 3) if reported else 0.0,
            clock_difference_s=round(reported.clock_difference_s, 3) if reported else 0.0,
            standing=reported.standing if reported else "",
            asks=reported.asks if reported else "",
        )

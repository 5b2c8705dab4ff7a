"""The settings of an actor's client, and what its two threads share."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from tandem.errors import HubUnreachable
from tandem.files import Durability
from tandem.link.connection_errors import no_answer
from tandem.link.messages import Camera, Command, Control, Pace, Scene, View, Welcome
from tandem.link.outbox import Outbox
from tandem.link.spool import Spool
from tandem.types import PolicySnapshot

_MAX_COMMANDS = 256
ALONE_S = 3.0
"""A hub that was silent for so long could not pass on a stop. It still counts as connected until `timeout_s` is over."""


@dataclass(frozen=True)
class ClientConfig:
    """How an actor connects to a hub."""

    address: str
    """HOST:PORT of the hub, or wss://HOST:PORT for TLS."""
    token: str
    name: str
    """What a person calls the actor; two actors may share a name."""
    rows: int
    """Environments that the actor steps at once."""
    pace: Pace
    spool: Path
    """Folder for steps that are not acknowledged yet."""
    spool_limit: int = 2**30
    """Bytes. When they are used up, the actor makes no step until there is room again."""
    durability: Durability = "power"
    """What steps in the spool survive: `power` flushes them to the disk within 0.05 s, in a thread of its own; `process` does not."""
    ca: Path | None = None
    """The hub's certificate, if no public authority signed it."""
    timeout_s: float = 10.0
    """A hub that sends nothing for so long counts as away."""


@dataclass(frozen=True)
class ClientStatus:
    """The link at this moment."""

    connected: bool
    away_s: float
    """Seconds since the hub was last connected; 0 while it is."""
    problem: str
    """Why it is away, or what the hub reported; empty when all is well."""
    refused: bool
    """The hub answers, but refuses this actor. The client keeps trying."""
    sent: int
    """Steps handed to `send`."""
    unacknowledged: int
    spool_bytes: int
    dropped: int
    """Steps that could not be kept: lost."""
    rejected: int
    """Steps that the hub stored as rejected."""
    left_behind: int
    """Bytes in spools of other processes that are being sent."""
    round_trip_s: float
    clock_difference_s: float
    """Hub's wall clock minus this machine's."""
    newest_version: int
    reconnects: int


@dataclass(eq=False)
class ClientState:
    """Shared by the control loop's thread and the link's thread. Each field is written by one of them alone."""

    # Written by the control loop's thread:
    sent: int = 0
    kept: int = 0
    """Steps that were written to the spool."""
    dropped: int = 0
    acting: tuple[int, str] = (-1, "")
    """Version and hash of the policy it acts with."""
    standing: str = ""
    """Why the robot stands still; empty if it may move."""
    asks: str = ""
    """Why it asks for help; empty if it does not."""
    closing: bool = False

    # Written by the link's thread:
    welcome: Welcome | None = None
    spool: Spool | None = None
    outbox: Outbox = field(default_factory=Outbox)
    policy: PolicySnapshot | None = None
    received_version: int = -1
    connected: bool = False
    heard_at: float = 0.0
    """When the hub was last heard (this machine's monotonic clock)."""
    away_since: float = field(default_factory=time.monotonic)
    problem: str = ""
    refused: bool = False
    acknowledged: int = 0
    rejected: int = 0
    allowed_steps: int = 0
    """Pace `fast`: `kept` may grow up to this number."""
    round_trip_s: float = 0.0
    clock_difference_s: float = 0.0
    reconnects: int = 0

    # Queues between the two:
    commands: deque[Command] = field(default_factory=lambda: deque(maxlen=_MAX_COMMANDS))
    """From the hub."""
    outgoing: deque[Command] = field(default_factory=lambda: deque(maxlen=_MAX_COMMANDS))
    """To the hub."""
    shown: dict[str, Scene | View | Camera] = field(default_factory=dict)
    """Newest message of each kind for people who watch."""
    control: tuple[Control, float] | None = None
    """The newest steering command, and when it came."""
    statistics_due: bool = False
    stepping: threading.Condition = field(default_factory=threading.Condition)
    """Notified when the control loop may be allowed to step."""

    def status(self) -> ClientStatus:
        policy, spool = self.policy, self.spool
        return ClientStatus(
            connected=self.connected,
            away_s=0.0 if self.connected else time.monotonic() - self.away_since,
            problem=self.problem,
            refused=self.refused,
            sent=self.sent,
            unacknowledged=max(0, self.kept - self.acknowledged),
            spool_bytes=spool.bytes if spool else 0,
            dropped=self.dropped,
            rejected=self.rejected,
            left_behind=self.outbox.left_behind,
            round_trip_s=self.round_trip_s,
            clock_difference_s=self.clock_difference_s,
            newest_version=policy.version if policy else -1,
            reconnects=self.reconnects,
        )


class FirstAnswer:
    """The hub's answer to the first greeting, for `connect` to return or raise."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._answered = threading.Event()
        self._result: Welcome | Exception | None = None
        self._latest: Exception | None = None

    def welcomed(self, welcome: Welcome) -> None:
        if not self._answered.is_set():
            self._result = welcome
            self._answered.set()

    def failed(self, problem: Exception) -> bool:
        """True if the client gives up: before the first welcome, a refusal is final."""
        if self._answered.is_set():
            return isinstance(self._result, Exception)
        self._latest = problem
        if isinstance(problem, HubUnreachable):
            return False
        self._result = problem
        self._answered.set()
        return True

    def wait(self, timeout: float) -> Welcome:
        if not self._answered.wait(timeout):
            raise no_answer(self._uri, timeout, self._latest)
        if isinstance(self._result, Exception):
            raise self._result
        assert self._result is not None
        return self._result

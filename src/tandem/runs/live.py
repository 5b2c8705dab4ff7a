"""The live view: hub, trainer and actors at one moment, as the hub sees them.

The hub writes it to `live.json` every two seconds and answers its parts over the API; the doctor and the page read it. The JSON has the
names of these fields, so a view of another version can be read: fields it does not have get their defaults, others are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tandem.runs.clocks import Clocks, Rates, Relations, relations
from tandem.runs.folder import read_json


@dataclass(frozen=True)
class _View:
    """Reads itself from a mapping with more or fewer fields than its own."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{item.name: data[item.name] for item in dataclasses.fields(cls) if item.name in data})

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class TrainerView(_View):
    alive: bool
    """Its heartbeat moved within the last seconds."""
    phase: str = "starting"
    ord: int = 0
    """The last row of the journal that it has read."""


@dataclass(frozen=True)
class PolicyView(_View):
    version: int
    """The newest published one; -1 before the first."""
    hash: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class JournalView(_View):
    accepted: int = 0
    rejected: int = 0
    trouble: str = ""
    """Why nothing can be stored just now; empty if all is well."""
    state: str = "ok"
    """`storage_full` while nothing can be stored."""
    unreadable: int = 0
    """Records that could not be read; they are kept among the rejected ones."""


@dataclass(frozen=True, kw_only=True)
class HubView(_View):
    """The hub and what it knows about the run as a whole (`/api/status`)."""

    run: str = ""
    """The run's id."""
    folder: str = ""
    task: str = ""
    spec_hash: str = ""
    up_s: float
    time: float = 0.0
    trainer: TrainerView
    policy: PolicyView
    journal: JournalView
    episodes: Mapping[str, float] = field(default_factory=dict)
    """How the last episodes went, by the newest row of metrics."""
    actors: int = 0
    """Connected ones."""
    strangers_turned_away: int = 0
    """Connections that showed no credential, and were closed."""
    unwritten_commands: int = 0
    """Commands that the trainer got although they could not be written to their file."""
    failed_logins: int = 0
    """Wrong tokens within the last ten minutes, and the address that most of them came from."""
    failed_logins_from: str = ""
    foreign_steps: int = 0
    """Steps that were refused because they came under a source of another credential, and the last such refusal."""
    foreign_detail: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        parts = {"trainer": TrainerView, "policy": PolicyView, "journal": JournalView}
        return super().from_json({**data, **{name: part.from_json(data[name]) for name, part in parts.items()}})


@dataclass(frozen=True, kw_only=True)
class ActorView(_View):
    """One actor, connected or gone for less than five minutes (`/api/actors`). Seconds are ages or differences."""

    name: str
    source: str = ""
    address: str = ""
    connected: bool
    pace: str
    rows: int
    version: int = -1
    """The policy it acts with; -1 before the first."""
    policy_hash: str = ""
    lag_versions: int | None = None
    """Versions behind the newest; None where it has none, or brought its own."""
    lag_s: float = 0.0
    """Since something newer than what it acts with was published."""
    steps: int = 0
    steps_per_s: float = 0.0
    stored: int = 0
    rejected: int = 0
    last_rejection: str = ""
    credential: str = ""
    """The name of the credential that it has shown."""
    foreign: int = 0
    """Steps that it sent under a source of another credential; they were refused."""
    last_seen_s: float = 0.0
    connected_s: float = 0.0
    slowed: int = 0
    """Messages that had to wait because it sent too many at once."""
    unacknowledged: int = 0
    spool_bytes: int = 0
    dropped: int = 0
    round_trip_ms: float = 0.0
    clock_difference_s: float = 0.0
    standing: str = ""
    """Why its robot stands still until somebody says resume; empty if it may move."""
    asks: str = ""
    """Why its robot asks a person for help; empty if it does not."""


@dataclass(frozen=True)
class ClockView(_View):
    """The three clocks, their rates, and what the pace of the actors depends on (`/api/clocks`)."""

    learner_step: int = 0
    actor_step: int = 0
    policy_version: int = 0
    learner_steps_per_s: float = 0.0
    actor_steps_per_s: float = 0.0
    steps_before: int = 0
    """Actor steps that earn no learner step."""
    updates_per_actor_step: float = 0.0
    phase: str = ""
    relations: Relations | None = None
    """How the clocks are related, where it is known how often policies are published."""

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.learner_step, self.actor_step, self.policy_version)

    @property
    def rates(self) -> Rates:
        versions = self.relations.versions_per_s if self.relations is not None else None
        return Rates(self.learner_steps_per_s or None, self.actor_steps_per_s or None, versions)

    def related(self, steps_per_update: int) -> ClockView:
        """The same, with the relations between the clocks at a policy every `steps_per_update` learner steps."""
        learner, actor = self.learner_steps_per_s or None, self.actor_steps_per_s or None
        pace = Rates(learner, actor, learner / steps_per_update if learner else None)
        return dataclasses.replace(self, relations=relations(steps_per_update, pace))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        every = data.get("steps_per_update")
        seen = super().from_json({name: value for name, value in data.items() if name != "relations"})
        return seen if not every else dataclasses.replace(seen, relations=seen.related(int(every)).relations)

    def to_json(self) -> dict[str, Any]:
        """Flat: the relations stand beside the counts."""
        counts = {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if item.name != "relations"}
        return counts if self.relations is None else self.relations.to_json() | counts


@dataclass(frozen=True)
class RecordingView(_View):
    """How far a person is who records demonstrations."""

    kept: int
    wanted: int
    phase: str


@dataclass(frozen=True)
class LiveView:
    """Everything the hub knows at one moment that is in no other file."""

    time: float
    """Seconds since 1970, by the hub's clock."""
    status: HubView
    clocks: ClockView
    actors: Sequence[ActorView] = ()
    closed: bool = False
    """The hub has ended; this is its last view."""
    recording: RecordingView | None = None

    @property
    def phase(self) -> str:
        return self.clocks.phase

    @property
    def connected(self) -> list[ActorView]:
        return [actor for actor in self.actors if actor.connected]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LiveView:
        """Raises ValueError if it is not a live view."""
        try:
            return cls(
                data["time"],
                HubView.from_json(data["status"]),
                ClockView.from_json(data["clocks"]),
                [ActorView.from_json(actor) for actor in data["actors"]],
                bool(data.get("closed")),
                RecordingView.from_json(data["recording"]) if data.get("recording") else None,
            )
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError(f"not a live view: {type(problem).__name__}: {problem}") from None

    def to_json(self) -> dict[str, Any]:
        data = {
            "time": self.time,
            "status": self.status.to_json(),
            "clocks": self.clocks.to_json(),
            "actors": [actor.to_json() for actor in self.actors],
            "closed": self.closed,
        }
        return data if self.recording is None else data | {"recording": self.recording.to_json()}


def read_live(path: Path) -> LiveView | None:
    """What a hub last wrote; None where there is no such file, or a damaged one."""
    try:
        return LiveView.from_json(read_json(path))
    except ValueError:
        return None

"""The three clocks, and all arithmetic between them, in one place for everything that shows a step.

    learner step       training iterations
    actor step         steps of the environments
    policy version     publications; the first is the initial policy, then one every `steps_per_update` learner steps

Pure functions of numbers: the terminal, the API, the page and the doctor show the same figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

TABLE_AT = (0, 50, 100, 200, 500)
"""Learner steps that people ask about, for the table of what they are in the other clocks."""
EARLY, LATE = 200, 1000
"""Learner steps between which corrections by a person usually help most: before, the policy is nearly random; after, it needs few."""
STAGES = ("filling", "random", "critics", "early", "middle", "late")


@dataclass(frozen=True)
class Clocks:
    """Three counts never to be confused."""

    learner_step: int
    """Training iterations."""
    actor_step: int
    """Steps of the environment."""
    policy_version: int
    """Publications."""


@dataclass(frozen=True)
class ClockSample:
    """All clocks at one moment of a run."""

    clocks: Clocks
    wall_s: float
    """Seconds of training, over all starts."""


@dataclass(frozen=True)
class Rates:
    """How fast the clocks go, each per second; None where nothing moved or no time passed."""

    learner: float | None
    actor: float | None
    version: float | None

    @property
    def learner_per_actor(self) -> float | None:
        """Learner steps for each step of an environment."""
        return self.learner / self.actor if self.learner and self.actor else None


def rates(samples: Sequence[ClockSample]) -> Rates:
    """Between the first and the last sample; samples from before a restart that went back are left out."""
    since = _since_last_restart(samples)
    if len(since) < 2 or since[-1].wall_s <= since[0].wall_s:
        return Rates(None, None, None)
    first, last = since[0], since[-1]
    seconds = last.wall_s - first.wall_s
    moved = [getattr(last.clocks, name) - getattr(first.clocks, name) for name in ("learner_step", "actor_step", "policy_version")]
    return Rates(*(count / seconds if count > 0 else None for count in moved))


def _since_last_restart(samples: Sequence[ClockSample]) -> Sequence[ClockSample]:
    start = 0
    for i in range(1, len(samples)):
        if samples[i].clocks.learner_step < samples[i - 1].clocks.learner_step:
            start = i
    return samples[start:]


def versions_after(learner_steps: int, steps_per_update: int) -> int:
    """Policies published after the initial one: 100 learner steps are 2 of them by default, not 100."""
    return learner_steps // steps_per_update


@dataclass(frozen=True)
class Row:
    """A number of learner steps in the other clocks."""

    learner_steps: int
    versions: int
    seconds: float | None
    actor_steps: float | None


def worth(learner_steps: int, steps_per_update: int, pace: Rates) -> Row:
    """This many learner steps in the other clocks, at these rates."""
    seconds = learner_steps / pace.learner if pace.learner else None
    actor_steps = seconds * pace.actor if seconds is not None and pace.actor else None
    return Row(learner_steps, versions_after(learner_steps, steps_per_update), seconds, actor_steps)


def in_words(steps_per_update: int, pace: Rates, learner_steps: int = 100) -> str:
    """`100 learner steps = 2 policies = about 4.5 s here = about 46 actor steps`."""
    row = worth(learner_steps, steps_per_update, pace)
    parts = [f"{learner_steps:,} learner steps", f"{row.versions:,} {'policy' if row.versions == 1 else 'policies'}"]
    if row.seconds is not None:
        parts.append(f"about {row.seconds:.2g} s here")
    if row.actor_steps is not None:
        parts.append(f"about {float(f'{row.actor_steps:.2g}'):,.0f} actor steps")
    return " = ".join(parts)


def stage(clocks: Clocks, training_starts: int, random_steps: int = 0, critic_steps: int = 0) -> str:
    """How far a run is, by its steps alone: one of `STAGES`."""
    if clocks.actor_step < max(training_starts, random_steps) and clocks.learner_step < EARLY:
        return "random" if training_starts <= clocks.actor_step < random_steps else "filling"
    if clocks.learner_step < critic_steps:
        return "critics"
    return "early" if clocks.learner_step < EARLY else "middle" if clocks.learner_step < LATE else "late"


@dataclass(frozen=True)
class Relations:
    """How the clocks are related at some rates; None where a rate is not known."""

    learner_steps_per_s: float | None
    actor_steps_per_s: float | None
    versions_per_s: float | None
    seconds_between_versions: float | None
    """How often an actor gets a new policy."""
    updates_per_actor_step_seen: float | None
    steps_per_update: int
    in_words: str
    table: tuple[Row, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"table": [asdict(row) for row in self.table]}


def relations(steps_per_update: int, pace: Rates) -> Relations:
    """At a policy every `steps_per_update` learner steps."""
    return Relations(
        pace.learner,
        pace.actor,
        pace.version,
        steps_per_update / pace.learner if pace.learner else None,
        pace.learner_per_actor,
        steps_per_update,
        in_words(steps_per_update, pace),
        tuple(worth(steps, steps_per_update, pace) for steps in TABLE_AT),
    )

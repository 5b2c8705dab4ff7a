"""Where a run stands, in words: its three clocks, its phase, and what the person beside it should do now.

The phase comes from how this run does (success, a person's share, the values), not from its step count alone: tasks differ. The
advice by step count alone is shown below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tandem.dashboard.series import Series
from tandem.doctor.show import STAGES
from tandem.runs.clocks import EARLY, LATE, Clocks, stage, versions_after
from tandem.runs.live import ActorView

GOOD, FAIR = 0.9, 0.5
"""Success from which a policy needs little help, and from which it needs it only where it fails."""
WORTH_LEARNING_FROM = 1 / 3
"""At least this share of the early episodes should end in the reward, or there is little to learn from."""
MUCH, LITTLE = 0.5, 0.05
"""A person's share of the steps."""
_FELL_BY = 0.25
_EPISODE = "environment/episode/"


@dataclass(frozen=True)
class Advice:
    """What is going on, what to do, and the numbers that say so."""

    phase: str
    do: str
    because: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figures:
    """What advice rests on; None where it is not known."""

    clocks: Clocks
    training_starts: int
    random_steps: int = 0
    success: float | None = None
    alone: float | None = None
    """Success without help."""
    best: float | None = None
    """The best success of an earlier part of the run."""
    share: float | None = None
    q: float | None = None
    q_before: float | None = None
    q_range: tuple[float, float] | None = None


def figures(series: Series, clocks: Clocks, config: Mapping[str, Any], return_range: Sequence[float] | None) -> Figures:
    last = series.last
    earlier = [series.mean(f"{_EPISODE}success", start / 10, (start + 1) / 10) for start in range(9)]
    return Figures(
        clocks,
        int(config.get("training_starts") or 0),
        int(config.get("random_steps") or 0),
        last.get(f"{_EPISODE}success"),
        last.get(f"{_EPISODE}success_alone"),
        max((value for value in earlier if value is not None), default=None),
        last.get(f"{_EPISODE}intervention_share"),
        last.get("critic/predicted_qs"),
        series.mean("critic/predicted_qs", 0.5, 0.75),
        None if return_range is None else (return_range[0], return_range[1]),
    )


def advise(seen: Figures) -> Advice:
    """The first rule that applies, the most urgent first."""
    steps = seen.clocks.learner_step
    by_steps = stage(seen.clocks, seen.training_starts, seen.random_steps)
    because = tuple(_numbers(seen))
    if by_steps in ("filling", "random"):
        wanted = max(seen.training_starts, seen.random_steps if by_steps == "random" else 0)
        return Advice(STAGES[by_steps][0][0], STAGES[by_steps][1][0], (f"{seen.clocks.actor_step:,} of {wanted:,} actor steps",))
    if seen.q is not None and seen.q_range is not None and not _plausible(seen.q, seen.q_range):
        low, high = seen.q_range
        return Advice(
            "values that cannot be",
            f"Correcting does not help now: the critic expects {seen.q:.2g}, an episode can earn {low:g} to {high:g}. See the findings.",
            because,
        )
    if seen.success is None:
        return Advice("no episode has ended yet", "Watch. Take over only where something could break.", because)
    if seen.best is not None and seen.success < seen.best - _FELL_BY and steps > EARLY:
        return Advice(
            "it was better before",
            "Watch a few episodes before you correct: has something moved, or does it fail in a new way? Help it where it now fails.",
            (f"success was {seen.best:.0%}, it is {seen.success:.0%}", *because),
        )
    share = seen.share or 0.0
    if seen.success >= GOOD and share <= LITTLE:
        return Advice("nearly there", "Hands off. Correct only what is rare and fails; evaluate, and stop when it is good enough.", because)
    if seen.success >= FAIR and share > MUCH:
        return Advice(
            "it succeeds mostly with you",
            "Let go earlier: wait 20 to 30 actions before you correct, and give it back as soon as it is on its way.",
            because,
        )
    if seen.success >= FAIR:
        return Advice("refining", "Correct rarely: only where it fails again and again, and the last steps to the reward.", because)
    if steps < EARLY:
        return Advice("learning from the demonstrations", STAGES["early"][1][0], because)
    if seen.success < WORTH_LEARNING_FROM and share <= MUCH:
        return Advice(
            "too few successes to learn from",
            "Help more: at least one episode in three should end in the reward. Let it try, then take over and finish.",
            because,
        )
    return Advice("learning", STAGES["middle"][1][0], because)


def _plausible(q: float, return_range: tuple[float, float]) -> bool:
    low, high = return_range
    room = 0.25 * (high - low)
    return low - room <= q <= high + room


def _numbers(seen: Figures) -> list[str]:
    told = []
    if seen.success is not None:
        told.append(f"success {seen.success:.0%} of the last 20")
    if seen.share is not None:
        told.append(f"you acted in {seen.share:.0%} of the steps")
    if seen.alone is not None and seen.share:
        told.append(f"alone {seen.alone:.0%}")
    if seen.q is not None:
        trend = "" if seen.q_before is None else " and rising" if seen.q > seen.q_before + 0.02 else " and steady"
        told.append(f"Q {seen.q:.2f}{trend}")
    return told


def reference(clocks: Clocks, steps_per_update: int) -> list[dict[str, Any]]:
    """What to do by the number of learner steps alone, with the row this run is in."""
    rows = [(0, EARLY, "early"), (EARLY, LATE, "middle"), (LATE, None, "late")]
    return [
        {
            "learner_steps": f"{start:,} to {end:,}" if end else f"from {start:,}",
            "policies": f"{versions_after(start, steps_per_update):,} to {versions_after(end, steps_per_update):,}"
            if end
            else f"from {versions_after(start, steps_per_update):,}",
            "do": STAGES[name][1][0],
            "here": start <= clocks.learner_step and (end is None or clocks.learner_step < end),
        }
        for start, end, name in rows
    ]


def clock_words(clocks: Clocks, connected: Sequence[ActorView], steps_per_update: int) -> list[str]:
    """`learner 12,804 steps = 256 policies; the actor acts with 255, 1.9 s old`, one sentence for each actor that is connected."""
    learner, version = clocks.learner_step, clocks.policy_version
    steps = f"learner {learner:,} steps"
    if steps_per_update:
        made = versions_after(learner, steps_per_update)
        steps += f" = {made:,} {'policy' if made == 1 else 'policies'} after the initial one"
    told = [f"{steps}; the newest is version {version:,}"]
    for actor in connected:
        name = "the actor" if len(connected) == 1 else actor.name
        if actor.version < 0:
            told.append(f"{name} has no policy yet")
        elif actor.lag_versions:
            told.append(f"{name} acts with {actor.version:,}, {actor.lag_s:.1f} s old")
        else:
            told.append(f"{name} acts with {actor.version:,}, the newest")
    return told

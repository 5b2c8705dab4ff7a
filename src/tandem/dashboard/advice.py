"""A run in words: its three clocks, its phase, and what the operator should do now.

The phase follows from this run's results (success, the person's share, the Q values), not from its step count alone, because tasks
differ. The advice by step count alone is shown below it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tandem.dashboard.series import Series
from tandem.doctor.show import STAGES
from tandem.runs.clocks import EARLY, LATE, Clocks, stage, versions_after
from tandem.runs.live import ActorView

GOOD, FAIR = 0.9, 0.5
"""Success rates: above the first a policy needs little help, above the second only where it fails."""
WORTH_LEARNING_FROM = 1 / 3
"""At least this share of the early episodes should end with the reward; with fewer there is little to learn from."""
MUCH, LITTLE = 0.5, 0.05
"""The person's share of the steps."""
_FELL_BY = 0.25
FEW_FAILURES = 3
"""Fewer failures at one stage say nothing about it."""
HELPED = ("it succeeds mostly with your help", "refining", "too few successes to learn from", "learning", "it was better before")
"""Phases in which a person helps."""
_EPISODE = "environment/episode/"


@dataclass(frozen=True)
class Advice:
    """The phase of a run, what to do, and the numbers behind it."""

    phase: str
    do: str
    because: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figures:
    """The numbers that advice is based on; None where a number is not known."""

    clocks: Clocks
    training_starts: int
    random_steps: int = 0
    critic_steps: int = 0
    success: float | None = None
    returns: float | None = None
    """Mean return of the last episodes; without `success` it means that the environment reports none."""
    alone: float | None = None
    """Success without help."""
    best: float | None = None
    """The best success rate of an earlier part of the run."""
    share: float | None = None
    q: float | None = None
    q_before: float | None = None
    q_range: tuple[float, float] | None = None
    stages: Mapping[str, Any] | None = None
    """At which stages the newest episodes failed (`doctor.stages.stage_table`); None where the task names no stages."""


def figures(
    series: Series,
    clocks: Clocks,
    config: Mapping[str, Any],
    return_range: Sequence[float] | None,
    stages: Mapping[str, Any] | None = None,
) -> Figures:
    last = series.last
    earlier = [series.mean(f"{_EPISODE}success", start / 10, (start + 1) / 10) for start in range(9)]
    return Figures(
        clocks,
        int(config.get("training_starts") or 0),
        int(config.get("random_steps") or 0),
        int(config.get("critic_steps") or 0),
        last.get(f"{_EPISODE}success"),
        last.get(f"{_EPISODE}r"),
        last.get(f"{_EPISODE}success_alone"),
        max((value for value in earlier if value is not None), default=None),
        last.get(f"{_EPISODE}intervention_share"),
        last.get("critic/predicted_qs"),
        series.mean("critic/predicted_qs", 0.5, 0.75),
        None if return_range is None else (return_range[0], return_range[1]),
        stages,
    )


def advise(seen: Figures) -> Advice:
    """What to do; where the task has stages, also at which of them to help."""
    advice = _by_results(seen)
    where = _where_to_help(seen) if advice.phase in HELPED else None
    return advice if where is None else dataclasses.replace(advice, do=f"{advice.do} {where}")


def _where_to_help(seen: Figures) -> str | None:
    """The stage at which at least half of the newest failures end; None where they end all over, or are few."""
    if seen.stages is None:
        return None
    failed = {row["stage"]: row["lost"] + row["time"] for row in seen.stages["rows"]}
    stage, most = max(failed.items(), key=lambda item: item[1])
    if most < FEW_FAILURES or 2 * most < sum(failed.values()):
        return None
    return f"{most} of the newest {sum(failed.values())} failures end at the stage '{stage}': let it come there by itself, and help there."


def _by_results(seen: Figures) -> Advice:
    """The first rule that applies; the most urgent rules come first."""
    steps = seen.clocks.learner_step
    by_steps = stage(seen.clocks, seen.training_starts, seen.random_steps, seen.critic_steps)
    because = tuple(_numbers(seen))
    if by_steps in ("filling", "random"):
        wanted = max(seen.training_starts, seen.random_steps if by_steps == "random" else 0)
        return Advice(STAGES[by_steps][0][0], STAGES[by_steps][1][0], (f"{seen.clocks.actor_step:,} of {wanted:,} actor steps",))
    if by_steps == "critics":
        return Advice(STAGES[by_steps][0][0], STAGES[by_steps][1][0], (f"{steps:,} of {seen.critic_steps:,} learner steps", *because))
    if seen.q is not None and seen.q_range is not None and not _plausible(seen.q, seen.q_range):
        low, high = seen.q_range
        return Advice(
            "impossible Q values",
            f"Corrections do not help now: the critic predicts {seen.q:.2g}, but returns are {low:g} to {high:g}. See the findings.",
            because,
        )
    if seen.success is None and seen.returns is not None:
        return Advice(
            "learning by the return",
            "This environment reports no success, so nothing here says how well it does: watch whether the return rises. Correct what goes "
            "clearly wrong.",
            because,
        )
    if seen.success is None:
        return Advice("no episode has ended yet", "Watch. Take over only if something could break.", because)
    if seen.best is not None and seen.success < seen.best - _FELL_BY and steps > EARLY:
        return Advice(
            "it was better before",
            "Watch a few episodes before you correct: has something moved, or does it fail in a new way? Then help where it fails now.",
            (f"success was {seen.best:.0%}, it is {seen.success:.0%}", *because),
        )
    share = seen.share or 0.0
    if seen.success >= GOOD and share <= LITTLE:
        return Advice("nearly there", "Hands off. Correct only rare failures. Evaluate, and stop when it is good enough.", because)
    if seen.success >= FAIR and share > MUCH:
        return Advice(
            "it succeeds mostly with your help",
            "Release control earlier: wait 20 to 30 actions before you correct, and release as soon as it is on the right path.",
            because,
        )
    if seen.success >= FAIR:
        return Advice("refining", "Correct rarely: only where it fails again and again, and in the last steps before the reward.", because)
    if steps < EARLY:
        return Advice("learning from the demonstrations", STAGES["early"][1][0], because)
    if seen.success < WORTH_LEARNING_FROM and share <= MUCH:
        return Advice(
            "too few successes to learn from",
            "Help more: at least one episode in three should end with the reward. Let it try, then take over and finish.",
            because,
        )
    return Advice("learning", STAGES["middle"][1][0], because)


def _plausible(q: float, return_range: tuple[float, float]) -> bool:
    low, high = return_range
    room = 0.25 * (high - low)
    return low - room <= q <= high + room


def _numbers(seen: Figures) -> list[str]:
    numbers = []
    if seen.success is not None:
        numbers.append(f"success {seen.success:.0%} of the last 20")
    elif seen.returns is not None:
        numbers.append(f"return {seen.returns:.4g}, mean of the last 20")
    if seen.share is not None:
        numbers.append(f"you acted in {seen.share:.0%} of the steps")
    if seen.alone is not None and seen.share:
        numbers.append(f"alone {seen.alone:.0%}")
    if seen.q is not None:
        trend = "" if seen.q_before is None else " and rising" if seen.q > seen.q_before + 0.02 else " and steady"
        numbers.append(f"Q {seen.q:.2f}{trend}")
    return numbers


def reference(clocks: Clocks, steps_per_update: int) -> list[dict[str, Any]]:
    """What to do by the number of learner steps alone, with the row of this run marked."""
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
    """`learner 12,804 steps = 256 policies; the actor acts with 255, 1.9 s old`, one sentence per connected actor."""
    learner, version = clocks.learner_step, clocks.policy_version
    steps = f"learner {learner:,} steps"
    if steps_per_update:
        made = versions_after(learner, steps_per_update)
        steps += f" = {made:,} {'policy' if made == 1 else 'policies'} after the initial one"
    words = [f"{steps}; the newest is version {version:,}"]
    for actor in connected:
        name = "the actor" if len(connected) == 1 else actor.name
        if actor.version < 0:
            words.append(f"{name} has no policy yet")
        elif actor.lag_versions:
            words.append(f"{name} acts with {actor.version:,}, {actor.lag_s:.1f} s old")
        else:
            words.append(f"{name} acts with {actor.version:,}, the newest")
    return words

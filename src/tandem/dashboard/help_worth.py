"""What a person's help is worth in this run, as measured: success with and without it, and what the last corrections changed.

Two windows of 20 episodes that share none are compared: the newest, and the one before it. What changed meanwhile need not come from the
corrections alone, and 20 episodes say little: a change that chance explains is called that.

The usual advice goes by the number of learner steps (0 to 200, 200 to 1,000, later). Next to it stands what this run measured in each of
these phases; where the two disagree, the measurement is believed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tandem.dashboard.series import Point, Series
from tandem.runs.clocks import EARLY, LATE
from tandem.runs.episodes import WINDOW

_EPISODE = "environment/episode/"
_ALONE, _SUCCESS, _HELPED = f"{_EPISODE}success_alone", f"{_EPISODE}success", f"{_EPISODE}success_helped"
_HELP, _SHARE, _COUNT, _LENGTH = (f"{_EPISODE}{name}" for name in ("help_share", "intervention_share", "intervention_count", "l"))
RANGES = ((0, EARLY), (EARLY, LATE), (LATE, None))
USUALLY_BEST = 1
"""Of `RANGES`: where corrections are said to help most."""
ENOUGH = 5
"""Corrections in a phase before it is compared with others."""
_CLEAR = 2.0
"""How many times as much a correction must have changed elsewhere before the usual advice is called wrong."""


def worth(series: Series, events: Sequence[Mapping[str, Any]]) -> list[str]:
    """The facts, as sentences; none before anybody has helped."""
    last = series.last
    helped, share, alone, with_help = (last.get(name) for name in (_HELP, _SHARE, _ALONE, _HELPED))
    if alone is None or with_help is None or share is None or helped is None:
        return []
    if not helped:
        return _asks(events)
    yours = f"you made {share:.0%} of the steps of the last {WINDOW} episodes"
    return [_with_and_without(alone, with_help, helped), yours, *_changed(series, alone), *_asks(events)]


def _with_and_without(alone: float, with_help: float, helped: float) -> str:
    words = f"with help {min(1.0, with_help / helped):.0%} of {helped * WINDOW:.0f} episodes succeed"
    if helped == 1:
        return words
    without = f"without {min(1.0, alone / (1 - helped)):.0%} of {(1 - helped) * WINDOW:.0f}"
    return f"{words}; {without} (you help where it fails, so that looks better than it is)"


def _changed(series: Series, now: float) -> list[str]:
    """Success alone in the newest window and in the one before it."""
    length, count, steps = series.last.get(_LENGTH), series.last.get(_COUNT), series.at("actor_step")
    before = series.before(_ALONE, steps - WINDOW * length) if length and steps is not None else None
    if before is None or not count:
        return []
    words = f"over your last {round(count * WINDOW)} corrections success alone went from {before:.0%} to {now:.0%}"
    if by_chance(before, now):
        return [f"{words}: that may be chance"]
    if now > before:
        return [f"{words}: it learns from them. Go on, and only where it fails"]
    return [f"{words}. Watch a few episodes without helping: does it fail where you corrected it?"]


def by_chance(before: float, now: float, episodes: int = WINDOW) -> bool:
    """Whether two windows with the same skill differ as much in more than one of twenty cases."""
    middle = (before + now) / 2
    return abs(now - before) <= 1.96 * math.sqrt(2 * max(middle * (1 - middle), 0.01) / episodes)


def _asks(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """How often it was right to ask, as far as people said."""
    endings = [event.get("ending") for event in events if event.get("kind") == "ask_ended"]
    if not endings:
        return []
    answered, dismissed = endings.count("answered"), endings.count("dismissed")
    words = f"it asked {len(endings)} times; you took over {answered} times and told it to go on {dismissed} times"
    if dismissed > answered:
        return [f"{words}: it asks too early. Let it try, and answer only if it does not get on"]
    return [f"{words}. You need not watch it: it asks"]


@dataclass(frozen=True)
class Phase:
    """One part of the run, by learner steps."""

    start: float | None
    """Success alone when it began and ended; None if it was not measured."""
    end: float | None
    corrections: float
    share: float
    """The person's share of the steps."""

    @property
    def each(self) -> float | None:
        """What success alone gained with each correction; None if there were too few."""
        if self.start is None or self.end is None or self.corrections < ENOUGH:
            return None
        return (self.end - self.start) / self.corrections

    def __str__(self) -> str:
        if self.start is None or self.end is None:
            return "–"
        words = f"{self.start:.0%} → {self.end:.0%}"
        return f"{words}, {self.corrections:.0f} corrections" if self.corrections >= 1 else f"{words}, no help"


def phases(series: Series) -> list[Phase]:
    """What this run measured in each of the `RANGES`."""
    found = []
    for low, high in RANGES:
        points = [point for point in series.points if low <= point.at[0] and (high is None or point.at[0] < high)]
        alone = [value for point in points if (value := point.value(_ALONE)) is not None]
        shares = [value for point in points if (value := point.value(_SHARE)) is not None]
        share = sum(shares) / len(shares) if shares else 0.0
        found.append(Phase(alone[0] if alone else None, alone[-1] if alone else None, _corrections(points), share))
    return found


def _corrections(points: Sequence[Point]) -> float:
    """The corrections of a stretch: those of an episode, times its episodes."""
    total = 0.0
    for before, point in itertools.pairwise(points):
        length, count = point.value(_LENGTH), point.value(_COUNT)
        if length and count:
            total += (point.at[1] - before.at[1]) / length * count
    return total


def disagreement(measured: Sequence[Phase]) -> str:
    """Where this run says something else than the usual advice; empty where it does not, or too little is known."""
    gains = {number: phase.each for number, phase in enumerate(measured) if phase.each is not None}
    if len(gains) < 2:
        return ""
    best = max(gains, key=lambda number: gains[number])
    others = max(gain for number, gain in gains.items() if number != best)
    if best == USUALLY_BEST or gains[best] <= 0 or gains[best] < _CLEAR * others:
        return ""
    low, high = RANGES[best]
    where = f"from {low:,} learner steps on" if high is None else f"at {low:,} to {high:,} learner steps"
    return (
        f"Here a correction changed most {where}: {100 * gains[best]:+.1f} points of success alone each, elsewhere {100 * others:+.1f} at "
        "most. Believe this, and not the step count."
    )

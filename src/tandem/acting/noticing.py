"""Noticing that an episode does not go forward, from what the critics say at each of its steps.

The value of a state is what the critics expect from there: along an episode that succeeds it rises. Four signs say that it does not:

    stagnation   steps since the value last rose to a new best
    decline      how far it fell within a window
    drop         how far it fell within three steps
    late         steps so far

How much of each is too much is not a setting: it is a little more than this run's own episodes that succeeded without help show. Until
there are enough of them only `late` counts, from half of the time of an episode on. Critics change while they learn, so only the newest
successes count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

Sign = Literal["stagnation", "decline", "drop", "late"]
SIGNS: tuple[Sign, ...] = get_args(Sign)
KNOWN = 5
"""Successes from which on the values count."""
KEPT = 20
"""Newest successes that say what is usual."""
USUAL = 0.95
"""Share of the successes whose worst moment is usual."""
MARGIN = 1.3
"""More than the usual by this factor is too much."""
LASTS = 3
"""Steps in a row for which it has to be too much."""
RISE = 0.02
"""Share of the usual rise of an episode by which a new best has to be better: less is noise."""
DROP_STEPS = 3
UNTIL_KNOWN = 0.5
"""Share of the longest episode after which it is late, while nobody knows how long a success takes."""
WINDOW_S = 2.5
"""Seconds of the window of `decline`, and at most a quarter of the longest episode."""


@dataclass(frozen=True)
class Usual:
    """What successes of this run look like."""

    low: float
    high: float
    """The value at the start and at the end of one."""
    most: tuple[float, ...]
    """How much of each sign is too much, in the order of `SIGNS`."""

    @property
    def rise(self) -> float:
        return RISE * max(self.high - self.low, 1e-6)


@dataclass(frozen=True)
class Noticed:
    """Why an episode does not go forward."""

    sign: Sign
    since: int
    """The step at which the value was best."""
    reason: str
    """One sentence for people."""


def signs_along(values: Sequence[float], rise: float, window: int) -> np.ndarray:
    """(4, steps): each sign after each step."""
    smooth = _smooth(np.asarray(values, float))
    steps = np.arange(len(smooth))
    best, best_at = -np.inf, 0
    stagnation = np.zeros(len(smooth))
    for step, value in enumerate(smooth):
        if value > best + rise:
            best, best_at = value, step
        stagnation[step] = step - best_at
    return np.stack([stagnation, _fall(smooth, window), _fall(smooth, DROP_STEPS), steps + 1.0])


def _smooth(values: np.ndarray) -> np.ndarray:
    """The mean of the last three: exploration is noise."""
    padded = np.concatenate([values[:1], values[:1], values])
    return (padded[2:] + padded[1:-1] + padded[:-2]) / 3


def _fall(values: np.ndarray, window: int) -> np.ndarray:
    """How far each value is below the one a window before it; 0 where it is above, or there is none."""
    fall = np.zeros(len(values))
    if len(values) > window:
        fall[window:] = np.maximum(0.0, values[:-window] - values[window:])
    return fall


def usual_of(successes: Sequence[Sequence[float]], window: int) -> Usual | None:
    """What these episodes have in common; None if they are too few to say."""
    if len(successes) < KNOWN:
        return None
    low = float(np.median([values[0] for values in successes]))
    high = float(np.median([values[-1] for values in successes]))
    rise = Usual(low, high, ()).rise
    worst = np.array([signs_along(values, rise, window).max(axis=1) for values in successes])
    most = MARGIN * np.maximum(np.quantile(worst, USUAL, axis=0), [1.0, rise, rise, 1.0])
    return Usual(low, high, tuple(most.tolist()))


class Noticing:
    """One robot: `begin`, then `add` after each observation, then `end`."""

    def __init__(self, longest: int, control_hz: float) -> None:
        self._longest, self._hz = longest, control_hz
        self.window = max(DROP_STEPS + 1, round(min(WINDOW_S * control_hz, longest / 4)))
        self._successes: deque[list[float]] = deque(maxlen=KEPT)
        self.usual: Usual | None = None
        self.values: list[float] = []
        """Of this episode."""
        self.level = 0.0
        """How near the worst sign is to too much, which is 1."""
        self._over = self._from = 0
        """Steps in a row for which it is too much; the step from which on they count."""

    def begin(self) -> None:
        self.values, self.level, self._over, self._from = [], 0.0, 0, 0

    def add(self, value: float | None) -> Noticed | None:
        """The value of the newest observation, None if nobody knows it; says what is wrong, at every step at which it is."""
        self.values.append(value if value is not None else self.values[-1] if self.values else 0.0)
        most, now, best_at = self._now(blind=value is None)
        levels = now / most
        self.level = float(levels.max())
        self._over = self._over + 1 if self.level > 1 else 0
        if self._over < LASTS:
            return None
        return self._noticed(SIGNS[int(levels.argmax())], best_at)

    def forgive(self) -> None:
        """Somebody else has moved the robot: what was before says nothing about what comes, except how long it takes."""
        self._over, self._from = 0, len(self.values)

    def end(self, alone: bool) -> None:
        """The episode is over. `alone`: it succeeded, and nobody helped."""
        if alone and self.values:
            self._successes.append(self.values)
            self.usual = usual_of(self._successes, self.window)
        self.begin()

    @property
    def progress(self) -> float | None:
        """From 0, the start of a success, to 1, its end; None while nobody knows what that looks like."""
        if self.usual is None or not self.values or self.usual.high - self.usual.low <= 0:
            return None
        return float(np.clip((self.values[-1] - self.usual.low) / (self.usual.high - self.usual.low), -0.5, 1.5))

    def _now(self, blind: bool) -> tuple[np.ndarray, np.ndarray, int]:
        """Too much, what it is now, and the step with the best value."""
        step, newest = len(self.values), self.values[self._from :]
        if self.usual is None or blind:
            most = UNTIL_KNOWN * self._longest if self.usual is None else self.usual.most[3]
            return np.array([1.0, 1.0, 1.0, most]), np.array([0.0, 0.0, 0.0, step]), self._from + int(np.argmax(newest))
        now = signs_along(newest, self.usual.rise, self.window)[:, -1]
        now[3] = step
        return np.array(self.usual.most), now, step - 1 - int(now[0])

    def memory(self) -> dict[str, Any]:
        """What goes on from here needs."""
        successes = [list(values) for values in self._successes]
        return {"values": list(self.values), "successes": successes, "over": self._over, "from": self._from}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.values, self._over, self._from = list(saved["values"]), int(saved["over"]), int(saved["from"])
        self._successes = deque((list(values) for values in saved["successes"]), KEPT)
        self.usual = usual_of(self._successes, self.window)

    def _noticed(self, sign: Sign, best_at: int) -> Noticed:
        seconds = (len(self.values) - 1 - best_at) / self._hz
        if sign == "late" and self.usual is None:
            words = f"half of the time of this episode is over ({len(self.values) / self._hz:.0f} s), and few have succeeded yet"
        elif sign == "late":
            words = f"it takes longer than the episodes that succeed ({len(self.values) / self._hz:.0f} s)"
        elif sign == "stagnation":
            words = f"it has not come nearer to success for {seconds:.1f} s"
        elif sign == "decline":
            words = f"it has been getting further away from success for {self.window / self._hz:.1f} s"
        else:
            words = "something has just gone wrong: success is much less likely than a moment ago"
        return Noticed(sign, best_at, words)


@dataclass(frozen=True)
class Calibration:
    """How well noticing does on recorded episodes; None where there was nothing to count."""

    alarms: int
    right: float | None
    """Share of the alarms in episodes that failed."""
    missed: float | None
    """Share of the failures without an alarm."""
    false_per_success: float | None
    """Share of the successes with an alarm."""
    late_s: float | None
    """Median of the time from the best moment of a failing episode to its alarm."""


def calibrate(episodes: Sequence[tuple[Sequence[float], bool]], longest: int, control_hz: float) -> Calibration:
    """Over episodes without help in the order in which they were made, each its values and whether it succeeded: what a robot would have
    noticed at the time, knowing only the episodes before."""
    noticing = Noticing(longest, control_hz)
    alarms, late = list[bool](), list[float]()
    failures = sum(not success for _, success in episodes)
    successes = len(episodes) - failures
    for values, success in episodes:
        for step, value in enumerate(values):
            found = noticing.add(value)
            if found is not None:
                alarms.append(not success)
                if not success:
                    late.append((step - found.since) / control_hz)
                break
        noticing.values = list(values)
        noticing.end(success)
    right = sum(alarms)
    return Calibration(
        len(alarms),
        right / len(alarms) if alarms else None,
        1 - right / failures if failures else None,
        (len(alarms) - right) / successes if successes else None,
        float(np.median(late)) if late else None,
    )

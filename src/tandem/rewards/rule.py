"""What a reward rule is, and how the stages that it sees become rewards.

    observation ──► values, one for each stage ──► met or not ──► held for long enough ──► 1 / stages, once in an episode

A rule with one stage is a sparse reward: 0, and 1 with the success that ends the episode. With several stages each is paid once, in their
order, and the last one is the success; the return is 1 in either case.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tandem.types import Observation, Spec


class Rule(Protocol):
    """Says of observations which stages they have reached. It has no memory: `Progress` has."""

    @property
    def name(self) -> str:
        """Kind, title and hash: what the rewards of data were computed with."""
        ...

    @property
    def stages(self) -> tuple[str, ...]:
        """From the first to the last, which is the success."""
        ...

    @property
    def hold_s(self) -> float:
        """Seconds for which a stage must be met before it counts."""
        ...

    def require(self, spec: Spec) -> None:
        """Refuse a task that does not have what the rule looks at, by the name of what is missing."""
        ...

    def values(self, observation: Observation) -> np.ndarray:
        """(N, stages) from 0 to 1: how sure it is that each stage is reached, for N observations."""
        ...

    def met(self, values: np.ndarray) -> np.ndarray:
        """(N, stages) bool: which of these values are enough."""
        ...

    def to_bytes(self) -> bytes:
        """As a file, and as actors of other machines get it."""
        ...


@dataclass(frozen=True)
class Verdict:
    """What a step of N rows was worth."""

    reward: np.ndarray
    """(N,)"""
    success: np.ndarray
    """(N,) bool: the last stage is reached."""
    values: np.ndarray
    """(N, stages), as the rule gave them."""


class Progress:
    """Which stages each row has reached in its episode, and for how many steps in a row it has met each of them."""

    def __init__(self, rule: Rule, rows: int, control_hz: float) -> None:
        self.rule = rule
        self._hold = max(1, round(rule.hold_s * control_hz))
        self._held = np.zeros((rows, len(rule.stages)), int)
        self._reached = np.zeros(rows, int)

    def begin(self, rows: Iterable[int]) -> None:
        """New episodes begin in these rows."""
        chosen = list(rows)
        self._held[chosen], self._reached[chosen] = 0, 0

    def advance(self, values: np.ndarray) -> Verdict:
        """The step of every row that led to an observation of these values."""
        met = self.rule.met(values)
        # who has reached a later stage has reached the ones before it
        at_least = np.logical_or.accumulate(met[:, ::-1], axis=1)[:, ::-1]
        self._held = np.where(at_least, self._held + 1, 0)
        before = self._reached
        self._reached = np.maximum(before, (self._held >= self._hold).sum(axis=1))
        stages = len(self.rule.stages)
        return Verdict((self._reached - before) / stages, self._reached == stages, values)

"""Which rows of a replay came just before a take-over, and where that was.

    weight of a step that is k steps before the policy's last one    exp(-3 k / n),  k = 0 ... n - 1

    n = 5    1  0.55  0.30  0.17  0.09        n = 1    1

Only steps of the policy since the last correction count. A take-over "just because" says nothing about them, also when the person says so
only while holding the robot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tandem.types import Blamed, Transition

if TYPE_CHECKING:
    from tandem.data.frames import FrameStore

BLAMELESS = ("just because",)
"""Tags of take-overs that say nothing about what the policy did."""
DECAY = 3.0


class BlameRows:
    """The blame of each row. `steps`: how many before a take-over are blamed."""

    def __init__(self, capacity: int, steps: int) -> None:
        self._is_reward = steps == 1
        """It adds up over `n_step` steps, as a reward does: the blame of one step is a penalty."""
        self._by_age = np.array([math.exp(-DECAY * age / steps) for age in range(steps)], np.float32)
        self.weights = np.zeros(capacity, np.float32)
        self.takeovers = np.full(capacity, -1, np.int64)
        """The row of the first step of the person; -1: none."""

    def insert(self, step: Transition, row: int, rows: Sequence[int], corrected: np.ndarray) -> None:
        """`rows` are those of the same episode so far, oldest first; `corrected` says of each whether a person chose the action."""
        self.weights[row], self.takeovers[row] = 0.0, -1
        if not step.corrected:
            return
        held = next((age for age, before in enumerate(reversed(rows)) if not corrected[before]), len(rows))
        if held == 0 or step.tag in BLAMELESS:
            blameless = step.tag in BLAMELESS
            first, before = (row, rows) if held == 0 else (rows[-held], rows[:-held])
            for weight, place in zip(self._by_age, reversed(before), strict=False):
                if corrected[place]:
                    break
                self.weights[place], self.takeovers[place] = 0.0 if blameless else weight, first

    def drawn(
        self, rows: np.ndarray, summed: np.ndarray | None, observations: np.ndarray, actions: np.ndarray, frames: FrameStore | None
    ) -> Blamed:
        """The blame of these rows, and where the person took over after each (the row itself where nobody did). `summed`: their weights
        with those of the steps that are summed with them, discounted."""
        found = self.takeovers.take(rows)
        at = np.where(found >= 0, found, rows)
        weights = summed if self._is_reward and summed is not None else self.weights.take(rows)
        raw = {} if frames is None else frames.take(frames.seen.take(at))
        return Blamed(weights, observations.take(at, axis=0), actions.take(at, axis=0), raw)

    def columns(self) -> list[np.ndarray]:
        """One row each for every row of the replay."""
        return [self.weights, self.takeovers]

    def move(self, moved: np.ndarray, count: int) -> None:
        """The rows have moved: `moved` says where each one is now, -1 if it is gone (its last element too). `count` are left."""
        self.takeovers[:count] = moved[self.takeovers[:count]]
        self.weights[:count][self.takeovers[:count] < 0] = 0.0

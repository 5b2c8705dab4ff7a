"""Running statistics, for PPO only: what it has stored it throws away, so nothing stored is shifted when they move.

Everything is NumPy in float64: the learner's loop and a robot's computer normalise with the same lines, and a count of samples
does not run out of digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OBSERVATION_EPSILON = 1e-2
"""Added to the std of an observation, as rsl_rl does: an entry that hardly moves is not blown up."""


@dataclass
class Moments:
    """Mean and variance of all rows seen so far, merged batch by batch (Chan et al. 1979)."""

    mean: np.ndarray
    variance: np.ndarray
    count: float = 0.0

    @classmethod
    def of(cls, size: int) -> Moments:
        """Before anything was seen they are those of a standard normal: normalising changes nothing."""
        return cls(np.zeros(size), np.ones(size))

    def add(self, rows: np.ndarray) -> None:
        """`(..., size)`: every row counts once."""
        rows = rows.reshape(-1, len(self.mean))
        mean = rows.mean(axis=0, dtype=np.float64)
        self.merge(Moments(mean, np.square(rows - mean).mean(axis=0), float(len(rows))))

    def merge(self, other: Moments) -> None:
        if not other.count:
            return
        count = self.count + other.count
        share = other.count / count
        apart = other.mean - self.mean
        if self.count:
            self.variance = (1 - share) * self.variance + share * other.variance + share * (1 - share) * apart**2
            self.mean = self.mean + share * apart
        else:
            self.mean, self.variance = other.mean.copy(), other.variance.copy()
        self.count = count

    def state(self) -> dict[str, Any]:
        return {"mean": self.mean, "variance": self.variance, "count": self.count}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Moments:
        return cls(np.array(state["mean"]), np.array(state["variance"]), float(state["count"]))


@dataclass
class Normaliser:
    """Observations to mean 0 and variance 1.

    What it sees while experience is collected it only takes down; `advance` makes it count, once per iteration and after the
    update. So the policy that is updated saw exactly what the policy that acted saw, and the first ratio is 1.
    """

    moments: Moments
    clip: float = np.inf
    """Bound of a normalised observation."""
    _seen: Moments = field(init=False)

    def __post_init__(self) -> None:
        self._seen = Moments.of(len(self.moments.mean))
        self._refresh()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """`(..., size)` float32, a new array."""
        return normalised(x, self.mean, self.std, self.clip)

    def take_down(self, x: np.ndarray) -> None:
        self._seen.add(x)

    def advance(self) -> None:
        self.moments.merge(self._seen)
        self._seen = Moments.of(len(self.moments.mean))
        self._refresh()

    def _refresh(self) -> None:
        self.mean = self.moments.mean.astype(np.float32)
        std = np.sqrt(self.moments.variance) + OBSERVATION_EPSILON if self.moments.count else np.ones_like(self.moments.mean)
        self.std = std.astype(np.float32)


def normalised(x: np.ndarray, mean: np.ndarray, std: np.ndarray, clip: float) -> np.ndarray:
    """The one place where it is done: the learner and a robot's computer both call it."""
    x = (x - mean) / std
    return np.clip(x, -clip, clip, out=x) if np.isfinite(clip) else x


class RewardScaler:
    """Rewards over the std of their discounted sum, so that values are of order one whatever the task pays.

    The sum runs on from rollout to rollout in each environment and starts again where an episode ends.
    """

    def __init__(self, num_envs: int, gamma: float, clip: float = np.inf) -> None:
        self.gamma, self.clip = gamma, clip
        self.sums = np.zeros(num_envs)
        self.moments = Moments.of(1)

    def __call__(self, rewards: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """`(T, N)` rewards of one rollout, scaled; the rollout itself counts."""
        sums = np.empty(rewards.shape)
        for t, (reward, end) in enumerate(zip(rewards, ended, strict=True)):
            self.sums = self.gamma * self.sums + reward
            sums[t] = self.sums
            self.sums = np.where(end, 0.0, self.sums)
        self.moments.add(sums[..., None])
        return np.clip(rewards / self.std, -self.clip, self.clip).astype(np.float32)

    @property
    def std(self) -> float:
        return float(np.sqrt(self.moments.variance[0] + 1e-8))

    def state(self) -> dict[str, Any]:
        return {"sums": self.sums, "moments": self.moments.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.sums, self.moments = np.array(state["sums"]), Moments.from_state(state["moments"])

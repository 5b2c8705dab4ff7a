"""Running statistics, for PPO only: it keeps no samples beyond an iteration, so no stored sample is shifted when they change.

Statistics are NumPy in float64: the learner and a robot's computer normalise with the same code, and a large count of samples does not
lose digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OBSERVATION_EPSILON = 1e-2
"""Added to the std of an observation, as in rsl_rl: an entry that hardly changes is not scaled up."""


@dataclass
class Moments:
    """Mean and variance of all rows so far, merged batch by batch (Chan et al. 1979)."""

    mean: np.ndarray
    variance: np.ndarray
    count: float = 0.0

    @classmethod
    def of(cls, size: int) -> Moments:
        """Before the first row: mean 0 and variance 1, so that normalising changes nothing."""
        return cls(np.zeros(size), np.ones(size))

    def add(self, rows: np.ndarray) -> None:
        """Add rows `(..., size)`."""
        rows = rows.reshape(-1, len(self.mean))
        mean = rows.mean(axis=0, dtype=np.float64)
        self.merge(Moments(mean, np.square(rows - mean).mean(axis=0), float(len(rows))))

    def merge(self, other: Moments) -> None:
        if not other.count:
            return
        count = self.count + other.count
        share = other.count / count
        difference = other.mean - self.mean
        if self.count:
            self.variance = (1 - share) * self.variance + share * other.variance + share * (1 - share) * difference**2
            self.mean = self.mean + share * difference
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
    """Normalises observations to mean 0 and variance 1.

    `record` only collects statistics; `advance` applies them, once per iteration and after the update. So the update sees exactly the
    observations that the acting policy saw, and the first ratio is 1.
    """

    moments: Moments
    clip: float = np.inf
    """Bound of a normalised observation."""
    _recorded: Moments = field(init=False)

    def __post_init__(self) -> None:
        self._recorded = Moments.of(len(self.moments.mean))
        self._refresh()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """`(..., size)` float32, a new array."""
        return normalised(x, self.mean, self.std, self.clip)

    def record(self, x: np.ndarray) -> None:
        self._recorded.add(x)

    def advance(self) -> None:
        self.moments.merge(self._recorded)
        self._recorded = Moments.of(len(self.moments.mean))
        self._refresh()

    def _refresh(self) -> None:
        self.mean = self.moments.mean.astype(np.float32)
        std = np.sqrt(self.moments.variance) + OBSERVATION_EPSILON if self.moments.count else np.ones_like(self.moments.mean)
        self.std = std.astype(np.float32)


def normalised(x: np.ndarray, mean: np.ndarray, std: np.ndarray, clip: float) -> np.ndarray:
    """The learner and a robot's computer both call this function."""
    x = (x - mean) / std
    return np.clip(x, -clip, clip, out=x) if np.isfinite(clip) else x


class RewardScaler:
    """Divides rewards by the running std of their discounted sum, so that values are of order one.

    The sum continues from rollout to rollout in each environment, and starts at 0 after the end of an episode.
    """

    def __init__(self, num_envs: int, gamma: float, clip: float = np.inf) -> None:
        self.gamma, self.clip = gamma, clip
        self.sums = np.zeros(num_envs)
        self.moments = Moments.of(1)

    def __call__(self, rewards: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Scaled rewards `(T, N)` of one rollout; the statistics include this rollout."""
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

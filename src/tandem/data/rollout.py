"""On-policy experience: `[T, N]` steps of N environments, and the advantage of each.

A worked example with γ = λ = 1/2: one environment, three steps, rewards of 1, V = 8 4 2 of the observations before the steps, and V = 6
of the one after the last step. V(next) is the value of the state after a step, before any reset:

    δ_t = r_t + γ V(next) - V(s_t)         no V(next) where the task ended
    A_t = δ_t + γ λ A_{t+1}                no A_{t+1} where the episode ended, for whatever reason

    nothing ends:                                    δ = -5 -2  2      A = -5.375 -1.5  2
    step 1 ends the task:                            δ = -5 -3  2      A = -5.75  -3    2
    time runs out at step 1, in a state worth 10:    δ = -5  2  2      A = -4.5    2    2

The 10 is V of the last observation before the reset: not of the first one after it (2), and not of the one before the step (4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tandem.errors import InvalidTransition


def advantages(
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """Generalised advantage estimates (Schulman et al. 2016), all `(T, N)`; `next_values[t]` is V of what step t led to, before a reset."""
    shape = rewards.shape
    assert len(shape) == 2, shape
    assert all(array.shape == shape for array in (values, next_values, terminated, truncated)), "one number per step and environment"
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow gives inf or NaN, which the caller checks
        return _scan(rewards, values, next_values, terminated, truncated, gamma, lam)


def _scan(
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    delta = rewards + gamma * np.where(terminated, 0.0, next_values) - values
    carried = gamma * lam * ~(terminated | truncated)
    result = np.empty(delta.shape, np.float32)
    following = np.zeros(delta.shape[1], np.float32)
    for t in reversed(range(len(delta))):
        following = delta[t] + carried[t] * following
        result[t] = following
    return result


def normalised(a: np.ndarray) -> np.ndarray:
    """Mean 0 and std 1 over the whole batch, as rsl_rl does it; where all are equal, 0."""
    mean = a.mean(dtype=np.float64)
    return ((a - mean) / (a.std(dtype=np.float64, ddof=min(1, a.size - 1)) + 1e-8)).astype(np.float32)


def explained_variance(values: np.ndarray, returns: np.ndarray) -> float:
    """1: the values predict the returns exactly; 0: no better than their mean; below 0: worse."""
    variance = float(np.var(returns, dtype=np.float64))
    return float("nan") if variance == 0 else 1 - float(np.var(returns - values, dtype=np.float64)) / variance


class Cuts(NamedTuple):
    """Time-outs: when, in which environment, and the last observation before the reset."""

    steps: np.ndarray
    """(cuts,)"""
    rows: np.ndarray
    """(cuts,)"""
    observations: np.ndarray
    """(cuts, D)"""


@dataclass(frozen=True)
class Shape:
    """How much a rollout holds."""

    num_steps: int
    num_envs: int
    observation_dim: int
    action_dim: int
    memory_dim: int = 0
    """Size of the policy's hidden state per environment."""


class Rollout:
    """Storage for `num_steps` steps of `num_envs` environments, used again for every rollout. Everything put in is copied."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        lead = shape.num_steps, shape.num_envs
        self.observations = np.empty((*lead, shape.observation_dim), np.float32)
        self.actions = np.empty((*lead, shape.action_dim), np.float32)
        self.rewards = np.empty(lead, np.float32)
        self.terminated, self.truncated = np.empty(lead, bool), np.empty(lead, bool)
        self.memory = np.zeros((shape.num_envs, shape.memory_dim), np.float32)
        """The policy's hidden state before the first step."""
        self.clear()

    def clear(self) -> None:
        self.steps = 0
        self._cuts: list[Cuts] = []

    @property
    def full(self) -> bool:
        return self.steps == self.shape.num_steps

    def add(
        self,
        observations: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        final_observations: np.ndarray | None,
    ) -> None:
        """One step of all environments. `final_observations` `(cuts, D)` are those of the rows that were truncated, in order."""
        self.check(rewards, terminated, truncated)
        t = self.steps
        self.observations[t], self.actions[t], self.rewards[t] = observations, actions, rewards
        self.terminated[t], self.truncated[t] = terminated, truncated
        if final_observations is not None and len(final_observations):
            rows = np.flatnonzero(truncated)
            self._cuts.append(Cuts(np.full(len(rows), t), rows, final_observations))
        self.steps += 1

    def check(self, rewards: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Reward, terminated and truncated must have one entry per environment."""
        n = self.shape.num_envs
        for name, array in (("reward", rewards), ("terminated", terminated), ("truncated", truncated)):
            if np.shape(array) != (n,):
                raise InvalidTransition(
                    f"'{name}' has shape {np.shape(array)}, expected ({n},): one number per environment. A wrapper may have added or "
                    f"dropped an axis; broadcast against the values it would silently make {n} x {n} numbers of them."
                )
            if name != "reward" and np.asarray(array).dtype != bool:
                raise InvalidTransition(f"'{name}' is {np.asarray(array).dtype}, expected bool")

    @property
    def ended(self) -> np.ndarray:
        return self.terminated | self.truncated

    def cuts(self) -> Cuts:
        """All time-outs so far."""
        if not self._cuts:
            return Cuts(np.zeros(0, int), np.zeros(0, int), np.zeros((0, self.shape.observation_dim), np.float32))
        return Cuts(*(np.concatenate(parts) for parts in zip(*self._cuts, strict=True)))

    def next_values(self, values: np.ndarray, last_values: np.ndarray, cut_values: np.ndarray) -> np.ndarray:
        """Value of the state after each step; at a time-out that of the last state before the reset.

        `values` `(T, N)` of the observations, `last_values` `(N,)` of those after the last step, `cut_values` in the order of `cuts`.
        """
        following = np.concatenate([values[1:], last_values[None]])
        steps, rows, _ = self.cuts()
        following[steps, rows] = cut_values
        return following

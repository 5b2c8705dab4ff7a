"""From a rollout to samples: advantages and returns, from the values of the networks before they learn from it.

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

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tandem.agents.packing import PPOState, Samples, Sequences
from tandem.agents.ppo import PPO
from tandem.errors import NotFinite
from tandem.networks.normaliser import Moments, RewardScaler
from tandem.on_policy.collector import Rollout, reset_memory
from tandem.on_policy.config import OnPolicyConfig
from tandem.types import Metrics, Spec

LARGEST_RETURN = 1e18
"""The square of a larger return overflows float32."""


@np.errstate(over="ignore", invalid="ignore")  # an overflow gives inf or NaN, which the caller checks
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


class Estimate(NamedTuple):
    """A rollout, ready to learn from."""

    state: PPOState
    """With `normalize_values` the value network may predict in new units."""
    samples: Samples
    sequences: Sequences
    metrics: Metrics


class AdvantageEstimator:
    """Generalised advantage estimation. Holds what continues from rollout to rollout: units of rewards and values, the critic's memory."""

    def __init__(self, config: OnPolicyConfig, agent: PPO, spec: Spec) -> None:
        self._config, self._agent, self._spec = config.agent, agent, spec
        clip = math.inf if config.reward_clip is None else config.reward_clip
        self._rewards = RewardScaler(config.num_envs, config.agent.gamma, clip) if config.reward_normalization else None
        self._returns = Moments.of(1)
        """Units of the values with `normalize_values`; otherwise mean 0 and variance 1 throughout."""
        self.critic_memory = np.zeros((config.num_envs, agent.memory_sizes[1]), np.float32)
        """(N, size): hidden state of the value network at the start of the next rollout."""

    def compute(self, state: PPOState, rollout: Rollout, last: np.ndarray) -> Estimate:
        """Samples with advantages and returns. `last` `(N, D)` are the observations after the last step."""
        config = self._config
        sequences = Sequences(rollout.ended, rollout.memory.copy(), self.critic_memory)
        outputs, memory_after = self._agent.evaluate(state, rollout.observations, sequences)
        memory_after, cuts = np.asarray(memory_after), rollout.cuts()
        self.critic_memory = np.array(reset_memory(memory_after[-1], sequences.ended[-1]))
        values = self._in_rewards(np.asarray(outputs.value)).reshape(rollout.rewards.shape)
        last_values = self.values(state.critic, last, self.critic_memory)
        cut_values = self.values(state.critic, cuts.observations, memory_after[cuts.steps, cuts.rows])
        next_values = rollout.next_values(values, last_values, cut_values)
        rewards = rollout.rewards if self._rewards is None else self._rewards(rollout.rewards, sequences.ended)
        advantage = advantages(rewards, values, next_values, rollout.terminated, rollout.truncated, config.gamma, config.lam)
        returns = advantage + values
        self._check(returns, rewards)
        metrics = {
            "Value/explained_variance": explained_variance(values, returns),
            "Value/mean_return": float(returns.mean()),
            "Train/time_outs": float(len(cuts.rows)),
        }
        if config.normalize_values:
            state, values, returns = self._in_new_units(state, values, returns)
        if not config.normalize_advantage_per_mini_batch:
            advantage = normalised(advantage)
        observations, actions = (array.reshape(rollout.rewards.size, -1) for array in (rollout.observations, rollout.actions))
        samples = Samples(observations, actions, outputs._replace(value=values.ravel()), advantage.ravel(), returns.ravel())
        return Estimate(state, samples, sequences, metrics)

    def values(self, critic: Any, observations: np.ndarray, memory: np.ndarray | None = None) -> np.ndarray:
        """Values of any number of observations. They are padded to a power of two, so that few sizes are compiled.

        `memory` is the critic's hidden state before each of them. Default: that of the first step of an episode.
        """
        count = len(observations)
        if not count:
            return np.zeros(0, np.float32)
        memory = np.zeros((count, self.critic_memory.shape[1]), np.float32) if memory is None else memory
        return self._in_rewards(np.asarray(self._agent.values(critic, _padded(observations), _padded(memory)))[:count])

    def _in_rewards(self, values: np.ndarray) -> np.ndarray:
        """Outputs of the value network in the units of the rewards."""
        if not self._config.normalize_values:
            return values
        return (self._returns.mean[0] + np.sqrt(self._returns.variance[0]) * values).astype(np.float32)

    def _in_new_units(self, state: PPOState, values: np.ndarray, returns: np.ndarray) -> tuple[PPOState, np.ndarray, np.ndarray]:
        """Both in units of the returns' std, including these returns. The critic's last layer is rescaled so that its values stay."""
        old_mean, old_std = self._returns.mean[0], np.sqrt(self._returns.variance[0])
        self._returns.add(returns[..., None])
        self._returns.variance = np.maximum(self._returns.variance, 1e-12)  # returns that are all equal have no spread
        mean, std = self._returns.mean[0], np.sqrt(self._returns.variance[0])
        state = self._agent.rescaled(state, old_std / std, (old_mean - mean) / std)
        return state, ((values - mean) / std).astype(np.float32), ((returns - mean) / std).astype(np.float32)

    def _check(self, returns: np.ndarray, rewards: np.ndarray) -> None:
        if (np.abs(returns) < LARGEST_RETURN).all():
            return
        row = int(np.argwhere(~(np.abs(returns) < LARGEST_RETURN))[0][1])
        step = int(np.abs(rewards[:, row]).argmax())
        raise NotFinite(
            f"task '{self._spec.task}', environment {row}: a return of this rollout is beyond {LARGEST_RETURN:g}. The largest reward in "
            f"it is {rewards[step, row]:g}, at step {step}. Nothing was learned from it. Likely cause: an error in the reward."
        )

    def state(self) -> dict[str, Any]:
        return {"rewards": None if self._rewards is None else self._rewards.state(), "returns": self._returns.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._returns = Moments.from_state(state["returns"])
        if self._rewards is not None and state["rewards"] is not None:
            self._rewards.restore(state["rewards"])


def _padded(rows: np.ndarray) -> np.ndarray:
    padded = np.zeros((2 ** math.ceil(math.log2(len(rows))), rows.shape[1]), np.float32)
    padded[: len(rows)] = rows
    return padded

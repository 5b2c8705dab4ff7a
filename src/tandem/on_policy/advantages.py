"""From a rollout to samples: what was every action worth, by what the networks think before they learn from it?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tandem.agents.ppo import PPOState, Samples
from tandem.data.rollout import Rollout, advantages, explained_variance, normalised
from tandem.errors import NotFinite
from tandem.networks.normaliser import Moments, RewardScaler
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.rollout_model import Reading
from tandem.types import Metrics, Spec

LARGEST_RETURN = 1e18
"""The square of a larger one is no float32 any more."""


class Hindsight:
    """Holds what goes on from rollout to rollout: the units of rewards and of values."""

    def __init__(self, config: OnPolicyConfig, reading: Reading, spec: Spec) -> None:
        self._config, self._reading, self._spec = config.agent, reading, spec
        clip = math.inf if config.reward_clip is None else config.reward_clip
        self._rewards = RewardScaler(config.num_envs, config.agent.gamma, clip) if config.reward_normalization else None
        self._returns = Moments.of(1)
        """Units of the values, with `normalize_values`; otherwise 0 and 1 throughout."""

    def judge(self, state: PPOState, rollout: Rollout, last: np.ndarray) -> tuple[PPOState, Samples, Metrics]:
        """Samples to learn from; `last` `(N, D)` is what was seen after the last step. The state's values may come in new units."""
        config = self._config
        observations, actions = (array.reshape(rollout.rewards.size, -1) for array in (rollout.observations, rollout.actions))
        opinion, at_the_end, at_cuts = self._reading.look_back(state, rollout)
        values = self._in_rewards(np.asarray(opinion.value)).reshape(rollout.rewards.shape)
        cuts = rollout.cuts()
        last_values, cut_values = self.values(state.critic, last, at_the_end), self.values(state.critic, cuts.observations, at_cuts)
        next_values = rollout.next_values(values, last_values, cut_values)
        rewards = rollout.rewards if self._rewards is None else self._rewards(rollout.rewards, rollout.ended)
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
        old = opinion._replace(value=values.ravel())
        return state, Samples(observations, actions, old, advantage.ravel(), returns.ravel()), metrics

    def values(self, critic: Any, observations: np.ndarray, memory: np.ndarray | None = None) -> np.ndarray:
        """Of any number of observations, which are filled up to a power of two: each number of rows is compiled once.

        `memory` is what a critic that remembers knew when it saw them; default: nothing.
        """
        count = len(observations)
        if not count:
            return np.zeros(0, np.float32)
        memory = np.zeros((count, self._reading.critic_memory_dim), np.float32) if memory is None else memory
        return self._in_rewards(np.asarray(self._reading.values(critic, _filled(observations), _filled(memory)))[:count])

    def _in_rewards(self, values: np.ndarray) -> np.ndarray:
        """The critic's answers in the units of the rewards."""
        if not self._config.normalize_values:
            return values
        return (self._returns.mean[0] + np.sqrt(self._returns.variance[0]) * values).astype(np.float32)

    def _in_new_units(self, state: PPOState, values: np.ndarray, returns: np.ndarray) -> tuple[PPOState, np.ndarray, np.ndarray]:
        """Both in units of the returns' std, these returns included; the critic's last layer is changed so that it means the same."""
        old_mean, old_std = self._returns.mean[0], np.sqrt(self._returns.variance[0])
        self._returns.add(returns[..., None])
        self._returns.variance = np.maximum(self._returns.variance, 1e-12)  # returns that are all equal have no units
        mean, std = self._returns.mean[0], np.sqrt(self._returns.variance[0])
        state = self._reading.agent.rescaled(state, old_std / std, (old_mean - mean) / std)
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


def _filled(rows: np.ndarray) -> np.ndarray:
    filled = np.zeros((2 ** math.ceil(math.log2(len(rows))), rows.shape[1]), np.float32)
    filled[: len(rows)] = rows
    return filled

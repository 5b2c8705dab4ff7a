"""Intrinsic reward by random network distillation (`agents/rnd.py`), added to the task's reward before advantages are computed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tandem.agents.rnd import RND
from tandem.layouts import Layout
from tandem.networks.normaliser import Moments, Normaliser, RewardScaler
from tandem.on_policy.collector import Rollout
from tandem.on_policy.config import OnPolicyConfig
from tandem.types import Metrics, Spec


class Curiosity:
    """Holds the networks, their observation normaliser and the scale of their rewards; all of it is in a checkpoint.

    The reward of a step is that of the state after it: at the end of an episode its last state, not the first of the next episode.
    """

    def __init__(self, config: OnPolicyConfig, spec: Spec) -> None:
        self._config, rnd = config, config.rnd
        layout = Layout(spec)
        self._columns = layout.columns(rnd.rnd_entries or layout.names)
        self._rnd = RND(rnd, len(self._columns))
        self._state = self._rnd.init(config.seed)
        self._normaliser = Normaliser(Moments.of(len(self._columns)))
        self._scaler = RewardScaler(config.num_envs, config.agent.gamma) if rnd.rnd_reward_normalization else None
        self._random = np.random.default_rng([config.seed, 4])

    def reward(self, rollout: Rollout, reached: np.ndarray, steps: int) -> Metrics:
        """Add to the rollout's rewards. `reached` `(T, N, D)` are observations after the steps, `steps` earlier ones per environment."""
        x = self._inputs(reached)
        novelty = np.asarray(self._rnd.novelty(self._state, x)).reshape(rollout.rewards.shape)
        if self._scaler is not None:
            novelty = self._scaler(novelty, rollout.ended)
        weights = self._config.rnd.weights(steps + np.arange(len(novelty))).astype(np.float32)
        intrinsic = weights[:, None] * novelty
        metrics = {
            "Rnd/mean_extrinsic_reward": float(rollout.rewards.mean()),
            "Rnd/mean_intrinsic_reward": float(intrinsic.mean()),
            "Rnd/weight": float(weights[-1]),
        }
        rollout.rewards += intrinsic
        return metrics

    def learn(self, reached: np.ndarray) -> Metrics:
        """Train the predictor on these observations; then the normaliser may change."""
        agent = self._config.agent
        x = self._inputs(reached)
        orders = np.stack([self._random.permutation(len(x)) for _ in range(agent.num_learning_epochs)]).astype(np.int32)
        mini_batches = orders.reshape(agent.num_learning_epochs * agent.num_mini_batches, -1)
        self._state, loss = self._rnd.update(self._state, x, mini_batches)
        if self._config.rnd.rnd_state_normalization:
            self._normaliser.record(reached[..., self._columns])
            self._normaliser.advance()
        return {"Loss/rnd": float(loss)}

    def _inputs(self, reached: np.ndarray) -> np.ndarray:
        return self._normaliser(reached.reshape(-1, reached.shape[-1])[:, self._columns])

    def state(self) -> dict[str, Any]:
        return {
            "networks": self._rnd.arrays(self._state),
            "normaliser": self._normaliser.moments.state(),
            "scaler": None if self._scaler is None else self._scaler.state(),
            "random": json.dumps(self._random.bit_generator.state),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._state = self._rnd.from_arrays(self._state, state["networks"])
        self._normaliser = Normaliser(Moments.from_state(state["normaliser"]))
        if self._scaler is not None and state["scaler"] is not None:
            self._scaler.restore(state["scaler"])
        self._random.bit_generator.state = json.loads(state["random"])

"""Any `TaskEnv` as a `RolloutEnv`: rows that end are reset in the same step, as PPO wants it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from tandem.envs.spaces import action_space, observation_space
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, EpisodeLost
from tandem.types import Observation, Symmetry


class AutoresetEnv:
    """`info["final_obs"]` is what the step led to; the observation of a row that ended is the first of its next episode."""

    symmetry: Symmetry | None = None
    saves = False

    def __init__(self, env: TaskEnv) -> None:
        self._env = env
        self.task_spec, self.num_envs = env.spec, env.num_envs
        self.single_observation_space, self.single_action_space = observation_space(env.spec), action_space(env.spec)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)
        self.metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def reset(self, *, seed: int | Sequence[int | None] | None = None) -> tuple[Observation, dict[str, Any]]:
        seeds = [seed + row for row in range(self.num_envs)] if isinstance(seed, int) else seed
        return self._env.reset(seeds=seeds), {}

    def step(self, actions: np.ndarray, /) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        step = self._env.step(actions)
        if step.lost is not None:
            raise EpisodeLost(
                f"environment '{self.task_spec.task}': the episodes of the rows {np.flatnonzero(step.lost).tolist()} are gone, so this "
                f"rollout has a hole."
            )
        info = {
            "success": step.success,
            "success_known": step.success_known,
            "final_obs": step.observation,
            "_final_obs": step.ended,
            "reward_terms": dict(step.reward_terms),
        }
        observation = step.observation if not step.ended.any() else self._env.reset(np.flatnonzero(step.ended).tolist())
        return observation, step.reward, step.terminated, step.truncated, info

    def set_elapsed(self, steps: np.ndarray) -> None:
        raise ConfigError(
            f"init_at_random_ep_len: environment '{self.task_spec.task}' counts its own steps, so its episodes cannot begin at another age"
        )

    def halt(self, reason: str) -> None:
        self._env.halt(reason)

    def figures(self) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        raise ConfigError(f"environment '{self.task_spec.task}' cannot be saved while it resets by itself")

    def restore(self, state: dict[str, Any]) -> Observation:
        raise ConfigError(f"environment '{self.task_spec.task}' cannot be saved while it resets by itself")

    def close(self) -> None:
        self._env.close()

"""One environment of any kind as a plain Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from tandem.envs.spaces import action_space, observation_space
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError
from tandem.types import Observation, first_row


class SingleEnv(gymnasium.Env):
    """A `TaskEnv` of one row behind Gymnasium's interface, with dict observations, actions in [-1, 1] and a `task_spec`.

    `info["success"]` is reported by the task, `info["reward_terms"]` are the parts of the reward where it has any. An action that was
    executed other than asked is in `info["executed_action"]`, or in `info["intervene_action"]` where a person chose it.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  as Gymnasium declares it

    def __init__(self, env: TaskEnv, *, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ConfigError(f"SingleEnv draws to arrays (render_mode='rgb_array'), got {render_mode!r}")
        if env.num_envs != 1:
            raise ConfigError(f"SingleEnv shows one environment, got num_envs={env.num_envs}")
        self.task_env, self.task_spec = env, env.spec
        self.render_mode = render_mode
        self.observation_space = observation_space(env.spec)
        self.action_space = action_space(env.spec)
        self._ended = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        observation = self.task_env.reset(seeds=[seed])
        self._ended = False
        return first_row(observation), {}

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._ended:
            raise ConfigError(f"task '{self.task_spec.task}': step() after the end of an episode; call reset() first")
        step = self.task_env.step(np.asarray(action)[None])
        self._ended = bool(step.ended[0])
        info: dict[str, Any] = {"success": bool(step.success[0])}
        if step.reward_terms:
            info["reward_terms"] = {name: float(part[0]) for name, part in step.reward_terms.items()}
        if step.executed is not None:
            by_person = step.intervened is not None and bool(step.intervened[0])
            info["intervene_action" if by_person else "executed_action"] = step.executed[0]
        return first_row(step.observation), float(step.reward[0]), bool(step.terminated[0]), bool(step.truncated[0]), info

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]  Gymnasium's type has no None
        return None if self.render_mode is None else self.task_env.render()

    def halt(self) -> None:
        """Stop all motion now, as `TaskEnv.halt`; without a reason, as every Gymnasium environment has it."""
        self.task_env.halt("halted through Gymnasium's interface")

    def close(self) -> None:
        self.task_env.close()

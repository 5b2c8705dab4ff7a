"""One simulation of a task as a plain Gymnasium environment: a batch of one that does not reset by itself."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from tandem.envs.batch import BatchEnv, action_space, checked_action, observation_space
from tandem.envs.rendering import Camera
from tandem.envs.task import Task
from tandem.errors import ConfigError
from tandem.types import Observation


class SingleEnv(gymnasium.Env):
    """`info["success"]` is the task's word on the step just made, `info["reward_terms"]` what the reward is made of, where it has parts."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  as Gymnasium declares it

    def __init__(
        self, task: Task, *, render_mode: str | None = None, camera: str | None = None, size: tuple[int, int] = (640, 480)
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ConfigError(f"SingleEnv draws to arrays (render_mode='rgb_array'), got {render_mode!r}")
        self.task_spec = task.spec
        self.render_mode = render_mode
        self.observation_space = observation_space(task.spec)
        self.action_space = action_space(task.spec)
        self.rows = BatchEnv(task, 1, autoreset=AutoresetMode.DISABLED)
        self._camera_name, self._size = camera, size
        self._camera: Camera | None = None
        self._ended = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        observation, _ = self.rows.reset(seed=seed)
        self._ended = False
        return _first(observation), {}

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._ended:
            raise ConfigError(f"task '{self.task_spec.task}': step() after the end of an episode; call reset() first")
        action = checked_action(action, self.task_spec.action.shape, self.task_spec.task)
        observation, reward, terminated, truncated, info = self.rows.step(action[None])
        self._ended = bool(terminated[0] or truncated[0])
        told: dict[str, Any] = {"success": bool(info["success"][0])}
        if "reward_terms" in info:
            told["reward_terms"] = {name: float(part[0]) for name, part in info["reward_terms"].items()}
        return _first(observation), float(reward[0]), bool(terminated[0]), bool(truncated[0]), told

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.render_mode is None:
            return None
        if self._camera is None:
            self._camera = Camera(self.rows.batch, self._camera_name, self._size)
        return self._camera.picture(0)

    def state(self) -> dict[str, Any]:
        return self.rows.state()

    def restore(self, state: dict[str, Any]) -> Observation:
        self._ended = bool(state["standing"][0])
        return _first(self.rows.restore(state))

    def close(self) -> None:
        if self._camera is not None:
            self._camera.close()
            self._camera = None


def _first(observation: Observation) -> Observation:
    return {name: values[0] for name, values in observation.items()}

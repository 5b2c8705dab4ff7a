"""Our own tasks as a `TaskEnv`: the batch of simulations, reset only when asked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from tandem.envs.batch import BatchEnv
from tandem.envs.physics import BatchPhysics, Physics, camera_names
from tandem.envs.rendering import Camera
from tandem.envs.task import Task
from tandem.envs.task_env import Capabilities
from tandem.errors import ConfigError
from tandem.types import Observation, Spec, Step


class SimulatedEnv:
    """`num_envs` simulations of a task. `camera` and `size` are those of `render`."""

    def __init__(
        self, task: Task, num_envs: int = 1, *, num_threads: int = 0, camera: str | None = None, size: tuple[int, int] = (640, 480)
    ) -> None:
        self.batch = BatchEnv(task, num_envs, num_threads=num_threads, autoreset=AutoresetMode.DISABLED)
        self.spec: Spec = task.spec
        self.num_envs = num_envs
        self.capabilities = Capabilities(saves=True, renders=True, cameras=camera_names(self.batch.model))
        self._camera_name, self._size = camera, size
        self._camera: Camera | None = None

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        chosen = np.arange(self.num_envs) if rows is None else np.asarray(rows, int)
        if seeds is not None and len(seeds) != len(chosen):
            raise ConfigError(f"reset of {len(chosen)} simulations of '{self.spec.task}' got {len(seeds)} seeds; give one for each")
        for row, seed in zip(chosen, seeds or (), strict=False):
            if seed is not None:
                self.batch.streams[row] = np.random.default_rng(seed)
        return self.batch.begin(chosen)

    def step(self, action: np.ndarray) -> Step:
        began = time.perf_counter()
        observation, reward, terminated, truncated, info = self.batch.step(action)
        return Step(
            observation,
            reward,
            terminated,
            truncated,
            info["success"],
            success_known=info["success_known"],
            reward_terms=info.get("reward_terms", {}),
            seconds=time.perf_counter() - began,
        )

    def halt(self, reason: str) -> None:
        """A simulation moves only inside of `step`."""

    def state(self) -> dict[str, Any]:
        return self.batch.state()

    def restore(self, state: dict[str, Any]) -> Observation:
        return self.batch.restore(state)

    def render(self) -> np.ndarray:
        if self._camera is None:
            self._camera = Camera(self.batch.batch, self._camera_name, self._size)
        return self._camera.picture(0)

    def physics(self) -> Physics:
        return BatchPhysics(self.batch.batch)

    def close(self) -> None:
        if self._camera is not None:
            self._camera.close()
            self._camera = None
        self.batch.close()

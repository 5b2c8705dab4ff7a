"""An environment around another: what a wrapper does not change is forwarded here, `halt` above all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tandem.envs.physics import Physics
from tandem.envs.task_env import Capabilities, TaskEnv
from tandem.types import Observation, Spec, Step


class WrappedEnv:
    """A `TaskEnv` that does what another does. A wrapper overrides its one concern."""

    def __init__(self, env: TaskEnv, spec: Spec | None = None) -> None:
        self._env = env
        self.spec: Spec = env.spec if spec is None else spec

    @property
    def num_envs(self) -> int:
        return self._env.num_envs

    @property
    def capabilities(self) -> Capabilities:
        return self._env.capabilities

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        return self._env.reset(rows, seeds)

    def step(self, action: np.ndarray) -> Step:
        return self._env.step(action)

    def halt(self, reason: str) -> None:
        self._env.halt(reason)

    def state(self) -> dict[str, Any]:
        return self._env.state()

    def restore(self, state: dict[str, Any]) -> Observation:
        return self._env.restore(state)

    def render(self) -> np.ndarray:
        return self._env.render()

    def physics(self) -> Physics | None:
        return self._env.physics()

    def close(self) -> None:
        self._env.close()

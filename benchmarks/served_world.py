"""Environments that `benchmarks.served` serves, in a process of their own."""

from __future__ import annotations

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict


class State(gymnasium.Env):
    """39 numbers and 4 actions, as Metaworld has; a step costs next to nothing, so that what is measured is the way to it."""

    observation_space: gymnasium.Space = Box(-np.inf, np.inf, (39,), np.float64)
    action_space = Box(-1, 1, (4,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self.np_random.standard_normal(39)
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._state[:4] += action
        return self._seen(), 0.0, False, False, {"success": False, "distance": 0.5}

    def _seen(self) -> Any:
        return self._state.copy()


class Cameras(State):
    """The same, and two pictures of 128 px."""

    observation_space = Dict(
        {
            "state": Box(-np.inf, np.inf, (39,), np.float64),
            "wrist": Box(0, 255, (128, 128, 3), np.uint8),
            "front": Box(0, 255, (128, 128, 3), np.uint8),
        }
    )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._pictures = [np.random.default_rng(i).integers(0, 255, (128, 128, 3), np.uint8) for i in range(2)]
        return super().reset(seed=seed, options=options)

    def _seen(self) -> Any:
        return {"state": self._state.copy(), "wrist": self._pictures[0].copy(), "front": self._pictures[1].copy()}


class Witnessed(gymnasium.Env):
    """Writes down every step that it executes: episode, step, what was seen and what was done. A step takes 1 ms."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float64)
    action_space = Box(-1, 1, (1,), np.float32)

    def __init__(self) -> None:
        self._file = open(os.environ["WITNESS"], "a", buffering=1)  # noqa: SIM115  open as long as the environment
        self._episode = self._step = 0
        self._place = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._episode, self._step, self._place = self._episode + 1, 0, float(self.np_random.standard_normal())
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(0.001)
        self._step += 1
        self._place += float(action[0])
        self._file.write(f"{self._episode} {self._step} {np.float32(self._place):.6e}\n")
        return self._seen(), 0.0, False, self._step >= 25, {}

    def _seen(self) -> np.ndarray:
        return np.array([self._episode, self._step, self._place])

    def close(self) -> None:
        self._file.close()

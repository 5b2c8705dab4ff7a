"""A slide with a ditch in which a policy gets stuck, and a policy whose critics know how far it is."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from tandem.envs.foreign import GymnasiumEnv
from tandem.types import PolicySnapshot
from tests.acting.counter_env import steady

LENGTH = 80
STEP = 0.05


class Slide(gymnasium.Env):
    """x goes from 0 to 1, by an action in [-1, 1] times 0.05. A `ditch` lets nothing pass for a while."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    metadata = {"render_fps": 20, "render_modes": []}  # noqa: RUF012  as Gymnasium declares it

    def __init__(self, ditch: float = 2.0) -> None:
        self.ditch, self.x, self.count, self.moves, self.halts = ditch, 0.0, 0, 0, 0
        self.episode = -1
        self.spec = EnvSpec("Slide-v0", max_episode_steps=LENGTH)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.x, self.count, self.episode, self.moves = 0.0, 0, self.episode + 1, self.moves + 1
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        before = self.x
        self.x = self.x + STEP * float(action[0])
        if before <= self.ditch < self.x:
            self.x = self.ditch
        self.count, self.moves = self.count + 1, self.moves + 1
        done = self.x >= 1 - 1e-6
        return self._seen(), float(done), done, False, {"success": done}

    def halt(self) -> None:
        self.halts += 1

    def _seen(self) -> np.ndarray:
        return np.array([self.x, 0.0], np.float32)


def slides(*each: Slide) -> GymnasiumEnv:
    return GymnasiumEnv("slide", list(each))


def knowing(action: float, version: int = 1) -> PolicySnapshot:
    """A policy that always does the same, and critics who say how far it is: 0.01 tanh(100 (x)) would bend, so the slope is small."""
    slope = 0.01
    weight = np.zeros((2, 3, 1), np.float32)
    weight[:, 0] = slope
    critics = {
        "critic/members/trunk/layers/0/weight": weight,
        "critic/members/trunk/layers/0/bias": np.zeros((2, 1), np.float32),
        "critic/members/head/weight": np.full((2, 1, 1), 1 / slope, np.float32),
        "critic/members/head/bias": np.zeros((2, 1), np.float32),
    }
    return PolicySnapshot(version, 0, {**steady(action).parameters, **critics})

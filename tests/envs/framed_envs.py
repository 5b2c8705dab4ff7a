"""Foreign environments with pictures of several layouts: `tests.envs.framed_envs:Front-v0` and others."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict


class Front(gymnasium.Env):
    """A dot that is pushed along a line, seen by a camera of 84 x 100 pixels, channels first."""

    shape = (3, 84, 100)
    first = True
    action_space = Box(-1, 1, (1,), np.float32)
    metadata = {"render_modes": [], "render_fps": 10}  # noqa: RUF012

    def __init__(self, **_: Any) -> None:
        self.observation_space = Dict({"state": Box(-1, 1, (1,), np.float32), "front": Box(0, 255, self.shape, np.uint8)})
        self._place = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._place = float(self.np_random.uniform(-0.9, 0.9))
        return self.seen(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._place = float(np.clip(self._place + 0.2 * action[0], -1, 1))
        near = abs(self._place) < 0.1
        return self.seen(), float(near), near, False, {"success": near}

    def seen(self) -> dict[str, np.ndarray]:
        height, width, channels = (*self.shape[1:], self.shape[0]) if self.first else self.shape
        picture = np.full((height, width, channels), 30, np.uint8)
        column = round((1 + self._place) / 2 * (width - 8))
        picture[20:40, column : column + 8] = (250, 120, 10)[:channels]
        return {"state": np.array([self._place], np.float32), "front": np.moveaxis(picture, -1, 0) if self.first else picture}


class Grey(Front):
    shape, first = (64, 64, 1), False


class Rgba(Front):
    shape, first = (64, 64, 4), False

    def seen(self) -> dict[str, np.ndarray]:
        return {"state": np.zeros(1, np.float32), "front": np.zeros(self.shape, np.uint8)}


class Unclear(Rgba):
    shape = (3, 64, 3)


class Floats(Front):
    def seen(self) -> dict[str, np.ndarray]:
        seen = super().seen()
        return {**seen, "front": seen["front"].astype(np.float32) / 255}


for kind in (Front, Grey, Rgba, Unclear, Floats):
    gymnasium.register(f"{kind.__name__}-v0", kind, max_episode_steps=20, disable_env_checker=True)

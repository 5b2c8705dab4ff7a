"""A point on a line that draws a picture of itself, without MuJoCo: a bright square on black, where the point is.

Used as `tests.dashboard.drawn_point:DrawnPoint-v0`; `BlindPoint-v0` cannot draw itself.
"""

from typing import Any

import gymnasium
import numpy as np


class DrawnPoint(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012  as Gymnasium has it
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = -0.5
        return np.array([self.place], np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.place = float(np.clip(self.place + 0.1 * action[0], -0.9, 0.9))
        return np.array([self.place], np.float32), 0.0, False, False, {"success": False}

    def render(self) -> np.ndarray:
        picture = np.zeros((40, 60, 3), np.uint8)
        middle = round(30 + 30 * self.place)
        picture[15:25, max(0, middle - 3) : middle + 3] = 255
        return picture


class BlindPoint(DrawnPoint):
    """Says that it draws itself and cannot: a package is missing, as pygame is for Gymnasium's Pendulum."""

    def render(self) -> np.ndarray:
        raise gymnasium.error.DependencyNotInstalled("pygame is not installed")


gymnasium.register("BlindPoint-v0", entry_point=f"{__name__}:BlindPoint", max_episode_steps=1000)
gymnasium.register("DrawnPoint-v0", entry_point=f"{__name__}:DrawnPoint", max_episode_steps=1000)

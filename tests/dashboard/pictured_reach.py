"""`reach` with a camera that sees a red square on green, so that a picture of it can be told from any other.

Used as `tests.dashboard.pictured_reach:PicturedReach-v0`.
"""

from typing import Any

import gymnasium
import numpy as np

from tandem.envs.registry import make

PICTURE = np.zeros((48, 64, 3), np.uint8)
PICTURE[:] = (0, 160, 0)
PICTURE[12:36, 20:44] = (200, 0, 0)


class PicturedReach(gymnasium.ObservationWrapper):
    def __init__(self, **_: Any) -> None:
        super().__init__(make("reach"))
        inner: Any = self.env.observation_space
        self.observation_space = gymnasium.spaces.Dict({**inner.spaces, "wrist": gymnasium.spaces.Box(0, 255, PICTURE.shape, np.uint8)})

    def observation(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {**observation, "wrist": PICTURE}


gymnasium.register("PicturedReach-v0", entry_point=PicturedReach, max_episode_steps=None)

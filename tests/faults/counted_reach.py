"""`reach` with a witness: every step it makes is noted in a file of its process before anyone else knows of it.

Used as `counted_reach:CountedReach-v0`. The note is a hash of the observation that the step led to, so that a row of the journal
can be told from any other.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from tandem.envs.registry import make

WITNESS = "TANDEM_WITNESS"
"""Variable that names the folder of the notes."""
NOTE = 16


def note(observation: dict[str, np.ndarray]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(observation):
        digest.update(np.asarray(observation[name], np.float32).tobytes())
    return digest.digest()[:NOTE]


class CountedReach(gymnasium.Wrapper):
    def __init__(self, **_: Any) -> None:
        super().__init__(make("reach"))
        folder = Path(os.environ[WITNESS])
        folder.mkdir(exist_ok=True)
        number = len(list(folder.glob(f"{os.getpid()}.*")))
        self._notes = os.open(folder / f"{os.getpid()}.{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def step(self, action: np.ndarray) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        os.write(self._notes, note(observation))
        return observation, reward, terminated, truncated, info


gymnasium.register("CountedReach-v0", entry_point=CountedReach, max_episode_steps=None)

"""A policy that decides several actions at once, executed one after the other before it looks again. Without JAX.

It has the same methods as a recurrent policy: its memory holds the actions that are left. A memory of zeros has none, and it looks.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tandem.networks.numpy_policy import NumpyPolicy

CHUNK = "chunk"
"""Name of the parameter with the number of actions."""


class NumpyChunks:
    """The forward pass; `memory` `(rows, 1 + chunk * action_dim)`: how many actions are left, and all of the last decision."""

    def __init__(self, parameters: Mapping[str, np.ndarray]) -> None:
        self.policy = NumpyPolicy(parameters)
        self.chunk = int(parameters[CHUNK])
        self.observation_clip = self.policy.observation_clip

    @property
    def observation_dim(self) -> int:
        return self.policy.observation_dim

    @property
    def action_dim(self) -> int:
        return self.policy.action_dim // self.chunk

    def begin(self, rows: int) -> np.ndarray:
        return np.zeros((rows, 1 + self.policy.action_dim), np.float32)

    def mode(self, x: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._next(self.policy.mode(x), memory)

    def sample(self, x: np.ndarray, memory: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return self._next(self.policy.sample(x, rng), memory)

    def _next(self, decided: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows without an action left take the new decision."""
        looks = memory[:, 0] < 1
        memory = np.where(looks[:, None], np.column_stack([np.full(len(decided), self.chunk), decided]), memory).astype(np.float32)
        place = self.chunk - memory[:, 0].astype(int)
        actions = memory[:, 1:].reshape(len(memory), self.chunk, -1)[np.arange(len(memory)), place]
        memory[:, 0] -= 1
        return actions, memory

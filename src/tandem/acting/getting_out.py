"""Getting out by itself: the robot goes back the way it came, not quite exactly, and tries again.

An action is a small step of the command, so the way back is the last actions in reverse order and with the opposite sign. Grippers and
other commands that stay are left as they are: what is held is not dropped. The steps are the robot's own: they pass the limits, a person
who takes over ends them, and they are stored as executed and not as a person's.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from tandem.layouts import ActionLayout
from tandem.teleop.hand_action import still

BACK_S = 1.5
"""Seconds of the way back."""
BESIDE = 0.15
"""Spread of the noise, as a share of the largest action: the same way again would end where it ended."""
LEAST = 3
"""Steps: with fewer there is no way back."""


class Retrace:
    """The way back of one robot."""

    def __init__(self, layout: ActionLayout, control_hz: float, seed: int | tuple[int, ...]) -> None:
        self._layout, self._random = layout, np.random.default_rng(seed)
        self._made: deque[np.ndarray] = deque(maxlen=max(LEAST, round(BACK_S * control_hz)))
        self._left: list[np.ndarray] = []

    @property
    def under_way(self) -> bool:
        return bool(self._left)

    def reset(self) -> None:
        self._made.clear()
        self._left = []

    def executed(self, action: np.ndarray) -> None:
        """The action of the last step, of the policy or of a person."""
        self._made.append(np.array(action, np.float32))

    def begin(self) -> bool:
        """Plan the way back; False if there is none."""
        if len(self._made) < LEAST:
            return False
        self._left = list(self._made)
        return True

    def stop(self) -> None:
        self._left = []

    def next(self) -> np.ndarray:
        """The next action of the way back."""
        back = self._left.pop()
        moves = ~(self._layout.is_discrete | self._layout.stays)
        beside = self._random.normal(0.0, BESIDE, back.shape)
        standing = self._made[-1] if self._made else self._layout.rest
        return self._layout.clip(np.where(moves, beside - back, still(self._layout, standing)).astype(np.float32))

    def memory(self) -> dict[str, Any]:
        """What goes on from here needs."""
        return {"made": list(self._made), "left": list(self._left), "random": json.dumps(self._random.bit_generator.state)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._made = deque((np.array(action, np.float32) for action in saved["made"]), self._made.maxlen)
        self._left = [np.array(action, np.float32) for action in saved["left"]]
        self._random.bit_generator.state = json.loads(saved["random"])

"""Success from the poses of gear and base that the server reports, by the fork's own conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tandem.envs.http_robot.quaternions import from_wire
from tandem.envs.isaac.profile import RewardProfile
from tandem.envs.rotations import quat_conjugate, rotate
from tandem.errors import ServedError


class Judge:
    """Knows where the gear lay at the reset, and for how many steps it has been seated."""

    def __init__(self, profile: RewardProfile, server: str) -> None:
        self._profile, self._server = profile, server
        self._start_height = 0.0
        self.held = 0
        """Steps in a row in which the gear was seated."""

    def begin(self, objects: Any) -> None:
        self._start_height = float(self.pose(objects, self._profile.gear)[2])
        self.held = 0

    def success(self, objects: Any) -> bool:
        """Whether this state is the goal; called once in a step."""
        gear = self.pose(objects, self._profile.gear)
        if self._profile.kind == "lift":
            return float(gear[2]) - self._start_height >= self._profile.lift_m
        self.held = self.held + 1 if self._seated(gear, self.pose(objects, self._profile.base)) else 0
        return self.held >= max(1, self._profile.hold_steps)

    def _seated(self, gear: np.ndarray, base: np.ndarray) -> bool:
        rules, up, hole = self._profile, np.array([0.0, 0.0, 1.0]), np.array([self._profile.hole_m, 0.0, 0.0])
        turn, base_turn = from_wire(gear[3:]), from_wire(base[3:])
        aligned = float(rotate(turn, up) @ rotate(base_turn, up)) > rules.axis_cosine
        x, y, _ = rotate(quat_conjugate(base_turn), gear[:3] + rotate(turn, hole) - base[:3])
        return aligned and abs(x - rules.hole_m) < rules.aside_m and abs(y) < rules.aside_m and float(gear[2]) < rules.seated_below_m

    def pose(self, objects: Any, name: str) -> np.ndarray:
        """x, y, z, quaternion x, y, z, w of an object; a server that does not say it cannot be learned from."""
        numbers = objects.get(name) if isinstance(objects, Mapping) else None
        try:
            pose = np.array(numbers, float)
        except (TypeError, ValueError):
            pose = np.zeros(0)
        if pose.shape != (7,) or not np.isfinite(pose).all():
            raise ServedError(
                f"the server at {self._server} reports '{name}' as {numbers!r:.60} in object_states, expected 7 numbers: the reward is "
                f"computed from it. Likely cause: the gear's prim was not found in the USD, or the profile names another object."
            )
        return pose

"""A script that lifts the gear of the stand-in server. It asks the server where the gear is, which no policy gets to know."""

from __future__ import annotations

import numpy as np

from tandem.envs.http_robot.quaternions import from_euler, from_wire
from tandem.envs.http_robot.wire import Address, Calls, State
from tandem.envs.isaac.profile import DEFAULT, read_profile
from tandem.envs.isaac.rewards import Judge
from tandem.envs.rotations import quat_conjugate, quat_multiply, quat_to_rotvec, rotate
from tandem.errors import ConfigError
from tandem.types import Observation

GRASP_M, ABOVE_M = 0.022, 0.07
"""Height of the fingertips over the gear's bottom when they hold it by its hub, and over it before they go down."""
ASIDE_M, SHUT_STEPS = 0.0015, 6
ASK_S = 1.0


class LiftExpert:
    """Over the gear, down, close, up; with an aim and a pace of its own in every episode."""

    name = "scripted"

    def __init__(self, address: str, seed: int | None = None) -> None:
        place = Address.of(address, DEFAULT, "isaac")
        self._profile = read_profile(place.profile)
        if self._profile.reward.kind != "lift" or self._profile.action.gripper not in ("absolute", "three-way"):
            raise ConfigError(
                f"the script of '{address}' can lift, with a gripper that is absolute or three-way; the profile '{place.profile}' is "
                f"'{self._profile.reward.kind}' with a gripper that is {self._profile.action.gripper}. Record with --operator browser."
            )
        self._calls, self._url, self._random = Calls(place), place.url, np.random.default_rng(seed)
        self._upright = from_euler(np.array(self._profile.reset.pose[3:]))
        self._judge = Judge(self._profile.reward, place.url)
        self.reset()

    def reset(self) -> None:
        self._aim = self._random.normal(0, 0.0005, 3)
        self._pace, self._shut = self._random.uniform(0.6, 0.95), 0

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        state = State.of(self._calls.ask("getstate", within=ASK_S), self._url)
        gear = self._judge.pose(state.objects, self._profile.reward.gear)
        hole = gear[:3] + rotate(from_wire(gear[3:]), np.array([self._profile.reward.hole_m, 0, 0])) + self._aim
        way = hole + np.array([0.0, 0.0, GRASP_M]) - state.position
        aside = float(np.hypot(way[0], way[1]))
        there = aside < ASIDE_M and abs(way[2]) < 2 * ASIDE_M
        if self._shut or there:
            self._shut += 1
            way = np.array([0.0, 0.0, 0.05 if self._shut > SHUT_STEPS else 0.0])
        elif aside > 3 * ASIDE_M:
            way[2] += ABOVE_M - GRASP_M
        turn = from_wire(state.quaternion)
        upright = quat_to_rotvec(quat_multiply(self._upright, quat_conjugate(turn)))
        return self._action(turn, way, upright), True

    def _action(self, turn: np.ndarray, way: np.ndarray, tilt: np.ndarray) -> np.ndarray:
        """The action for a way and a turn in the world; half of what is left, since the arm follows its command late."""
        profile = self._profile.action
        steps = np.concatenate([0.5 * way / profile.position_m, 0.3 * tilt / profile.rotation_rad])
        steps *= self._pace / max(1.0, float(np.abs(steps).max()))
        if profile.frame == "tool":
            back = quat_conjugate(turn)
            steps = np.concatenate([rotate(back, steps[:3]), rotate(back, steps[3:])])
        opened, shut = (2.0, 0.0) if profile.gripper == "three-way" else (1.0, -1.0)
        gripper = shut if self._shut else opened
        return np.concatenate([np.clip(steps, -1, 1), [gripper]]).astype(np.float32)

"""The demonstrator of the pick tasks, and the hand that corrects.

The demonstrator looks roughly, grasps, tugs to see whether the gear comes along, and when it does not, opens and tries again with more
care: one of three first grasps is careless, so that failed grasps and opening are demonstrated too. On the peg it is the demonstrator
of the gear assembly, which finds its way by searching. In one of ten episodes it lets go before the gear is seated, sometimes too early.
"""

from __future__ import annotations

import numpy as np

from tandem.envs.arm import ControlLimits
from tandem.envs.gear_assembly.board import DEGREE, MM
from tandem.envs.gear_assembly.expert import GearExpert, by_touch
from tandem.envs.gear_assembly.scene import Geometry
from tandem.envs.gear_pick.scene import TABLE
from tandem.envs.gear_pick.task import CONTROL, Goal, PickOptions
from tandem.envs.gripper import CLOSE, HOLD, OPEN, Mode, said
from tandem.types import Observation

_SAFE = Geometry().peg_height + 8 * MM
"""Height over the seat at which a gear is carried (m)."""
_OVER = 10 * MM
"""Nearer to the peg than this the gear is over it."""
_ABOVE = 32 * MM
"""Height over the gear at which the open fingers clear its hub (m)."""


def in_the_hand(observation: Observation) -> Observation:
    """What the gear assembly would see of the gear that is held: its pose for the tool's, the torque about its middle."""
    pose, wrench = observation["tcp_pose"].astype(float), observation["wrench"].astype(float)
    offset = observation["gear_offset"].astype(float)
    pose[..., :3] += offset
    wrench[..., 3:] -= np.cross(offset, wrench[..., :3])
    return {
        "tcp_pose": pose,
        "command_offset": observation["command_offset"],
        "wrench": wrench,
        "previous_action": observation["previous_action"][..., :6],
        "gear_phase": observation["gear_phase"],
    }


def pick_distance(goal: Goal, observation: Observation) -> float:
    """How far from done it looks (m): the tool from the gear, and the gear from its seat or from its height."""
    offset = observation["gear_offset"].astype(float)
    x, y, z = observation["tcp_pose"][:3] + offset
    left = np.hypot(x, y) + abs(z) if goal == "assembly" else max(0.0, PickOptions().lift + TABLE - z)
    return float(np.linalg.norm(offset) + left)


def pick_by_touch(
    goal: Goal, observation: Observation, aim: np.ndarray | None = None, control: ControlLimits = CONTROL
) -> tuple[np.ndarray, np.ndarray]:
    """Actions of the arm (n, 6) and wishes of the gripper (n,) of a hand without memory; `aim` (n, 3) is where it takes the gear to be.

    Over the gear, down, close, up; then over the peg, and by touch. What it remembers is in the observation: the gripper's goal.
    """
    pose, offset = observation["tcp_pose"].astype(float), observation["command_offset"].astype(float)
    gear, gripper = observation["gear_offset"].astype(float), observation["gripper"].astype(float)
    to_hub = gear if aim is None else gear + aim
    aside, up = np.hypot(to_hub[:, 0], to_hub[:, 1]), -to_hub[:, 2]
    width, speed, force, wanted = gripper[:, 0], np.abs(gripper[:, 1]), gripper[:, 2], gripper[:, 4]
    closing = wanted < width - 1 * MM
    gripped = closing & (force > 4.0) & (speed < 0.01) & (width > 6 * MM) & (np.abs(gear).max(1) < 12 * MM)
    there = (aside < 1.0 * MM) & (np.abs(up) < 1.5 * MM) & (np.abs(observation["command_offset"][:, :3]).max(1) < 4 * MM)
    close = gripped | there | (closing & (aside < 8 * MM) & (np.abs(up) < 8 * MM) & (width > 6 * MM))

    target = pose.copy()
    target[:, 3:5] = 0.0
    target[:, :2] += to_hub[:, :2]
    # up before sideways when the fingers are beside the hub
    low = (up < _ABOVE - 8 * MM) & (aside > 3 * MM)
    target[:, 2] = pose[:, 2] + np.where(aside < 2 * MM, -up, _ABOVE - up)
    target[low, :2] = pose[low, :2]
    target[close & ~gripped] = (pose + offset)[close & ~gripped]
    action = (target - pose - offset) / np.array(control.action_scale)
    carried = _carry(goal, observation, control)
    action[gripped] = carried[gripped]
    return np.clip(action, -1, 1), np.where(close, CLOSE, OPEN)


def _carry(goal: Goal, observation: Observation, control: ControlLimits) -> np.ndarray:
    """Actions (n, 6) for a gear in the hand: up, across and onto the peg; or just up."""
    held, scale = in_the_hand(observation), np.array(control.action_scale)
    pose, offset = held["tcp_pose"], held["command_offset"].astype(float)
    target = pose.copy()
    target[:, 3:5] = 0.0
    if goal == "lift":
        target[:, 2] += 20 * MM
        return np.clip((target - pose - offset) / scale, -1, 1)
    beside, height = np.hypot(pose[:, 0], pose[:, 1]), pose[:, 2]
    across = beside > _OVER
    target[:, 2] = _SAFE
    clear = height > _SAFE - 6 * MM
    target[clear, :2] = 0.0
    phase = np.arctan2(held["gear_phase"][:, 0], held["gear_phase"][:, 1]).astype(float) / 16
    target[clear, 5] += phase[clear]
    return np.where(across[:, None], np.clip((target - pose - offset) / scale, -1, 1), by_touch(held, control))


class PickExpert:
    """Decides for one robot; `reset` begins an episode with grasps and a search of its own. With small actions (`control`) it takes other
    shares of the largest step (`paces`), and the steps of its search are `search_pace` times those that are right for large ones."""

    name = "scripted"

    def __init__(
        self,
        goal: Goal,
        mode: Mode,
        seed: int | None = None,
        control: ControlLimits = CONTROL,
        paces: tuple[float, float] = (0.55, 0.95),
        search_pace: float = 1.0,
    ) -> None:
        self._goal: Goal = goal
        self._mode: Mode = mode
        self._random = np.random.default_rng(seed)
        self._scale, self._paces = np.array(control.action_scale), paces
        self._search = GearExpert(int(self._random.integers(2**31)), control, search_pace)
        self.reset()

    def reset(self) -> None:
        draw = self._random
        self._search.reset()
        self._tremor, self._pace = np.zeros(6), draw.uniform(*self._paces)
        self.grasps = 0
        """Begun in this episode."""
        self._take_aim(careless=draw.uniform() < 1 / 3)
        self._lets_go_at = draw.uniform(6, 18) * MM if draw.uniform() < 0.1 else -np.inf
        """Height over the board at which it takes the gear to be as good as seated; above the neighbours' tops that loses it."""

    def _take_aim(self, careless: bool) -> None:
        """Where it takes the hub to be, for the grasp that comes; a careless one is off by a third of the hub or more, or too high."""
        draw = self._random
        off, high = (draw.uniform(4, 8), draw.uniform(0, 8)) if careless else draw.normal(0, 0.7, 2)
        direction = draw.uniform(-np.pi, np.pi)
        self._aim = MM * np.array([off * np.cos(direction), off * np.sin(direction), high])
        self._stage, self._since = "reach", 0

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        """The action for this step, and that a person (or this stand-in) chose it."""
        del proposed
        pose, offset = observation["tcp_pose"].astype(float), observation["command_offset"].astype(float)
        gear = observation["gear_offset"].astype(float)
        self._since += 1
        self._next_stage(observation, pose, gear)
        if self._stage == "carry" and self._over_the_peg(pose[:2] + gear[:2]):
            arm = self._search.decide(in_the_hand(observation))[0].astype(float)
        else:
            self._tremor = 0.7 * self._tremor + 0.7 * self._random.normal(0, [0.05, 0.05, 0.03, 0.06, 0.06, 0.10])
            target = self._target(observation, pose, gear)
            arm = np.clip((target - pose - offset) / self._scale, -self._pace, self._pace) + self._tremor
        wish = CLOSE if self._stage in ("close", "tug", "carry") else OPEN
        return self._said(arm, wish, observation), True

    def _said(self, arm: np.ndarray, wish: int, observation: Observation) -> np.ndarray:
        """An action of both parts; a hand on an axis trembles, a button is pressed once."""
        if self._mode == "three-way" and (observation["gripper"][4] > 0) == (wish == OPEN):
            wish = HOLD
        column = float(said(self._mode, np.array([wish]))[0])
        if self._mode != "three-way":
            column = 0.9 * column + self._random.normal(0, 0.04)
        return np.clip([*np.clip(arm, -1, 1), column], -1, 2 if self._mode == "three-way" else 1).astype(np.float32)

    def _over_the_peg(self, gear: np.ndarray) -> bool:
        return self._goal == "assembly" and bool(np.hypot(gear[0], gear[1]) < _OVER)

    def _next_stage(self, observation: Observation, pose: np.ndarray, gear: np.ndarray) -> None:
        """What it does now, from what it sees."""
        aside = np.hypot(*(gear[:2] + self._aim[:2]))
        stage, stays = self._stage, np.abs(observation["gripper"][1]) < 0.01
        blocked = observation["wrench"][2] > 6.0 and self._since > 3
        risen = pose[2] + gear[2] - TABLE
        if stage == "reach" and aside < 2 * MM:
            self._to("descend")
        elif stage == "descend" and (abs(gear[2] + self._aim[2]) < 1.2 * MM or blocked):
            self._to("close")
            self.grasps += 1
        elif stage == "close" and self._since > 3 and stays:
            self._to("tug")
        elif stage == "tug":
            left_behind = gear[2] + self._aim[2] < -3 * MM or observation["gripper"][0] < 6 * MM
            askew = np.hypot(*observation["gear_tilt"]) > 8 * DEGREE
            if self._since > 1 and (left_behind or askew) and risen < 7 * MM:
                self._to("let go")
            elif risen > 5 * MM:
                self._to("carry")
        elif stage == "carry" and self._over_the_peg(pose[:2] + gear[:2]) and pose[2] + gear[2] < self._lets_go_at:
            self._to("leave")
        elif stage == "leave" and self._since > 6:  # it did not slide down by itself
            self._lets_go_at = -np.inf
            self._to("carry")
        elif stage == "let go" and self._since > 3 and -gear[2] > _ABOVE - 6 * MM:
            self._take_aim(careless=False)

    def _to(self, stage: str) -> None:
        self._stage, self._since = stage, 0

    def _target(self, observation: Observation, pose: np.ndarray, gear: np.ndarray) -> np.ndarray:
        target = pose.copy()
        target[3:5] = 0.0
        over = gear + self._aim
        if self._stage == "reach":
            target[:2] += over[:2]
            target[2] += gear[2] + _ABOVE
        elif self._stage == "descend":
            target[:2] += over[:2]
            target[2] += np.clip(over[2], -5 * MM, 5 * MM)
        elif self._stage in ("close", "leave"):
            target += observation["command_offset"]  # stays where it is
        elif self._stage == "tug":
            target[2] += 3 * MM
        elif self._stage == "let go":
            target[2] += 8 * MM if self._since > 1 else 0.0
        else:
            return self._carry(observation, target, gear)
        return target

    def _carry(self, observation: Observation, target: np.ndarray, gear: np.ndarray) -> np.ndarray:
        """Up, then across at a height that clears the peg, turning the gear into phase on the way."""
        if self._goal == "lift":
            target[2] += 9 * MM
            return target
        height = target[2] + gear[2]
        target[2] += _SAFE - height
        if height > _SAFE - 6 * MM:
            target[:2] = -gear[:2]
            target[5] += np.arctan2(*observation["gear_phase"]) / 16
        return target


class PickCorrector:
    """A person who corrects for a moment: what the gear needs next, with a hand that trembles."""

    name = "corrector"

    def __init__(self, goal: Goal, mode: Mode, seed: int | None = None, control: ControlLimits = CONTROL) -> None:
        self._goal: Goal = goal
        self._mode: Mode = mode
        self._random, self._control = np.random.default_rng(seed), control

    def reset(self) -> None:
        pass

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        del proposed
        arm, wish = pick_by_touch(self._goal, {name: values[None] for name, values in observation.items()}, control=self._control)
        column = said(self._mode, wish)
        return np.concatenate([np.clip(arm[0] + self._random.normal(0, 0.05, 6), -1, 1), column]).astype(np.float32), True

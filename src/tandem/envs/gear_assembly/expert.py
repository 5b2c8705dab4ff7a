"""The demonstrator: assembles the gear as a careful person would, by looking roughly and searching by touch.

It sees what the policy sees and uses less of it: it feels *that* it touches something (force along z, height), not *where* (the
torque would say). It presses lightly and moves in a spiral until the gear drops onto the peg, slides down, and when teeth stop it
turns the gear to and fro. Its hand trembles, its search starts in any direction, and now and then it gives up too early or too
late: demonstrations must contain the search, or cloning them would solve the task and leave nothing to learn.
"""

from __future__ import annotations

import numpy as np

from tandem.envs.arm import ControlLimits
from tandem.envs.gear_assembly.scene import TEETH, Geometry
from tandem.envs.gear_assembly.task import CONTROL, DEGREE, MM
from tandem.types import Observation

_PEG_TIP, _GEAR_TOP = Geometry().peg_height, Geometry().thickness


def gear_distance(observation: Observation) -> float:
    """How far from seated it looks (m): beside the measured peg and above the measured board."""
    x, y, z = observation["tcp_pose"][:3]
    return float(np.hypot(x, y) + max(0.0, z))


class GearExpert:
    """Decides for one robot; `reset` begins an episode with a search of its own. With small actions (`control`) its search takes smaller
    steps too: `pace` times those that are right for large ones."""

    name = "scripted"

    def __init__(self, seed: int | None = None, control: ControlLimits = CONTROL, pace: float = 1.0) -> None:
        self._random = np.random.default_rng(seed)
        self._scale, self._pace = np.array(control.action_scale), pace
        self._peg_tip = Geometry().peg_height
        self._gear_top = Geometry().thickness
        self.reset()

    def reset(self) -> None:
        draw = self._random
        self._tremor = np.zeros(6)
        self._angle = draw.uniform(-np.pi, np.pi)
        self._turn = draw.choice([-1.0, 1.0])
        self._speed = self._pace * draw.uniform(0.5, 0.9) * MM
        """Length of a step along the spiral."""
        self._radius, self._growing = 0.2 * MM, True
        self._sweep, self._sweep_to = 0.0, draw.choice([-1.0, 1.0])
        self._weight = draw.uniform(2.5, 4.8) * MM
        """How hard it leans on the teeth; with a heavy hand it drags the neighbours along and may never find the gap."""
        self._blocked = 0
        self._aim = draw.normal(0, 0.3 * MM, 2)
        """Where it believes the middle to be; not quite where the measurement says."""

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        """The action for this step, and that a person (or this stand-in) chose it."""
        del proposed
        pose, offset = observation["tcp_pose"].astype(float), observation["command_offset"].astype(float)
        phase = np.arctan2(observation["gear_phase"][0], observation["gear_phase"][1]) / TEETH
        height, push = pose[2], observation["wrench"][2]
        goal = np.zeros(6)
        goal[:2], goal[5] = self._aim, pose[5] + phase
        if height > self._peg_tip + 1.5 * MM:
            goal = self._approach(goal, pose)
        elif height > self._peg_tip - 2.5 * MM:
            goal = self._search(goal, pose, push)
        else:
            goal = self._slide(goal, pose, push)
        self._tremor = 0.7 * self._tremor + 0.7 * self._random.normal(0, [0.05, 0.05, 0.03, 0.06, 0.06, 0.10])
        action = (goal - pose - offset) / self._scale + self._tremor
        return np.clip(action, -1, 1).astype(np.float32), True

    def _approach(self, goal: np.ndarray, pose: np.ndarray) -> np.ndarray:
        """Over the peg, level and in phase first; then down, slower near the end."""
        away = np.hypot(*(pose[:2] - goal[:2]))
        ready = away < 2 * MM and abs(goal[5] - pose[5]) < 2 * DEGREE
        goal[2] = pose[2] - 3 * MM if ready else max(pose[2] - 3 * MM, self._peg_tip + 5 * MM)
        return goal

    def _search(self, goal: np.ndarray, pose: np.ndarray, push: float) -> np.ndarray:
        """On the tip of the peg: press lightly and follow a spiral out and in again."""
        del push
        self._angle += self._turn * self._speed / max(self._radius, 0.4 * MM)
        grow = 1.1 * MM * self._speed / (2 * np.pi * max(self._radius, 0.4 * MM))
        self._radius += grow if self._growing else -grow
        if self._radius > 3.0 * MM:
            self._growing = False
        elif self._radius < 0.2 * MM:
            self._growing = True
        goal[:2] = self._aim + self._radius * np.array([np.cos(self._angle), np.sin(self._angle)])
        goal[2] = pose[2] - 3.5 * MM
        return goal

    def _slide(self, goal: np.ndarray, pose: np.ndarray, push: float) -> np.ndarray:
        """Around the peg: let it guide sideways; stopped by teeth, turn to and fro."""
        goal[:2] = pose[:2]
        goal[2] = pose[2] - 5 * MM
        self._blocked = self._blocked + 1 if push > 4.0 and pose[2] > self._gear_top - 2 * MM else 0
        if self._blocked >= 2:
            self._sweep += self._sweep_to * self._pace * 0.9 * DEGREE
            if abs(self._sweep) > 7 * DEGREE:
                self._sweep_to = -np.sign(self._sweep)
            goal[2] = pose[2] - self._weight
        goal[5] += self._sweep
        return goal


def phase_error(observation: Observation) -> np.ndarray:
    """Measured angle to the nearest mesh (n,)."""
    return np.arctan2(observation["gear_phase"][:, 0], observation["gear_phase"][:, 1]).astype(float) / TEETH


def by_touch(observation: Observation, control: ControlLimits = CONTROL) -> np.ndarray:
    """Actions (n, 6) of a hand that feels where it touches: the torque says on which side of the bore the peg's tip presses.

    It has no memory, so the policy could do the same: what a correction shows can be learned. The demonstrator ignores the torque.
    """
    pose, offset = observation["tcp_pose"].astype(float), observation["command_offset"].astype(float)
    wrench, previous = observation["wrench"].astype(float), observation["previous_action"].astype(float)
    height, push, phase = pose[:, 2], wrench[:, 2], phase_error(observation)
    goal = np.zeros_like(pose)
    goal[:, 5] = pose[:, 5] + phase

    away = np.hypot(pose[:, 0], pose[:, 1])
    ready = (away < 1.5 * MM) & (np.abs(phase) < 1.5 * DEGREE)
    goal[:, 2] = np.where(ready, height - 5 * MM, np.maximum(height - 5 * MM, _PEG_TIP + 4 * MM))

    # the contact point is at z x torque / force from the middle: move towards it, the peg is there
    on_tip = (height < _PEG_TIP + 1.2 * MM) & (height > _PEG_TIP - 2.0 * MM)
    lever = np.stack([-wrench[:, 4], wrench[:, 3]], -1) / np.maximum(push, 1.0)[:, None]
    lever *= np.minimum(1.0, 1.5 * MM / np.maximum(np.hypot(*lever.T), 1e-9))[:, None] / (1.5 * MM)
    touching = on_tip & (push > 2.0)
    goal[touching, :2] = (pose[:, :2] + 2.5 * MM * lever)[touching]
    goal[touching, 2] = (height - 4 * MM)[touching]

    around = height <= _PEG_TIP - 2.0 * MM
    goal[around, :2] = pose[around, :2]
    goal[around, 2] = (height - 6 * MM)[around]
    blocked = around & (push > 4.0) & (height > _GEAR_TOP - 3 * MM)
    sense = np.where(previous[:, 5] >= 0, 1.0, -1.0)
    deviation = -phase
    sense = np.where(deviation > 7 * DEGREE, -1.0, np.where(deviation < -7 * DEGREE, 1.0, sense))
    goal[blocked, 5] = (pose[:, 5] + sense * 1.6 * DEGREE)[blocked]
    goal[blocked, 2] = (height - 3 * MM)[blocked]
    return np.clip((goal - pose - offset) / np.array(control.action_scale), -1, 1)


class GearCorrector:
    """A person who corrects for a moment: by touch, with a hand that trembles, and up and over again from beside the peg."""

    name = "corrector"

    def __init__(self, seed: int | None = None, control: ControlLimits = CONTROL) -> None:
        self._random, self._control = np.random.default_rng(seed), control

    def reset(self) -> None:
        pass

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        del proposed
        action = by_touch({name: values[None] for name, values in observation.items()}, self._control)[0]
        return np.clip(action + self._random.normal(0, 0.05, 6), -1, 1).astype(np.float32), True

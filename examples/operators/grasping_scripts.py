"""Scripts that grasp: for robosuite's Lift, Gymnasium-Robotics' FetchPickAndPlace and gym-hil's PandaPickCube.

    PYTHONPATH=benchmarks:examples/operators tandem record serve:ROBOSUITE_PYTHON:worlds_tasks:Lift-v0 --operator grasping_scripts:Lift

They work from the observation alone and import nothing but NumPy, so they run in Tandem's Python. All three go over the object, down to
it, close the gripper for a moment and carry the object to its goal. They differ in where the observation has what, and in the distance
that an action of 1 moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ABOVE = 0.08
"""Height over the object at which the gripper arrives (m)."""


@dataclass(frozen=True)
class Seen:
    """What the script needs to know, in metres and in the world's frame."""

    gripper: np.ndarray
    object: np.ndarray
    goal: np.ndarray


class Grasp:
    """Over the object, down, close, carry."""

    name = "grasp"
    step = 0.05
    """Distance that an action of 1 moves the gripper (m)."""
    gain = 0.5
    """Share of the remaining distance that one step covers."""
    near = 0.012
    """Sideways distance at which it goes down, and distance at which it grasps (m)."""
    closing_steps = 4
    """Steps that the gripper is given to close."""
    close = 1.0
    """The gripper's action that closes it; the opposite opens it."""
    size = 4
    """Numbers of an action: 3 of position first, the gripper last, rotations (left alone) in between."""

    def reset(self) -> None:
        self._held = 0

    def decide(self, observation: dict[str, np.ndarray], proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        seen = self.look(observation)
        towards = seen.object - seen.gripper
        sideways = float(np.linalg.norm(towards[:2]))
        if float(np.linalg.norm(towards)) > 4 * self.near:
            self._held = 0  # not there yet, or it slipped out
        if self._held or (sideways <= self.near and abs(towards[2]) <= self.near):
            self._held += 1
        if self._held > self.closing_steps:
            towards = seen.goal - seen.object
        elif sideways > 2 * self.near:
            towards = towards + np.array([0.0, 0.0, ABOVE])
        action = np.zeros(self.size, np.float32)
        action[:3] = np.clip(self.gain * towards / self.step, -1.0, 1.0)
        action[-1] = self.close if self._held else -self.close
        return action, False

    def look(self, observation: dict[str, np.ndarray]) -> Seen:
        raise NotImplementedError


class Lift(Grasp):
    """robosuite's Lift, with the Panda's default controller."""

    name, size = "lift_script", 7

    def look(self, observation: dict[str, np.ndarray]) -> Seen:
        cube, from_gripper = observation["object-state"][:3], observation["object-state"][7:10]
        return Seen(cube - from_gripper, cube, cube + np.array([0.0, 0.0, 0.1]))


class FetchPickAndPlace(Grasp):
    """Gymnasium-Robotics' FetchPickAndPlace."""

    name, close = "fetch_script", -1.0

    def look(self, observation: dict[str, np.ndarray]) -> Seen:
        return Seen(observation["observation"][:3], observation["achieved_goal"], observation["desired_goal"])


class PandaPickCube(Grasp):
    """gym-hil's PandaPickCube, from states."""

    name, step = "panda_script", 0.025

    def look(self, observation: dict[str, np.ndarray]) -> Seen:
        cube = observation["environment_state"]
        return Seen(observation["agent_pos"][-3:], cube, cube + np.array([0.0, 0.0, 0.2]))

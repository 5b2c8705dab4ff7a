"""A gripper: two fingers that close on what is between them. A grasp is contact and friction, nothing is ever welded.

One actuator moves both fingers, which an equality keeps at the same distance from the middle. It is a spring towards the commanded
width with a force limit, as in an electric gripper, so that

    command   moves towards the goal at the gripper's speed, and stays on a short leash from the measured width: closed on something it
              presses with the limit, however long, and opens at once when told to
    goal      what was asked for last; how an action sets it is the mode

        absolute     one axis: -1 closed, 1 open (so 0 is half open, not "do nothing")
        delta        one axis: a step of the goal from the command; 1 is what the fingers can do in a control period
        three-way    close, hold, open; the goal stays until the other is chosen, so that one `close` closes

A command never waits: each control period moves the fingers as far as they get in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs.arm import DARK, GREY, draw
from tandem.envs.rows import Rows
from tandem.types import ActionPart, Continuous, Discrete, Entry

Mode = Literal["absolute", "delta", "three-way"]
MODES: tuple[Mode, ...] = ("absolute", "delta", "three-way")
CLOSE, HOLD, OPEN = -1, 0, 1
"""Wishes of a hand, whatever the mode; an absolute gripper cannot hold, it closes on."""
FINGERS = ("finger_left", "finger_right")
"""The bodies, on the side of +y and of -y of the tool."""
_ACTUATOR = "gripper"


@dataclass(frozen=True)
class GripperSettings:
    """Lengths are of the width between the pads (m); both fingers do half of it each."""

    opening: float = 0.022
    """The largest width."""
    force: float = 12.0
    """With which each finger presses at most (N)."""
    speed: float = 0.1
    """How fast the width changes at most (m/s)."""
    friction: float = 0.5
    pad_radius: float = 0.003
    """Radius of the four balls that make a pad: two above each other beside two others, a shallow V that a round thing settles in."""
    pad_half_width: float = 0.0015
    pad_half_height: float = 0.004
    stiffness: float = 6000.0
    """Stiffness of the actuator, per metre of one finger (N/m)."""
    damping: float = 40.0


class Gripper:
    """The gripper of N simulated robots: one column of the action, five numbers of the observation."""

    def __init__(self, mode: Mode, settings: GripperSettings, substeps: int, period: float) -> None:
        """`substeps` physics steps make a control period of `period` seconds."""
        self.mode: Mode = mode
        self.settings = settings
        self._reach = settings.opening / 2
        self._stride = settings.speed / 2 * period
        """How far a finger gets in a control period."""
        self._leash = 2.5 * settings.force / settings.stiffness  # a quarter more than the limit needs
        self._ramp = np.arange(1, substeps + 1) / substeps

    @property
    def part(self) -> ActionPart:
        """Its part of the action."""
        if self.mode == "three-way":
            return Discrete("gripper", ("close", "hold", "open"), rest=1, meaning="where the fingers go; hold: where they were going")
        scale = self.settings.opening / 2 if self.mode == "absolute" else 2 * self._stride
        meaning = "width to go to: -1 closed, 1 open" if self.mode == "absolute" else "step of the commanded width"
        stands_at = 1.0 if self.mode == "absolute" else None  # open, as `open` leaves it
        return Continuous("gripper", 1, unit="m", scale=scale, meaning=meaning, stands_at=stands_at)

    @property
    def entry(self) -> Entry:
        """What is observed of it."""
        settings, half = self.settings, self.settings.opening / 2
        return Entry(
            (5,), unit="m, m/s, N, m, m", scale=(half, settings.speed, settings.force, 2 * self._leash, half),
            offset=(half, 0.0, 0.0, 0.0, half),
            meaning="measured width between the pads, its velocity, the force of each pad, commanded minus measured width, width asked for",
        )  # fmt: skip

    # ---- the model

    def add_to(self, spec: mujoco.MjSpec, tool: mujoco.MjsBody, height: float, bit: int) -> None:
        """Fingers at `height` over the tool's origin (z up, closing along y); their pads have the contact bit `bit`."""
        for name, side in zip(FINGERS, (1.0, -1.0), strict=True):
            finger = tool.add_body(name=name, pos=[0, 0, height], gravcomp=1)
            finger.mass, finger.ipos, finger.inertia, finger.explicitinertial = 0.03, [0, side * 0.01, 0.01], [1e-5] * 3, True
            finger.add_joint(
                name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, side, 0], range=[-0.0005, self._reach + 0.0005], limited=True,
                armature=0.1, damping=1.0,
            )  # fmt: skip
            self._add_pad(finger, side, bit)
        equality = spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT, name1=FINGERS[1], name2=FINGERS[0], objtype=mujoco.mjtObj.mjOBJ_JOINT)
        equality.data[:5] = [0, 1, 0, 0, 0]
        equality.solref, equality.solimp = [0.004, 1], [0.995, 0.999, 0.0005, 0.5, 2]
        actuator = spec.add_actuator(name=_ACTUATOR, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=FINGERS[0])
        actuator.set_to_position(self.settings.stiffness, self.settings.damping)
        # through the equality it presses with both fingers, so each gets a half
        actuator.forcelimited, actuator.forcerange = True, (-2 * self.settings.force, 2 * self.settings.force)
        spec.add_sensor(
            name="grip_force", type=mujoco.mjtSensor.mjSENS_ACTUATORFRC, objtype=mujoco.mjtObj.mjOBJ_ACTUATOR, objname=_ACTUATOR
        )

    def _add_pad(self, finger: mujoco.MjsBody, side: float, bit: int) -> None:
        settings = self.settings
        radius = settings.pad_radius
        for x in (-settings.pad_half_width, settings.pad_half_width):
            for z in (-settings.pad_half_height, settings.pad_half_height):
                ball = finger.add_geom(
                    type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius, 0, 0], pos=[x, side * radius, z], contype=bit, conaffinity=0,
                    mass=0, rgba=GREY, group=1,
                )  # fmt: skip
                # what a pad touches it touches as a pad does: stiff, or what is held creeps
                ball.priority, ball.condim, ball.friction = 1, 4, [settings.friction, 0.005, 0.0001]
                ball.solref, ball.solimp = [0.004, 1], [0.99, 0.999, 0.0005, 0.5, 2]
        box = mujoco.mjtGeom.mjGEOM_BOX
        half = settings.pad_half_height + radius
        draw(finger, box, (0, side * (radius + 0.0035), 0), (settings.pad_half_width + radius, 0.0035, half), GREY)
        draw(finger, box, (0, side * (radius + 0.007), 0.026 - half / 2), (0.0085, 0.006, 0.019), DARK)

    # ---- N simulations

    def bind(self, batch: mujoco.batch.Batch) -> None:
        model = batch.get_model(0)
        self._column = model.actuator(_ACTUATOR).id
        self._joints = [model.joint(name).qposadr[0] for name in FINGERS]
        self._force_column = int(model.sensor("grip_force").adr[0])
        self._qpos, self._ctrl = batch.bind("qpos"), batch.bind("ctrl")
        self._length, self._velocity = batch.bind("actuator_length"), batch.bind("actuator_velocity")
        # all of one finger: half of what is observed
        self._goal, self._command, self._force = (np.zeros(batch.nsim) for _ in range(3))

    def open(self, rows: Rows) -> None:
        """Wide open and asked to be, at the start of an episode; the physics are to be computed afterwards."""
        for joint in self._joints:
            self._qpos[rows, joint] = self._reach
        self._goal[rows] = self._command[rows] = self._ctrl[rows, self._column] = self._reach
        self._force[rows] = 0.0

    def control(self, rows: Rows, column: np.ndarray) -> np.ndarray:
        """The commands of a control period (n, substeps, 1) for the gripper's column of the actions (n,)."""
        last, measured = self._command[rows], self._length[rows, self._column]
        self._goal[rows] = goal = self._asked(column, self._goal[rows], last)
        # what it presses with is let go at once when it is to move the other way
        start = np.where(goal > measured, np.maximum(last, measured), np.minimum(last, measured))
        moved = np.clip(goal, start - self._stride, start + self._stride)
        command = np.clip(moved, measured - self._leash, measured + self._leash)
        path = start[:, None] + (command - start)[:, None] * self._ramp
        self._command[rows] = command
        return path[..., None]

    def _asked(self, column: np.ndarray, goal: np.ndarray, command: np.ndarray) -> np.ndarray:
        if self.mode == "absolute":
            return (column + 1) / 2 * self._reach
        if self.mode == "delta":
            return np.clip(command + column * self._stride, 0.0, self._reach)
        return np.where(column == 1, goal, np.where(column == 0, 0.0, self._reach))

    def felt(self, rows: Rows, readings: np.ndarray) -> None:
        """The force of a control period, from all sensors after each substep (n, substeps, nsensordata)."""
        self._force[rows] = -readings[:, :, self._force_column].mean(1) / 2

    def observe(self, rows: Rows) -> np.ndarray:
        """(n, 5), as `entry` says."""
        width, velocity = 2 * self._length[rows, self._column], 2 * self._velocity[rows, self._column]
        return np.stack([width, velocity, self._force[rows], 2 * self._command[rows] - width, 2 * self._goal[rows]], -1)

    def memory(self) -> dict[str, np.ndarray]:
        return {"gripper_goal": self._goal, "gripper_command": self._command, "gripper_force": self._force}


def said(mode: Mode, wanted: np.ndarray) -> np.ndarray:
    """The gripper's column (n,) of a hand that wants CLOSE or OPEN (n,)."""
    return wanted + 1.0 if mode == "three-way" else wanted.astype(float)

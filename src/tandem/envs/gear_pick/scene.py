"""The scene: the board, peg and gears of the gear assembly, and the gear lying on the table before a hand with two fingers.

The tool's origin is where the gear's bottom is when it is held as it should be: 22 mm below the middle of the pads, half way up the
hub. So the numbers of the gear assembly keep their meaning once the gear is in the hand.

The gear touches the table with four feet, the fingers with its hub and with a disc as wide as its root, and the board as ever.
"""

from __future__ import annotations

import mujoco
import numpy as np

from tandem.envs.arm import Impedance, add_arm
from tandem.envs.gear_assembly.scene import (
    BOARD_NOMINAL,
    FINGER,
    FOOT,
    Geometry,
    add_board,
    add_gear,
    add_measured_seat,
    add_true_pose_sensors,
    add_wrench_sensors,
    start_scene,
    touching,
)
from tandem.envs.gripper import FINGERS, Gripper
from tandem.envs.surroundings import add_camera

TABLE = -BOARD_NOMINAL[2]
"""Height of the table over the seat (m)."""
GEAR_NOMINAL = (0.355, 0.0)
"""Where on the table the gear lies, before randomisation (m)."""


def build_scene(name: str, geometry: Geometry, impedance: Impedance, gripper: Gripper) -> mujoco.MjModel:
    return describe_scene(name, geometry, impedance, gripper).compile()


def describe_scene(
    name: str, geometry: Geometry, impedance: Impedance, gripper: Gripper, reference: str = "measured_seat"
) -> mujoco.MjSpec:
    """The whole scene, not compiled yet. Command, pose and velocity of the tool come out in the frame of `reference`."""
    spec = start_scene(name)
    spec.option.impratio = 100  # friction as stiff as the contact itself, or a held gear creeps out of the fingers
    fingertips = add_arm(spec, fingers=False)
    tool = fingertips.add_body(name="tool", pos=[0, 0, geometry.grip_height], quat=[0, 1, 0, 0], gravcomp=1)
    tool.add_site(name="tcp", size=[0.001, 0, 0], rgba=[0, 0, 0, 0])
    add_board(spec, geometry, fingers=FINGER)
    _add_gear_on_the_table(spec, geometry)
    add_measured_seat(spec, impedance, reference)  # the arm's actuators come first
    gripper.add_to(spec, tool, geometry.grip_height, FINGER)
    _add_views(spec, fingertips)
    add_wrench_sensors(spec)
    add_true_pose_sensors(spec, "gear")
    for kind, sensor in (
        (mujoco.mjtSensor.mjSENS_FRAMEPOS, "seen_position"),
        (mujoco.mjtSensor.mjSENS_FRAMEQUAT, "seen_orientation"),
    ):
        spec.add_sensor(
            name=sensor, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="gear", reftype=mujoco.mjtObj.mjOBJ_SITE,
            refname="measured_seat",
        )  # fmt: skip
    for finger in FINGERS:
        spec.add_sensor(
            name=f"{finger}_touches", type=mujoco.mjtSensor.mjSENS_CONTACT, objtype=mujoco.mjtObj.mjOBJ_BODY, objname=finger,
            reftype=mujoco.mjtObj.mjOBJ_BODY, refname="gear", intprm=[1, 0, 1],
        )  # fmt: skip
    return spec


def _add_gear_on_the_table(spec: mujoco.MjSpec, geometry: Geometry) -> None:
    table = spec.worldbody.add_geom(
        name="table_top", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.55, 0.55, 0.01], contype=0, conaffinity=FOOT, group=3
    )
    touching(table)
    gear = spec.worldbody.add_body(name="gear", pos=[*GEAR_NOMINAL, 0])
    gear.add_freejoint(name="gear")
    gear.add_site(name="gear", size=[0.001, 0, 0], rgba=[0, 0, 0, 0])
    add_gear(spec, gear, geometry, feet=0.0165)
    for shape, bottom, top, radius in (
        ("hub", geometry.thickness, geometry.hub_top, geometry.hub_radius),
        ("disc", 0.0005, geometry.thickness, geometry.tooth_root),
    ):
        touching(
            gear.add_geom(
                name=shape, type=mujoco.mjtGeom.mjGEOM_CYLINDER, fromto=[0, 0, bottom, 0, 0, top], size=[radius, 0, 0],
                contype=0, conaffinity=FINGER, group=3, mass=0,
            )
        )  # fmt: skip


def _add_views(spec: mujoco.MjSpec, fingertips: mujoco.MjsBody) -> None:
    """`close` and `table` see gear, board and peg at every stage, from two sides; `wrist` looks past the fingers, ahead to the board."""
    add_camera(spec, "close", place=(0.62, -0.36, 0.26), target=(0.43, 0.0, 0.03), fovy=38)
    add_camera(spec, "table", place=(0.74, 0.25, 0.20), target=(0.43, 0.0, 0.03), fovy=38)
    angle = 0.35  # half of the angle from straight down
    fingertips.add_camera(name="wrist", pos=[-0.075, 0, -0.05], quat=[0, np.cos(angle), 0, -np.sin(angle)], fovy=80)

"""The scene: the arm holds a toothed gear over a board with a peg between two gears that turn freely.

Heights over the board's top (mm), the gear's own z measured from its bottom face:

    20.5  ─┐ tip of the peg, with a 1 mm chamfer
    12.0   │ ═══ top of the mounted gears        the held gear finds the peg first, slides down it for
     0.0  ─┴──── board (the seat)                8.5 mm, then its teeth meet those of its neighbours

Contact decides everything. Bore and web of the held gear are twelve boxes around a dodecagonal hole, teeth are boxes,
and the four feet under the gear touch the board (a flat on a flat would cost a hundred contacts and mean the same).
Masks leave out pairs that cannot meet: a substep in contact is several times cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from tandem.envs.arm import Impedance, add_arm, add_cartesian_actuators
from tandem.envs.surroundings import add_camera, add_surroundings

TEETH = 16
PITCH = 2 * np.pi / TEETH
"""Angle from one tooth to the next (rad)."""
SIDES = 12
"""Sides of the bore; with eight the corners allow another 0.4 mm."""
NEIGHBOURS = ((0.0, 1.0), (0.0, -1.0))
"""Directions from the peg to the mounted gears, in the board's axes."""
TOOTH_FRICTION = 0.2
BEARING_FRICTION = 0.03
"""Torque that turns a mounted gear (N m). Tooth on tooth, a gear pressed with more than BEARING / (TOOTH_FRICTION * 20 mm) = 7.5 N
drags its neighbour along and never finds the gap: searching for it takes a light hand."""
BOARD_NOMINAL = np.array([0.5, 0.0, 0.02])
"""The seat (top of the board at the peg) in the world, before randomisation (m)."""

# who may touch whom: bits of contype for the held gear, of conaffinity for the rest
_TOOTH, _WEB, FOOT = 1, 2, 4
FINGER = 8
"""The bit of fingers that can touch; a gear that hangs from the hand by itself has no use for it."""
_ORANGE, _BLUE, _STEEL, _BOARD = (0.95, 0.52, 0.12, 1), (0.20, 0.45, 0.70, 1), (0.78, 0.80, 0.83, 1), (0.23, 0.27, 0.31, 1)


@dataclass(frozen=True)
class Geometry:
    """Sizes (m)."""

    peg_radius: float = 0.005
    clearance: float = 0.0004
    """Bore radius minus peg radius."""
    chamfer: float = 0.001
    peg_height: float = 0.0205
    thickness: float = 0.012
    tooth_tip: float = 0.022
    tooth_root: float = 0.018
    tooth_half_width: float = 0.0012
    centre_distance: float = 0.041
    hub_radius: float = 0.009
    hub_height: float = 0.018
    """The hub stands on the gear; by it the gear is held."""

    @property
    def bore_radius(self) -> float:
        return self.peg_radius + self.clearance

    @property
    def hub_top(self) -> float:
        """Above the gear's bottom."""
        return self.thickness + self.hub_height

    @property
    def grip_height(self) -> float:
        """Height of the fingertips over the gear's bottom when it is held as it should be."""
        return self.hub_top - 0.008


def build_scene(geometry: Geometry, impedance: Impedance) -> mujoco.MjModel:
    return describe_scene(geometry, impedance).compile()


def describe_scene(geometry: Geometry, impedance: Impedance, reference: str = "measured_seat") -> mujoco.MjSpec:
    """The whole scene, not compiled yet; `reference` is the site in whose frame the tool is moved."""
    spec = start_scene("gear_assembly")
    fingertips = add_arm(spec)
    _add_held_gear(spec, fingertips, geometry)
    add_board(spec, geometry)
    add_camera(spec, "close", place=(0.72, -0.13, 0.17), target=(0.495, 0.0, 0.035), fovy=38)
    add_measured_seat(spec, impedance, reference)
    add_wrench_sensors(spec)
    add_true_pose_sensors(spec, "tcp")
    return spec


def start_scene(name: str) -> mujoco.MjSpec:
    """A table, light and the settings of the physics, nothing on it yet."""
    spec = mujoco.MjSpec()
    spec.modelname = name
    spec.compiler.degree = False
    spec.option.timestep = 0.002
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC  # pyramidal friction trembles: 9 N of noise in a held force
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    add_surroundings(spec, target=(0.33, 0.0, 0.24))
    return spec


def add_measured_seat(spec: mujoco.MjSpec, impedance: Impedance, reference: str = "measured_seat") -> None:
    """Where the robot believes the board to be. Command, pose and velocity come out in this frame, or in that of another `reference`."""
    measured = spec.worldbody.add_body(name="measured", pos=BOARD_NOMINAL)
    measured.add_site(name="measured_seat", size=[0.001, 0, 0], rgba=[0, 0, 0, 0])
    add_cartesian_actuators(spec, "tcp", reference, impedance)


def add_wrench_sensors(spec: mujoco.MjSpec) -> None:
    """Force, then torque, between the fingertips and what hangs from them, at the tool."""
    for kind, name in (
        (mujoco.mjtSensor.mjSENS_FORCE, "force"),
        (mujoco.mjtSensor.mjSENS_TORQUE, "torque"),
    ):
        spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="tcp")


def add_true_pose_sensors(spec: mujoco.MjSpec, site: str) -> None:
    """Place and orientation of the gear in the frame of the true seat, which the policy does not see."""
    for kind, name in (
        (mujoco.mjtSensor.mjSENS_FRAMEPOS, "true_position"),
        (mujoco.mjtSensor.mjSENS_FRAMEQUAT, "true_orientation"),
    ):
        spec.add_sensor(
            name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=site, reftype=mujoco.mjtObj.mjOBJ_SITE, refname="seat"
        )


def touching(geom: mujoco.MjsGeom, friction: float = 0.3) -> None:
    geom.solref = [0.004, 1]  # as stiff as the time step allows: softer lets a misaligned gear squeeze through
    geom.friction = [friction, 0.005, 0.0001]
    geom.condim = 3


def _add_held_gear(spec: mujoco.MjSpec, fingertips: mujoco.MjsBody, geometry: Geometry) -> None:
    """The gear hangs from the fingers by its hub; its frame is at the middle of its bottom face, z up."""
    gear = fingertips.add_body(name="held_gear", pos=[0, 0, geometry.grip_height], quat=[0, 1, 0, 0], gravcomp=1)
    gear.add_site(name="tcp", size=[0.001, 0, 0], rgba=[0, 0, 0, 0])
    add_gear(spec, gear, geometry)


def add_gear(spec: mujoco.MjSpec, gear: mujoco.MjsBody, geometry: Geometry, *, feet: float = 0.012) -> None:
    """Mass, what touches, and looks of the gear to be mounted; `feet` is the radius at which it stands."""
    gear.mass, gear.ipos, gear.inertia, gear.explicitinertial = 0.05, [0, 0, geometry.thickness / 2], [6e-6, 6e-6, 1e-5], True
    middle = geometry.thickness / 2
    width = (geometry.tooth_root - 0.0005 - geometry.bore_radius) / 2
    for side in range(SIDES):
        angle = 2 * np.pi * side / SIDES
        radius = geometry.bore_radius + width
        touching(
            gear.add_geom(
                name=f"web{side}", type=mujoco.mjtGeom.mjGEOM_BOX, contype=_WEB, conaffinity=0, group=3, mass=0,
                size=[width, geometry.tooth_root * np.tan(np.pi / SIDES), middle - 0.0001], quat=_about_z(angle),
                pos=[radius * np.cos(angle), radius * np.sin(angle), middle + 0.0001],
            )
        )  # fmt: skip
    _add_teeth(gear, geometry, contype=_TOOTH, conaffinity=0, name="held_tooth")
    for foot in range(4):
        angle = np.pi / 2 * foot + np.pi / 4
        touching(
            gear.add_geom(
                name=f"foot{foot}", type=mujoco.mjtGeom.mjGEOM_SPHERE, contype=FOOT, conaffinity=0, group=3, mass=0,
                size=[0.001, 0, 0], pos=[feet * np.cos(angle), feet * np.sin(angle), 0.001],
            )
        )  # fmt: skip
    _add_gear_look(spec, gear, "held_look", geometry, _ORANGE)
    gear.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER, fromto=[0, 0, geometry.thickness, 0, 0, geometry.hub_top], size=[geometry.hub_radius, 0, 0],
        rgba=_ORANGE, contype=0, conaffinity=0, group=1, mass=0,
    )  # fmt: skip


def add_board(spec: mujoco.MjSpec, geometry: Geometry, *, fingers: int = 0) -> None:
    """The board with its peg and the mounted gears; `fingers` is the contact bit of fingers that may touch them."""
    board = spec.worldbody.add_body(name="board", pos=BOARD_NOMINAL)
    board.add_site(name="seat", size=[0.001, 0, 0], rgba=[0, 0, 0, 0])
    plate = board.add_geom(
        name="plate",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=[0.05, 0.085, 0.01],
        pos=[0, 0, -0.01],
        rgba=_BOARD,
        contype=0,
        conaffinity=FOOT | fingers,
    )
    touching(plate)
    shaft = geometry.peg_height - geometry.chamfer
    peg = board.add_geom(
        name="peg", type=mujoco.mjtGeom.mjGEOM_CYLINDER, fromto=[0, 0, 0, 0, 0, shaft], size=[geometry.peg_radius, 0, 0], rgba=_STEEL,
        contype=0, conaffinity=_TOOTH | _WEB | fingers,
    )  # fmt: skip
    touching(peg)
    circle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    rings = [(geometry.peg_radius, shaft), (geometry.peg_radius - geometry.chamfer, geometry.peg_height)]
    spec.add_mesh(
        name="chamfer",
        uservert=np.concatenate([np.stack([r * np.cos(circle), r * np.sin(circle), np.full(24, z)], -1) for r, z in rings]).ravel(),
    )
    touching(
        board.add_geom(
            name="peg_tip", type=mujoco.mjtGeom.mjGEOM_MESH, meshname="chamfer", rgba=_STEEL, contype=0, conaffinity=_TOOTH | _WEB
        )
    )
    for index, direction in enumerate(NEIGHBOURS):
        place = np.array([*direction, 0.0]) * geometry.centre_distance
        neighbour = board.add_body(name=f"neighbour{index}", pos=place)
        neighbour.mass, neighbour.ipos, neighbour.inertia = 0.05, [0, 0, geometry.thickness / 2], [6e-6, 6e-6, 1e-5]
        neighbour.explicitinertial = True
        neighbour.add_joint(
            name=f"neighbour{index}", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1], damping=1e-4, armature=1e-5,
            frictionloss=BEARING_FRICTION,
            solref_friction=[0.004, 1], solimp_friction=[0.995, 0.999, 0.001, 0.5, 2],  # stiff, or dry friction creeps like honey
        )  # fmt: skip
        _add_teeth(neighbour, geometry, contype=0, conaffinity=_TOOTH | _WEB, name=f"neighbour{index}_tooth")
        touching(
            neighbour.add_geom(
                name=f"neighbour{index}_web", type=mujoco.mjtGeom.mjGEOM_CYLINDER, fromto=[0, 0, 0, 0, 0, geometry.thickness],
                size=[geometry.tooth_root - 0.0005, 0, 0], contype=0, conaffinity=_TOOTH | _WEB | fingers, group=3, mass=0,
            )
        )  # fmt: skip
        _add_gear_look(spec, neighbour, f"neighbour{index}_look", geometry, _BLUE)
        board.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER, fromto=[*place[:2], 0, *place[:2], geometry.thickness + 0.001],
            size=[geometry.peg_radius, 0, 0], rgba=_STEEL, contype=0, conaffinity=0, group=1,
        )  # fmt: skip


def _add_teeth(body: mujoco.MjsBody, geometry: Geometry, *, contype: int, conaffinity: int, name: str) -> None:
    inner = geometry.tooth_root - 0.001  # rooted a little inside the web
    half_length, radius = (geometry.tooth_tip - inner) / 2, (geometry.tooth_tip + inner) / 2
    for tooth in range(TEETH):
        angle = PITCH * tooth
        touching(
            body.add_geom(
                name=f"{name}{tooth}", type=mujoco.mjtGeom.mjGEOM_BOX, contype=contype, conaffinity=conaffinity, group=3, mass=0,
                size=[half_length, geometry.tooth_half_width, geometry.thickness / 2], quat=_about_z(angle),
                pos=[radius * np.cos(angle), radius * np.sin(angle), geometry.thickness / 2],
            ),
            TOOTH_FRICTION,
        )  # fmt: skip


def _add_gear_look(spec: mujoco.MjSpec, body: mujoco.MjsBody, name: str, geometry: Geometry, colour: tuple[float, ...]) -> None:
    """One mesh to look at: the outline of the very boxes that touch, with the bore through it."""
    half = geometry.tooth_half_width
    outline = []  # polar angle and radius, once around
    for tooth in range(TEETH):
        for side, radius in ((-1, geometry.tooth_root), (-1, geometry.tooth_tip), (1, geometry.tooth_tip), (1, geometry.tooth_root)):
            outline.append((PITCH * tooth + side * np.arcsin(half / radius), radius))
        outline.append((PITCH * (tooth + 0.5), geometry.tooth_root))
    angle, radius = np.array(outline).T
    count = len(angle)
    direction = np.stack([np.cos(angle), np.sin(angle)], -1)
    rings = [  # outer bottom, outer top, inner top, inner bottom
        np.concatenate([direction * np.reshape(r, (-1, 1)), np.full((count, 1), z)], 1)
        for r, z in (
            (radius, 0.0),
            (radius, geometry.thickness),
            (np.full(count, geometry.bore_radius), geometry.thickness),
            (np.full(count, geometry.bore_radius), 0.0),
        )
    ]
    faces = []
    for ring in range(4):
        for i in range(count):
            a, b = ring * count + i, ring * count + (i + 1) % count
            c, d = (ring + 1) % 4 * count + i, (ring + 1) % 4 * count + (i + 1) % count
            faces += [(a, b, d), (a, d, c)]
    spec.add_mesh(
        name=name, uservert=np.concatenate(rings).ravel(), userface=np.array(faces).ravel(), smoothnormal=False,
        inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,
    )  # fmt: skip
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, rgba=colour, contype=0, conaffinity=0, group=1, mass=0)


def _about_z(angle: float) -> list[float]:
    return [np.cos(angle / 2), 0, 0, np.sin(angle / 2)]

"""The arm: seven joints with the Franka Emika Panda's published kinematics, limits and inertias, drawn from primitives.

Its hand is moved by a Cartesian impedance controller inside MuJoCo: one `position` actuator per axis between the
tool's site `tcp` and a reference site, so that

    ctrl              the commanded pose     x, y, z (m), rotation vector (rad), in the axes of the reference site
    actuator_length   the measured pose      likewise
    force             kp * (ctrl - length) - kv * velocity, at most the force limit

With the reference at the goal there is no frame code in Python at all, and zero is the goal. An action is a small step of the
command: `target = last_commanded + action * action_scale`, kept inside the workspace and on a short leash from the measured
pose (a blocked tool is pushed with a bounded force, not with all that was commanded since), ramped over the control period.

Sources: joint limits and Denavit-Hartenberg parameters from the manufacturer's interface documentation; masses, centres of mass
and inertia tensors as identified by Gaz et al., IEEE RA-L 4(4), 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs.rotations import compose, quat_conjugate, quat_multiply, quat_to_rotvec
from tandem.envs.task import Rows, ids

HALF = np.sqrt(0.5)
WHITE, GREY, DARK = (0.93, 0.94, 0.95, 1), (0.62, 0.65, 0.69, 1), (0.17, 0.18, 0.20, 1)
VISUAL_GROUP = 1


@dataclass(frozen=True)
class _Link:
    """Pose in the parent, joint range, torque limit, then mass, centre of mass and inertia (xx, yy, zz, xy, xz, yz)."""

    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float]
    joint_range: tuple[float, float]
    torque: float
    mass: float
    centre: tuple[float, float, float]
    inertia: tuple[float, float, float, float, float, float]


_UP, _PLUS, _MINUS = (1.0, 0.0, 0.0, 0.0), (HALF, HALF, 0.0, 0.0), (HALF, -HALF, 0.0, 0.0)
LINKS = (
    _Link((0, 0, 0.333), _UP, (-2.8973, 2.8973), 87, 4.970684, (0.003875, 0.002081, -0.04762),
          (0.70337, 0.70661, 0.009117, -0.000139, 0.006772, 0.019169)),
    _Link((0, 0, 0), _MINUS, (-1.7628, 1.7628), 87, 0.646926, (-0.003141, -0.02872, 0.003495),
          (0.007962, 0.02811, 0.025995, -0.003925, 0.010254, 0.000704)),
    _Link((0, -0.316, 0), _PLUS, (-2.8973, 2.8973), 87, 3.228604, (0.027518, 0.039252, -0.066502),
          (0.037242, 0.036155, 0.01083, -0.004761, -0.011396, -0.012805)),
    _Link((0.0825, 0, 0), _PLUS, (-3.0718, -0.0698), 87, 3.587895, (-0.05317, 0.104419, 0.027454),
          (0.025853, 0.019552, 0.028323, 0.007796, -0.001332, 0.008641)),
    _Link((-0.0825, 0.384, 0), _MINUS, (-2.8973, 2.8973), 12, 1.225946, (-0.011953, 0.041065, -0.038437),
          (0.035549, 0.029474, 0.008627, -0.002117, -0.004037, 0.000229)),
    _Link((0, 0, 0), _PLUS, (-0.0175, 3.7525), 12, 1.666555, (0.060149, -0.014117, -0.010517),
          (0.001964, 0.004354, 0.005433, 0.000109, -0.001158, 0.000341)),
    _Link((0.088, 0, 0), _PLUS, (-2.8973, 2.8973), 12, 0.735522, (0.010517, -0.004252, 0.061597),
          (0.012516, 0.010027, 0.004815, -0.000428, -0.001196, -0.000741)),
)  # fmt: skip
FLANGE = 0.107
"""From the seventh joint to the flange (m)."""
FINGERTIP = 0.1034
"""From the flange to between the fingertips (m)."""
HAND_MASS = 0.73
POSTURE = (0.0, 0.2, 0.0, -2.2, 0.0, 2.4, np.pi / 4)
"""Elbow up, tool down over the middle of the table: where inverse kinematics starts from."""
JOINTS = tuple(f"joint{i}" for i in range(1, 8))
POSTURE_DAMPING = 2.0
"""Damping of every joint (N m s): six actuators leave one of seven freedoms, the elbow's swing, to it."""


@dataclass(frozen=True)
class Impedance:
    """The virtual spring between command and tool, per metre and per radian."""

    stiffness: float = 2000.0
    damping: float = 150.0
    force_limit: float = 25.0
    rotational_stiffness: float = 50.0
    rotational_damping: float = 6.0
    torque_limit: float = 3.0


def add_arm(spec: mujoco.MjSpec, *, fingers: bool = True) -> mujoco.MjsBody:
    """Put the arm at the world's origin; returns the hand, whose frame is at the fingertips with z along the approach.

    `fingers` draws a pair that cannot move; a `Gripper` brings its own.
    """
    body = spec.worldbody.add_body(name="base")
    for shape in _LOOKS[0]:
        draw(body, *shape)
    for index, link in enumerate(LINKS, start=1):
        body = body.add_body(
            name=f"link{index}",
            pos=link.position,
            quat=link.quaternion,
            mass=link.mass,
            ipos=link.centre,
            gravcomp=1,
            explicitinertial=True,
        )
        body.fullinertia = link.inertia
        body.add_joint(
            name=f"joint{index}",
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=[0, 0, 1],
            range=link.joint_range,
            damping=POSTURE_DAMPING,
            armature=0.1,
            actfrcrange=(-link.torque, link.torque),
            actfrclimited=True,
        )
        for shape in _LOOKS[index]:
            draw(body, *shape)
    # the hand is mounted at -45 degrees, which makes its axes those of the base in the rest posture
    hand = body.add_body(
        name="hand", pos=[0, 0, FLANGE], quat=[np.cos(-np.pi / 8), 0, 0, np.sin(-np.pi / 8)], gravcomp=1, mass=HAND_MASS,
        ipos=[-0.01, 0, 0.03], inertia=[0.001, 0.0025, 0.0017], explicitinertial=True,
    )  # fmt: skip
    for shape in _HAND_LOOKS + (_FIXED_FINGERS if fingers else ()):
        draw(hand, *shape)
    return hand.add_body(name="fingertips", pos=[0, 0, FINGERTIP], gravcomp=1)


def add_cartesian_actuators(spec: mujoco.MjSpec, tcp: str, reference: str, impedance: Impedance) -> None:
    """One position actuator per Cartesian axis from site `reference` to site `tcp`."""
    for axis, name in enumerate(("x", "y", "z", "rx", "ry", "rz")):
        rotational = axis >= 3
        gear = np.zeros(6)
        gear[axis] = 1
        actuator = spec.add_actuator(name=f"impedance_{name}", trntype=mujoco.mjtTrn.mjTRN_SITE, target=tcp, refsite=reference, gear=gear)
        if rotational:
            actuator.set_to_position(impedance.rotational_stiffness, impedance.rotational_damping)
            limit = impedance.torque_limit
        else:
            actuator.set_to_position(impedance.stiffness, impedance.damping)
            limit = impedance.force_limit
        actuator.forcelimited = True
        actuator.forcerange = (-limit, limit)


@dataclass(frozen=True)
class ControlLimits:
    """What an action may do; six numbers each (m, rad), in the axes of the reference site."""

    action_scale: tuple[float, ...]
    """The step of the command for an action of 1."""
    leash: tuple[float, ...]
    """How far the command may be from the measured pose, per axis."""
    workspace_low: tuple[float, ...]
    workspace_high: tuple[float, ...]
    substeps: int = 50
    """Physics steps per action."""
    ramp: int = 40
    """Substeps over which the command moves; a sudden step of the command throws the tool sideways."""


class CartesianControl:
    """Turns actions into a commanded pose for N simulations and simulates the control period.

    A policy of fewer than six axes leaves the others where the episode started. The six actuators are the first of the model.
    """

    def __init__(self, limits: ControlLimits) -> None:
        self.limits = limits
        self._scale, self._leash, self._low, self._high = (
            np.array(values, float) for values in (limits.action_scale, limits.leash, limits.workspace_low, limits.workspace_high)
        )
        steps = np.arange(1, limits.substeps + 1)
        self._ramp = np.minimum(1.0, steps / limits.ramp)[None, :, None]

    def bind(self, batch: mujoco.batch.Batch) -> None:
        self._batch = batch
        self.pose = batch.bind("actuator_length")[:, :6]
        self.velocity = batch.bind("actuator_velocity")[:, :6]
        self._ctrl = batch.bind("ctrl")
        self.command = np.zeros((batch.nsim, 6))

    def start(self, rows: Rows) -> None:
        """Hold still: the command is where the tool is."""
        self.command[rows] = self.pose[rows]
        self._ctrl[rows, :6] = self.command[rows]

    def advance(self, rows: Rows, action: np.ndarray, hand: np.ndarray | None = None) -> np.ndarray:
        """One control period; returns the sensor readings after each substep (n, substeps, nsensordata).

        `hand` (n, substeps, k) are the commands of the actuators that follow the arm's six, where the model has any.
        """
        last = self.command[rows]
        target = self.target(last, self.pose[rows], action)
        control = last[:, None] + (target - last)[:, None] * self._ramp
        self.command[rows] = target
        if hand is not None:
            control = np.concatenate([control, hand], axis=-1)
        readings = self._batch.rollout(self.limits.substeps, control=control, record=("sensordata",), ids=ids(rows))["sensordata"]
        # pose, velocity and the frame sensors at the new state; the forces stay those of the last substep
        self._batch.forward(ids(rows), stage=mujoco.mjtStage.mjSTAGE_VEL)
        return readings

    def target(self, last: np.ndarray, measured: np.ndarray, action: np.ndarray) -> np.ndarray:
        """last_commanded + action * action_scale, inside the workspace, on the leash; (n, 6)."""
        step = np.zeros_like(last)
        step[:, : action.shape[1]] = action * self._scale[: action.shape[1]]
        target = last + step
        if action.shape[1] > 3:
            target[:, 3:] = compose(step[:, 3:], last[:, 3:])
        target = np.clip(target, self._low, self._high)
        return np.clip(target, measured - self._leash, measured + self._leash)


class InverseKinematics:
    """Joint angles that bring a site to a pose, by damped least squares from a fixed posture."""

    def __init__(self, model: mujoco.MjModel, site: str) -> None:
        self._model = model
        self._data = mujoco.MjData(model)
        self._site = model.site(site).id
        joints = [model.joint(name) for name in JOINTS]
        self.qpos = np.array([joint.qposadr[0] for joint in joints])
        self._dofs = np.array([joint.dofadr[0] for joint in joints])
        self._low, self._high = np.array([joint.range for joint in joints]).T
        self._jacobian = np.zeros((6, model.nv))

    def solve(self, position: np.ndarray, quaternion: np.ndarray, tolerance: float = 1e-6) -> np.ndarray:
        """(7,) angles; the pose is that of the site in the world."""
        data, angles = self._data, np.array(POSTURE)
        current = np.zeros(4)
        for _ in range(50):
            data.qpos[self.qpos] = angles
            mujoco.mj_kinematics(self._model, data)
            mujoco.mj_comPos(self._model, data)
            mujoco.mju_mat2Quat(current, data.site_xmat[self._site])
            error = np.concatenate(
                [position - data.site_xpos[self._site], quat_to_rotvec(quat_multiply(quaternion, quat_conjugate(current)))]
            )
            if np.abs(error).max() < tolerance:
                break
            mujoco.mj_jacSite(self._model, data, self._jacobian[:3], self._jacobian[3:], self._site)
            jacobian = self._jacobian[:, self._dofs]
            angles = angles + jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-6 * np.eye(6), error)
            angles = np.clip(angles, self._low, self._high)
        return angles


_CAPSULE, _CYLINDER, _BOX, _SPHERE = (
    mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_SPHERE
)  # fmt: skip


def draw(body: mujoco.MjsBody, kind: mujoco.mjtGeom, place: tuple[float, ...], size: tuple[float, ...], colour: tuple[float, ...]) -> None:
    """A geom to look at: no contact, no mass. `place` is a point, or both ends of an axis."""
    geom = body.add_geom(type=kind, rgba=colour, contype=0, conaffinity=0, group=VISUAL_GROUP, mass=0)
    if len(place) == 6:
        geom.fromto = place
        geom.size = (size[0], 0, 0)
    else:
        geom.pos = place
        geom.size = (*size, 0, 0)[:3]


# per body: base, link 1 .. 7; each (kind, point or axis, size, colour) in the link's own frame, whose z is the joint's axis
_LOOKS = (
    (
        (_CYLINDER, (0, 0, 0, 0, 0, 0.02), (0.095,), GREY),
        (_CYLINDER, (0, 0, 0.02, 0, 0, 0.14), (0.072,), WHITE),
        (_CAPSULE, (-0.11, 0, 0.045, 0, 0, 0.045), (0.045,), WHITE),
    ),
    (
        (_CYLINDER, (0, 0, -0.193, 0, 0, -0.185), (0.066,), GREY),
        (_CAPSULE, (0, 0, -0.14, 0, 0, -0.06), (0.06,), WHITE),
        (_CYLINDER, (0, -0.065, 0, 0, 0.065, 0), (0.062,), WHITE),
    ),
    (
        (_CYLINDER, (0, 0, -0.072, 0, 0, 0.072), (0.054,), GREY),
        (_CAPSULE, (0, -0.05, 0, 0, -0.16, 0), (0.058,), WHITE),
    ),
    (
        (_CYLINDER, (0, 0, -0.128, 0, 0, -0.12), (0.062,), GREY),
        (_CAPSULE, (0, 0, -0.09, 0.02, 0, -0.04), (0.058,), WHITE),
        (_CYLINDER, (0.0825, -0.058, 0, 0.0825, 0.058, 0), (0.056,), WHITE),
        (_CAPSULE, (0.02, 0, -0.03, 0.0825, 0, 0), (0.05,), WHITE),
    ),
    (
        (_CYLINDER, (0, 0, -0.065, 0, 0, 0.065), (0.048,), GREY),
        (_CAPSULE, (0, 0.0, 0, -0.0825, 0.085, 0), (0.05,), WHITE),
        (_CAPSULE, (-0.0825, 0.085, 0, -0.0825, 0.11, 0), (0.054,), WHITE),
    ),
    (
        (_CYLINDER, (0, 0, -0.262, 0, 0, -0.254), (0.056,), GREY),
        (_CAPSULE, (0, 0, -0.215, 0, 0.03, -0.10), (0.05,), WHITE),
        (_CAPSULE, (0, 0.055, -0.13, 0, 0.055, 0.0), (0.035,), WHITE),
        (_CYLINDER, (0, -0.01, 0, 0, 0.085, 0), (0.05,), WHITE),
    ),
    (
        (_CYLINDER, (0, 0, -0.058, 0, 0, 0.03), (0.044,), GREY),
        (_CAPSULE, (0, 0, -0.01, 0.088, 0.0, -0.005), (0.044,), WHITE),
        (_CYLINDER, (0.088, -0.052, 0, 0.088, 0.05, 0), (0.048,), WHITE),
    ),
    (
        (_CYLINDER, (0, 0, 0.05, 0, 0, 0.058), (0.044,), GREY),
        (_CYLINDER, (0, 0, 0.058, 0, 0, FLANGE), (0.042,), DARK),
    ),
)
_HAND_LOOKS = (
    (_CYLINDER, (0, 0, 0, 0, 0, 0.008), (0.04,), GREY),
    (_BOX, (0, 0, 0.032), (0.026, 0.1, 0.025), WHITE),
    (_BOX, (0, 0, 0.06), (0.02, 0.088, 0.004), DARK),
)
_FIXED_FINGERS = (
    (_BOX, (0, 0.0175, 0.08), (0.0095, 0.008, 0.02), DARK),
    (_BOX, (0, -0.0175, 0.08), (0.0095, 0.008, 0.02), DARK),
    (_BOX, (0, 0.0135, FINGERTIP - 0.002), (0.0085, 0.0045, 0.013), GREY),
    (_BOX, (0, -0.0135, FINGERTIP - 0.002), (0.0085, 0.0045, 0.013), GREY),
)

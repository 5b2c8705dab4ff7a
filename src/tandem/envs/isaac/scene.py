"""The MuJoCo scene behind the stand-in server: the pick task's arm, gear and board, in the coordinates that Isaac's server uses.

The base of the board is let into the table, so that a gear on its peg lies as low as one on the table, as in the fork's scene. A grasp is
contact and friction; Isaac's server makes a fixed joint in its place. The gripper opens 22 mm and not 80 mm: 0 is closed, 1 is open.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from PIL import Image

from tandem.envs.arm import JOINTS, LINKS, Impedance
from tandem.envs.cameras import UNSEEN, hide
from tandem.envs.gear_assembly.board import meshing_angle
from tandem.envs.gear_assembly.scene import BOARD_NOMINAL, NEIGHBOURS, Geometry
from tandem.envs.gear_pick.scene import describe_scene
from tandem.envs.gripper import FINGERS, Gripper, GripperSettings
from tandem.envs.http_robot.quaternions import from_euler, to_wire
from tandem.envs.http_robot.scene import SceneState
from tandem.envs.rendering import open_renderer
from tandem.envs.rotations import quat_conjugate, quat_multiply, quat_to_rotvec, rotate, rotvec_to_quat
from tandem.envs.surroundings import looking

INITIAL_Q = (0.0, -0.4, 0.0, -2.4, 0.0, 2.0, 0.8)
RESET_POSE = (0.0, -0.4, 0.55, 0.0, np.pi, 0.0)
"""x, y, z (m), Euler x, y, z (rad): where the arm goes after a reset."""
GEAR_HOLE = np.array([0.02, 0.0, 0.0])
"""Middle of the gear in its own frame, and of the free pin in the base's (m)."""
TURN = rotvec_to_quat(np.array([0.0, 0.0, -np.pi / 2]))
"""From the axes of our scene to those of the server's world."""
GEAR, BASE = np.array([0.0, -0.5066, 0.4006]), np.array([0.0, -0.6, 0.3995])
"""Gear and base in the server's world, without randomisation (m)."""
SHIFT = GEAR + GEAR_HOLE - rotate(TURN, np.array([0.45, 0.0, 0.0]))
"""The same for the origin (m): so far from our arm it reaches all that it has to."""
DOWN = from_euler(np.array([0.0, np.pi, 0.0]))
"""The tool at rest, as the server says it: its z points down, where that of our tool points up."""
HALF_TURN = np.array([0.0, 0.0, 0.0, 1.0])
SPEED, TURN_SPEED, LAG_S = 0.4, 1.5, 0.1
"""How the arm follows a target: at most m/s and rad/s, and the time constant of the approach."""
PICTURE = (180, 320)
"""Height and width of what a camera draws: a quarter of the server's 720 x 1280, cropped and enlarged to `SIZE` like there."""
SIZE = 128
SIM_CROPS = {"wrist_1": (0, 720, 280, 1000), "wrist_2": (110, 610, 390, 890)}
ROBOT_CROPS = {"wrist_1": (150, 450, 350, 1100), "wrist_2": (100, 500, 400, 900)}
"""Rows and columns of the 720 x 1280 picture: of the simulation's config, and those of the real robot that the server loads by mistake."""


class GearScene:
    """One arm at a table, moved by absolute poses."""

    def __init__(self, seed: int | None = None, randomize: bool = True) -> None:
        self._random, self._randomize = np.random.default_rng(seed), randomize
        self._grip = GripperSettings()
        self._geometry = Geometry()
        self.model = self._build()
        self._data = mujoco.MjData(self.model)
        model = self.model
        self._tcp, self._gear_site = model.site("tcp").id, model.site("gear").id
        self._joints = np.array([model.joint(name).qposadr[0] for name in JOINTS])
        self._dofs = np.array([model.joint(name).dofadr[0] for name in JOINTS])
        self._fingers = np.array([model.joint(name).qposadr[0] for name in FINGERS])
        self._finger_dofs = np.array([model.joint(name).dofadr[0] for name in FINGERS])
        self._gear_at = int(model.joint("gear").qposadr[0])
        self._neighbours = [int(model.joint(f"neighbour{number}").qposadr[0]) for number in range(len(NEIGHBOURS))]
        self._gripper = model.actuator("gripper").id
        self._board = model.body("board").id
        self._flipped = False
        self._goal = 1.0
        self._renderer: Any = None
        self.reset()

    def _build(self) -> mujoco.MjModel:
        gripper = Gripper("absolute", self._grip, 50, 0.1)
        spec = describe_scene("isaac", self._geometry, Impedance(), gripper)
        spec.body("board").pos = [*_in_scene(BASE)[:2], 0.0005]
        tool = spec.body("tool")
        for name, place in (("wrist_1", (-0.10, 0.0, 0.05)), ("wrist_2", (-0.03, 0.07, 0.05))):
            tool.add_camera(name=name, pos=place, quat=looking(np.array(place), np.array([0.01, 0.0, -0.06])), fovy=75.0)
        _add_blotches(spec)
        hide(spec, ("base", *(f"link{number}" for number in range(1, len(LINKS) + 1))))
        return spec.compile()

    # ---- commands

    def reset(self) -> None:
        """Arm and gear back to the start: `settle` and `go` to `RESET_POSE` follow."""
        model, data = self.model, self._data
        mujoco.mj_resetData(model, data)
        self.place()
        for address, (along_x, along_y) in zip(self._neighbours, NEIGHBOURS, strict=True):
            data.qpos[address] = meshing_angle(0.0, np.arctan2(along_y, along_x))
        self.teleport(np.array([*INITIAL_Q, 0.0, 0.0]))
        self._goal = 1.0
        self.settle(10)
        self.go(np.array(RESET_POSE[:3]), from_euler(np.array(RESET_POSE[3:])))

    def place(self) -> None:
        """Gear and base at their places, or near them."""
        x, y, yaw = self._random.uniform(-1, 1, 3) * [0.10, 0.035, np.radians(10)] if self._randomize else np.zeros(3)
        gear = _in_scene(GEAR + np.array([x, y, 0.0]))
        self._data.qpos[self._gear_at : self._gear_at + 7] = [*gear, 1, 0, 0, 0]
        self.model.body_quat[self._board] = rotvec_to_quat(np.array([0, 0, yaw]))

    def teleport(self, joints: np.ndarray) -> None:
        """The arm and the fingers (as the server counts them, 0.04 m is open) at these joints, at once."""
        data = self._data
        data.qpos[self._joints] = joints[:7]
        data.qpos[self._fingers] = np.clip(joints[7:] / 0.04, 0, 1) * self._grip.opening / 2
        data.qvel[:] = 0
        mujoco.mj_forward(self.model, data)
        self._command = np.array(data.actuator_length[:6])
        self._finger = float(data.actuator_length[self._gripper])
        data.ctrl[:6], data.ctrl[self._gripper] = self._command, self._finger
        self._target = self._command.copy()

    def go(self, position: np.ndarray, quaternion: np.ndarray) -> None:
        """A new target of the tool in the server's world; the quaternion is w, x, y, z.

        The arm cannot turn its hand around. A hand that is turned by half looks the same, so it goes to the nearer of the two.
        """
        turn = quat_multiply(quat_multiply(quat_conjugate(TURN), quat_multiply(quaternion, quat_conjugate(DOWN))), TURN)
        self._flipped = abs(turn[3]) > abs(turn[0])  # turned by more than a quarter about the vertical
        if self._flipped:
            turn = quat_multiply(turn, HALF_TURN)
        tip = rotate(quat_conjugate(TURN), position - SHIFT)
        origin = tip - rotate(turn, np.array([0, 0, self._geometry.grip_height]))
        self._target = np.concatenate([origin - BOARD_NOMINAL, np.clip(quat_to_rotvec(turn), -1.2, 1.2)])

    def grip(self, opening: float) -> None:
        """0 closed, 1 open."""
        self._goal = float(np.clip(opening, 0, 1))

    # ---- time

    def advance(self, seconds: float) -> None:
        """Let the arm approach its target for that long."""
        steps = max(1, round(seconds / self.model.opt.timestep))
        self._approach(seconds)
        data = self._data
        start, goal = data.ctrl.copy(), data.ctrl.copy()
        goal[:6], goal[self._gripper] = self._command, self._finger
        for step in range(1, steps + 1):
            data.ctrl[:] = start + (goal - start) * step / steps
            mujoco.mj_step(self.model, data)
        mujoco.mj_forward(self.model, data)

    def settle(self, steps: int) -> None:
        for _ in range(steps):
            mujoco.mj_step(self.model, self._data)

    def _approach(self, seconds: float) -> None:
        step = (self._target - self._command) * (1 - np.exp(-seconds / LAG_S))
        for part, fastest in ((slice(0, 3), SPEED), (slice(3, 6), TURN_SPEED)):
            length = float(np.linalg.norm(step[part]))
            if length > fastest * seconds:
                step[part] *= fastest * seconds / length
        self._command = self._command + step
        measured, reach = float(self._data.actuator_length[self._gripper]), self._grip.opening / 2
        stride, leash = self._grip.speed / 2 * seconds, 2.5 * self._grip.force / self._grip.stiffness
        wanted = float(np.clip(self._goal * reach, self._finger - stride, self._finger + stride))
        self._finger = float(np.clip(wanted, measured - leash, measured + leash))

    # ---- what is seen

    def state(self) -> SceneState:
        data = self._data
        jacobian = np.zeros((6, self.model.nv))
        mujoco.mj_jacSite(self.model, data, jacobian[:3], jacobian[3:], self._tcp)
        jacobian = np.concatenate([rotate(TURN, jacobian[:3, self._dofs].T).T, rotate(TURN, jacobian[3:, self._dofs].T).T])
        dq = np.concatenate([data.qvel[self._dofs], data.qvel[self._finger_dofs]])
        q = np.concatenate([data.qpos[self._joints], data.qpos[self._fingers] / (self._grip.opening / 2) * 0.04])
        base = self._thing(data.xpos[self._board], data.xmat[self._board])
        width = 2 * float(data.actuator_length[self._gripper]) / self._grip.opening
        return SceneState(
            pose=self._tool_pose(),
            vel=jacobian @ data.qvel[self._dofs],
            force=np.array(data.sensor("force").data),
            torque=np.array(data.sensor("torque").data),
            q=q,
            dq=dq,
            jacobian=jacobian,
            gripper=float(np.clip(width, 0, 1)),
            gear=self._thing(data.site_xpos[self._gear_site], data.site_xmat[self._gear_site]),
            base=np.concatenate([base[:2], BASE[2:], base[3:]]),
        )

    def _tool_pose(self) -> np.ndarray:
        data, turn = self._data, np.zeros(4)
        mujoco.mju_mat2Quat(turn, data.site_xmat[self._tcp])
        tip = data.site_xpos[self._tcp] + rotate(turn, np.array([0, 0, self._geometry.grip_height]))
        if self._flipped:
            turn = quat_multiply(turn, HALF_TURN)
        seen = quat_multiply(quat_multiply(TURN, quat_multiply(turn, quat_conjugate(TURN))), DOWN)
        return np.concatenate([rotate(TURN, tip) + SHIFT, to_wire(_largest_positive(seen))])

    def _thing(self, place: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        """Pose of the gear or the board, whose frames have their middle at `GEAR_HOLE`."""
        turn = np.zeros(4)
        mujoco.mju_mat2Quat(turn, matrix)
        turn = quat_multiply(quat_multiply(TURN, turn), quat_conjugate(TURN))
        return np.concatenate([rotate(TURN, place) + SHIFT - rotate(turn, GEAR_HOLE), to_wire(_largest_positive(turn))])

    def pictures(self, crops: dict[str, tuple[int, int, int, int]]) -> dict[str, np.ndarray]:
        """By camera, (128, 128, 3) uint8. Belongs to the thread that asks first, as OpenGL does."""
        if self._renderer is None:
            self.model.vis.quality.offsamples = 0
            self.model.vis.quality.numslices, self.model.vis.quality.numstacks = 16, 4
            self._renderer = open_renderer(self.model, *PICTURE, "the cameras of the stand-in server")
            for flag in (mujoco.mjtRndFlag.mjRND_SKYBOX, mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
                self._renderer.scene.flags[flag] = False
            self._seen = mujoco.MjvOption()
            self._seen.geomgroup[UNSEEN] = 0
        return {name: self._picture(name, crop) for name, crop in crops.items()}

    def _picture(self, name: str, crop: tuple[int, int, int, int]) -> np.ndarray:
        self._renderer.update_scene(self._data, name, self._seen)
        top, bottom, left, right = (round(number * PICTURE[0] / 720) for number in crop)
        return np.asarray(Image.fromarray(self._renderer.render()[top:bottom, left:right]).resize((SIZE, SIZE)))

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


def _add_blotches(spec: mujoco.MjSpec) -> None:
    """A table with a pattern, as real ones have: on a plain one nobody sees how a camera moves."""
    texture = spec.add_texture(name="blotches", type=mujoco.mjtTexture.mjTEXTURE_2D, width=96, height=96, nchannel=3)
    grey = np.random.default_rng(0).integers(150, 235, (96, 96, 1), np.uint8)
    texture.data = np.repeat(grey, 3, axis=2).tobytes()
    material = spec.add_material(name="blotches")
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "blotches"
    spec.geom("table").material = "blotches"


def _in_scene(place: np.ndarray) -> np.ndarray:
    """Where the middle of a gear or board is that the server reports at `place`, without a turn."""
    return rotate(quat_conjugate(TURN), place + GEAR_HOLE - SHIFT)


def _largest_positive(quat: np.ndarray) -> np.ndarray:
    """The sign that the server reports: its largest component is positive, so that it jumps on the way."""
    return quat if quat[np.argmax(np.abs(quat))] > 0 else -quat

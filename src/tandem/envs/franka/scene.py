"""The gear scene in the coordinates of a Franka: the frame of the robot's base, the tool's z down at Euler angles (pi, 0, 0).

Between two episodes a person puts the gear back on a real table. Here it is put back when the open hand has come to where episodes begin.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tandem.envs.http_robot.quaternions import from_euler, from_wire, to_wire
from tandem.envs.http_robot.scene import Crops, SceneState
from tandem.envs.isaac.scene import DOWN as ISAACS_DOWN
from tandem.envs.isaac.scene import SHIFT, TURN, GearScene
from tandem.envs.rotations import quat_conjugate, quat_multiply, rotate

DOWN = from_euler(np.array([np.pi, 0.0, 0.0]))
START = np.array([0.45, 0.0, 0.20])
"""Where an episode begins; the gear lies below."""
NEAR_M, MOVED_M = 0.02, 0.004
FORCE_NOISE, TORQUE_NOISE, JOINT_NOISE, POSITION_NOISE = 0.05, 0.01, 1e-5, 1e-6
"""What a real arm measures is never twice the same (N, Nm, rad/s, m)."""


class FrankaScene:
    """Holds the gear scene, and turns its numbers."""

    def __init__(self, seed: int | None = None, randomize: bool = True) -> None:
        self._scene, self._noise = GearScene(seed, randomize), np.random.default_rng(seed)
        self.reset()

    def reset(self) -> None:
        self._scene.reset()
        self.go(START, DOWN)
        self._laid = self._scene.state().gear[:3]

    def teleport(self, joints: np.ndarray) -> None:
        """The arm at these joints; the fingers stay."""
        self._scene.teleport(np.concatenate([joints[:7], self._scene.state().q[7:]]))

    def go(self, position: np.ndarray, quaternion: np.ndarray) -> None:
        turn = quat_multiply(quaternion, quat_conjugate(DOWN))
        self._scene.go(
            rotate(TURN, position) + SHIFT, quat_multiply(quat_multiply(TURN, quat_multiply(turn, quat_conjugate(TURN))), ISAACS_DOWN)
        )

    def grip(self, opening: float) -> None:
        self._scene.grip(opening)

    def advance(self, seconds: float) -> None:
        self._scene.advance(seconds)
        state = self._scene.state()
        back = np.linalg.norm(self._position(state) - START) < NEAR_M and state.gripper > 0.8
        if back and np.linalg.norm(state.gear[:3] - self._laid) > MOVED_M:
            self._scene.place()
            self._scene.advance(seconds)
            self._laid = self._scene.state().gear[:3]

    def state(self) -> SceneState:
        state = self._scene.state()
        turn = quat_multiply(from_wire(state.pose[3:]), quat_conjugate(ISAACS_DOWN))
        turned = quat_multiply(quat_multiply(quat_conjugate(TURN), quat_multiply(turn, TURN)), DOWN)
        turned = turned if turned[np.argmax(np.abs(turned))] > 0 else -turned
        back, noise = quat_conjugate(TURN), self._noise.normal
        jacobian = np.concatenate([rotate(back, state.jacobian[:3].T).T, rotate(back, state.jacobian[3:].T).T])
        dq = state.dq[:7] + noise(0, JOINT_NOISE, 7)
        return dataclasses.replace(
            state,
            pose=np.concatenate([self._position(state) + noise(0, POSITION_NOISE, 3), to_wire(turned)]),
            vel=jacobian @ dq,
            force=state.force + noise(0, FORCE_NOISE, 3),
            torque=state.torque + noise(0, TORQUE_NOISE, 3),
            q=state.q[:7],
            dq=dq,
            jacobian=jacobian,
        )

    def _position(self, state: SceneState) -> np.ndarray:
        return rotate(quat_conjugate(TURN), state.pose[:3] - SHIFT)

    def pictures(self, crops: Crops) -> dict[str, np.ndarray]:
        return self._scene.pictures(crops)

    def close(self) -> None:
        self._scene.close()

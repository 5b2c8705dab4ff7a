"""A scene without physics behind the stand-in server: the tool goes where it is told, a closed gripper carries the gear."""

import numpy as np

from tandem.envs.http_robot.quaternions import from_euler, to_wire
from tandem.envs.http_robot.scene import SceneState
from tandem.envs.isaac.scene import BASE, GEAR, GEAR_HOLE, PICTURE, RESET_POSE, SIZE
from tandem.envs.rotations import quat_conjugate, quat_multiply, quat_to_rotvec, rotvec_to_quat

START = np.array([0.42, 0.0, 0.36])
"""Where a reset throws the tool."""
TABLE = np.random.default_rng(0).integers(0, 255, (400, 600, 1), np.uint8).repeat(8, 0).repeat(8, 1)
"""What the cameras see: a pattern that moves by 4 pixels of the 720 x 1280 for a millimetre."""


class PlainScene:
    def __init__(self, speed: float = 2.0, home: tuple[float, ...] = RESET_POSE, noise: float = 0.0) -> None:
        self._speed, self._home, self._noise = speed, np.array(home), noise
        self._random = np.random.default_rng(0)
        self.reset()

    def reset(self) -> None:
        self.position, self.turn, self.opening = START.copy(), from_euler(self._home[3:]), 0.0
        self._target, self._target_turn, self._wanted = self._home[:3], self.turn, 1.0
        self.gear = GEAR.copy()
        self._moved = 0.0

    def teleport(self, joints: np.ndarray) -> None:
        self.position = START.copy()

    def go(self, position: np.ndarray, quaternion: np.ndarray) -> None:
        self._target, self._target_turn = position.copy(), quaternion

    def grip(self, opening: float) -> None:
        self._wanted = min(1.0, max(0.0, opening))

    def advance(self, seconds: float) -> None:
        way = self._target - self.position
        longest, length = self._speed * seconds, float(np.linalg.norm(way))
        step = way if length <= longest else way * longest / length
        self._moved = float(np.linalg.norm(step)) / seconds
        near = np.linalg.norm(self.gear + GEAR_HOLE - self.position) < 0.03
        if self.opening < 0.5 and near:
            self.gear = self.gear + step
        self.position = self.position + step
        self.turn = quat_multiply(rotvec_to_quat(self._turned(seconds)), self.turn)
        self.opening += float(np.clip(self._wanted - self.opening, -5 * seconds, 5 * seconds))

    def _turned(self, seconds: float) -> np.ndarray:
        """The rotation of this time, at most 6 rad/s."""
        left = quat_to_rotvec(quat_multiply(self._target_turn, quat_conjugate(self.turn)))
        return left * min(1.0, 6.0 * seconds / max(float(np.linalg.norm(left)), 1e-9))

    def state(self) -> SceneState:
        live = np.full(9, 0.1 + self._moved) + self._random.normal(0, self._noise, 9)
        joints = np.concatenate([live[:7], np.full(2, 0.04 * self.opening)])
        measured, upright = self.position + self._random.normal(0, self._noise, 3), np.array([0.0, 0.0, 0.0, 1.0])
        return SceneState(
            np.concatenate([measured, to_wire(self.turn)]), live[:6], live[:3], live[:3], joints, live, np.ones((6, 7)), self.opening,
            np.concatenate([self.gear, upright]), np.concatenate([BASE, upright]),
        )  # fmt: skip

    def pictures(self, crops: dict[str, tuple[int, int, int, int]]) -> dict[str, np.ndarray]:
        """A camera that looks straight down, 4 pixels a millimetre; rows and columns are picked, not smoothed."""
        right, down = np.clip(4000 * self.position[:2] + [2000, 3000], 0, 3000).astype(int) % [3500, 2400]
        drawn = {}
        for name, (top, bottom, left, edge) in crops.items():
            rows, columns = np.linspace(top, bottom - 1, SIZE).astype(int) + down, np.linspace(left, edge - 1, SIZE).astype(int) + right
            drawn[name] = np.broadcast_to(TABLE[rows][:, columns], (SIZE, SIZE, 3)).copy()
        assert PICTURE[0] * 4 == 720
        return drawn

    def close(self) -> None: ...

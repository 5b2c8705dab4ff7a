"""The board of an episode: where it is, where the robot believes it to be, and how its gears stand."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs.gear_assembly.scene import BOARD_NOMINAL, NEIGHBOURS, PITCH
from tandem.envs.rotations import quat_multiply, rotate
from tandem.envs.rows import Rows

MM, DEGREE = 1e-3, np.pi / 180
MEASURED_XY_ERROR = 2.2 * MM


@dataclass(frozen=True)
class BoardOptions:
    """Ranges are uniform, half-widths; lengths in m, angles in rad. Frozen once calibrated: change to make it harder."""

    board_xy: float = 20 * MM
    board_yaw: float = 10 * DEGREE
    measured_xy_error: float = MEASURED_XY_ERROR
    """The hidden error of the measured board: uniform in a disc of this radius, constant in an episode."""
    measured_z_error: float = 0.5 * MM
    measured_yaw_error: float = 1 * DEGREE
    measured_phase_error: float = 0.25
    """Error of the neighbours' measured phase, in pitches."""


class Board:
    """Draws and keeps the boards of N simulations."""

    def __init__(self, batch: mujoco.batch.Batch, options: BoardOptions) -> None:
        self._options = options
        model = batch.get_model(0)
        self._board, self._measured = model.body("board").id, model.body("measured").id
        self._neighbours = [model.joint(f"neighbour{i}").qposadr[0] for i in range(len(NEIGHBOURS))]
        self._body_pos, self._body_quat = batch.expand("body_pos"), batch.expand("body_quat")
        self._qpos = batch.bind("qpos")
        self.measured_error = np.zeros((batch.nsim, 4))
        """x, y, z (m) and yaw (rad) of the measured seat in the true seat's frame. Hidden from the policy."""
        self.phase = np.zeros(batch.nsim)
        """Yaw of the gear, in the true seat's frame, at which it meshes; modulo the pitch. Hidden."""
        self.measured_phase = np.zeros(batch.nsim)

    def draw(self, row: int, stream: np.random.Generator, width: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Place the board of an episode, with `width` times its hidden errors; returns the true seat's place and orientation."""
        options = self._options
        board = BOARD_NOMINAL + np.array([*stream.uniform(-options.board_xy, options.board_xy, 2), 0.0])
        board_quat = about_z(stream.uniform(-options.board_yaw, options.board_yaw))
        radius, direction = width * options.measured_xy_error * np.sqrt(stream.uniform()), stream.uniform(-np.pi, np.pi)
        error = np.array([radius * np.cos(direction), radius * np.sin(direction), stream.uniform(-1, 1) * width * options.measured_z_error])
        error_yaw = stream.uniform(-options.measured_yaw_error, options.measured_yaw_error) * width
        phase = stream.uniform(-0.5, 0.5) * PITCH
        phase_error = stream.uniform(-1, 1) * width * options.measured_phase_error * PITCH

        self.measured_error[row] = [*error, error_yaw]
        self.phase[row] = phase
        self.measured_phase[row] = phase - error_yaw + phase_error
        self._body_pos[row, self._board], self._body_quat[row, self._board] = board, board_quat
        self._body_pos[row, self._measured] = board + rotate(board_quat, error)
        self._body_quat[row, self._measured] = quat_multiply(board_quat, about_z(error_yaw))
        for address, (x, y) in zip(self._neighbours, NEIGHBOURS, strict=True):
            self._qpos[row, address] = meshing_angle(phase, np.arctan2(y, x))
        return board, board_quat

    def measured_seat(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Place (n, 3) and orientation (n, 4) in the world of where the robot believes the seat to be."""
        return self._body_pos[rows, self._measured], self._body_quat[rows, self._measured]

    def true_seat(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The same of where it is. Hidden from the policy."""
        return self._body_pos[rows, self._board], self._body_quat[rows, self._board]

    def memory(self) -> dict[str, np.ndarray]:
        return {
            "body_pos": self._body_pos,
            "body_quat": self._body_quat,
            "measured_error": self.measured_error,
            "phase": self.phase,
            "measured_phase": self.measured_phase,
        }


def meshing_angle(phase: float, direction: float) -> float:
    """Angle of a mounted gear in `direction` from the peg that a gear at yaw `phase` meshes with.

    Where the two face each other a tooth of one meets a gap of the other: the two angles, each measured from the line of
    centres, add up to half a pitch.
    """
    return direction + np.pi + PITCH / 2 - (phase - direction)


def about_z(angle: float) -> np.ndarray:
    return np.array([np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)])

"""Quaternions x, y, z, w, as they travel to the server, and w, x, y, z, as in `tandem.envs.rotations`; Euler angles, as it takes them."""

from __future__ import annotations

import numpy as np

from tandem.envs.rotations import quat_multiply, rotvec_to_quat


def from_wire(quat: np.ndarray) -> np.ndarray:
    """x, y, z, w -> w, x, y, z."""
    return np.concatenate([quat[..., 3:], quat[..., :3]], axis=-1)


def to_wire(quat: np.ndarray) -> np.ndarray:
    """w, x, y, z -> x, y, z, w."""
    return np.concatenate([quat[..., 1:], quat[..., :1]], axis=-1)


def from_euler(angles: np.ndarray) -> np.ndarray:
    """Turns about the fixed axes x, then y, then z (rad), as w, x, y, z."""
    x, y, z = (rotvec_to_quat(angle * axis) for angle, axis in zip(angles, np.eye(3), strict=True))
    return quat_multiply(z, quat_multiply(y, x))


def to_euler(quat: np.ndarray) -> np.ndarray:
    """The inverse of `from_euler`: (3,) rad, y in [-pi/2, pi/2]."""
    w, x, y, z = quat
    return np.array(
        [
            np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
            np.arcsin(np.clip(2 * (w * y - z * x), -1.0, 1.0)),
            np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
        ]
    )


def angle_between(one: np.ndarray, other: np.ndarray) -> float:
    """Angle of the rotation from one to the other (rad)."""
    return float(2 * np.arccos(np.clip(abs(np.dot(one, other)), 0.0, 1.0)))

"""Rotations over arrays with any leading axes: quaternions (w, x, y, z) as in MuJoCo, and rotation vectors (rad).

A rotation vector is axis times angle. No Euler angles anywhere: they are neither additive nor symmetric.
"""

from __future__ import annotations

import numpy as np

_TINY = 1e-12


def rotvec_to_quat(rotvec: np.ndarray) -> np.ndarray:
    """(..., 3) -> (..., 4)."""
    half = 0.5 * np.sqrt((rotvec * rotvec).sum(-1, keepdims=True))
    # sin(half) / angle, with its limit 1/2 where the angle vanishes
    ratio = 0.5 * np.sinc(half / np.pi)
    return np.concatenate([np.cos(half), rotvec * ratio], axis=-1)


def quat_to_rotvec(quat: np.ndarray) -> np.ndarray:
    """(..., 4) -> (..., 3), the shorter way round (angle in [0, pi])."""
    quat = np.where(quat[..., :1] < 0, -quat, quat)
    vector = quat[..., 1:]
    sine = np.sqrt((vector * vector).sum(-1, keepdims=True))
    angle = 2.0 * np.arctan2(sine, quat[..., :1])
    return vector * np.where(sine > _TINY, angle / np.maximum(sine, _TINY), 2.0)


def quat_multiply(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The rotation `second` followed by `first` (both about fixed axes)."""
    aw, ax, ay, az = first[..., 0], first[..., 1], first[..., 2], first[..., 3]
    bw, bx, by, bz = second[..., 0], second[..., 1], second[..., 2], second[..., 3]
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def quat_conjugate(quat: np.ndarray) -> np.ndarray:
    """The inverse of a unit quaternion."""
    return quat * np.array([1.0, -1.0, -1.0, -1.0])


def rotate(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """(..., 4), (..., 3) -> the vector turned by the rotation."""
    w, axis = quat[..., :1], quat[..., 1:]
    twice = 2.0 * _cross(axis, vector)
    return vector + w * twice + _cross(axis, twice)


def compose(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Rotation vector of `second` followed by `first`; for small angles close to their sum, never assumed to be it."""
    return quat_to_rotvec(quat_multiply(rotvec_to_quat(first), rotvec_to_quat(second)))


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    # np.cross spends ten times as long on checking its arguments
    ax, ay, az = a[..., 0], a[..., 1], a[..., 2]
    bx, by, bz = b[..., 0], b[..., 1], b[..., 2]
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)

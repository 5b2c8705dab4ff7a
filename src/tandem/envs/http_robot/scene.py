"""The scene behind a stand-in for a robot's server: a simulation of an arm that is moved by absolute poses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tandem.envs.http_robot.quaternions import from_wire

Crops = dict[str, tuple[int, int, int, int]]
"""By camera: rows from, to, columns from, to, of a picture of 720 x 1280."""


@dataclass(frozen=True)
class SceneState:
    """What the server knows after a pass of its loop."""

    pose: np.ndarray
    """(7,) x, y, z, quaternion x, y, z, w"""
    vel: np.ndarray
    force: np.ndarray
    torque: np.ndarray
    q: np.ndarray
    dq: np.ndarray
    jacobian: np.ndarray
    gripper: float
    gear: np.ndarray
    base: np.ndarray


class Scene(Protocol):
    """What a server needs of the scene behind it."""

    def reset(self) -> None: ...

    def teleport(self, joints: np.ndarray) -> None: ...

    def go(self, position: np.ndarray, quaternion: np.ndarray) -> None: ...

    def grip(self, opening: float) -> None: ...

    def advance(self, seconds: float) -> None: ...

    def state(self) -> SceneState: ...

    def pictures(self, crops: Crops) -> dict[str, np.ndarray]: ...

    def close(self) -> None: ...


def pose_from_wire(numbers: np.ndarray, swapped: bool) -> tuple[np.ndarray, np.ndarray]:
    """Position and quaternion w, x, y, z of a command; `swapped` reads x, y, z, w as w, x, y, z."""
    quat = numbers[3:] if swapped else from_wire(numbers[3:])
    norm = float(np.linalg.norm(quat))
    return numbers[:3], quat / norm if norm > 1e-6 else np.array([1.0, 0.0, 0.0, 0.0])

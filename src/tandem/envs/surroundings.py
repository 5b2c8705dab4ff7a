"""What every scene with the arm stands in: a table, light and a camera. To look at only; nothing touches it."""

from __future__ import annotations

import mujoco
import numpy as np


def add_surroundings(spec: mujoco.MjSpec, target: tuple[float, float, float]) -> None:
    """Table, light, and the camera `front` that sees the whole arm and looks at `target`."""
    visual = spec.visual
    visual.quality.shadowsize, visual.quality.offsamples = 4096, 4
    visual.global_.offwidth, visual.global_.offheight = 1920, 1080
    visual.headlight.ambient, visual.headlight.diffuse, visual.headlight.specular = [0.34] * 3, [0.26] * 3, [0.05] * 3
    visual.map.znear = 0.005
    visual.rgba.haze = [0.85, 0.88, 0.92, 1]
    spec.add_texture(
        name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.92, 0.94, 0.96], rgb2=[0.70, 0.75, 0.80], width=256, height=1536,
    )  # fmt: skip
    world = spec.worldbody
    # From the camera's side, so that the shadow of the hand falls behind what it works on; narrow, for sharp shadows.
    world.add_light(
        pos=[1.5, -0.9, 1.5], dir=[-1.1, 0.9, -1.3], diffuse=[0.62] * 3, specular=[0.2] * 3, castshadow=True,
        type=mujoco.mjtLightType.mjLIGHT_SPOT, cutoff=32, exponent=1,
    )  # fmt: skip
    world.add_light(pos=[0.2, 0.8, 1.2], dir=[0.2, -0.7, -1.0], diffuse=[0.15] * 3, castshadow=False)
    world.add_geom(
        name="table", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.55, 0.55, 0.02], pos=[0.3, 0, -0.02], rgba=[0.82, 0.80, 0.77, 1],
        contype=0, conaffinity=0,
    )  # fmt: skip
    add_camera(spec, "front", place=(1.32, -0.80, 0.64), target=target, fovy=42)


def add_camera(spec: mujoco.MjSpec, name: str, place: tuple[float, float, float], target: tuple[float, float, float], fovy: float) -> None:
    spec.worldbody.add_camera(name=name, pos=place, quat=looking(np.array(place), np.array(target)), fovy=fovy)


def looking(place: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Orientation of a camera (which looks along its -z, y up) at `place` that looks at `target`."""
    back = place - target
    back /= np.linalg.norm(back)
    right = np.cross([0, 0, 1], back)
    right /= np.linalg.norm(right)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.stack([right, np.cross(back, right), back], axis=1).ravel())
    return quat

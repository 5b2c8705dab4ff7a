"""The shapes of a simulation and their poses now, for a page that draws them itself.

Only what MuJoCo would show (geom groups 0 to 2, not transparent). A mesh comes with its bounding box, and with its triangles where it
is small. An environment without MuJoCo has no bodies and no geoms; people then see the picture that it draws of itself, and its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tandem.envs.task_env import TaskEnv

if TYPE_CHECKING:
    import mujoco

OWN_PICTURE = "own picture"
"""Name of the view that an environment without a MuJoCo simulation draws by its own `render`."""
SHOWN_GROUPS = 3
SMALL_MESH = 400
"""Vertices up to which a mesh is described by its triangles too."""
_TYPES = {0: "plane", 2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box", 7: "mesh"}
"""By the numbers of `mujoco.mjtGeom`; a height field (1) is not shown."""


class Scenery:
    """Row 0 of an environment, as shapes and poses."""

    def __init__(self, env: TaskEnv, axes: Sequence[str], camera: str | None = None, further: Sequence[str] = ()) -> None:
        """`camera`: where to look from at first. `further`: cameras that can be looked through beside the environment's own."""
        self._axes, self._control_hz, self._camera = list(axes), env.spec.control_hz, camera
        self._physics = env.physics()
        own = [OWN_PICTURE] if self._physics is None and env.capabilities.renders else list(env.capabilities.cameras)
        self._cameras = [*(name for name in further if name not in own), *own]

    def description(self) -> dict[str, Any]:
        """As `link.messages.Scene` carries it: bodies by name, geoms in the frames of their bodies, a good place to look from."""
        described = {"bodies": [], "geoms": [], "camera": _LOOK, "axes": self._axes, "control_hz": self._control_hz}
        described["cameras"] = self._cameras
        physics = self._physics
        if physics is None:
            return described
        physics.update()
        model = physics.model
        return described | {
            "bodies": [model.body(i).name or f"body {i}" for i in range(model.nbody)],
            "geoms": [_geom(model, i) for i in range(model.ngeom) if _is_shown(model, i)],
            "camera": _look(model, physics.data, self._camera),
        }

    def poses(self) -> np.ndarray:
        """(bodies, 7) float32: position and quaternion (w, x, y, z) of every body in the world."""
        if self._physics is None:
            return np.zeros((0, 7), np.float32)
        self._physics.update()
        return np.concatenate([self._physics.data.xpos, self._physics.data.xquat], axis=1).astype(np.float32)


_LOOK = {"lookat": [0.0, 0.0, 0.0], "distance": 2.0, "azimuth": 135.0, "elevation": -30.0}


def _is_shown(model: mujoco.MjModel, geom: int) -> bool:
    return bool(model.geom_group[geom] < SHOWN_GROUPS and _colour(model, geom)[3] > 0 and int(model.geom_type[geom]) in _TYPES)


def _colour(model: mujoco.MjModel, geom: int) -> np.ndarray:
    material = int(model.geom_matid[geom])
    return model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]


def _geom(model: mujoco.MjModel, geom: int) -> dict[str, Any]:
    kind = _TYPES[int(model.geom_type[geom])]
    position, quaternion, size = model.geom_pos[geom].copy(), model.geom_quat[geom], model.geom_size[geom]
    described: dict[str, Any] = {"body": int(model.geom_bodyid[geom]), "type": kind, "rgba": _rounded(_colour(model, geom))}
    if kind == "mesh":
        centre, size = model.geom_aabb[geom, :3], model.geom_aabb[geom, 3:]
        described |= _triangles(model, int(model.geom_dataid[geom]), centre)
        import mujoco

        turned = np.zeros(3)
        mujoco.mju_rotVecQuat(turned, centre, quaternion)
        position += turned  # the middle of the box
    return described | {"size": _rounded(size), "pos": _rounded(position), "quat": _rounded(quaternion)}


def _triangles(model: mujoco.MjModel, mesh: int, centre: np.ndarray) -> dict[str, Any]:
    """Vertices relative to the middle of the bounding box, and which three make a face."""
    count = int(model.mesh_vertnum[mesh])
    if count > SMALL_MESH:
        return {}
    first, face = int(model.mesh_vertadr[mesh]), int(model.mesh_faceadr[mesh])
    vertices = model.mesh_vert[first : first + count] - centre
    faces = model.mesh_face[face : face + int(model.mesh_facenum[mesh])]
    return {"vertices": [_rounded(vertex) for vertex in vertices], "faces": faces.tolist()}


def _look(model: mujoco.MjModel, data: mujoco.MjData, camera: str | None) -> dict[str, Any]:
    """Where to look from: as the named camera does, else from aside at the whole scene."""
    if camera is None:
        return _LOOK | {"lookat": _rounded(model.stat.center), "distance": round(1.5 * float(model.stat.extent), 4)}
    number = model.camera(camera).id
    place, forward = data.cam_xpos[number], -data.cam_xmat[number].reshape(3, 3)[:, 2]
    # as far as the point of its line of sight that is nearest to the middle of the table's contents
    distance = float(np.clip(forward @ (model.stat.center - place), 0.25, 5.0))
    return {
        "lookat": _rounded(place + distance * forward),
        "distance": round(distance, 4),
        "azimuth": round(float(np.degrees(np.arctan2(forward[1], forward[0]))), 2),
        "elevation": round(float(np.degrees(np.arcsin(forward[2]))), 2),
    }


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 5) for value in values]

"""What there is to draw of a simulation, and where its parts are now: for a page that draws it itself.

Only what MuJoCo would show (geom groups 0 to 2, not transparent). A mesh comes with its bounding box, and with its triangles where it
is small. An environment without MuJoCo has no bodies and no geoms; people then see its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium.vector import VectorEnv

from tandem.envs.batch import BatchEnv

SHOWN_GROUPS = 3
SMALL_MESH = 400
"""Vertices up to which a mesh is described by its triangles too."""
_TYPES = {
    mujoco.mjtGeom.mjGEOM_PLANE: "plane",
    mujoco.mjtGeom.mjGEOM_SPHERE: "sphere",
    mujoco.mjtGeom.mjGEOM_CAPSULE: "capsule",
    mujoco.mjtGeom.mjGEOM_ELLIPSOID: "ellipsoid",
    mujoco.mjtGeom.mjGEOM_CYLINDER: "cylinder",
    mujoco.mjtGeom.mjGEOM_BOX: "box",
    mujoco.mjtGeom.mjGEOM_MESH: "mesh",
}


class Scenery:
    """Row 0 of an environment, as shapes and poses."""

    def __init__(self, env: VectorEnv | gymnasium.Env, axes: Sequence[str], control_hz: float, camera: str | None = None) -> None:
        self._axes, self._control_hz, self._camera = list(axes), control_hz, camera
        rows = env if isinstance(env, BatchEnv) else getattr(env, "rows", None)  # one environment of ours is a batch of one
        self._batch = rows.batch if isinstance(rows, BatchEnv) else None
        self._inner = None if self._batch is not None else _gymnasium_mujoco(env)
        self._model: mujoco.MjModel | None = None
        if self._batch is not None:
            self._model = self._batch.get_model(0)
        elif self._inner is not None:
            self._model = self._inner.model
        self._data = mujoco.MjData(self._model) if self._model is not None and self._batch is not None else None

    def description(self) -> dict[str, Any]:
        """As `link.messages.Scene` carries it: bodies by name, geoms in the frames of their bodies, a good place to look from."""
        model = self._model
        told = {"bodies": [], "geoms": [], "camera": _LOOK, "axes": self._axes, "control_hz": self._control_hz, "cameras": []}
        if model is None:
            return told
        self.poses()
        return told | {
            "bodies": [model.body(i).name or f"body {i}" for i in range(model.nbody)],
            "geoms": [_geom(model, i) for i in range(model.ngeom) if _is_shown(model, i)],
            "cameras": [model.camera(i).name for i in range(model.ncam) if model.camera(i).name] if self._batch is not None else [],
            "camera": _look(model, self._data if self._data is not None else self._inner.data, self._camera),  # pyright: ignore
        }

    def poses(self) -> np.ndarray:
        """(bodies, 7) float32: position and quaternion (w, x, y, z) of every body in the world."""
        if self._batch is not None:
            assert self._model is not None and self._data is not None
            # each row has bodies of its own places (a board that is put elsewhere), so its model is asked for too
            self._batch.get_model(0, self._model)
            self._batch.get_data(0, self._data)
            mujoco.mj_kinematics(self._model, self._data)
            mujoco.mj_camlight(self._model, self._data)
            data = self._data
        elif self._inner is not None:
            data = self._inner.data
        else:
            return np.zeros((0, 7), np.float32)
        return np.concatenate([data.xpos, data.xquat], axis=1).astype(np.float32)


_LOOK = {"lookat": [0.0, 0.0, 0.0], "distance": 2.0, "azimuth": 135.0, "elevation": -30.0}


def _gymnasium_mujoco(env: VectorEnv | gymnasium.Env) -> Any:
    """Gymnasium's own MuJoCo environment, or the first of them among the rows; None if it is of another kind."""
    rows = getattr(getattr(env, "rows", None), "envs", (env,))
    inner = getattr(rows[0], "unwrapped", None)
    known = isinstance(getattr(inner, "model", None), mujoco.MjModel) and isinstance(getattr(inner, "data", None), mujoco.MjData)
    return inner if known else None


def _is_shown(model: mujoco.MjModel, geom: int) -> bool:
    return bool(model.geom_group[geom] < SHOWN_GROUPS and _colour(model, geom)[3] > 0 and int(model.geom_type[geom]) in _TYPES)


def _colour(model: mujoco.MjModel, geom: int) -> np.ndarray:
    material = int(model.geom_matid[geom])
    return model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]


def _geom(model: mujoco.MjModel, geom: int) -> dict[str, Any]:
    kind = _TYPES[mujoco.mjtGeom(int(model.geom_type[geom]))]
    position, quaternion, size = model.geom_pos[geom].copy(), model.geom_quat[geom], model.geom_size[geom]
    told: dict[str, Any] = {"body": int(model.geom_bodyid[geom]), "type": kind, "rgba": _rounded(_colour(model, geom))}
    if kind == "mesh":
        centre, size = model.geom_aabb[geom, :3], model.geom_aabb[geom, 3:]
        told |= _triangles(model, int(model.geom_dataid[geom]), centre)
        turned = np.zeros(3)
        mujoco.mju_rotVecQuat(turned, centre, quaternion)
        position += turned  # the middle of the box
    return told | {"size": _rounded(size), "pos": _rounded(position), "quat": _rounded(quaternion)}


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

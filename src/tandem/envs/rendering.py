"""Pictures of a simulation in a batch, drawn off screen."""

from __future__ import annotations

import os

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs import HOW_TO_DRAW
from tandem.errors import ConfigError, RenderingUnavailable


def open_renderer(model: mujoco.MjModel, height: int, width: int, what: str = "") -> mujoco.Renderer:
    """Draws pictures of this size. `what` is to be drawn, where the error should say so."""
    try:
        return mujoco.Renderer(model, height=height, width=width)
    except Exception as problem:  # every backend fails in its own way: ImportError, AttributeError, RuntimeError, GLError
        raise RenderingUnavailable(
            f"cannot draw{what and ' '}{what}: no OpenGL context with MUJOCO_GL={os.environ.get('MUJOCO_GL', '')!r} "
            f"({type(problem).__name__}: {problem}). {HOW_TO_DRAW}"
        ) from problem


class Camera:
    """Draws any row of a batch. Belongs to the thread that made it (an OpenGL context does)."""

    def __init__(self, batch: mujoco.batch.Batch, camera: str | None = None, size: tuple[int, int] = (640, 480)) -> None:
        width, height = size
        if width < 1 or height < 1:
            raise ConfigError(f"a picture is at least one pixel wide and high, got {width} x {height}")
        self._batch = batch
        self._model = batch.get_model(0)
        self._data = mujoco.MjData(self._model)
        self._camera = camera if camera is not None else -1
        buffer = self._model.vis.global_
        buffer.offwidth, buffer.offheight = max(width, buffer.offwidth), max(height, buffer.offheight)
        self._renderer = open_renderer(self._model, height, width)

    def picture(self, row: int) -> np.ndarray:
        """(height, width, 3) uint8."""
        self._batch.get_model(row, self._model)
        self._batch.get_data(row, self._data)
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        self._renderer.update_scene(self._data, self._camera)
        return self._renderer.render()

    def close(self) -> None:
        self._renderer.close()

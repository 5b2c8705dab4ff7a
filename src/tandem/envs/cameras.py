"""Pictures as observations: named cameras of a model, drawn for every simulation of a batch.

A picture of 128 x 128 takes about 1 ms of one core without a GPU. With the settings of a picture for people it would take ten times as
long: round shapes get few faces here, there are no shadows, no sky and no smoothed edges, and bodies that no camera can see are left out
(`hide`). A picture is drawn when an observation is asked for, so the last one of an episode is drawn before its row is reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs.rendering import open_renderer
from tandem.envs.rows import Rows
from tandem.types import Entry

UNSEEN = 2
"""Group of geoms that people see and these cameras do not."""


def picture_entry(size: tuple[int, int], meaning: str) -> Entry:
    """An observation entry for the pictures of a camera; `size` is (height, width)."""
    return Entry((*size, 3), "uint8", meaning=meaning)


def hide(spec: mujoco.MjSpec, bodies: Sequence[str]) -> None:
    """Leave these bodies out of the pictures; people still see them."""
    for name in bodies:
        for geom in spec.body(name).geoms:
            geom.group = UNSEEN


class Cameras:
    """Draws the rows of a batch. The context of OpenGL is made with the first picture, and belongs to the thread that asks for it."""

    def __init__(self, batch: mujoco.batch.Batch, names: Sequence[str], size: tuple[int, int]) -> None:
        self._batch, self.names, self.size = batch, tuple(names), size
        self._model = batch.get_model(0)
        self._data = mujoco.MjData(self._model)
        self._renderer: Any = None
        self._seen = mujoco.MjvOption()
        self._seen.geomgroup[UNSEEN] = 0

    def pictures(self, rows: Rows) -> dict[str, np.ndarray]:
        """By camera, (n, height, width, 3) uint8."""
        numbers = np.arange(self._batch.nsim)[rows]
        drawn = {name: np.empty((len(numbers), *self.size, 3), np.uint8) for name in self.names}
        renderer = self._renderer or self._open()
        for place, row in enumerate(numbers):
            self._batch.get_model(int(row), self._model)
            self._batch.get_data(int(row), self._data)
            mujoco.mj_kinematics(self._model, self._data)
            mujoco.mj_camlight(self._model, self._data)
            for name in self.names:
                renderer.update_scene(self._data, name, self._seen)
                renderer.render(out=drawn[name][place])
        return drawn

    def _open(self) -> Any:
        height, width = self.size
        buffer, quality = self._model.vis.global_, self._model.vis.quality
        buffer.offwidth, buffer.offheight = width, height
        quality.numslices, quality.numstacks, quality.numquads, quality.offsamples = 16, 4, 1, 0
        self._renderer = open_renderer(self._model, height, width, f"the cameras {', '.join(self.names)}")
        for flag in (mujoco.mjtRndFlag.mjRND_SKYBOX, mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._renderer.scene.flags[flag] = False
        return self._renderer

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

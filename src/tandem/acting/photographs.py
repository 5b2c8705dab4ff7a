"""Pictures for whoever watches through a camera: taken beside the control loop, never in it.

A camera is an image among the observations, by its name, or one of the simulation's own. The control loop hands over a copy of what there
is to see (microseconds) and goes on; a thread draws and compresses it. While it is busy no other picture is taken.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from gymnasium.vector import VectorEnv
from PIL import Image

from tandem.acting.showing import Audience
from tandem.envs import HOW_TO_DRAW
from tandem.envs.batch import BatchEnv
from tandem.link.messages import MAX_PICTURE, Camera
from tandem.types import Observation

SIZE = (320, 240)
QUALITY = 70


class Photographs:
    """`take` from the control loop; pictures arrive at the audience when they are ready."""

    def __init__(self, env: VectorEnv, audience: Audience, say: Callable[[str], None] = lambda line: None) -> None:
        self._batch = env.batch if isinstance(env, BatchEnv) else None
        self._audience, self._say = audience, say
        self._model: Any = None
        self._data: Any = None
        self._wanted: tuple[str, np.ndarray | None] = ("", None)
        self._idle, self._asked, self._closed = threading.Event(), threading.Event(), False
        self._idle.set()
        self._refused: set[str] = set()
        self._thread: threading.Thread | None = None

    def take(self, camera: str, observation: Observation) -> None:
        """Of row 0, as it is now; nothing if the last one is not ready, or this camera cannot be had."""
        if not self._idle.is_set() or camera in self._refused:
            return
        image = observation.get(camera)
        if image is not None and image.dtype == np.uint8 and image.ndim == 3:
            self._wanted = (camera, image.copy())
        elif self._batch is not None:
            self._copy_simulation()
            self._wanted = (camera, None)
        else:
            self._refuse(camera, "there is no such image among the observations, and no simulation to draw")
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._develop, name="photographs", daemon=True)
            self._thread.start()
        self._idle.clear()
        self._asked.set()

    def _copy_simulation(self) -> None:
        assert self._batch is not None
        if self._model is None:
            self._model = self._batch.get_model(0)
            self._data = mujoco.MjData(self._model)
        self._batch.get_model(0, self._model)
        self._batch.get_data(0, self._data)

    def _develop(self) -> None:
        renderer: Any = None
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._closed:
                return
            camera, image = self._wanted
            try:
                if image is None:
                    renderer = renderer or mujoco.Renderer(self._model, height=SIZE[1], width=SIZE[0])
                    image = self._drawn(renderer, camera)
                self._audience.show(Camera(camera, _jpeg(image)))
            except Exception as problem:  # every way of drawing fails in its own way; control goes on without pictures
                self._refuse(camera, f"{type(problem).__name__}: {problem}. {HOW_TO_DRAW}")
            self._idle.set()

    def _drawn(self, renderer: Any, camera: str) -> np.ndarray:
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        renderer.update_scene(self._data, camera)
        return renderer.render()

    def _refuse(self, camera: str, why: str) -> None:
        self._refused.add(camera)
        self._say(f"[ACTOR] no pictures of the camera '{camera}': {why}")

    def close(self) -> None:
        self._closed = True
        self._asked.set()
        if self._thread is not None:
            self._thread.join(2.0)


def _jpeg(image: np.ndarray) -> bytes:
    """At most the size of the view, and of a frame."""
    picture = Image.fromarray(image if image.shape[2] == 3 else np.repeat(image[..., :1], 3, axis=2))
    picture.thumbnail(SIZE)
    for quality in (QUALITY, QUALITY // 3):
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality)
        if buffer.tell() <= MAX_PICTURE:
            break
    return buffer.getvalue()

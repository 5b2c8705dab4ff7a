"""Pictures of a camera for people who watch, drawn and compressed in a thread of their own.

A camera is an image entry of the observation, or a camera of the simulation. The control loop copies the image or the simulation's state
(microseconds) and goes on; the thread does the rest. While it is busy no other picture is taken.

A machine without OpenGL can end the process that tries to draw, not only raise an error: before the first picture of a simulation
another process tries it, and where that fails no camera of the simulation is ever asked.

An environment without a MuJoCo simulation draws itself (`TaskEnv.render`). Only the thread that steps it may ask for that, so the control
loop waits for the picture, but spends no more than a small share of its time on pictures, and none at all on a robot's.
"""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from tandem.acting.view_stream import ViewSink
from tandem.envs import HOW_TO_DRAW
from tandem.envs.physics import Physics
from tandem.envs.scenery import OWN_PICTURE
from tandem.envs.task_env import TaskEnv
from tandem.errors import TandemError
from tandem.link.messages import MAX_PICTURE, Camera
from tandem.types import Observation

SIZE = (320, 240)
OWN_SHARE = 0.1
"""Share of the control loop's time that the pictures an environment draws of itself may take."""
QUALITY = 70
_TRY_DRAWING = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco/>")
renderer = mujoco.Renderer(model, 8, 8)
renderer.update_scene(mujoco.MjData(model))
renderer.render()
"""
_TRY_S = 60.0
_MOST_NAMES = 32
"""Unknown cameras whose names are remembered and said: names come from viewers, who may ask for any."""


_UNKNOWN = "there is no such image among the observations, and no such camera in a simulation"


class CannotDraw(Exception):
    """There is no OpenGL here, for no camera."""


class CameraStream:
    """`take` is called by the control loop; pictures arrive at the sink when they are ready."""

    def __init__(self, env: TaskEnv, sink: ViewSink, say: Callable[[str], None] = lambda line: None) -> None:
        self._env, self._sink, self._say = env, sink, say
        self._physics: Physics | None = None
        self._wanted: tuple[str, np.ndarray | None] = ("", None)
        self._idle, self._asked, self._closed = threading.Event(), threading.Event(), False
        self._idle.set()
        self._refused: dict[str, str] = {}
        """Cameras that give no pictures, and why."""
        self._cannot_draw = ""
        """Why no camera of the simulation can be drawn; empty if they can, or nobody has tried."""
        self._own_due = 0.0
        """When the environment may be asked for its next picture of itself."""
        self._thread: threading.Thread | None = None

    def take(self, camera: str, observation: Observation) -> str:
        """A picture of row 0 as it is now; none if the last one is not ready. Returns why this camera gives none, empty if it does."""
        known = camera in observation or camera in self._env.capabilities.cameras or camera == OWN_PICTURE
        if not known and len(self._refused) >= _MOST_NAMES:
            return _UNKNOWN
        if self._idle.is_set() and camera not in self._refused:
            try:
                self._take(camera, observation)
            except Exception as problem:  # whatever it is: no picture is a reason to end control
                self._refuse(camera, f"{type(problem).__name__}: {problem}")
        return self._refused.get(camera, "")

    def _take(self, camera: str, observation: Observation) -> None:
        image = observation.get(camera)
        if image is not None and image.dtype == np.uint8 and image.ndim == 3:
            self._wanted = (camera, image.copy())
        elif camera in self._env.capabilities.cameras and self._cannot_draw:
            self._refuse(camera, self._cannot_draw)
            return
        elif camera in self._env.capabilities.cameras:
            self._physics = self._physics or self._env.physics()
            assert self._physics is not None
            self._physics.update()
            self._wanted = (camera, None)
        elif camera == OWN_PICTURE and self._env.capabilities.renders:
            picture = self._own_picture()
            if picture is None:
                return
            self._wanted = (camera, picture)
        else:
            self._refuse(camera, _UNKNOWN)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="camera stream", daemon=True)
            self._thread.start()
        self._idle.clear()
        self._asked.set()

    def _own_picture(self) -> np.ndarray | None:
        """None if it is too early for another one, or there is none."""
        began = time.monotonic()
        if began < self._own_due:
            return None
        if self._env.capabilities.clock == "real":
            self._refuse(OWN_PICTURE, "it would have to be drawn by the thread that controls the robot, which must not wait")
            return None
        try:
            picture = np.array(self._env.render())
            Image.fromarray(picture)
        except Exception as problem:  # as in `_work`
            self._refuse(OWN_PICTURE, str(problem) if isinstance(problem, TandemError) else f"{type(problem).__name__}: {problem}")
            return None
        now = time.monotonic()
        self._own_due = now + (now - began) * (1 / OWN_SHARE - 1)
        return picture

    def _work(self) -> None:
        renderer: Any = None
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._closed:
                return
            camera, image = self._wanted
            try:
                if image is None:
                    assert self._physics is not None
                    renderer = renderer or _new_renderer(self._physics)
                    renderer.update_scene(self._physics.data, camera)
                    image = renderer.render()
                self._sink.show(Camera(camera, jpeg(image)))
            except CannotDraw as problem:
                self._cannot_draw = f"{problem}. {HOW_TO_DRAW}"
                self._refuse(camera, self._cannot_draw)
            except Exception as problem:  # every way of drawing fails in its own way; control goes on without pictures
                self._refuse(camera, f"{type(problem).__name__}: {problem}. {HOW_TO_DRAW}")
            self._idle.set()

    def _refuse(self, camera: str, why: str) -> None:
        self._refused[camera] = why
        self._say(f"[ACTOR] no pictures of the camera {camera!r:.100}: {why}")

    def close(self) -> None:
        self._closed = True
        self._asked.set()
        if self._thread is not None:
            self._thread.join(2.0)


def _new_renderer(physics: Physics) -> Any:
    """A renderer of this simulation, once another process has drawn a picture here."""
    tried = subprocess.run([sys.executable, "-P", "-c", _TRY_DRAWING], capture_output=True, text=True, timeout=_TRY_S)
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise CannotDraw(f"nothing can be drawn on this machine ({said[:300]})")
    import mujoco  # only a simulation of its own needs it

    try:
        return mujoco.Renderer(physics.model, height=SIZE[1], width=SIZE[0])
    except Exception as problem:
        raise CannotDraw(f"{type(problem).__name__}: {problem}") from problem  # a second attempt could end the process


def jpeg(image: np.ndarray) -> bytes:
    """At most the size of the view, and of a frame."""
    picture = Image.fromarray(image if image.shape[2] == 3 else np.repeat(image[..., :1], 3, axis=2))
    picture.thumbnail(SIZE)
    for quality in (QUALITY, QUALITY // 3):
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality)
        if buffer.tell() <= MAX_PICTURE:
            break
    return buffer.getvalue()

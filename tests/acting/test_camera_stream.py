"""Pictures are taken beside the control loop, of what there is to see, and never a reason to stop."""

import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from PIL import Image

from tandem.acting.camera_stream import OWN_SHARE, CameraStream
from tandem.envs.foreign import GymnasiumEnv
from tandem.envs.registry import make_env
from tandem.envs.scenery import OWN_PICTURE, Scenery
from tandem.link.messages import Camera
from tests.drawing import drawing  # noqa: F401  a fixture
from tests.waiting import wait_for

PICTURE = np.zeros((30, 40, 3), np.uint8)
PICTURE[:, 20:] = 255


class Audience:
    def __init__(self) -> None:
        self.seen: list[Camera] = []

    def show(self, seen) -> None:
        self.seen.append(seen)


def test_an_image_among_the_observations_is_shown_as_it_is() -> None:
    audience, lines = Audience(), []
    photographs = CameraStream(make_env("Pendulum-v1"), audience, lines.append)
    wrist = np.zeros((128, 128, 3), np.uint8)
    wrist[:, 64:] = 255
    photographs.take("wrist", {"wrist": wrist})
    wait_for(lambda: audience.seen, what="a picture")
    photographs.take("ceiling", {"wrist": wrist})
    photographs.take("ceiling", {"wrist": wrist})
    photographs.close()
    picture = np.asarray(Image.open(io.BytesIO(audience.seen[0].picture)))
    assert audience.seen[0].name == "wrist" and picture.shape == (128, 128, 3)
    assert picture[:, :50].mean() < 5 and picture[:, 78:].mean() > 250
    assert len(lines) == 1 and "no pictures of the camera 'ceiling'" in lines[0], "said once"


class Drawn(gymnasium.Env):
    """Draws a picture of itself, without MuJoCo; `render` may be slow, or fail."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, render_mode: str | None = None, seconds: float = 0.0, picture: Any = PICTURE) -> None:
        self.render_mode, self.seconds, self.picture = render_mode, seconds, picture
        self.drawn: list[str] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def render(self) -> Any:
        self.drawn.append(threading.current_thread().name)
        time.sleep(self.seconds)
        if isinstance(self.picture, Exception):
            raise self.picture
        return self.picture


def stream(drawn: Drawn, lines: list[str] | None = None) -> tuple[CameraStream, Audience]:
    audience = Audience()
    return CameraStream(GymnasiumEnv("drawn", [drawn]), audience, [].append if lines is None else lines.append), audience


def test_an_environment_without_a_simulation_shows_its_own_picture() -> None:
    env = Drawn("rgb_array")
    assert Scenery(GymnasiumEnv("drawn", [env]), ["x"]).description()["cameras"] == [OWN_PICTURE]
    pictures, audience = stream(env)
    assert pictures.take(OWN_PICTURE, {}) == ""
    wait_for(lambda: audience.seen, what="a picture")
    pictures.close()
    picture = np.asarray(Image.open(io.BytesIO(audience.seen[0].picture)))
    assert picture.shape == (30, 40, 3) and picture[:, 5].mean() < 10 and picture[:, 35].mean() > 245
    assert env.drawn == [threading.current_thread().name], "an environment is drawn by the thread that steps it"


def test_own_pictures_take_a_small_share_of_the_control_loop() -> None:
    env = Drawn("rgb_array", seconds=0.03)
    pictures, audience = stream(env)
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        pictures.take(OWN_PICTURE, {})
        time.sleep(0.005)
    pictures.close()
    assert 2 <= len(env.drawn) <= 1.0 * OWN_SHARE / 0.03 + 1 and audience.seen


@pytest.mark.parametrize("picture", [ValueError("no display"), [PICTURE, PICTURE], np.zeros((3, 3), np.complex64)])
def test_an_environment_that_cannot_draw_itself_is_asked_once(picture: Any) -> None:
    lines: list[str] = []
    env = Drawn("rgb_array", picture=picture)
    pictures, audience = stream(env, lines)
    reasons = {pictures.take(OWN_PICTURE, {}) for _ in range(3)}
    pictures.close()
    assert len(reasons) == 1 and lines[0].endswith(reasons.pop()), "the reason is there for a page too"
    assert len(env.drawn) == len(lines) == 1 and "no pictures of the camera 'own picture'" in lines[0] and not audience.seen


def test_a_robot_is_never_made_to_wait_for_its_picture() -> None:
    lines: list[str] = []
    env = Drawn("rgb_array")
    env.metadata = {**env.metadata, "clock": "real"}
    pictures, _ = stream(env, lines)
    pictures.take(OWN_PICTURE, {})
    pictures.close()
    assert not env.drawn and "must not wait" in lines[0]


class Blind(Drawn):
    """Declares pictures and cannot be made with them on this machine."""

    def __init__(self, render_mode: str | None = None) -> None:
        if render_mode is not None:
            raise RuntimeError("no graphics here")
        super().__init__(render_mode)


class Plain(Drawn):
    """Declares none, and does not take the argument."""

    metadata = {"render_modes": [], "render_fps": 10}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(None)


def by_function(render_mode: str | None = None) -> gymnasium.Env:
    return Drawn(render_mode)


@pytest.mark.parametrize(("entry", "draws"), [(Drawn, True), (by_function, True), (Blind, False), (Plain, False)])
def test_the_robot_that_people_watch_is_made_so_that_it_draws_itself_if_it_can(entry: Any, draws: bool) -> None:
    gymnasium.register("Watched-v0", entry_point=entry, disable_env_checker=True)
    try:
        env = make_env("Watched-v0", 2, watched=True)
        assert isinstance(env, GymnasiumEnv) and env.capabilities.renders == draws and env.num_envs == 2
        assert env.bare(0).render_mode == ("rgb_array" if draws else None) and env.bare(1).render_mode is None
        assert not make_env("Watched-v0").capabilities.renders, "nobody pays for pictures who does not watch"
    finally:
        gymnasium.registry.pop("Watched-v0")


_DRAW = """
import io, sys, time
import numpy as np
from PIL import Image
from tandem.envs.registry import make_env
from tandem.acting.camera_stream import CameraStream
class Audience:
    seen = []
    def show(self, seen): self.seen.append(seen)
env = make_env("reach")
env.reset(seeds=[0])
photographs = CameraStream(env, Audience(), print)
began = time.perf_counter()
photographs.take("front", {})
took = time.perf_counter() - began
until = time.monotonic() + 20
while not Audience.seen and time.monotonic() < until: time.sleep(0.01)
photographs.close()
picture = np.asarray(Image.open(io.BytesIO(Audience.seen[0].picture)))
assert picture.shape == (240, 320, 3) and picture.std() > 10, picture.shape
assert took < 0.02, took
"""


def test_a_camera_of_the_simulation_is_drawn_beside_the_loop(drawing: dict[str, str], tmp_path: Path) -> None:  # noqa: F811
    done = subprocess.run([sys.executable, "-c", _DRAW], env={**os.environ, **drawing}, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout


_TWO_CAMERAS = """
import time
from tandem.envs.registry import make_env
from tandem.acting.camera_stream import CameraStream
env = make_env("gear_assembly")
env.reset(seeds=[0])
first, second = env.capabilities.cameras[:2]
stream = CameraStream(env, None)
def refused(camera):
    until = time.monotonic() + 30
    while not stream.take(camera, {}) and time.monotonic() < until: time.sleep(0.01)
    return stream.take(camera, {})
assert "nothing can be drawn" in refused(first), refused(first)
assert "nothing can be drawn" in refused(second), refused(second)
env.step(env.batch.single_action_space.sample()[None])
stream.close()
"""


def test_a_second_camera_does_not_end_an_actor_that_cannot_draw(tmp_path: Path) -> None:
    """Without OpenGL the first picture raises an error; drawing after that ended the process (SIGABRT)."""
    blind = {**os.environ, "MUJOCO_GL": "glfw", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    done = subprocess.run([sys.executable, "-c", _TWO_CAMERAS], env=blind, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout


def test_names_of_cameras_that_nobody_has_are_bounded_and_cannot_forge_lines() -> None:
    lines: list[str] = []
    pictures = CameraStream(make_env("Pendulum-v1"), Audience(), lines.append)
    reasons = {pictures.take(f"camera {number}\n[ACTOR] resume", {}) for number in range(100)}
    pictures.close()
    assert reasons == {"there is no such image among the observations, and no such camera in a simulation"}
    assert len(lines) <= 32 and not any("\n" in line for line in lines)


def test_a_picture_that_cannot_be_taken_does_not_end_control(monkeypatch: pytest.MonkeyPatch) -> None:
    env = make_env("reach")
    monkeypatch.setattr(env, "physics", lambda: 1 / 0)
    pictures = CameraStream(env, Audience())
    assert "ZeroDivisionError" in pictures.take("front", {})
    pictures.close()

"""Pictures are taken beside the control loop, of what there is to see, and never a reason to stop."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from tandem.acting.camera_stream import CameraStream
from tandem.envs.registry import make_env
from tandem.link.messages import Camera
from tests.drawing import drawing  # noqa: F401  a fixture
from tests.waiting import wait_for


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

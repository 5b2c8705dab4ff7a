"""Pictures show what is there, row by row, and looking changes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tandem.envs.batch import BatchEnv
from tandem.envs.reach import Reach
from tandem.envs.rendering import Camera
from tandem.errors import ConfigError
from tests.drawing import drawing  # noqa: F401  a fixture

DRAW = """
import sys
import numpy as np
from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.rendering import Camera
from tandem.envs.registry import make

env, unseen = (BatchEnv(GearAssembly(), 2) for _ in range(2))
for each in (env, unseen):
    each.reset(seed=0)
camera = Camera(env.batch, "close", (160, 120))
taken = {"first": camera.picture(0), "second": camera.picture(1), "first_again": camera.picture(0)}
action = np.full((2, 6), 0.5)
for step in range(4):
    after, *_ = env.step(action)
    taken["moved"] = camera.picture(0)
    undisturbed, *_ = unseen.step(action)
camera.close()
taken["large"] = Camera(env.batch, size=(2000, 8)).picture(0)
taken["lived"] = np.concatenate([values.ravel() for values in after.values()])
taken["lived_unseen"] = np.concatenate([values.ravel() for values in undisturbed.values()])
reach = make("reach", render_mode="rgb_array", size=(160, 120))
reach.reset(seed=4)
taken["ball"] = reach.render()
reach.close()
np.savez(sys.argv[1], **taken)
"""


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory, drawing: dict[str, str]) -> dict[str, np.ndarray]:  # noqa: F811
    """Drawn in a process of its own: MuJoCo chooses its OpenGL when it is imported."""
    path: Path = tmp_path_factory.mktemp("pictures") / "taken.npz"
    done = subprocess.run([sys.executable, "-c", DRAW, path], env={**os.environ, **drawing}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(path) as arrays:
        return dict(arrays)


def share(picture: np.ndarray, *, strong: int, weak: int) -> float:
    """Of the pixels whose channel `strong` is well above the channel `weak`."""
    pixels = picture.astype(int)
    return float((pixels[..., strong] > 1.6 * pixels[..., weak] + 30).mean())


def test_a_picture_has_the_size_asked_for_and_shows_the_gears(taken: dict[str, np.ndarray]) -> None:
    picture = taken["first"]
    assert picture.shape == (120, 160, 3) and picture.dtype == np.uint8
    assert share(picture, strong=0, weak=2) > 0.005, "the held gear is orange"
    assert share(picture, strong=2, weak=0) > 0.01, "the mounted gears are blue"


def test_the_ball_of_reach_is_in_the_picture(taken: dict[str, np.ndarray]) -> None:
    pixels = taken["ball"].astype(int)
    assert ((pixels[..., 1] > 1.5 * pixels[..., 0] + 20) & (pixels[..., 1] > 1.5 * pixels[..., 2] + 20)).any(), "it is green"


def test_two_rows_look_different_and_one_row_always_the_same(taken: dict[str, np.ndarray]) -> None:
    assert not np.array_equal(taken["first"], taken["second"])
    assert np.array_equal(taken["first"], taken["first_again"])


def test_motion_is_seen(taken: dict[str, np.ndarray]) -> None:
    assert not np.array_equal(taken["first"], taken["moved"])


def test_looking_changes_nothing(taken: dict[str, np.ndarray]) -> None:
    assert np.array_equal(taken["lived"], taken["lived_unseen"])


def test_a_picture_may_be_larger_than_the_models_own_buffer(taken: dict[str, np.ndarray]) -> None:
    assert taken["large"].shape == (8, 2000, 3)


@pytest.mark.parametrize("size", [(0, 10), (10, -1)])
def test_a_picture_without_pixels_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match=f"got {size[0]} x {size[1]}"):
        Camera(BatchEnv(Reach(), 1).batch, size=size)

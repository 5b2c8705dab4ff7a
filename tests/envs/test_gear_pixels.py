"""The gear task by eye: the same episodes as by touch, and pictures of what matters."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tandem.envs.gear_assembly.pixels import CAMERAS, GearAssemblyPixels
from tandem.envs.registry import make_env
from tandem.errors import RenderingUnavailable
from tandem.types import Spec
from tests.drawing import drawing  # noqa: F401  a fixture

LOOK = """
import sys
import mujoco
import numpy as np
from gymnasium.vector import AutoresetMode
from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.gear_assembly.pixels import CAMERAS, GearAssemblyPixels, pixel_expert
from tandem.envs.registry import make_env

STARTS = 20
taken = {}
env, known = make_env("gear_assembly_pixels", STARTS, num_threads=1), make_env("gear_assembly", STARTS, num_threads=1)
for name, each in (("seen", env), ("known", known)):
    taken |= {f"{name}/{entry}": values for entry, values in each.reset(seeds=list(range(STARTS))).items()}
    task = each.batch.task
    taken[f"{name}/place"] = (task.gears if name == "seen" else task).true_place(slice(None))

# where the tip of the peg is in each picture, as a share of its width and height from the middle
data = mujoco.MjData(env.batch.model)
for name in CAMERAS:
    tips = []
    for row in range(STARTS):
        model = env.batch.batch.get_model(row)
        env.batch.batch.get_data(row, data)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_camlight(model, data)
        camera, board = model.camera(name).id, model.body("board").id
        tip = data.xpos[board] + data.xmat[board].reshape(3, 3) @ [0, 0, 0.0205]
        x, y, z = data.cam_xmat[camera].reshape(3, 3).T @ (tip - data.cam_xpos[camera])
        half = np.tan(np.radians(model.cam_fovy[camera]) / 2)
        tips.append([x / -z / half, y / -z / half])
    taken[f"tip/{name}"] = np.array(tips)

alone = make_env("gear_assembly_pixels", 1)
taken |= {f"alone/{entry}": values for entry, values in alone.reset(seeds=[3]).items()}
script = pixel_expert(0)
observation = {entry: values[0] for entry, values in alone.reset(seeds=[3]).items()}
for step in range(12):
    observation = {entry: values[0] for entry, values in alone.step(script.decide(observation)[0][None]).observation.items()}
kept = alone.state()
after = [alone.step(np.full((1, 6), 0.2)).observation for _ in range(2)][-1]
alone.restore(kept)
again = [alone.step(np.full((1, 6), 0.2)).observation for _ in range(2)][-1]
taken |= {f"after/{entry}": values for entry, values in after.items()} | {f"again/{entry}": values for entry, values in again.items()}

batch = BatchEnv(GearAssemblyPixels(), 1, autoreset=AutoresetMode.SAME_STEP)
batch.reset(seed=0)
batch.set_elapsed(np.array([99]))
first, _, _, truncated, info = batch.step(np.zeros((1, 6)))
assert truncated[0]
taken["ended"], taken["begun"] = info["final_obs"]["wrist_left"], first["wrist_left"]
moved = make_env("gear_assembly_pixels_moved", 2)
taken |= {f"moved/{entry}": values for entry, values in moved.reset(seeds=[3, 4]).items()}
taken["moved/place"] = moved.batch.task.gears.true_place(slice(None))
kept = moved.state()
taken["moved/then"] = moved.step(np.zeros((2, 6))).observation["wrist_left"]
moved.reset(seeds=[5, 6])
moved.restore(kept)
taken["moved/then_again"] = moved.step(np.zeros((2, 6))).observation["wrist_left"]
for each in (env, alone, batch, moved):
    each.close()
np.savez(sys.argv[1], **taken)
"""


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory, drawing: dict[str, str]) -> dict[str, np.ndarray]:  # noqa: F811
    """Drawn in a process of its own: MuJoCo chooses its OpenGL when it is imported."""
    path: Path = tmp_path_factory.mktemp("pixels") / "taken.npz"
    done = subprocess.run([sys.executable, "-c", LOOK, path], env={**os.environ, **drawing}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(path) as arrays:
        return dict(arrays)


def spec() -> Spec:
    return GearAssemblyPixels().spec


def test_nothing_that_a_learner_gets_says_where_the_board_is() -> None:
    """6 + 6 + 6 + 6 + 6 = 30 numbers of the robot's own, and two pictures."""
    felt = {name: entry.size for name, entry in spec().observation.items() if entry.role == "vector"}
    assert felt == dict.fromkeys(("tcp_pose", "tcp_velocity", "wrench", "command_offset", "previous_action"), 6)
    pictures = {name: entry.shape for name, entry in spec().observation.items() if entry.role == "image"}
    assert pictures == dict.fromkeys(CAMERAS, (128, 128, 3))
    hidden = {name for name, entry in spec().observation.items() if entry.role == "privileged"}
    assert hidden == {"measured_pose", "measured_yaw", "gear_phase"}


def test_episodes_are_those_of_the_task_by_touch(taken: dict[str, np.ndarray]) -> None:
    """The same seeds draw the same boards, starts and errors of measurement; only the frame is another."""
    assert np.array_equal(taken["seen/place"], taken["known/place"])
    assert np.abs(taken["seen/measured_pose"] - taken["known/tcp_pose"]).max() < 1e-6
    assert np.abs(taken["seen/gear_phase"] - taken["known/gear_phase"]).max() < 1e-5
    assert np.array_equal(taken["seen/wrench"], taken["known/wrench"])


def test_pose_and_board_are_independent_of_each_other_in_what_is_felt(taken: dict[str, np.ndarray]) -> None:
    """In the base's frame the tool is 20 mm off where the board is, in the measured one it is not."""
    assert np.abs(taken["seen/tcp_pose"][:, :2] - taken["known/tcp_pose"][:, :2]).max() > 0.01


@pytest.mark.parametrize("camera", CAMERAS)
def test_the_tip_of_the_peg_is_in_the_picture_at_every_start(taken: dict[str, np.ndarray], camera: str) -> None:
    assert np.abs(taken[f"tip/{camera}"]).max() < 0.95


@pytest.mark.parametrize("camera", CAMERAS)
def test_pictures_show_the_gear_in_the_hand_and_differ_from_row_to_row(taken: dict[str, np.ndarray], camera: str) -> None:
    pictures = taken[f"seen/{camera}"]
    assert pictures.dtype == np.uint8 and pictures.shape == (20, 128, 128, 3)
    red, _, blue = np.moveaxis(pictures.astype(int), -1, 0)
    orange = (red > 1.6 * blue + 30).mean(axis=(1, 2))
    assert (orange > 0.03).all(), "the held gear is orange"
    assert (np.abs(pictures[1:].astype(int) - pictures[:-1]).mean(axis=(1, 2, 3)) > 1).all()
    assert not np.array_equal(taken["seen/wrist_left"], taken["seen/wrist_right"])


def test_a_row_looks_the_same_alone_as_among_others(taken: dict[str, np.ndarray]) -> None:
    assert np.array_equal(taken["alone/wrist_left"][0], taken["seen/wrist_left"][3])


def test_a_simulation_goes_on_with_the_same_pictures_after_it_was_restored(taken: dict[str, np.ndarray]) -> None:
    names = [name.removeprefix("after/") for name in taken if name.startswith("after/")]
    assert set(names) == set(spec().observation)
    assert all(np.array_equal(taken[f"after/{name}"], taken[f"again/{name}"]) for name in names)


def test_the_last_picture_of_an_episode_is_drawn_before_its_row_is_reset(taken: dict[str, np.ndarray]) -> None:
    assert np.abs(taken["ended"].astype(int) - taken["begun"]).mean() > 1


def test_cameras_light_and_colours_differ_from_episode_to_episode_and_nothing_else(taken: dict[str, np.ndarray]) -> None:
    usual, moved = taken["seen/wrist_left"][3:5].astype(int), taken["moved/wrist_left"].astype(int)
    assert np.array_equal(taken["moved/place"], taken["seen/place"][3:5]) and np.array_equal(
        taken["moved/wrench"], taken["seen/wrench"][3:5]
    )
    assert (np.abs(moved - usual).mean(axis=(1, 2, 3)) > 3).all()
    assert np.array_equal(taken["moved/then"], taken["moved/then_again"]), "looks are part of the state"


def test_without_opengl_the_error_says_what_to_install() -> None:
    code = """
import numpy as np, mujoco
from tandem.envs.registry import make_env
env = make_env("gear_assembly_pixels")
try:
    env.reset()
except Exception as problem:
    print(type(problem).__name__, problem)
"""
    variables = {**os.environ, "MUJOCO_GL": "glfw", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=variables, capture_output=True, text=True)
    assert done.stdout.startswith(RenderingUnavailable.__name__) and "MUJOCO_GL=egl" in done.stdout, done.stdout + done.stderr


def test_making_the_environment_does_not_draw() -> None:
    """A hub or a learner asks for the spec of a task on machines without OpenGL."""
    env = make_env("gear_assembly_pixels")
    assert env.spec.hash == spec().hash
    env.close()

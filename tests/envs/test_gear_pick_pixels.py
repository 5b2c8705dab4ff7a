"""The whole gear assembly by eye: the same episodes as by touch, a demonstrator, and cameras that see what matters at every stage."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tandem.envs.gear_pick.pixels import CAMERAS, ON_THE_HAND, OVERVIEW, GearPickPixels, pick_pixel_corrector
from tandem.envs.gear_pick.stages import STAGES
from tandem.errors import ConfigError
from tests.drawing import drawing  # noqa: F401  a fixture

LOOK = """
import sys
import mujoco
import numpy as np
from tandem.envs.gear_pick.pixels import CAMERAS
from tandem.envs.gear_pick.stages import stage
from tandem.envs.registry import make_env, make_expert

TASK = "gear_pick_assembly_pixels_threeway"
env, known = (make_env(name, 1) for name in (TASK, "gear_pick_assembly_threeway"))
seen, felt = env.reset(seeds=[3]), known.reset(seeds=[3])
taken = {f"seen/{name}": values for name, values in seen.items()} | {f"felt/{name}": values for name, values in felt.items()}
data = mujoco.MjData(env.batch.model)


def places():
    '''Of the gear's hub and of the peg's tip in every picture, from the middle (0) to its edge (1).'''
    model = env.batch.batch.get_model(0)
    env.batch.batch.get_data(0, data)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_camlight(model, data)
    found = []
    for name in CAMERAS:
        camera, half = model.camera(name).id, np.tan(np.radians(model.cam_fovy[model.camera(name).id]) / 2)
        for body, height in (("gear", 0.012), ("board", 0.0205)):
            number = model.body(body).id
            point = data.xpos[number] + data.xmat[number].reshape(3, 3) @ [0, 0, height]
            x, y, z = data.cam_xmat[camera].reshape(3, 3).T @ (point - data.cam_xpos[camera])
            found.append(max(abs(x), abs(y)) / -z / half if z < 0 else np.inf)
    return found


script, at, stages, done = make_expert(TASK, 3), [], [], False
script.reset()
observation = {name: values[0] for name, values in seen.items()}
while not done:
    measured = {"tcp_pose": "measured_pose", "gear_offset": "gear_offset", "gripper": "gripper"}
    stages.append(int(stage({name: observation[entry][None] for name, entry in measured.items()})[0]))
    at.append(places())
    step = env.step(script.decide(observation)[0][None])
    observation, done = {name: values[0] for name, values in step.observation.items()}, bool(step.ended[0])
taken |= {"places": np.array(at), "stages": np.array(stages), "success": step.success, "last": observation["overview"]}
taken |= {f"last/{name}": observation[name] for name in ("true_pose", "true_phase", "measured_pose", "gear_offset")}
env.close()
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


def test_nothing_that_a_learner_gets_says_where_gear_or_board_are() -> None:
    spec = GearPickPixels("three-way").spec
    roles = {role: {name for name, entry in spec.observation.items() if entry.role == role} for role in ("vector", "image", "privileged")}
    assert roles["image"] == set(CAMERAS)
    assert roles["vector"] == {"tcp_pose", "tcp_place", "tcp_velocity", "wrench", "command_offset", "previous_action", "gripper"}
    measured = {"measured_pose", "measured_yaw", "gear_offset", "gear_place", "gear_tilt", "gear_phase"}
    assert roles["privileged"] == measured | {"true_pose", "true_place", "true_yaw", "true_phase"}
    hidden = {worse for entry in spec.observation.values() for worse in entry.in_place_of}
    assert hidden == {"tcp_pose", "tcp_place", "measured_pose", "measured_yaw", "gear_phase"}, "critics see each of these once, as it is"
    assert spec.task == "gear_pick_assembly_pixels_threeway"


def test_episodes_are_those_of_the_task_by_touch(taken: dict[str, np.ndarray]) -> None:
    for entry, same in (("measured_pose", "tcp_pose"), ("gear_offset", "gear_offset"), ("gear_phase", "gear_phase"), ("wrench", "wrench")):
        assert np.abs(taken[f"seen/{entry}"] - taken[f"felt/{same}"]).max() < 1e-5, entry
    assert np.abs(taken["seen/tcp_pose"] - taken["felt/tcp_pose"]).max() > 1e-3, "the board's place is in one of them only"


def test_the_true_pose_is_where_the_board_is_and_not_where_it_was_measured(taken: dict[str, np.ndarray]) -> None:
    error = taken["seen/true_pose"] - taken["seen/measured_pose"]
    assert 1e-5 < np.hypot(*error[0, :2]) < 7e-3, "2.8 mm at most, and what one degree of yaw makes of the way to the board"
    np.testing.assert_allclose(taken["seen/true_place"], taken["seen/true_pose"][:, :3], atol=1e-6)
    # a gear that is seated and meshes is at the true seat, and no angle is left to the next mesh
    place = taken["last/true_pose"][:2] + taken["last/gear_offset"][:2]
    assert np.hypot(*place) < 2.5e-3 and taken["last/true_phase"][1] > 0.7, (place, taken["last/true_phase"])


def test_the_demonstrator_does_the_whole_task(taken: dict[str, np.ndarray]) -> None:
    assert taken["success"].all() and set(taken["stages"].tolist()) == set(range(len(STAGES)))


def test_the_overview_sees_gear_and_peg_at_every_stage_and_the_hand_what_it_works_on(taken: dict[str, np.ndarray]) -> None:
    places = taken["places"].reshape(len(taken["stages"]), len(CAMERAS), 2)
    assert places[:, CAMERAS.index(OVERVIEW)].max() < 0.95
    on_the_hand, gear, tip = [CAMERAS.index(name) for name in ON_THE_HAND], 0, 1
    held, over = taken["stages"] >= STAGES.index("lift"), taken["stages"] == STAGES.index("insert")
    assert places[held][:, on_the_hand, gear].max() < 0.95 and places[over][:, on_the_hand, tip].max() < 0.95
    for name in CAMERAS:
        assert taken[f"seen/{name}"].std() > 10 and taken[f"seen/{name}"].shape == (1, 128, 128, 3)
    assert np.abs(taken["last"].astype(int) - taken[f"seen/{OVERVIEW}"][0]).mean() > 1


def test_a_script_without_what_was_measured_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="record with --operator scripted"):
        pick_pixel_corrector("absolute", 0).decide({"tcp_pose": np.zeros(6, np.float32)})

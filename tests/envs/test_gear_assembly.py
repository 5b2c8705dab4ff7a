"""Contact decides: what fits goes in, what does not stays out, and what is hidden stays hidden."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from benchmarks.gear_calibration import at_true_pose, insert_at, press, run
from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.gear_assembly.board import meshing_angle
from tandem.envs.gear_assembly.expert import GearExpert
from tandem.envs.gear_assembly.scene import NEIGHBOURS, PITCH
from tandem.envs.gear_assembly.task import CONTROL, MM, GearOptions
from tandem.envs.registry import make, make_env, make_expert
from tandem.layouts import ActionLayout
from tandem.programs.record import play_episode

KNOWN = GearOptions(measured_xy_error=0, measured_z_error=0, measured_yaw_error=0, measured_phase_error=0)


@pytest.fixture(scope="module")
def seated() -> BatchEnv:
    """Eight gears straight on their pegs."""
    env = BatchEnv(GearAssembly(KNOWN), 8, autoreset=AutoresetMode.DISABLED)
    observation, _ = env.reset(seed=0)
    controller = insert_at(np.zeros((8, 2)), np.zeros(8))
    success = np.zeros(8, bool)
    for _ in range(40):
        observation, reward, terminated, _, info = env.step(controller(observation))
        assert np.array_equal(reward, info["success"].astype(float)) and np.array_equal(terminated, info["success"])
        success |= info["success"]
    assert success.all()
    return env


def test_at_the_true_pose_it_goes_straight_in_with_reward_one_and_the_end_of_the_episode(seated: BatchEnv) -> None:
    place = seated.task.true_place(slice(None))  # pyright: ignore[reportAttributeAccessIssue]
    assert (place[:, 2] < 1.5 * MM).all() and (np.hypot(place[:, 0], place[:, 1]) < 0.5 * MM).all()


def test_hidden_errors_are_all_that_stands_between_the_measured_and_the_true_pose() -> None:
    success, _ = run(GearAssembly(), 16, at_true_pose, seed=500)
    assert success.all()


@pytest.mark.parametrize(("offset", "phase"), [(2.2 * MM, 0.0), (0.0, 0.375 * PITCH)])
def test_full_force_does_not_seat_what_does_not_fit(offset: float, phase: float) -> None:
    assert not press(offset, phase, 16).any()


def test_meshed_gears_turn_each_other(seated: BatchEnv) -> None:
    """The held gear turned by an angle turns both neighbours by the same angle the other way, less the backlash."""
    task = seated.task
    assert isinstance(task, GearAssembly)
    qpos, addresses = seated.batch.bind("qpos"), [seated.model.joint(f"neighbour{i}").qposadr[0] for i in range(2)]

    inwards = -np.sign(task.control.pose[:, 5])  # away from the limit of the workspace

    def turn() -> tuple[np.ndarray, np.ndarray]:
        action = np.zeros((8, 6))
        action[:, 5] = 0.6 * inwards
        for _ in range(6):
            task.advance(slice(None), action, seated.streams)
        return task.control.pose[:, 5].copy(), qpos[:, addresses].copy()

    turn()  # takes up the backlash
    yaw, angles = turn()
    further_yaw, further_angles = turn()
    turned, followed = further_yaw - yaw, further_angles - angles
    assert (np.abs(turned) > 0.1).all()
    ratio = followed / turned[:, None]
    # boxes are no involutes: over half a pitch the ratio swings, over all of them it is that of equal numbers of teeth
    assert np.allclose(ratio, -1.0, atol=0.15) and np.isclose(ratio.mean(), -1.0, atol=0.03)


def test_meshing_angle_puts_a_gap_where_the_tooth_is() -> None:
    """By hand: the held gear at yaw 0 has a tooth pointing at +y (16 teeth, the fourth). The neighbour there must show a gap
    towards -y: its teeth at angle + k * pitch are then half a pitch away from -90 degrees."""
    for phase in (0.0, 0.1, -0.15):
        for x, y in NEIGHBOURS:
            direction = np.arctan2(y, x)
            tooth = (phase - direction + PITCH / 2) % PITCH - PITCH / 2  # of the held gear, from the line of centres
            other = (meshing_angle(phase, direction) - direction - np.pi + PITCH / 2) % PITCH - PITCH / 2
            assert np.isclose(abs(tooth + other), PITCH / 2)


def test_the_wrench_points_from_the_world_to_the_gear() -> None:
    env = BatchEnv(GearAssembly(KNOWN), 1, autoreset=AutoresetMode.DISABLED)
    observation, _ = env.reset(seed=3)
    free = observation["wrench"]
    assert np.abs(free[0, :3]).max() < 2.0, "tared: the gear's own weight is not felt"
    controller = insert_at(np.array([[3 * MM, 0.0]]), np.zeros(1))
    for _ in range(30):
        observation, *_ = env.step(controller(observation))
    # pressed onto the tip of the peg, which is 3 mm to the -x side of the bore: pushed up, torque about +y
    force, torque = observation["wrench"][0, :3], observation["wrench"][0, 3:]
    assert force[2] > 8.0
    lever = -torque[1] / force[2]
    assert -9 * MM < lever < -1 * MM or torque[1] > 0.01


def test_what_is_hidden_does_not_show_before_contact() -> None:
    """Two worlds that differ only in the hidden error look the same from the measured frame."""
    first, second = GearAssembly(), GearAssembly()
    a, b = BatchEnv(first, 1), BatchEnv(second, 1)
    a.reset(seed=9), b.reset(seed=9)
    assert np.abs(first.board.measured_error).max() > 0 and np.array_equal(first.board.measured_error, second.board.measured_error)
    assert not any("error" in name or "true" in name for name in first.spec.observation)
    seen = np.concatenate([v.ravel() for v in a.step(np.zeros((1, 6)))[0].values()])
    assert not np.isin(np.float32(first.board.measured_error[0]), seen).any()


def test_hidden_errors_stay_in_their_ranges_and_fill_them() -> None:
    task = GearAssembly()
    BatchEnv(task, 400).reset(seed=0)
    options, error = task.options, task.board.measured_error
    radius = np.hypot(error[:, 0], error[:, 1])
    assert radius.max() <= options.measured_xy_error
    # uniform in the disc: half of the points lie beyond 1/sqrt(2) of the radius
    assert 0.4 < (radius > options.measured_xy_error / np.sqrt(2)).mean() < 0.6
    assert np.abs(error[:, 2]).max() <= options.measured_z_error and np.abs(error[:, 3]).max() <= options.measured_yaw_error
    phase = task.memory()["measured_phase"] - task.board.phase + error[:, 3]
    assert 0.2 * PITCH < np.abs(phase).max() <= 0.25 * PITCH + 1e-12


def test_the_demonstrator_mostly_succeeds_by_searching() -> None:
    env, person = make_env("gear_assembly"), GearExpert(seed=1)
    episodes = [play_episode(env, person, seed) for seed in range(12)]
    succeeded = [episode for episode in episodes if episode[-1].success]
    assert len(succeeded) >= 8
    assert np.median([len(episode) for episode in succeeded]) > 25, "a search takes time"
    assert all(step.intervened for episode in episodes for step in episode)


def test_an_expert_is_the_same_person_for_the_same_seed() -> None:
    env = make("reach")
    episodes = [play_episode(make_env("gear_assembly"), GearExpert(seed=5), 2) for _ in range(2)]
    assert all(np.array_equal(a.action, b.action) for a, b in zip(*episodes, strict=True))
    assert env.action_space.shape == (3,)


def test_the_start_is_above_the_peg_and_inside_the_workspace() -> None:
    task = GearAssembly()
    observation, _ = BatchEnv(task, 300).reset(seed=1)
    pose = observation["tcp_pose"]
    assert (pose > np.array(CONTROL.workspace_low)).all() and (pose < np.array(CONTROL.workspace_high)).all()
    assert pose[:, 2].min() > task.geometry.peg_height + 15 * MM


# ---- the fine task


def test_an_action_of_the_fine_task_is_a_sixteenth() -> None:
    coarse, fine = make_env("gear_assembly"), make_env("gear_assembly_fine")
    moved = {}
    for name, env in (("coarse", coarse), ("fine", fine)):
        before = env.reset(seeds=[3])
        after = env.step(np.array([[0, 0, 1.0, 0, 0, 0]])).observation
        command = [(seen["tcp_pose"] + seen["command_offset"])[0, 2] for seen in (before, after)]
        moved[name] = command[1] - command[0]
    assert moved["coarse"] == pytest.approx(7 * MM, rel=1e-3) and moved["fine"] == pytest.approx(7 * MM / 16, rel=1e-2)
    assert {name: entry.shape for name, entry in coarse.spec.observation.items()} == {
        name: entry.shape for name, entry in fine.spec.observation.items()
    }
    assert fine.spec.max_episode_steps == 600 and fine.spec.return_range == (0.0, 1.0)
    np.testing.assert_allclose(ActionLayout.of(fine.spec).scales * 16, ActionLayout.of(coarse.spec).scales, rtol=1e-5)


def test_the_demonstrator_of_the_fine_task_takes_hundreds_of_actions() -> None:
    env, person = make_env("gear_assembly_fine"), make_expert("gear_assembly_fine", 1)
    episodes = [play_episode(env, person, seed) for seed in range(3)]
    succeeded = [len(episode) for episode in episodes if episode[-1].success]
    assert len(succeeded) >= 2 and np.mean(succeeded) > 120, succeeded
    assert np.abs([step.action for step in episodes[0]]).max() <= 1

"""Careful grasps hold and careless ones do not, a gear must be carried to its peg, and what is lost is lost."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from benchmarks.pick_calibration import at_true_pose, carried, grasp_off_by, letting_go, run
from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly.board import MM
from tandem.envs.gear_pick import GearPick
from tandem.envs.gear_pick.expert import PickCorrector, PickExpert, pick_distance
from tandem.envs.gear_pick.fine import fine_pick_corrector, fine_pick_expert, gear_pick_assembly_fine
from tandem.envs.gear_pick.scene import TABLE
from tandem.envs.gear_pick.task import CONTROL, DENSE, LOST, NAMES, PickOptions
from tandem.envs.gripper import MODES, Mode
from tandem.envs.registry import TASKS, make_batch, make_env
from tandem.envs.task import ALL
from tandem.layouts import ActionLayout
from tandem.on_policy.presets import PRESETS

OPEN = np.array([0, 0, 0, 0, 0, 0, 1.0])


def started(count: int = 2, **options) -> tuple[BatchEnv, GearPick]:
    task = GearPick(**options)
    env = BatchEnv(task, count, autoreset=AutoresetMode.DISABLED)
    env.reset(seed=11)
    return env, task


def put(env: BatchEnv, *place: float, turn: tuple[float, ...] = (1, 0, 0, 0)) -> None:
    """The gear at a place over the seat, along the world's axes, at rest."""
    joint, seats = int(env.model.joint("gear").qposadr[0]), env.batch.bind("site_xpos")
    env.batch.forward()
    where = seats[:, env.model.site("seat").id] + np.array(place)
    env.batch.bind("qpos")[:, joint : joint + 7] = np.concatenate([where, np.tile(turn, (env.num_envs, 1))], axis=1)
    env.batch.forward()


def test_a_careful_grasp_lifts_the_gear() -> None:
    success, length = run(GearPick("lift"), 6, carried("lift"), seed=0)
    assert success.all() and np.median(length) < 60


def test_a_careless_grasp_does_not() -> None:
    assert grasp_off_by(8 * MM, 4).sum() == 0


def test_at_the_true_pose_it_is_carried_and_put_on() -> None:
    success, _ = run(GearPick(), 4, at_true_pose, seed=0)
    assert success.all()


def test_letting_it_fall_onto_the_peg_does_not_count() -> None:
    success, length = run(GearPick(), 4, letting_go, seed=0)
    assert not success.any() and length.max() < 120, "the episode ends where it is let go"


def test_a_gear_that_is_dropped_ends_the_episode_with_nothing() -> None:
    env, task = started(goal="lift")
    controller, observation = carried("lift")(env), env.reset(seed=3)[0]
    for _ in range(100):
        action = controller(observation)
        high = task.true_place(ALL)[:, 2] - TABLE > 40 * MM
        action[high, 6] = 1.0
        observation, reward, terminated, _, info = env.step(action)
        assert not info["success"].any() and not reward.any()
        if terminated.any():
            assert high[terminated].all()
            return
    raise AssertionError("it was never dropped")


def test_where_it_may_be_let_go() -> None:
    """On the table, or on the peg and below the neighbours' tops; a knock of four physics steps is not letting go."""
    task = GearPick()
    top = task.geometry.thickness
    places = np.array([[0, 0, top - 1 * MM], [0, 0, top + 1 * MM], [0.1, 0, TABLE], [3 * MM, 0, 5 * MM], [0, 0, top + 1 * MM]])
    held = np.zeros((5, 50), bool)
    held[4, 4:] = True
    falls = task._falls(held, np.repeat(places[:, None], 50, axis=1))
    assert falls.tolist() == [False, True, False, True, False]


def test_seated_is_done_and_tilted_over_or_out_of_reach_is_lost() -> None:
    env, task = started()
    put(env, 0, 0, 1 * MM)
    judged = task.judge(ALL)
    assert judged.success.all() and judged.terminated.all() and (judged.reward == 1).all()
    put(env, -0.15, 0, 0.03, turn=(np.cos(0.5), np.sin(0.5), 0, 0))  # 57 degrees
    assert task.judge(ALL).terminated.all() and not task.judge(ALL).success.any()
    put(env, -0.15, 0.25, TABLE)
    assert task.judge(ALL).terminated.all() and not task.judge(ALL).success.any()
    put(env, -0.15, 0, TABLE)
    assert not task.judge(ALL).terminated.any()


def test_the_gear_lies_still_and_starts_where_the_hand_can_get() -> None:
    env, task = started(40)
    place = task.true_place(ALL)
    assert (place[:, :2] > np.array(CONTROL.workspace_low[:2])).all() and (place[:, :2] < np.array(CONTROL.workspace_high[:2])).all()
    pose = env.step(np.tile(OPEN, (40, 1)))[0]["tcp_pose"]
    assert (pose > np.array(CONTROL.workspace_low)).all() and (pose < np.array(CONTROL.workspace_high)).all()
    assert np.abs(task.true_place(ALL) - place).max() < 0.1 * MM and not task.held.any()


def test_what_is_hidden_does_not_show() -> None:
    """The gear is seen beside where it is, by no more than its error."""
    env, task = started(200)
    seen = env.step(np.tile(OPEN, (200, 1)))[0]
    exact = task._sensors[:, task._columns["seen_position"]] - task.control.pose[:, :3]
    assert np.allclose(seen["gear_offset"][:, :2] - exact[:, :2], task.gear_error, atol=1e-6)
    radius = np.hypot(*task.gear_error.T)
    assert 0.9 * MM < radius.max() <= PickOptions().gear_error


def test_the_demonstrator_fails_a_grasp_opens_and_tries_again() -> None:
    task = GearPick("lift", "three-way")
    env = BatchEnv(task, 10, autoreset=AutoresetMode.DISABLED)
    observation, _ = env.reset(seed=0)
    people = [PickExpert("lift", "three-way", seed) for seed in range(10)]
    layout, running = ActionLayout.of(task.spec), np.ones(10, bool)
    success, opened = np.zeros(10, bool), np.zeros(10, bool)
    while running.any():
        action = np.stack([person.decide({name: v[row] for name, v in observation.items()})[0] for row, person in enumerate(people)])
        assert layout.valid(action).all()
        opened |= (action[:, 6] == 2) & running
        observation, _, terminated, truncated, info = env.step(action)
        success |= info["success"]
        running &= ~(terminated | truncated)
    again = np.array([person.grasps > 1 for person in people])
    assert success.sum() >= 7 and (again & success).any() and opened[again].all() and not opened[~again & success].any()


@pytest.mark.parametrize("mode", MODES)
def test_expert_and_corrector_speak_the_mode_of_the_task(mode: Mode) -> None:
    env, task = started(1, goal="lift", mode=mode)
    observation, _ = env.reset(seed=1)
    alone = {name: values[0] for name, values in observation.items()}
    for hand in (PickExpert("lift", mode, 0), PickCorrector("lift", mode, 0)):
        action, intervened = hand.decide(alone)
        assert intervened and ActionLayout.of(task.spec).valid(action[None]).all() and action.dtype == np.float32


def test_the_corrector_needs_no_memory_to_lift_the_gear() -> None:
    env, _ = started(1, goal="lift", mode="delta")
    observation, hand, far = env.reset(seed=2)[0], PickCorrector("lift", "delta", 0), []
    for _ in range(80):
        alone = {name: values[0] for name, values in observation.items()}
        far.append(pick_distance("lift", alone))
        action = hand.decide(alone)[0]
        observation, _, terminated, _, info = env.step(action[None])
        if terminated[0]:
            break
    assert info["success"][0] and far[0] > 0.15 and far[-1] < 0.02


@pytest.mark.parametrize(("goal", "discount"), [("assembly", 0.99), ("lift", 0.98)])
def test_every_step_costs_what_is_left_and_losing_the_gear_costs_all_of_it(goal, discount: float) -> None:
    env, task = started(goal=goal, reward="dense")
    weights, loss = DENSE[goal], LOST[goal]
    low, high = task.spec.return_range or (0, 0)
    assert low == pytest.approx(-task.spec.max_episode_steps * sum(weights.values()) - loss) and high == 1.0
    assert sum(weights.values()) / (1 - discount) - 1e-9 <= loss, "giving up must not be the cheapest way out"
    assert goal != "lift" or PRESETS["gear_lift"]().agent.gamma <= discount, "nor for PPO, which looks less far ahead"
    random = np.random.default_rng(0)
    for _ in range(10):
        _, reward, terminated, _, info = env.step(random.uniform(-1, 1, (2, 7)))
        terms = info["reward_terms"]
        assert set(terms) == {"success", "lost", *weights} and np.allclose(sum(terms.values()), reward)
        assert all(((-weight <= terms[name]) & (terms[name] <= 0)).all() for name, weight in weights.items()) and not terminated.any()
    near = task.judge(ALL).terms
    put(env, -0.15, 0.25, TABLE)
    lost = task.judge(ALL)
    assert lost.terminated.all() and np.allclose(lost.terms["lost"], -loss) and (lost.terms["reach"] < near["reach"]).all()


def test_raising_the_gear_pays_more_at_once_than_moving_away_from_it_costs() -> None:
    """A hand that does not hold the gear well pays `reach` for going up, and one that does is paid by `lift`: that must be more."""
    env, task = started(goal="lift", reward="dense")

    def cost(height: float) -> float:
        put(env, -0.15, 0.0, TABLE + height)
        return float(task.judge(ALL).terms["lift"][0])

    heights = [0.0, 0.003, 0.01, 0.03, 0.06, 0.095]
    lift = [cost(height) for height in heights]
    slopes = np.diff(lift) / np.diff(heights)
    assert (slopes > 0).all() and slopes[0] > 1.5 * DENSE["lift"]["reach"] * 0.5 / 0.015, "and it is never flat"
    assert lift[0] == pytest.approx(-DENSE["lift"]["lift"])


def test_a_dense_reward_changes_nothing_but_the_reward() -> None:
    sparse, dense = make_batch("gear_lift", 2), make_batch("gear_lift", 2, reward="dense")
    sparse.reset(seed=1), dense.reset(seed=1)
    assert sparse.task_spec.hash == dense.task_spec.hash
    for action in np.random.default_rng(0).uniform(-1, 1, (8, 2, 7)):
        one, other = sparse.step(action), dense.step(action)
        assert all(np.array_equal(one[0][name], other[0][name]) for name in one[0]) and not np.array_equal(one[1], other[1])


def test_every_way_to_command_the_gripper_has_a_task_of_its_own() -> None:
    names = [name for name in TASKS if name.startswith(tuple(NAMES.values())) and "_pixels" not in name and "_fine" not in name]
    assert len(names) == 6 and all(TASKS[name].task().spec.task == name for name in names)
    assert ActionLayout.of(TASKS["gear_pick_assembly"].task().spec).all_continuous, "today's learners take continuous parts only"


# ---- the fine task


def test_an_action_of_the_fine_task_is_1_2_mm_or_8_mrad() -> None:
    fine, coarse = make_env("gear_pick_assembly_fine", 2), make_env("gear_pick_assembly", 2)
    np.testing.assert_allclose(ActionLayout.of(fine.spec).scales, [1.2e-3] * 3 + [8e-3] * 3 + [ActionLayout.of(coarse.spec).scales[6]])
    assert fine.spec.max_episode_steps == 1000 and fine.spec.task == "gear_pick_assembly_fine"
    assert {name: entry for name, entry in fine.spec.observation.items()} == dict(coarse.spec.observation)
    before, action = fine.reset(seeds=[1, 2]), np.array([[1, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1, 1.0]])
    commanded = before["tcp_pose"] + before["command_offset"]
    after = fine.step(action).observation
    moved = after["tcp_pose"] + after["command_offset"] - commanded
    assert moved[0, 0] == pytest.approx(1.2 * MM, rel=0.02) and moved[1, 5] == pytest.approx(0.008, rel=0.02)


def test_a_hand_without_memory_does_the_fine_task_with_six_times_the_steps() -> None:
    success, length = run(gear_pick_assembly_fine(), 2, carried("assembly"), seed=0)
    assert success.all() and (length > 180).all() and (length < 400).all()
    for hand in (fine_pick_expert(0), fine_pick_corrector(0)):
        env = BatchEnv(gear_pick_assembly_fine(), 1, autoreset=AutoresetMode.DISABLED)
        action, by_hand = hand.decide({name: values[0] for name, values in env.reset(seed=1)[0].items()})
        assert by_hand and 0.3 < np.abs(action[:3]).max() <= 1.0, "it hurries as much as it may"

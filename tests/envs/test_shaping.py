"""Dense rewards: the same task, every step judged, nothing to be gained by waiting."""

from collections.abc import Callable

import numpy as np
import pytest

from tandem.envs import reach
from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.gear_assembly import task as gear
from tandem.envs.gear_assembly.scene import PITCH
from tandem.envs.reach import Reach
from tandem.envs.registry import make, make_batch, make_expert
from tandem.envs.task import ALL, Task
from tandem.errors import ConfigError
from tandem.testing import TaskContract, equal

MM, DEGREE = gear.MM, gear.DEGREE
STRAIGHT = gear.GearOptions(start_xy=0, start_yaw=0, start_tilt=0, start_height=(20 * MM, 20 * MM))


@pytest.mark.parametrize("name", ["reach", "gear_assembly"])
def test_a_dense_reward_changes_nothing_but_the_reward(name: str) -> None:
    sparse, dense = make_batch(name, 4), make_batch(name, 4, reward="dense")
    assert equal(sparse.reset(seed=5)[0], dense.reset(seed=5)[0])
    random, different = np.random.default_rng(0), False
    for _ in range(40):
        action = random.uniform(-1, 1, sparse.action_space.shape or ())
        one, other = sparse.step(action), dense.step(action)
        assert equal(one[0], other[0]) and equal(one[4]["final_obs"], other[4]["final_obs"])
        assert np.array_equal(one[2], other[2]) and np.array_equal(one[3], other[3])
        assert np.array_equal(one[4]["success"], other[4]["success"]) and np.array_equal(one[1], other[4]["reward_terms"]["success"])
        assert "reward_terms" not in one[4]
        different |= bool((one[1] != other[1]).all())
    assert different


@pytest.mark.parametrize("name", ["reach", "gear_assembly"])
def test_the_policy_of_one_reward_fits_the_other_and_the_data_does_not(name: str) -> None:
    sparse, dense = (make_batch(name, 1, reward=reward).task_spec for reward in ("sparse", "dense"))  # pyright: ignore
    assert sparse.hash == dense.hash
    [difference] = sparse.difference(dense)
    assert "return_range" in difference


@pytest.mark.parametrize(("name", "weights"), [("reach", reach.DENSE), ("gear_assembly", gear.DENSE)])
def test_terms_add_up_and_stay_in_their_ranges(name: str, weights: dict[str, float]) -> None:
    env = make(name, reward="dense")
    low, high = env.get_wrapper_attr("task_spec").return_range
    assert np.isclose(low, -env.get_wrapper_attr("task_spec").max_episode_steps * sum(weights.values())) and high == 1.0
    expert = make_expert(name, seed=0)
    for seed in range(3):
        observation, _ = env.reset(seed=seed)
        expert.reset()
        total, ended, terms = 0.0, False, []
        while not ended:
            observation, reward, terminated, truncated, info = env.step(expert.decide(observation)[0])
            terms.append(info["reward_terms"])
            assert set(terms[-1]) == {"success", *weights} and np.isclose(sum(terms[-1].values()), float(reward), rtol=0, atol=1e-15)
            assert all(-weight <= terms[-1][part] <= 0 for part, weight in weights.items())
            total, ended = total + float(reward), bool(terminated or truncated)
        assert low <= total <= high
        # who gets on with it pays less and less
        assert terms[-1]["approach"] > terms[0]["approach"]


def test_reach_costs_what_its_formula_says() -> None:
    """The tool 0.06 m in x and 0.08 m in y from the ball is 0.1 m away: 0.02 tanh(0.1 / 0.1). An action (1, 0.5, 0) has the mean
    square (1 + 0.25) / 3, of which 0.002."""
    task = Reach("dense")
    env = BatchEnv(task, 1)
    env.reset(seed=0)
    *_, info = env.step(np.array([[1.0, 0.5, 0.0]]))
    assert np.isclose(info["reward_terms"]["action"][0], -0.002 * 1.25 / 3)
    task.ball[0] = task.control.pose[0, :3] + [0.06, 0.08, 0.0]
    assert np.isclose(task.judge(ALL).terms["approach"][0], -0.02 * np.tanh(1.0))
    task.ball[0] = task.control.pose[0, :3]
    judgement = task.judge(ALL)
    assert judgement.success[0] and np.isclose(judgement.reward[0], 1.0 - 0.002 * 1.25 / 3)


def started(options: gear.GearOptions) -> tuple[GearAssembly, Callable[[str], np.ndarray]]:
    """Sixteen gears where their episodes begin, and the cost of a term as a share of its weight."""
    task = GearAssembly(options, reward="dense")
    BatchEnv(task, 16).reset(seed=3)
    return task, lambda name: -task.judge(ALL).terms[name] / gear.DENSE[name]


def test_a_gear_straight_over_the_peg_owes_the_way_down_and_the_phase() -> None:
    task, cost = started(STRAIGHT)
    assert np.allclose(cost("approach"), 0, atol=1e-3) and np.allclose(cost("alignment"), 0, atol=1e-3)
    # 20 mm over the tip, which is 20.5 mm over the board: 40.5 of 80 mm
    assert np.allclose(cost("insertion"), 40.5 / 80, atol=1e-3)
    # not turned against the board: the angle at which it would mesh is its whole error, up to half a pitch
    assert np.allclose(cost("phase"), np.abs(task.board.phase) / (PITCH / 2), atol=1e-3) and cost("phase").max() > 0.5


def test_tilt_and_turn_are_told_apart() -> None:
    options = gear.GearOptions(start_xy=0, start_yaw=0, start_tilt=3 * DEGREE, start_height=(20 * MM, 20 * MM))
    tilted, cost = started(options)
    assert cost("alignment").min() > 0.005 and cost("alignment").max() <= np.sqrt(2) * 3 / 20 + 1e-3
    # tilt about x and y turns nothing about the peg's axis, up to second order
    assert np.allclose(cost("phase"), np.abs(tilted.board.phase) / (PITCH / 2), atol=0.02)


def test_beside_the_peg_going_down_does_not_pay() -> None:
    task, cost = started(gear.GearOptions(start_xy=40 * MM, start_height=(-10 * MM, -10 * MM), measured_xy_error=0))
    beside = np.hypot(*task.true_place(ALL)[:, :2].T)
    # half of what is owed for it is steep near the peg, half of it goes on as far as the arm does
    assert np.allclose(cost("approach"), 0.5 * np.tanh(beside / (4 * MM)) + 0.5 * np.minimum(1, beside / (60 * MM)), atol=1e-6)
    # 10.5 mm over the board: the distance counts, unless the height counts more (10.5 / 80)
    assert np.allclose(cost("insertion"), np.maximum(10.5 / 80, np.minimum(1, beside / (60 * MM))), atol=2e-3)
    assert (cost("insertion") > 10.6 / 80).any()


def test_a_seated_gear_owes_next_to_nothing() -> None:
    env, expert = make("gear_assembly", reward="dense"), make_expert("gear_assembly", seed=1)
    for seed in range(10):
        observation, _ = env.reset(seed=seed)
        expert.reset()
        ended = False
        while not ended:
            observation, _, terminated, truncated, info = env.step(expert.decide(observation)[0])
            ended = bool(terminated or truncated)
        if info["success"]:
            terms = info["reward_terms"]
            assert terms["success"] == 1.0 and terms["insertion"] > -0.006 * 0.05 and terms["phase"] > -0.002 * 0.35
            assert terms["approach"] > -0.004 * 0.15 and terms["alignment"] > -0.002 * 0.1
            return
    raise AssertionError("the demonstrator never succeeded")


def test_an_unknown_reward_is_refused() -> None:
    with pytest.raises(ConfigError, match="sparse or dense"):
        make("reach", reward="generous")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="reward of its own"):
        make_batch("Pendulum-v1", 1, reward="dense")
    with pytest.raises(ConfigError, match="has the reward dense"):
        make_batch("cartpole", 1, reward="sparse")


class TestDenseReach(TaskContract):
    def make_task(self) -> Task:
        return Reach("dense")

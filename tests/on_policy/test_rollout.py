"""Advantages against numbers worked out by hand, and against the slowest way to compute them."""

import numpy as np
import pytest

from tandem.errors import InvalidTransition
from tandem.on_policy.advantages import advantages, explained_variance, normalised
from tandem.on_policy.collector import Rollout, Shape

NOTHING = np.zeros((3, 1), bool)
REWARDS = np.ones((3, 1), np.float32)
VALUES = np.array([[8.0], [4.0], [2.0]], np.float32)
LAST = np.array([6.0], np.float32)


def at(step: int) -> np.ndarray:
    flags = NOTHING.copy()
    flags[step] = True
    return flags


def estimated(terminated: np.ndarray, truncated: np.ndarray, cut_values: list[float]) -> list[float]:
    """As the loop does it, from what an environment returned: γ = λ = 1/2."""
    rollout = Rollout(Shape(num_steps=3, num_envs=1, observation_dim=1, action_dim=1))
    for t in range(3):
        cut = np.full((int(truncated[t].sum()), 1), 77.0, np.float32)
        rollout.add(VALUES[t][:, None], np.zeros((1, 1)), REWARDS[t], terminated[t], truncated[t], cut)
    next_values = rollout.next_values(VALUES, LAST, np.array(cut_values, np.float32))
    return advantages(REWARDS, VALUES, next_values, rollout.terminated, rollout.truncated, 0.5, 0.5)[:, 0].tolist()


def test_nothing_ends() -> None:
    # δ = 1 + 4/2 - 8 = -5,  1 + 2/2 - 4 = -2,  1 + 6/2 - 2 = 2;  A = 2,  -2 + 2/4 = -1.5,  -5 - 1.5/4 = -5.375
    assert estimated(NOTHING, NOTHING, []) == [-5.375, -1.5, 2.0]


def test_the_task_ends_in_the_middle_there_is_no_future_and_nothing_comes_back_from_the_next_episode() -> None:
    # δ_1 = 1 - 4 = -3, and A_1 = δ_1;  A_0 = -5 - 3/4
    assert estimated(at(1), NOTHING, []) == [-5.75, -3.0, 2.0]


def test_time_runs_out_in_the_middle_the_future_is_worth_what_the_cut_state_is() -> None:
    # the cut state is worth 10: δ_1 = 1 + 10/2 - 4 = 2, and A_1 = δ_1;  A_0 = -5 + 2/4
    # V of the first state after the reset (2) would give A_1 = -2, V of the state before the step (4) -1: neither is what was cut
    assert estimated(NOTHING, at(1), [10.0]) == [-4.5, 2.0, 2.0]


def test_the_task_ends_at_the_last_step_of_the_rollout() -> None:
    # δ_2 = 1 - 2 = -1;  A_1 = -2 - 1/4;  A_0 = -5 - 2.25/4
    assert estimated(at(2), NOTHING, []) == [-5.5625, -2.25, -1.0]


def test_time_runs_out_at_the_last_step_of_the_rollout() -> None:
    # the cut state is worth 10, the first one of the next episode 6: δ_2 = 1 + 10/2 - 2 = 4;  A_1 = -2 + 1;  A_0 = -5 - 1/4
    assert estimated(NOTHING, at(2), [10.0]) == [-5.25, -1.0, 4.0]


def test_a_step_that_ends_the_task_when_time_is_up_has_no_future() -> None:
    assert estimated(at(1), at(1), [10.0]) == [-5.75, -3.0, 2.0]


def test_many_environments_agree_with_a_loop_over_each_of_them() -> None:
    random = np.random.default_rng(0)
    t, n, gamma, lam = 13, 7, 0.97, 0.9
    rewards, values, next_values = random.standard_normal((3, t, n))
    terminated, truncated = random.random((2, t, n)) < 0.15
    slowest = np.zeros((t, n))
    for row in range(n):
        for start in range(t):  # the definition: Σ (γλ)^k δ, up to the end of the episode
            weight = 1.0
            for k in range(start, t):
                future = 0.0 if terminated[k, row] else gamma * next_values[k, row]
                slowest[start, row] += weight * (rewards[k, row] + future - values[k, row])
                weight *= gamma * lam
                if terminated[k, row] or truncated[k, row]:
                    break
    np.testing.assert_allclose(advantages(rewards, values, next_values, terminated, truncated, gamma, lam), slowest, rtol=1e-5, atol=1e-5)


def test_with_lambda_one_and_no_end_an_advantage_is_the_whole_return_less_the_value() -> None:
    # three rewards of 1 and 6 at the end, γ = 1/2: 1 + 1/2 + 1/4 + 6/8 = 2.5, less V = 8
    next_values = np.concatenate([VALUES[1:], LAST[None]])
    assert advantages(REWARDS, VALUES, next_values, NOTHING, NOTHING, 0.5, 1.0)[0, 0] == -5.5


def test_advantages_are_normalised_over_the_whole_batch() -> None:
    # mean 2, unbiased std sqrt((1 + 0 + 1) / 2) = 1
    np.testing.assert_allclose(normalised(np.array([[1.0, 2.0, 3.0]])), [[-1, 0, 1]], atol=1e-6)


@pytest.mark.parametrize("same", [np.full((4, 5), 3.25), np.array([[7.0]])])
def test_advantages_that_are_all_equal_say_nothing(same: np.ndarray) -> None:
    assert (normalised(same) == 0).all()


def test_explained_variance_by_hand() -> None:
    returns = np.array([1.0, 2.0, 3.0, 4.0])  # variance 1.25
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance(np.full(4, 2.5), returns) == 0.0
    # errors -1 1 -1 1: variance 1, so 1 - 1 / 1.25
    assert explained_variance(returns + np.array([1, -1, 1, -1]), returns) == pytest.approx(0.2)
    assert np.isnan(explained_variance(returns, np.ones(4)))


@pytest.mark.parametrize("name", ["reward", "terminated", "truncated"])
@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (), (3,)])
def test_numbers_of_the_wrong_shape_are_refused_by_name(name: str, shape: tuple[int, ...]) -> None:
    step = {"reward": np.zeros(4), "terminated": np.zeros(4, bool), "truncated": np.zeros(4, bool)}
    step[name] = np.zeros(shape, step[name].dtype)
    rollout = Rollout(Shape(2, 4, 3, 1))
    with pytest.raises(InvalidTransition, match=rf"'{name}' has shape .*expected \(4,\)"):
        rollout.add(np.zeros((4, 3)), np.zeros((4, 1)), step["reward"], step["terminated"], step["truncated"], None)
    assert rollout.steps == 0


def test_an_end_that_is_a_number_is_refused() -> None:
    with pytest.raises(InvalidTransition, match=r"'terminated' is float64, expected bool"):
        Rollout(Shape(2, 4, 3, 1)).check(np.zeros(4), np.zeros(4), np.zeros(4, bool))


def test_what_is_put_in_is_copied() -> None:
    """An environment may write its next observation over the last one."""
    rollout = Rollout(Shape(2, 1, 1, 1))
    buffer = np.array([[1.0]], np.float32)
    for _ in range(2):
        rollout.add(buffer, buffer, buffer[0], np.array([False]), np.array([False]), None)
        buffer += 1
    assert rollout.full and rollout.observations.ravel().tolist() == [1, 2] == rollout.rewards.ravel().tolist()


def test_a_rollout_that_is_cleared_forgets_its_time_outs() -> None:
    rollout = Rollout(Shape(1, 2, 1, 1))
    flags = np.array([False, True])
    rollout.add(np.zeros((2, 1)), np.zeros((2, 1)), np.zeros(2), ~flags, flags, np.array([[5.0]]))
    assert [part.tolist() for part in rollout.cuts()] == [[0], [1], [[5.0]]]
    rollout.clear()
    assert not len(rollout.cuts().rows) and not rollout.full

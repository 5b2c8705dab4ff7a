"""What every task promises, as tests that travel with the interface. A new task is tested in three lines:

class TestReach(TaskContract):
    def make_task(self) -> Task:
        return Reach()
"""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from tandem.envs.batch import BatchEnv
from tandem.envs.simulated import SimulatedEnv
from tandem.envs.single import SingleEnv
from tandem.envs.task import Task
from tandem.errors import ActionError, ConfigError
from tandem.types import Observation


def equal(a: Observation, b: Observation) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def row(observation: Observation, index: int) -> Observation:
    return {name: values[index] for name, values in observation.items()}


class TaskContract:
    """Subclass, name it Test..., and say how to make the task."""

    steps = 30
    """Long enough to touch what there is to touch."""
    idle: int | None = None
    """Steps that doing nothing survives, of a task in which one falls; None: a whole episode."""

    def make_task(self) -> Task:
        raise AssertionError("a contract test says how to make its task")

    def actions(self, count: int, seed: int = 0) -> np.ndarray:
        """(steps, count, action_dim), leaning downwards so that things get in contact."""
        dim = self.make_task().spec.action_dim
        actions = np.stack([np.random.default_rng(seed + i).uniform(-1, 1, (self.steps, dim)) for i in range(count)], 1)
        actions[..., min(2, dim - 1)] -= 0.4
        return np.clip(actions, -1, 1)

    def trajectory(self, env: BatchEnv, seed: int, actions: np.ndarray) -> list[tuple]:
        lived: list[tuple] = [(env.reset(seed=seed)[0],)]
        for action in actions:
            lived.append(env.step(action))
        return lived

    def assert_same(self, one: list[tuple], other: list[tuple], *, pick: tuple[int, int] | None = None) -> None:
        """Bit for bit, or row pick[0] of one against row pick[1] of the other."""
        mine, theirs = (slice(None), slice(None)) if pick is None else pick
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            for name in a[0]:
                assert np.array_equal(a[0][name][mine], b[0][name][theirs]), f"step {number}, entry '{name}'"
            for field, (x, y) in enumerate(zip(a[1:4], b[1:4], strict=True)):
                assert np.array_equal(x[mine], y[theirs]), f"step {number}, {('reward', 'terminated', 'truncated')[field]}"

    def near_the_end(self, env: BatchEnv) -> int:
        """Steps that are left of this episode, so few that doing nothing survives them."""
        limit = env.task_spec.max_episode_steps
        if self.idle is not None:
            env.set_elapsed(np.full(env.num_envs, limit - self.idle))
        return self.idle or limit

    # physical quantities have no bounds to declare, and our environments are made by our own registry
    @pytest.mark.filterwarnings("ignore:.*A Box observation space (minimum|maximum) value is -?infinity", "ignore:.*no `spec`")
    def test_gymnasium_finds_nothing_to_complain_about(self) -> None:
        check_env(SingleEnv(SimulatedEnv(self.make_task())), skip_render_check=True)

    def test_the_spec_describes_what_comes_out(self) -> None:
        env = SingleEnv(SimulatedEnv(self.make_task()))
        observation, _ = env.reset(seed=0)
        assert list(observation) == list(env.task_spec.observation)
        for name, entry in env.task_spec.observation.items():
            assert observation[name].shape == entry.shape and observation[name].dtype == entry.dtype, name
            assert np.isfinite(observation[name]).all(), name

    def test_same_seed_same_trajectory_and_another_seed_another(self) -> None:
        actions = self.actions(2)
        first = self.trajectory(BatchEnv(self.make_task(), 2), 7, actions)
        self.assert_same(first, self.trajectory(BatchEnv(self.make_task(), 2), 7, actions))
        assert not equal(first[0][0], BatchEnv(self.make_task(), 2).reset(seed=70)[0])

    def test_a_row_lives_the_same_life_alone_as_among_sixty_four(self) -> None:
        actions = self.actions(64)
        together = self.trajectory(BatchEnv(self.make_task(), 64), 100, actions)
        for chosen in (0, 17, 63):
            alone = self.trajectory(BatchEnv(self.make_task(), 1), 100 + chosen, actions[:, chosen : chosen + 1])
            self.assert_same(together, alone, pick=(chosen, 0))

    def test_the_number_of_threads_changes_nothing(self) -> None:
        actions = self.actions(5)
        one = self.trajectory(BatchEnv(self.make_task(), 5, num_threads=1), 3, actions)
        self.assert_same(one, self.trajectory(BatchEnv(self.make_task(), 5, num_threads=2), 3, actions))

    def test_a_batch_of_one_and_a_single_env_are_the_same(self) -> None:
        actions = self.actions(1)
        batch = self.trajectory(BatchEnv(self.make_task(), 1, autoreset=AutoresetMode.DISABLED), 5, actions)
        env = SingleEnv(SimulatedEnv(self.make_task()))
        observation, _ = env.reset(seed=5)
        assert equal(observation, row(batch[0][0], 0))
        for action, lived in zip(actions[:, 0], batch[1:], strict=True):
            observation, reward, terminated, truncated, _ = env.step(action)
            assert equal(observation, row(lived[0], 0)) and (reward, terminated, truncated) == (lived[1][0], lived[2][0], lived[3][0])
            if terminated or truncated:
                break

    def test_a_time_out_truncates_resets_in_the_same_step_and_keeps_the_final_observation(self) -> None:
        env, still = BatchEnv(self.make_task(), 2), BatchEnv(self.make_task(), 2, autoreset=AutoresetMode.DISABLED)
        env.reset(seed=11)
        still.reset(seed=11)
        limit = self.near_the_end(env)
        self.near_the_end(still)
        nothing = np.zeros((2, env.task_spec.action_dim))
        for step in range(1, limit + 1):
            observation, _, terminated, truncated, info = env.step(nothing)
            frozen, *_ = still.step(nothing)
            assert equal(info["final_obs"], frozen)
            assert not terminated.any(), "standing still must not be the end of this task"
            assert truncated.all() == (step == limit)
        assert not equal(observation, info["final_obs"]), "the observation is the first of the next episode"

    def test_a_row_that_ended_stands_still_until_it_is_reset_by_mask(self) -> None:
        env = BatchEnv(self.make_task(), 2, autoreset=AutoresetMode.DISABLED)
        env.reset(seed=0)
        limit = self.near_the_end(env)
        nothing = np.zeros((2, env.task_spec.action_dim))
        for _ in range(limit):
            ended, *_ = env.step(nothing)
        standing, reward, _, _, _ = env.step(nothing + 1.0)
        assert equal(ended, standing) and not reward.any()
        fresh, _ = env.reset(seed=[None, 5], options={"reset_mask": np.array([False, True])})
        assert equal(row(fresh, 0), row(ended, 0)) and not equal(row(fresh, 1), row(ended, 1))
        moved, *_ = env.step(nothing + 1.0)
        assert equal(row(moved, 0), row(ended, 0)) and not equal(row(moved, 1), row(fresh, 1))

    def test_what_is_handed_out_is_a_copy(self) -> None:
        env = BatchEnv(self.make_task(), 2)
        observation, _ = env.reset(seed=0)
        kept = {name: values.copy() for name, values in observation.items()}
        later, *_ = env.step(self.actions(2)[0])
        assert equal(observation, kept), "an observation changed after it was handed out"
        for values in later.values():
            values[:] = 1e6
        again, *_ = env.step(self.actions(2)[1])
        assert all(np.abs(values).max() < 1e5 for values in again.values()), "writing to an observation reached the simulation"

    def test_a_saved_state_continues_bit_for_bit(self) -> None:
        actions = self.actions(3)
        env = BatchEnv(self.make_task(), 3)
        env.reset(seed=21)
        for action in actions[:10]:
            env.step(action)
        saved = env.state()
        went_on = [env.step(action) for action in actions[10:]]
        other = BatchEnv(self.make_task(), 3)
        other.reset(seed=99)
        other.restore(saved)
        self.assert_same(went_on, [other.step(action) for action in actions[10:]])

    def test_actions_beyond_one_are_clipped(self) -> None:
        action = np.ones((1, self.make_task().spec.action_dim))
        one, three = BatchEnv(self.make_task(), 1), BatchEnv(self.make_task(), 1)
        one.reset(seed=0), three.reset(seed=0)
        assert equal(one.step(action)[0], three.step(3 * action)[0])

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_an_action_that_is_no_number_is_refused_and_nothing_moves(self, bad: float) -> None:
        env, twin = BatchEnv(self.make_task(), 2), BatchEnv(self.make_task(), 2)
        env.reset(seed=0), twin.reset(seed=0)
        action = np.zeros((2, env.task_spec.action_dim))
        poisoned = action.copy()
        poisoned[1, 0] = bad
        with pytest.raises(ActionError, match=r"index \(1, 0\)"):
            env.step(poisoned)
        assert equal(env.step(action)[0], twin.step(action)[0])

    def test_an_action_of_another_shape_is_refused(self) -> None:
        env = SingleEnv(SimulatedEnv(self.make_task()))
        env.reset(seed=0)
        with pytest.raises(ActionError, match="shape"):
            env.step(np.zeros(env.task_spec.action_dim + 1))

    def test_a_step_after_the_end_asks_for_a_reset(self) -> None:
        env = SingleEnv(SimulatedEnv(self.make_task()))
        with pytest.raises(ConfigError, match="reset"):
            env.step(np.zeros(env.task_spec.action_dim))

"""Contracts: the tests that every task and every environment must pass, to be used in your own test suite (with pytest).

    class TestPour(TaskContract):                        # a task of your own (`tandem.envs.task.Task`)
        def make_task(self) -> Task:
            return Pour()

    class TestRobot(TaskEnvContract):                    # an environment of any kind (`tandem.envs.task_env.TaskEnv`)
        def make_env(self, num_envs: int) -> TaskEnv:
            return make_env("my_robot:Arm-v0", num_envs)

A `TaskContract` includes that of the environment which its simulations make.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from tandem.codec import pack, unpack
from tandem.envs.batch import BatchEnv, SimulatedEnv
from tandem.envs.single import SingleEnv
from tandem.envs.task import Task
from tandem.envs.task_env import TaskEnv
from tandem.errors import ActionError, ConfigError, RenderingUnavailable
from tandem.layouts import ActionLayout
from tandem.types import Observation, Step


def equal(a: Observation, b: Observation) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def row(observation: Observation, index: int) -> Observation:
    return {name: values[index] for name, values in observation.items()}


class TaskEnvContract:
    """Subclass, name it Test..., and say how to make the environment. It is made anew for every test."""

    steps = 12
    """Steps of a trajectory that is compared."""
    max_rows = 3
    """Rows that are made at most; 1 for a robot."""

    def make_env(self, num_envs: int) -> TaskEnv:
        raise AssertionError("a contract test says how to make its environment")

    def rows(self) -> int:
        return self.max_rows

    def env_actions(self, env: TaskEnv, seed: int = 0) -> np.ndarray:
        """(steps, num_envs, action_dim), within the range of the action."""
        random, layout = np.random.default_rng(seed), ActionLayout.of(env.spec)
        return np.stack([layout.random(random, env.num_envs) for _ in range(self.steps)])

    def env_trajectory(self, env: TaskEnv, seeds: Sequence[int], actions: np.ndarray) -> list[Step]:
        """Rows that end are reset at once, without a seed."""
        env.reset(seeds=seeds)
        made = []
        for action in actions:
            made.append(env.step(action))
            if made[-1].ended.any():
                env.reset(np.flatnonzero(made[-1].ended).tolist())
        return made

    def assert_same_steps(self, one: list[Step], other: list[Step]) -> None:
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            assert equal(a.observation, b.observation), f"observation of step {number}"
            for name in ("reward", "terminated", "truncated", "success"):
                assert np.array_equal(getattr(a, name), getattr(b, name)), f"{name} of step {number}"

    def check_observation(self, env: TaskEnv, observation: Observation) -> None:
        assert observation.keys() == env.spec.observation.keys()
        for name, entry in env.spec.observation.items():
            values = observation[name]
            assert values.shape == (env.num_envs, *entry.shape) and values.dtype == entry.dtype, f"entry '{name}'"
            assert np.isfinite(values).all(), f"entry '{name}'"

    def test_env_every_array_has_the_shape_and_dtype_that_is_declared(self) -> None:
        env = self.make_env(self.rows())
        n = env.num_envs
        assert n == self.rows()
        self.check_observation(env, env.reset(seeds=range(n)))
        step = env.step(self.env_actions(env)[0])
        self.check_observation(env, step.observation)
        assert step.reward.shape == (n,) and step.reward.dtype == np.float64
        for flags in (step.terminated, step.truncated, step.success, step.ended):
            assert flags.shape == (n,) and flags.dtype == bool
        assert step.executed is None or (step.executed.shape == (n, env.spec.action_dim) and step.executed.dtype == np.float32)
        assert step.intervened is None or (step.intervened.shape == (n,) and step.intervened.dtype == bool)
        assert all(part.shape == (n,) for part in step.reward_terms.values()) and step.seconds >= 0
        env.close()

    def test_env_observations_are_copies(self) -> None:
        env = self.make_env(self.rows())
        first = env.reset(seeds=range(env.num_envs))
        kept = {name: values.copy() for name, values in first.items()}
        later = env.step(self.env_actions(env)[0]).observation
        assert equal(first, kept), "an observation changed after it was handed out"
        stood = {name: values.copy() for name, values in later.items()}
        for values in later.values():
            values[:] = 0
        if env.num_envs > 1:  # a row that is not reset still shows what it showed
            again = env.reset([0])
            assert equal(row(again, 1), row(stood, 1)), "writing to an observation reached the environment"
        env.close()

    def test_env_the_same_seeds_give_the_same_episodes(self) -> None:
        env, other = self.make_env(self.rows()), self.make_env(self.rows())
        if not env.capabilities.seeds:
            pytest.skip("it declares that it has no seeds")
        seeds, actions = range(5, 5 + env.num_envs), self.env_actions(env)
        self.assert_same_steps(self.env_trajectory(env, seeds, actions), self.env_trajectory(other, seeds, actions))
        self.assert_same_steps(self.env_trajectory(env, seeds, actions), self.env_trajectory(other, seeds, actions))
        env.close()
        other.close()

    def test_env_a_row_that_ended_stands_still_until_it_is_reset(self) -> None:
        env = self.make_env(self.rows())
        env.reset(seeds=range(env.num_envs))
        rest = np.tile(ActionLayout.of(env.spec).rest, (env.num_envs, 1))
        for _ in range(env.spec.max_episode_steps + 1):
            step = env.step(rest)
            if step.ended.any():
                break
        assert step.ended.any(), "no episode lasts longer than max_episode_steps"
        ended = int(np.flatnonzero(step.ended)[0])
        after = env.step(rest)
        assert equal(row(after.observation, ended), row(step.observation, ended)), "reset happens in reset, never in step"
        assert not after.ended[ended] and after.reward[ended] == 0
        fresh = env.reset([ended])
        self.check_observation(env, fresh)
        for other in set(range(env.num_envs)) - {ended}:
            assert equal(row(fresh, other), row(after.observation, other)), "a reset of one row is a reset of that row"
        env.close()

    def test_env_halts_twice_from_another_thread_at_any_time(self) -> None:
        env = self.make_env(1)
        problems: list[BaseException] = []

        def halt() -> None:
            try:
                env.halt("a test")
                env.halt("the same test")
            except BaseException as problem:
                problems.append(problem)

        for moment in ("before the first reset", "between two steps"):
            thread = threading.Thread(target=halt)
            thread.start()
            thread.join(5)
            assert not thread.is_alive(), f"halt does not return {moment}"
            env.reset(seeds=[0])
        assert not problems, problems
        env.close()

    def halts(self, env: TaskEnv) -> int | None:
        """How often robots behind this environment were halted, all rows together; None for a simulation, which has nothing to halt."""
        del env
        return None

    def test_env_halt_reaches_the_robot_of_every_row_and_the_next_step_goes_on(self) -> None:
        env = self.make_env(self.rows())
        env.reset(seeds=range(env.num_envs))
        before = self.halts(env)
        env.halt("a test")
        if before is not None:
            assert self.halts(env) == before + env.num_envs, "a wrapper does not forward halt, or not to every row"
        self.check_observation(env, env.step(self.env_actions(env)[0]).observation)
        env.close()

    def test_env_a_saved_state_continues_bit_for_bit(self) -> None:
        env, other = self.make_env(self.rows()), self.make_env(self.rows())
        if not env.capabilities.saves:
            pytest.skip("it declares that it cannot be saved")
        actions = self.env_actions(env)
        self.env_trajectory(env, range(env.num_envs), actions[:5])
        saved = unpack(pack(env.state()))  # as a checkpoint stores it
        other.reset(seeds=range(50, 50 + env.num_envs))
        other.restore(saved)
        for action in actions[5:]:
            one, same = env.step(action), other.step(action)
            self.assert_same_steps([one], [same])
            for each in (env, other):
                each.reset(np.flatnonzero(one.ended).tolist())
        env.close()
        other.close()

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_env_an_action_that_is_not_finite_is_refused(self, bad: float) -> None:
        env = self.make_env(1)
        env.reset(seeds=[0])
        action = ActionLayout.of(env.spec).rest[None].astype(float)
        action[0, 0] = bad
        with pytest.raises(ActionError, match=r"index \(0, 0\)"):
            env.step(action)
        env.close()

    def test_env_an_action_of_another_shape_is_refused(self) -> None:
        env = self.make_env(1)
        env.reset(seeds=[0])
        with pytest.raises(ActionError, match="shape"):
            env.step(np.zeros((1, env.spec.action_dim + 1)))
        env.close()

    def test_env_pictures_are_drawn_only_where_that_is_declared(self) -> None:
        env = self.make_env(1)
        env.reset(seeds=[0])
        physics = env.physics()
        assert (physics is not None) or not env.capabilities.cameras, "a camera belongs to a simulation"
        if not env.capabilities.renders:
            with pytest.raises(RenderingUnavailable):
                env.render()
        env.close()


class TaskContract(TaskEnvContract):
    """Subclass, name it Test..., and say how to make the task."""

    steps = 30
    """Long enough to touch what there is to touch."""
    idle: int | None = None
    """Steps that doing nothing survives, of a task in which one falls; None: a whole episode."""

    def make_task(self) -> Task:
        raise AssertionError("a contract test says how to make its task")

    def make_env(self, num_envs: int) -> TaskEnv:
        return SimulatedEnv(self.make_task(), num_envs)

    def actions(self, count: int, seed: int = 0) -> np.ndarray:
        """(steps, count, action_dim), leaning downwards so that things get in contact."""
        dim = self.make_task().spec.action_dim
        actions = np.stack([np.random.default_rng(seed + i).uniform(-1, 1, (self.steps, dim)) for i in range(count)], 1)
        actions[..., min(2, dim - 1)] -= 0.4
        return np.clip(actions, -1, 1)

    def trajectory(self, env: BatchEnv, seed: int, actions: np.ndarray) -> list[tuple]:
        made: list[tuple] = [(env.reset(seed=seed)[0],)]
        for action in actions:
            made.append(env.step(action))
        return made

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

    # physical quantities have no bounds to declare, our environments are made by our own registry, and a choice is a column to 0, 1, 2
    @pytest.mark.filterwarnings(
        "ignore:.*A Box observation space (minimum|maximum) value is -?infinity", "ignore:.*no `spec`", "ignore:.*symmetric and normalized"
    )
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

    def test_a_row_does_the_same_alone_as_among_sixty_four(self) -> None:
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
        for action, expected in zip(actions[:, 0], batch[1:], strict=True):
            observation, reward, terminated, truncated, _ = env.step(action)
            assert equal(observation, row(expected[0], 0))
            assert (reward, terminated, truncated) == (expected[1][0], expected[2][0], expected[3][0])
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

    def test_actions_beyond_their_range_are_clipped(self) -> None:
        action = ActionLayout.of(self.make_task().spec).high[None]  # 1, or the last choice
        one, three = BatchEnv(self.make_task(), 1), BatchEnv(self.make_task(), 1)
        one.reset(seed=0), three.reset(seed=0)
        assert equal(one.step(action)[0], three.step(3 * action)[0])

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_an_action_that_is_not_finite_is_refused_and_nothing_moves(self, bad: float) -> None:
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

"""The contract of a TaskEnv: foreign environments, a wrapper, and an environment that a user wrote."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest

from tandem.envs.autoreset import AutoresetEnv
from tandem.envs.foreign import ForeignBatch, GymnasiumEnv
from tandem.envs.registry import make_batch, make_env
from tandem.envs.single import SingleEnv
from tandem.envs.task_env import Capabilities, HaltPlan, TaskEnv
from tandem.envs.wrappers import ToolFrame
from tandem.errors import ConfigError, RenderingUnavailable
from tandem.layouts import ActionLayout
from tandem.testing import TaskEnvContract
from tandem.types import Continuous, Entry, Observation, Spec, Step
from tests.acting.counter_env import Counter


class TestPendulum(TaskEnvContract):
    def make_env(self, num_envs: int) -> TaskEnv:
        return make_env("Pendulum-v1", num_envs)


class TestGymnasiumsMujoco(TaskEnvContract):
    """One that ends early, and that has a simulation to look at."""

    def make_env(self, num_envs: int) -> TaskEnv:
        return GymnasiumEnv("Hopper-v5", [gymnasium.make("Hopper-v5") for _ in range(num_envs)])


class TestCounter(TaskEnvContract):
    """It reports executed actions, and can be halted; `halt` is found through Gymnasium's own wrappers."""

    def make_env(self, num_envs: int) -> TaskEnv:
        self.robots = [Counter() for _ in range(num_envs)]
        return GymnasiumEnv("counter", [gymnasium.wrappers.TimeLimit(robot, 100) for robot in self.robots])

    def halts(self, env: TaskEnv) -> int:
        return sum(robot.halts for robot in self.robots)


class TestToolFrame(TaskEnvContract):
    def make_env(self, num_envs: int) -> TaskEnv:
        inner, self.reasons = make_env("gear_assembly", num_envs), []
        inner.halt = lambda reason: self.reasons.extend([reason] * num_envs)
        return ToolFrame(inner)

    def halts(self, env: TaskEnv) -> int:
        return len(self.reasons)


def test_halt_reaches_every_robot_through_single_autoreset_and_vector_environments() -> None:
    robots = [Counter(), Counter()]
    AutoresetEnv(GymnasiumEnv("counter", robots)).halt("a test")
    SingleEnv(GymnasiumEnv("counter", robots[:1])).halt()
    assert [robot.halts for robot in robots] == [2, 1]
    gymnasium.register("Halted-v0", lambda **_: Counter(), max_episode_steps=10)
    try:
        batch = make_batch("Halted-v0", 3)
        batch.halt("a test")
        assert isinstance(batch, ForeignBatch) and isinstance(batch.rows, gymnasium.vector.SyncVectorEnv)
        assert [env.get_wrapper_attr("halts") for env in batch.rows.envs] == [1, 1, 1]
        batch.close()
    finally:
        gymnasium.registry.pop("Halted-v0")


class Unhalted(Counter):
    def halt(self) -> None:
        raise ZeroDivisionError("a fault of the robot")


def test_a_row_that_cannot_be_halted_keeps_no_other_from_it() -> None:
    robots = [Counter(), Unhalted(), Counter()]
    with pytest.raises(ZeroDivisionError):
        GymnasiumEnv("counter", robots).halt("a test")
    assert robots[0].halts == robots[2].halts == 1


def test_a_program_that_halts_from_outside_is_a_list_of_words() -> None:
    robot: Any = Counter()
    assert GymnasiumEnv("counter", [robot]).capabilities.halt_plan is None
    robot.halt_command = ["stop-arm", "--now"]
    assert GymnasiumEnv("counter", [robot]).capabilities.halt_plan == HaltPlan(("stop-arm", "--now"))
    for wrong in ("stop-arm --now", [], ["stop", 3]):
        robot.halt_command = wrong
        with pytest.raises(ConfigError, match=r"halt_command = .* expected a list of words"):
            GymnasiumEnv("counter", [robot])


class Slider:
    """A TaskEnv that a user wrote: carts on rails, pushed by the action and by chance; done at the end of the rail."""

    spec = Spec("slider", {"place": Entry((2,), unit="m")}, (Continuous("push", 1),), control_hz=10, max_episode_steps=20)
    capabilities = Capabilities(saves=True)

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self._layout = ActionLayout.of(self.spec)
        self._place, self._count = np.zeros((num_envs, 2)), np.zeros(num_envs, int)
        self._standing = np.ones(num_envs, bool)
        self._random = [np.random.default_rng() for _ in range(num_envs)]

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        chosen = range(self.num_envs) if rows is None else rows
        for row, seed in zip(chosen, seeds if seeds is not None else [None] * len(chosen), strict=True):
            self._random[row] = self._random[row] if seed is None else np.random.default_rng(seed)
            self._place[row], self._count[row], self._standing[row] = self._random[row].uniform(-0.1, 0.1, 2), 0, False
        return self._seen()

    def step(self, action: np.ndarray) -> Step:
        pushed = self._layout.checked(action, (self.num_envs,), self.spec.task)
        moves = ~self._standing
        for row in np.flatnonzero(moves):
            self._place[row] += 0.2 * pushed[row] + self._random[row].normal(0, 0.01, 2)
        self._count += moves
        there = moves & (self._place[:, 0] > 1)
        late = moves & ~there & (self._count >= self.spec.max_episode_steps)
        self._standing |= there | late
        return Step(self._seen(), there.astype(float), there, late, there.copy())

    def _seen(self) -> Observation:
        return {"place": self._place.astype(np.float32)}

    def halt(self, reason: str) -> None:
        pass

    def state(self) -> dict[str, Any]:
        streams = json.dumps([stream.bit_generator.state for stream in self._random])
        arrays = {name: getattr(self, f"_{name}").copy() for name in ("place", "count", "standing")}
        return {**arrays, "streams": streams}

    def restore(self, state: dict[str, Any]) -> Observation:
        for name in ("place", "count", "standing"):
            getattr(self, f"_{name}")[:] = state[name]
        for stream, saved in zip(self._random, json.loads(state["streams"]), strict=True):
            stream.bit_generator.state = saved
        return self._seen()

    def render(self) -> np.ndarray:
        raise RenderingUnavailable("a slider draws no picture")

    def physics(self) -> None:
        return None

    def close(self) -> None:
        pass


class TestAUsersOwn(TaskEnvContract):
    def make_env(self, num_envs: int) -> TaskEnv:
        return Slider(num_envs)


class Forgetful(Slider):
    """Each breaks one promise: the contract must notice."""

    breaks = ""

    def step(self, action: np.ndarray) -> Step:
        if self.breaks == "resets in step":
            self.reset(np.flatnonzero(self._standing).tolist())
        step = super().step(action)
        return dataclasses.replace(step, reward=step.reward.astype(np.float32)) if self.breaks == "dtype" else step

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        return super().reset(rows, None if self.breaks == "seeds" else seeds)

    def _seen(self) -> Observation:
        if self.breaks == "views":
            self._place = self._place.astype(np.float32)
            return {"place": self._place}
        return super()._seen()

    def restore(self, state: dict[str, Any]) -> Observation:
        seen = super().restore(state)
        if self.breaks == "saves":
            self._random = [np.random.default_rng(1) for _ in self._random]
        return seen

    def halt(self, reason: str) -> None:
        if self.breaks == "halt":
            raise RuntimeError("already halted")


@pytest.mark.parametrize(
    ("breaks", "test"),
    [
        ("dtype", "test_env_every_array_has_the_shape_and_dtype_that_is_declared"),
        ("views", "test_env_observations_are_copies"),
        ("seeds", "test_env_the_same_seeds_give_the_same_episodes"),
        ("resets in step", "test_env_a_row_that_ended_stands_still_until_it_is_reset"),
        ("saves", "test_env_a_saved_state_continues_bit_for_bit"),
        ("halt", "test_env_halts_twice_from_another_thread_at_any_time"),
    ],
)
def test_a_broken_promise_is_noticed(breaks: str, test: str) -> None:
    class Broken(TaskEnvContract):
        def make_env(self, num_envs: int) -> TaskEnv:
            env = Forgetful(num_envs)
            env.breaks = breaks
            return env

    with pytest.raises(AssertionError):
        getattr(Broken(), test)()

"""Recording keeps the next successes in order of start, tells failures, and gives up on who cannot do it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from tandem.data.demos import load_demos, read_demos
from tandem.envs.foreign import GymnasiumEnv
from tandem.errors import DataError
from tandem.layouts import ActionLayout
from tandem.programs.record import GIVE_UP_AFTER, play_episode, record_demos
from tandem.seeding import episode_seeds
from tandem.teleop.operator import RandomActions
from tandem.types import Step, Transition
from tests.acting.counter_env import LENGTH, counters


class Waiting(gymnasium.Env):
    """Episode number n lasts `length(n)` steps and ends in success or a time-out; it shows its number and the step."""

    action_space = gymnasium.spaces.Box(-1, 1, (1,))
    observation_space = gymnasium.spaces.Dict({"moment": gymnasium.spaces.Box(-np.inf, np.inf, (2,))})

    def __init__(self, length: Callable[[int], int] = lambda number: 3, succeeds: Callable[[int], bool] = lambda number: True) -> None:
        self.length, self.succeeds = length, succeeds
        self.seeds: list[int] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        assert seed is not None
        self.seeds.append(seed)
        self.step_number = 0
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        self.step_number += 1
        ended = self.step_number == self.length(self.number)
        success = ended and self.succeeds(self.number)
        return self._seen(), float(success), success, ended and not success, {"success": success}

    @property
    def number(self) -> int:
        return len(self.seeds) - 1

    def _seen(self) -> dict[str, np.ndarray]:
        return {"moment": np.array([self.number, self.step_number], np.float32)}


def acted_in(env: Waiting) -> GymnasiumEnv:
    return GymnasiumEnv("waiting", [env])


SPEC = acted_in(Waiting()).spec


class Counter:
    """Presses harder with each step of an episode; `episodes` is how many it was told of."""

    name = "counter"

    def __init__(self) -> None:
        self.episodes = 0

    def reset(self) -> None:
        self.episodes += 1
        self._pressed = 0.0

    def decide(self, observation: dict[str, np.ndarray], proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        del observation, proposed
        self._pressed += 0.4
        return np.array([self._pressed], np.float32), True


def numbers_of(steps: list[Transition]) -> list[int]:
    """The number of each episode's attempt, in the order of the file."""
    return [int(step.observation["moment"][0]) for step in steps if step.step == 0]


def test_demonstrations_are_in_order_of_start_not_of_finish(tmp_path: Path) -> None:
    """Of 25 attempts at once the short ones would be done first, and an early stop would keep only those."""
    env = Waiting(length=lambda number: 20 - number % 19)  # 20, 19, 18, ... steps: later ones are shorter
    path = record_demos(acted_in(env), Counter(), 25, tmp_path, seed=0)
    steps = load_demos(path, SPEC)
    assert numbers_of(steps) == list(range(25))
    assert [step.episode for step in steps if step.last] == list(range(25))
    lengths = [step.step + 1 for step in steps if step.last]
    assert lengths == [20 - number % 19 for number in range(25)]
    assert path.name.startswith("waiting_25_demos_") and env.seeds == episode_seeds(0, "demonstrations", 25)


def test_every_attempt_has_a_seed_of_its_own_and_failures_are_left_out(tmp_path: Path) -> None:
    env, operator = Waiting(succeeds=lambda number: number % 3 == 2), Counter()
    told: list[tuple[int, int]] = []
    path = record_demos(acted_in(env), operator, 3, tmp_path, seed=10, on_episode=lambda kept, failed: told.append((kept, failed)))
    assert env.seeds == episode_seeds(10, "demonstrations", 9)
    assert numbers_of(load_demos(path, SPEC)) == [2, 5, 8]
    assert told == [(0, 1), (0, 2), (1, 2), (1, 3), (1, 4), (2, 4), (2, 5), (2, 6), (3, 6)]
    assert operator.episodes == 9, "the operator is told when an episode begins"
    assert read_demos(path).attributes == {"operator": "counter", "seed": 10}


def test_an_operator_who_never_succeeds_is_given_up_on_and_leaves_no_file(tmp_path: Path) -> None:
    env = Waiting(succeeds=lambda number: False)
    with pytest.raises(DataError, match=rf"'counter' failed {GIVE_UP_AFTER} times in a row at 'waiting'.*None of 5 episodes was recorded"):
        record_demos(acted_in(env), Counter(), 5, tmp_path, seed=0)
    assert len(env.seeds) == GIVE_UP_AFTER == 50
    assert not list(tmp_path.iterdir())


def test_giving_up_keeps_what_had_succeeded_and_says_where(tmp_path: Path) -> None:
    """A success in between starts the count anew: 49 failures, a success, 50 failures."""
    env = Waiting(succeeds=lambda number: number == 49)
    with pytest.raises(DataError, match=r"1 of 5 episodes are kept in .*\.partial, which can be loaded"):
        record_demos(acted_in(env), Counter(), 5, tmp_path, seed=0)
    assert len(env.seeds) == 49 + 1 + 50
    [partial] = tmp_path.iterdir()
    assert numbers_of(load_demos(partial, SPEC)) == [49]


class Leaving(Counter):
    """Interrupts in the middle of the episode after the `last` one."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self._last = last

    def decide(self, observation: dict[str, np.ndarray], proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        if self.episodes > self._last and observation["moment"][1] == 1:
            raise KeyboardInterrupt
        return super().decide(observation, proposed)


def test_an_interrupt_keeps_whole_episodes_only(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match=r"2 of 5 episodes are kept in .*\.partial"):
        record_demos(acted_in(Waiting()), Leaving(last=2), 5, tmp_path, seed=0)
    [partial] = tmp_path.iterdir()
    assert [(step.episode, step.step) for step in load_demos(partial, SPEC)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_an_interrupt_before_the_first_success_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match="None of 5 episodes was recorded, and no file is left"):
        record_demos(acted_in(Waiting()), Leaving(last=0), 5, tmp_path, seed=0)
    assert not list(tmp_path.iterdir())


def test_an_episode_is_what_was_executed_from_each_moment_to_the_next() -> None:
    env = Waiting()
    play_episode(acted_in(env), Counter(), seed=6)
    steps = play_episode(acted_in(env), Counter(), seed=7)
    assert env.seeds == [6, 7]
    assert [step.observation["moment"].tolist() for step in steps] == [[1, 0], [1, 1], [1, 2]]
    assert [step.next_observation["moment"].tolist() for step in steps] == [[1, 1], [1, 2], [1, 3]]
    # 0.4, 0.8 and 1.2, of which the environment takes 1
    np.testing.assert_allclose([step.action for step in steps], [[0.4], [0.8], [1.0]], rtol=1e-6)
    assert [step.reward for step in steps] == [0, 0, 1] and all(step.intervened for step in steps)
    assert steps[-1].terminated and steps[-1].success and not steps[-1].truncated


def test_a_time_out_is_truncated_not_terminated() -> None:
    last = play_episode(acted_in(Waiting(succeeds=lambda number: False)), Counter(), seed=7)[-1]
    assert last.truncated and not last.terminated and not last.success


def test_an_episode_that_a_served_environment_lost_is_not_kept(tmp_path: Path) -> None:
    class Losing(GymnasiumEnv):
        made = 0

        def step(self, action: np.ndarray) -> Step:
            self.made += 1
            step = super().step(action)
            return dataclasses.replace(step, lost=np.ones(1, bool)) if self.made in (1, LENGTH + 3) else step

    env = Losing("counter", counters()[1])
    path = record_demos(env, RandomActions(ActionLayout.of(env.spec), 0), 2, tmp_path, seed=0)
    steps = load_demos(path, env.spec)
    assert [step.step for step in steps] == [*range(LENGTH)] * 2 and env.made == 1 + LENGTH + 2 + LENGTH

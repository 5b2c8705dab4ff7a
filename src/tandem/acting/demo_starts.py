"""Training episodes that begin in the middle of a demonstration, so that the end of a task is met before its beginning is mastered.

    share of the episodes
    demo_starts ┤█▄▄
                │   ▀▀▄▄▄
              0 ┤        ▀▀▀█──────────── the task's own starts alone
                0        demo_starts_steps

Only for simulations that can restore a state: a robot has no such thing. The demonstrations are executed again once, from the starts that
they were recorded with, and the state before every step is kept. An episode that begins there counts its steps from that step on, so its
time limit is that of the task, and its first step says where it began. Its success is reported apart (`runs/episodes.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tandem.data.demos import OpenDemos, open_demos
from tandem.envs.registry import known_task, make_env
from tandem.envs.rows import with_row
from tandem.envs.task_env import TaskEnv, ending
from tandem.errors import ConfigError
from tandem.learnable import sees
from tandem.seeding import episode_seed
from tandem.types import Observation, Transition

ATTEMPTS = 500
"""Starts of a recording that are tried to find the one of an episode; failed ones were not kept."""


@dataclass(frozen=True)
class DemoStart:
    """One state of a demonstration, of a simulation alone."""

    step: int
    """The step of the demonstration that followed."""
    state: dict[str, Any]


class DemoStarts:
    """Chooses which episodes begin in a demonstration, and where."""

    def __init__(self, demos: Sequence[Sequence[DemoStart]], share: float, steps: int, made: int = 0) -> None:
        """`made`: steps that the run had made before this actor joined it."""
        self._demos, self._share, self._steps, self._made = demos, share, steps, made

    def share(self, made: int) -> float:
        """Share of the episodes that begin in a demonstration after so many steps of the actor."""
        return self._share * max(0.0, 1.0 - (self._made + made) / self._steps)

    def begin(self, env: TaskEnv, rows: Sequence[int], random: np.random.Generator, made: int) -> tuple[Observation | None, dict[int, int]]:
        """Rows that were just reset: some of them go to a state of a demonstration.

        Returns the observation of all rows, None if nothing was changed; and of every row that was moved the step it begins with.
        """
        chosen: dict[int, DemoStart] = {}
        for row in rows:
            if random.random() < self.share(made):
                demo = self._demos[int(random.integers(len(self._demos)))]
                chosen[row] = demo[int(random.integers(len(demo)))]
        if not chosen:
            return None, {}
        state = env.state()
        for row, start in chosen.items():
            state = with_row(state, row, start.state)
        return env.restore(state), {row: start.step for row, start in chosen.items()}


def demo_starts(task: str, files: Sequence[Path], share: float, steps: int, made: int = 0) -> DemoStarts:
    """Execute the demonstrations again in one simulation of the task, and keep the states."""
    env = make_env(task)
    with ending(env):
        require_restorable(task, env)
        demos = [list(states) for file in files for states in _states_of(env, file)]
    if not demos:
        raise ConfigError(f"demo_starts is {share:g}, but there are no demonstrations to begin in: give --demos FILE")
    return DemoStarts(demos, share, steps, made)


def require_restorable(task: str, env: TaskEnv) -> None:
    """Refuse an environment whose episodes cannot begin in the middle of a demonstration."""
    if known_task(task) is None or sees(env.spec) or not env.capabilities.saves:
        raise ConfigError(
            f"--demo-starts: episodes of '{task}' cannot begin in the middle of a demonstration. That takes a simulation of Tandem's own "
            "without cameras. Leave --demo-starts out."
        )


def _states_of(env: TaskEnv, file: Path) -> Iterator[Iterator[DemoStart]]:
    with open_demos(file, env.spec) as opened:
        attempt = 0
        for episode in opened.episodes():
            attempt = begin_as_recorded(env, episode[0].observation, opened, tuple(env.spec.observation), attempt)
            if attempt < 0:
                raise ConfigError(
                    f"{file}: a demonstration does not begin at any start that its file has the seed of, so nobody knows the states of the "
                    "simulation. Record it with this version (`tandem record`), or leave --demo-starts out."
                )
            yield _again(env, episode, file)
            attempt += 1


def _again(env: TaskEnv, episode: Sequence[Transition], file: Path) -> Iterator[DemoStart]:
    for number, step in enumerate(episode):
        yield DemoStart(number, env.state())
        seen = env.step(step.action[None]).observation
        if not all(np.array_equal(seen[name][0], step.next_observation[name]) for name in env.spec.observation):
            raise ConfigError(
                f"{file}: executed again, the demonstration {step.episode} goes another way from step {number} on: the simulation "
                "has changed since it was recorded. Record it again, or leave --demo-starts out."
            )


def begin_as_recorded(env: TaskEnv, recorded: Observation, opened: OpenDemos, names: Sequence[str], first: int = 0) -> int:
    """Reset to where an episode of a file began: the first attempt of its recording with this observation; -1 if there is none."""
    seed = opened.attributes.get("seed")
    if isinstance(seed, int) and env.capabilities.seeds and env.capabilities.clock == "simulated":
        for attempt in range(first, first + ATTEMPTS):
            seen = env.reset([0], [episode_seed(seed, "demonstrations", attempt)])
            if all(np.array_equal(seen[name][0], recorded[name]) for name in names):
                return attempt
    return -1

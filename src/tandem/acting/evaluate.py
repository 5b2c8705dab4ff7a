"""Evaluation of a policy: episodes on seeds of their own, deterministic or stochastic, success with an interval."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from tandem.envs.registry import make_env, registered
from tandem.envs.task_env import TaskEnv, ending
from tandem.errors import EpisodeLost
from tandem.types import Observation

MAX_ROWS = 128
LOST_AT_MOST = 5
"""Times that an episode of an evaluation may be lost by a served environment."""

Act = Callable[[Observation], np.ndarray]
"""Observations of N rows -> actions (N, action_dim). A policy with memory has a method `reset`, for new episodes in all rows."""


@runtime_checkable
class Remembering(Protocol):
    """Acts by its memory since the last `reset`."""

    def reset(self) -> None: ...


@dataclass(frozen=True)
class Interval:
    """A share with its 95 % Wilson interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def wilson(successes: int, trials: int, z: float = 1.96) -> Interval:
    """Correct also for 0 or all successes of a few trials, where the usual formula gives an interval of width 0."""
    if trials == 0:
        return Interval(math.nan, 0.0, 1.0)
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))


@dataclass(frozen=True)
class Evaluation:
    """One element per episode, in the order of the seeds."""

    success: np.ndarray
    length: np.ndarray
    returns: np.ndarray
    success_known: bool = True
    """Whether the environment reported success at all; otherwise only the return says something."""

    @property
    def rate(self) -> Interval:
        return wilson(int(self.success.sum()), len(self.success))

    @property
    def success_length(self) -> float:
        """Mean number of actions of a success."""
        return float(self.length[self.success].mean()) if self.success.any() else math.nan


def evaluate(
    task: str,
    act: Act,
    seeds: Sequence[int],
    turn: Callable[[], None] = lambda: None,
    enough: Callable[[int], bool] = lambda episodes: False,
    accept: Callable[[TaskEnv], TaskEnv] = lambda env: env,
) -> Evaluation:
    """One episode per seed. Rows that are done stand still, so that an evaluation costs no more than its steps.

    `turn` is called before each step: an evaluation may take long, and its caller may have to show that it is alive. `enough` is
    asked with the number of episodes after each group of rows that are stepped together, and ends the evaluation early. `accept` looks at
    the environment before anything moves: it may raise, and returns the one to step (under limits, where a robot is evaluated).
    """
    rows = MAX_ROWS if registered(task) is not None else 1  # a Gymnasium environment is stepped alone, and made once
    env, parts = None, []
    with contextlib.ExitStack() as at_the_end:
        for start in range(0, len(seeds), rows):
            chosen = seeds[start : start + rows]
            if env is None or env.num_envs != len(chosen):
                env = accept(make_env(task, len(chosen)))  # one that it refuses is closed, and not halted: somebody else may have it
                at_the_end.enter_context(ending(env))
            parts.append(_evaluate_again_if_lost(env, act, chosen, turn))
            if enough(start + len(chosen)):
                break
    success, length, returns = (np.concatenate([getattr(part, name) for part in parts]) for name in ("success", "length", "returns"))
    return Evaluation(success, length, returns, any(part.success_known for part in parts))


def _evaluate_again_if_lost(env: TaskEnv, act: Act, seeds: Sequence[int], turn: Callable[[], None]) -> Evaluation:
    """An episode that a served environment lost is neither a success nor a failure: it begins again, with its seed."""
    for _ in range(LOST_AT_MOST):
        with contextlib.suppress(EpisodeLost):
            return _evaluate_rows(env, act, seeds, turn)
    raise EpisodeLost(f"environment '{env.spec.task}' lost the episode of an evaluation {LOST_AT_MOST} times; is its server running?")


def _evaluate_rows(env: TaskEnv, act: Act, seeds: Sequence[int], turn: Callable[[], None]) -> Evaluation:
    count = len(seeds)
    observation = env.reset(seeds=seeds)
    _begin(act)
    success, length, returns, running = np.zeros(count, bool), np.zeros(count, int), np.zeros(count), np.ones(count, bool)
    known = False
    while running.any():
        turn()
        step = env.step(act(observation))
        if step.lost is not None:
            raise EpisodeLost(f"environment '{env.spec.task}' lost an episode")
        observation = step.observation
        length += running
        returns += step.reward
        success |= step.success
        known |= step.success_known
        running &= ~step.ended
    return Evaluation(success, length, returns, known)


def _begin(act: Act) -> None:
    """Clear the memory: no episode may depend on the one before it."""
    if isinstance(act, Remembering):
        act.reset()

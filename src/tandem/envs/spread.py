"""Simulations of one batch in several places: each has some of the rows, and they are stepped together.

Every row has random numbers of its own, so where it is simulated changes nothing: PPO learns the same, to the last bit, from one place
or from several. (A curriculum that looks at all rows of a place is the exception: it is then one for each place.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tandem.envs.registry import make_batch
from tandem.envs.shaping import Reward
from tandem.envs.task import Practice
from tandem.errors import ConfigError
from tandem.types import Observation, Spec, Symmetry


class Simulations:
    """The rows of one place, for calls from another process."""

    def __init__(self, task: str, rows: int, reward: Reward | None, practice: Practice | None, threads: int) -> None:
        self._env = make_batch(task, rows, reward=reward, practice=practice, num_threads=threads)

    def described(self) -> tuple[Spec, dict[str, Any], Symmetry | None]:
        return self._env.task_spec, dict(self._env.metadata), self._env.symmetry

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """A method of the environment, or `described`."""
        return self.described() if method == "described" else getattr(self._env, method)(*arguments, **named)


class Place(Protocol):
    """Where some rows are simulated: `Simulations` that are called. `ask` returns at once; what it gives waits for the answer."""

    def ask(self, method: str, *arguments: Any, **named: Any) -> Callable[[], Any]: ...


def rows_of(num_envs: int, places: int) -> list[int]:
    """How many rows each place gets: as equal as possible."""
    if not 1 <= places <= num_envs:
        raise ConfigError(f"{num_envs} simulations cannot be spread over {places} places: give 1 to {num_envs} --collectors")
    return [len(part) for part in np.array_split(np.arange(num_envs), places)]


class SpreadEnv:
    """Steps the rows of all places as one `RolloutEnv`. It cannot be saved: a run that is resumed begins new episodes."""

    saves = False

    def __init__(self, places: Sequence[Place], rows: Sequence[int]) -> None:
        """`rows`: how many each place has."""
        self._places, self.num_envs = places, sum(rows)
        self._ends = np.cumsum(rows)[:-1]
        described: tuple[Spec, dict[str, Any], Symmetry | None] = places[0].ask("described")()
        self.task_spec, self.metadata, self.symmetry = described

    def _all(
        self, method: str, parts: Sequence[tuple[Any, ...]] | None = None, named: Sequence[Mapping[str, Any]] | None = None
    ) -> list[Any]:
        """The same call in every place at once, each with its own part of the arguments."""
        count = len(self._places)
        calls = zip(self._places, parts or [()] * count, named or [{}] * count, strict=True)
        answers = [place.ask(method, *arguments, **keywords) for place, arguments, keywords in calls]
        return [answer() for answer in answers]

    def _split(self, values: Any) -> list[np.ndarray]:
        return np.split(np.asarray(values), self._ends)

    def reset(self, *, seed: int | Sequence[int | None] | None = None) -> tuple[Observation, dict[str, Any]]:
        seeds = [seed + row for row in range(self.num_envs)] if isinstance(seed, int) else seed or [None] * self.num_envs
        named = [{"seed": seeds[begin:end]} for begin, end in zip([0, *self._ends], [*self._ends, self.num_envs], strict=True)]
        return joined([observation for observation, _ in self._all("reset", named=named)]), {}

    def step(self, actions: np.ndarray, /) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        found = self._all("step", [(part,) for part in self._split(actions)])
        observation, reward, terminated, truncated, info = (joined(list(parts)) for parts in zip(*found, strict=True))
        return observation, reward, terminated, truncated, info

    def set_elapsed(self, steps: np.ndarray) -> None:
        self._all("set_elapsed", [(part,) for part in self._split(steps)])

    def figures(self) -> dict[str, float]:
        """Means over the places."""
        found = self._all("figures")
        return {name: float(np.mean([figures[name] for figures in found])) for name in found[0]}

    def halt(self, reason: str) -> None:
        """A simulation moves only inside of `step`."""

    def state(self) -> dict[str, Any]:
        raise ConfigError("simulations in several places are not saved")

    def restore(self, state: dict[str, Any]) -> Observation:
        raise ConfigError(f"simulations in several places are not saved; got a state of {sorted(state)}")

    def close(self) -> None:
        self._all("close")


def joined(parts: Sequence[Any]) -> Any:
    """The rows of all places below each other, entry by entry; what is no array must be the same everywhere."""
    first = parts[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    if isinstance(first, dict):
        return {name: joined([part[name] for part in parts]) for name in first}
    assert all(part == first for part in parts), parts
    return first

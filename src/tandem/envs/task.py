"""A task: what the robot meets and what counts as done, written once for N simulations.

    build ─► bind ─► reset(rows) ─► [ advance(rows, action) ─► observe(rows) ─► judge(rows) ] ─► reset(rows) ...

Every array a task keeps has one row per simulation, and every method works on the rows it is given.
Row i draws from its own random stream only, so that it does the same alone as among thousands.
`BatchEnv` and `SingleEnv` turn a task into Gymnasium environments; a task never counts steps or episodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tandem.envs.rows import ALL as ALL
from tandem.envs.rows import Rows as Rows
from tandem.envs.rows import ids as ids
from tandem.errors import ConfigError
from tandem.types import Observation, Spec, Symmetry

if TYPE_CHECKING:
    import mujoco
    import mujoco.batch


@dataclass(frozen=True)
class Judgement:
    """What a step was worth; arrays with one element per row asked about."""

    reward: np.ndarray
    terminated: np.ndarray
    success: np.ndarray
    terms: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The reward's parts by name, where it has any; their sum is the reward up to rounding."""


@dataclass(frozen=True)
class Stages:
    """How far an episode has come, for people who ask where the failed ones end."""

    names: tuple[str, ...]
    """What has to be done next, in order."""
    of: Callable[[Observation], np.ndarray]
    """The number of the stage of every row, (n,), by what is observed."""
    held: int
    """From this one on the object is held."""


@dataclass(frozen=True)
class Practice:
    """Episodes that are easier, or of other physics, than those a policy is judged by. For learning in simulation only."""

    curriculum: bool = False
    """Begin with easy episodes; each simulation makes its own harder as it succeeds."""
    randomise: float = 0.0
    """Largest relative change of friction, bearings and stiffness from episode to episode."""

    def __post_init__(self) -> None:
        if not 0 <= self.randomise < 1:
            raise ConfigError(f"randomise must be from 0 to below 1 (a friction cannot be 0 or less), got {self.randomise}")


class Task(ABC):
    """One skill to learn. Subclasses are final: vary a task by its options, not by overriding."""

    spec: Spec
    persistent = False
    """Whether each simulation keeps all it computed for itself (`mujoco.batch`); needs memory, and is rarely needed."""

    symmetry: Symmetry | None = None
    """A mirror in which the physics, the reward and the end of an episode are the same; tests hold it to that."""

    figures: Callable[[], dict[str, float]] | None = None
    """Gives values worth logging besides the reward, such as the difficulty of a curriculum; None for a task that has none."""

    @abstractmethod
    def build(self) -> mujoco.MjModel:
        """The physics, compiled."""

    @abstractmethod
    def bind(self, batch: mujoco.batch.Batch) -> None:
        """Bind to the simulations and allocate one row of everything for each."""

    @abstractmethod
    def reset(self, rows: Rows, streams: list[np.random.Generator]) -> None:
        """Start a new episode in these rows (already at the model's defaults), one random stream each.

        Leaves the derived fields computed (`batch.forward`).
        """

    @abstractmethod
    def advance(self, rows: Rows, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        """Simulate one control period. `action` (n, action_dim) is finite and within [-1, 1]."""

    @abstractmethod
    def observe(self, rows: Rows) -> Observation:
        """What the policy may see now, as new arrays (n, ...) of the spec's dtypes."""

    @abstractmethod
    def judge(self, rows: Rows) -> Judgement:
        """Reward and end of the step just made."""

    @abstractmethod
    def memory(self) -> dict[str, np.ndarray]:
        """Live arrays, a row per simulation, that with the physics' state make an open episode whole (for resuming)."""

    def close(self) -> None:  # noqa: B027 (most tasks hold nothing)
        """Give back what it holds beside the simulations, such as a context to draw with."""

"""The two interfaces of an environment: `TaskEnv` for everything that acts, `RolloutEnv` for PPO's fast path.

    TaskEnv       reset ──► [ step ──► step ──► ... ] ──► reset of the rows that ended ──► ...     actor, evaluation, recording, play
    RolloutEnv    reset ──► [ step, which also resets the rows that ended ]                        PPO

A simulation, a Gymnasium environment and a robot all look the same from here. What they cannot do is declared in `Capabilities`; nobody
asks an environment for an attribute that it may not have. `tandem.testing` has the tests that every TaskEnv must pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from tandem.envs.physics import Physics
from tandem.types import Observation, Spec, Step, Symmetry


@dataclass(frozen=True)
class HaltSession:
    """A session of a served environment, as another process halts it."""

    name: str
    uri: str
    session: str
    token: str = field(repr=False)


@dataclass(frozen=True)
class HaltPlan:
    """How a process other than the one that steps it halts an environment (`acting/watchdog_process.py`)."""

    command: tuple[str, ...] = ()
    """A program with its arguments; it stops all motion and ends with code 0."""
    sessions: tuple[HaltSession, ...] = ()


@dataclass(frozen=True)
class Capabilities:
    """What an environment can do beyond `reset` and `step`."""

    saves: bool = False
    """`state` and `restore` continue bit for bit."""
    seeds: bool = True
    """`reset` with a seed starts the same episode again."""
    renders: bool = False
    """`render` gives a picture."""
    cameras: tuple[str, ...] = ()
    """Cameras of the simulation that a viewer may ask for, by name."""
    clock: Literal["simulated", "real"] = "simulated"
    """`real`: time goes on between two steps, so the control loop must keep the pace of the real world."""
    needs_limits: bool = False
    """Nothing behind `step` limits speed, force or workspace: a file of limits is required."""
    bounded: bool = False
    """`step` itself keeps speed and workspace within what its settings say: it may move without a file of limits."""
    halt_plan: HaltPlan | None = None
    """How another process halts it when ours hangs or is gone; None: nobody else can."""


class TaskEnv(Protocol):
    """N environments of one task, reset by a call of their own."""

    @property
    def spec(self) -> Spec: ...

    @property
    def num_envs(self) -> int: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        """Start new episodes in these rows (None: in all), with one seed for each of them; None continues the row's random stream.

        Returns the observation of all rows, copied. May take as long as a robot needs to drive to its start.
        """
        ...

    def step(self, action: np.ndarray) -> Step:
        """One control period in every row; `action` is (num_envs, action_dim). A row that has ended stands still until it is reset."""
        ...

    def halt(self, reason: str) -> None:
        """Stop all motion now. Called from any thread, at any time, also during `step` or `reset`, and more than once.

        Every wrapper forwards it, to every row. The next `step` or `reset` moves again: who must not move does not call them.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Everything that decides the future, copied, as plain containers and arrays; only where `capabilities.saves`."""
        ...

    def restore(self, state: dict[str, Any]) -> Observation:
        """Continue where `state` was taken; returns the observation that the next action answers."""
        ...

    def render(self) -> np.ndarray:
        """A picture of row 0, (height, width, 3) uint8; raises `RenderingUnavailable` where there is none."""
        ...

    def physics(self) -> Physics | None:
        """The MuJoCo simulation of row 0 to look at; None where there is none."""
        ...

    def close(self) -> None: ...


class RolloutEnv(Protocol):
    """N environments that reset in the same step, with `info["final_obs"]`, `info["success"]` and maybe `info["reward_terms"]`.

    `info["success_known"]` is False where the environment reports no success at all; without this entry it does.
    """

    @property
    def task_spec(self) -> Spec: ...

    @property
    def num_envs(self) -> int: ...

    @property
    def metadata(self) -> dict[str, Any]:
        """`autoreset_mode`, as Gymnasium declares it."""
        ...

    @property
    def saves(self) -> bool: ...

    @property
    def symmetry(self) -> Symmetry | None:
        """The mirror in which the task looks the same, where it declares one."""
        ...

    def reset(self, *, seed: int | Sequence[int | None] | None = None) -> tuple[Observation, dict[str, Any]]: ...

    def step(self, actions: np.ndarray, /) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]: ...

    def set_elapsed(self, steps: np.ndarray) -> None:
        """Set the age of each row's episode, so that rows that began together do not all end together."""
        ...

    def halt(self, reason: str) -> None:
        """As `TaskEnv.halt`."""
        ...

    def figures(self) -> dict[str, float]:
        """Values worth logging besides the reward, such as the difficulty of a curriculum."""
        ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> Observation: ...

    def close(self) -> None: ...


@contextlib.contextmanager
def ending(env: TaskEnv | RolloutEnv) -> Iterator[None]:
    """The block uses the environment. However it ends, motion is stopped before anything else, and the environment closed."""
    try:
        yield
    finally:
        try:
            env.halt("the program ends")
        finally:
            env.close()

"""Who decides: a person, a script that stands in for one, or nobody (then the policy's proposal stands).

The override happens in the loop, in sight, in the agent's own action frame; so the action that is stored is the one that was
executed and needs no way back through wrappers.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tandem.types import Observation


class Operator(Protocol):
    """Asked once per step. `reset` is called when an episode begins."""

    name: str

    def reset(self) -> None: ...

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        """The action to execute, in [-1, 1], and whether a person chose it (`by_human`)."""
        ...


class ResumableOperator(Operator, Protocol):
    """An operator whose memory is part of a checkpoint: after `restore` it decides as if nothing had happened."""

    def memory(self) -> dict[str, Any]:
        """As plain containers, numbers and arrays; empty for an operator without memory."""
        ...

    def restore(self, state: dict[str, Any]) -> None: ...


class HandsOff:
    """Lets the proposal stand."""

    name = "none"

    def reset(self) -> None:
        pass

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        del observation
        if proposed is None:
            raise ValueError("HandsOff has no action of its own: it needs a proposal")
        return proposed, False

    def memory(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


class Still:
    """Commands no motion; to see what the world does by itself."""

    name = "zero"

    def __init__(self, action_dim: int) -> None:
        self._action = np.zeros(action_dim, np.float32)

    def reset(self) -> None:
        pass

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        del observation, proposed
        return self._action, False

    def memory(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


class Fumbling:
    """Uniform random actions; the floor against which success is measured."""

    name = "random"

    def __init__(self, action_dim: int, seed: int | None = None) -> None:
        self._random, self._action_dim = np.random.default_rng(seed), action_dim

    def reset(self) -> None:
        pass

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        del observation, proposed
        return self._random.uniform(-1, 1, self._action_dim).astype(np.float32), False

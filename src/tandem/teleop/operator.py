"""Operators decide which action is executed: a person's, a script's that stands in for one, or the policy's proposal.

The override happens in the actor's loop and in the agent's own action frame, so the stored action is the executed one and needs no way
back through wrappers.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tandem.layouts import ActionLayout
from tandem.types import Observation


class Operator(Protocol):
    """Asked once per step. `reset` is called when an episode begins."""

    name: str

    def reset(self) -> None: ...

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        """The action to execute, and whether a person chose it (`by_human`)."""
        ...


class ResumableOperator(Operator, Protocol):
    """An operator whose memory is part of a checkpoint: after `restore` it decides as if nothing had happened."""

    tag: str
    """Why the person who chose the last action took over (`ask.TAGS`); empty where nobody said."""

    def memory(self) -> dict[str, Any]:
        """As plain containers, numbers and arrays; empty for an operator without memory."""
        ...

    def restore(self, state: dict[str, Any]) -> None: ...


class HandsOff:
    """Lets the proposal stand."""

    name = "none"
    tag = ""

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
    """Commands no motion, to see what happens without any."""

    name = "zero"
    tag = ""

    def __init__(self, layout: ActionLayout) -> None:
        self._action = layout.rest

    def reset(self) -> None:
        pass

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        del observation, proposed
        return self._action, False

    def memory(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


class RandomActions:
    """Uniform random actions: the baseline against which success is measured."""

    name = "random"

    def __init__(self, layout: ActionLayout, seed: int | None = None) -> None:
        self._random, self._layout = np.random.default_rng(seed), layout

    def reset(self) -> None:
        pass

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        del observation, proposed
        return self._layout.random(self._random, 1)[0], False

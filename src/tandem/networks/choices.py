"""Discrete parts of an action beside its axes: which columns they are, and how both become one vector."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tandem.layouts import ActionLayout

PREFIX = "choices/"
"""How the names of their arrays begin among those of a policy."""


@dataclass(frozen=True)
class Choices:
    """The discrete parts of an action, in the order of their columns; none for an action of axes alone."""

    columns: tuple[int, ...] = ()
    """Columns of the action that hold the number of a choice."""
    sizes: tuple[int, ...] = ()
    """How many choices each of them has."""

    @classmethod
    def of(cls, layout: ActionLayout) -> Choices:
        columns = np.flatnonzero(layout.is_discrete)
        return cls(tuple(columns.tolist()), tuple((layout.high[columns].astype(int) + 1).tolist()))

    @classmethod
    def from_arrays(cls, parameters: Mapping[str, np.ndarray]) -> Choices:
        """Those of a policy's parameters; none if it has none."""
        if f"{PREFIX}columns" not in parameters:
            return cls()
        return cls(tuple(parameters[f"{PREFIX}columns"].tolist()), tuple(parameters[f"{PREFIX}sizes"].tolist()))

    def arrays(self) -> dict[str, np.ndarray]:
        """What `from_arrays` reads."""
        if not self.columns:
            return {}
        return {f"{PREFIX}columns": np.array(self.columns, np.int32), f"{PREFIX}sizes": np.array(self.sizes, np.int32)}

    @property
    def total(self) -> int:
        """Numbers that a network gives out for them: one for each choice of each part."""
        return sum(self.sizes)

    @property
    def parts(self) -> tuple[slice, ...]:
        """Where the numbers of each part are among all of them."""
        ends = np.cumsum((0, *self.sizes)).tolist()
        return tuple(slice(start, end) for start, end in itertools.pairwise(ends))

    def axes(self, action_dim: int) -> np.ndarray:
        """The columns of an action that are not choices."""
        return np.setdiff1d(np.arange(action_dim), self.columns)

    def order(self, action_dim: int) -> np.ndarray:
        """Where each column of the action is among the columns [axes, choices] beside each other."""
        return np.argsort(np.concatenate([self.axes(action_dim), np.array(self.columns, int)]))

    def joined(self, axes: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """The whole action."""
        if not self.columns:
            return axes
        both = np.concatenate([axes, chosen.astype(axes.dtype)], axis=-1)
        return both[..., self.order(both.shape[-1])]

    def likeliest(self, logits: np.ndarray) -> np.ndarray:
        """The choice of each part with the largest number, `(..., parts)`."""
        return np.stack([logits[..., part].argmax(axis=-1) for part in self.parts], axis=-1)

    def drawn(self, logits: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """A choice of each part with the probability softmax(logits), by one number of [0, 1) for each, `(..., parts)`."""
        chosen = []
        for number, part in enumerate(self.parts):
            odds = np.exp(logits[..., part] - logits[..., part].max(axis=-1, keepdims=True))
            reached = odds.cumsum(axis=-1) / odds.sum(axis=-1, keepdims=True)
            below = (reached <= uniform[..., number, None]).sum(axis=-1)
            chosen.append(np.minimum(below, odds.shape[-1] - 1))  # the last sum may round to less than 1
        return np.stack(chosen, axis=-1)


NONE = Choices()
"""Of an action of axes alone."""

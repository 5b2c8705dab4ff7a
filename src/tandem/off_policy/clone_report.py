"""What a clone has learned, in honest figures: on episodes that it has not seen, for each axis, against guesses that know nothing.

    zero        no motion; a gripper stays where it stands when an episode begins
    mean        the mean of the demonstrated actions
    previous    what was done in the step before: hard to beat where an operator moves evenly, and it never begins a motion

A clone whose error is as large as that of `zero` has learned to stand still, whatever its loss looks like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.data.figures import action_names
from tandem.layouts import ActionLayout
from tandem.types import Spec

STILL = 0.3
"""A clone whose actions are this share of the demonstrated ones, or less, stands still."""
NO_BETTER = 0.9
"""An error above this share of a guess's is no better than the guess."""
GUESSES = ("zero", "mean", "previous")


@dataclass(frozen=True)
class CloneReport:
    """Mean squared errors; for a discrete part the share of wrong choices."""

    axes: tuple[str, ...]
    clone: np.ndarray
    """(axes,) on held-out episodes"""
    train: np.ndarray
    """(axes,) on the episodes that it was trained on"""
    guesses: dict[str, np.ndarray]
    """(axes,) each, on held-out episodes"""
    motion: float
    """How large the clone's actions are on held-out episodes, as a share of the demonstrated ones (root mean square)."""
    steps: int
    """Held-out steps."""

    @property
    def stands_still(self) -> bool:
        return self.motion <= STILL

    def no_better_than(self, guess: str) -> list[str]:
        """Axes on which it is no better than a guess; an axis that the guess gets right is left out."""
        worse = (self.clone > NO_BETTER * self.guesses[guess]) & (self.guesses[guess] > 1e-6)
        return [name for name, flag in zip(self.axes, worse, strict=True) if flag]

    def lines(self) -> list[str]:
        """The table and what follows from it."""
        heads = f"  {'axis':<14} {'clone':>9} {'(seen)':>9} {'zero':>9} {'mean':>9} {'previous':>9}"
        rows = [
            f"  {name:<14} {self.clone[i]:9.4f} {self.train[i]:9.4f} " + " ".join(f"{self.guesses[guess][i]:9.4f}" for guess in GUESSES)
            for i, name in enumerate(self.axes)
        ]
        return [f"error on {self.steps:,} held-out steps (mean squared; a choice: share of wrong ones)", heads, *rows, *self._verdicts()]

    def _verdicts(self) -> list[str]:
        if self.stands_still:
            said = [f"it has learned to stand still: its actions are {self.motion:.0%} of the demonstrated ones"]
        else:
            said = [f"it moves: its actions are {self.motion:.0%} of the demonstrated ones"]
        for guess, words in (("zero", "not moving"), ("mean", "the mean action"), ("previous", "repeating the action before")):
            worse = self.no_better_than(guess)
            if worse:
                said.append(f"no better than {words} in {', '.join(worse)}")
        return said

    def to_json(self) -> dict[str, Any]:
        figures = {name: array.round(6).tolist() for name, array in {"clone": self.clone, "train": self.train, **self.guesses}.items()}
        return {"axes": list(self.axes), **figures, "motion": self.motion, "stands_still": self.stands_still, "steps": self.steps}


def report_clone(spec: Spec, predicted: np.ndarray, actions: np.ndarray, episodes: np.ndarray, held_out: np.ndarray) -> CloneReport:
    """`predicted` and `actions` `(N, action_dim)` of all steps, in the order of their episodes."""
    layout, chosen = ActionLayout.of(spec), np.isin(episodes, held_out)
    first = np.append(True, episodes[1:] != episodes[:-1])
    before = np.where(first[:, None], layout.rest, np.roll(actions, 1, axis=0))
    usual = np.array([_usual(actions[~chosen, column], layout.is_discrete[column]) for column in range(layout.size)])
    still, mean = (np.broadcast_to(guess, actions.shape) for guess in (layout.rest, usual))
    guesses = {"zero": still, "mean": mean, "previous": before}

    def error(guess: np.ndarray, rows: np.ndarray) -> np.ndarray:
        wrong = np.rint(guess[rows]) != np.rint(actions[rows])
        return np.where(layout.is_discrete, wrong, (guess[rows] - actions[rows]) ** 2).mean(axis=0)

    moving = ~(layout.is_discrete | layout.stays)
    done, shown = (np.sqrt(np.mean(np.square(array[chosen][:, moving]))) if moving.any() else 1.0 for array in (predicted, actions))
    return CloneReport(
        axes=tuple(action_names(spec)),
        clone=error(predicted, chosen),
        train=error(predicted, ~chosen),
        guesses={name: error(guess, chosen) for name, guess in guesses.items()},
        motion=float(done / shown) if shown > 0 else 1.0,
        steps=int(chosen.sum()),
    )


def _usual(column: np.ndarray, discrete: bool) -> float:
    """The mean of an axis; of a discrete part the choice that is made most often."""
    return float(np.bincount(np.rint(column).astype(int)).argmax() if discrete else column.mean())

"""Control steps put together to decisions when a batch is drawn (`tandem.decisions`).

Steps are stored one by one, as they were made. A decision that began at step t and lasted for k <= h steps is one transition:

    observation   before step t
    action        what the k executed actions amount to: their mean where a decision is held. Interpolated from p (executed before), the x
                  for which p + share (x - p) comes nearest to them (least squares): x = p + sum share (a - p) / sum share^2
    reward        r_t + γ r_(t+1) + ... + γ^(k-1) r_(t+k-1)      γ is the discount of one control step, whatever h is
    future        γ^k times the value of the observation after step t + k - 1

A decision is cut short by the end of its episode, by a person who takes over or lets go, and where its next step is not here (it has not
arrived, or has been written over). `n_step` sums over so many decisions.

Where a decision begins: the policy's are where it made them, every h steps from the start of the episode or from a cut. A person makes
none: each step of a demonstration or of a correction may begin one (`sliding`), which gives h times as many to learn from.
A row that is drawn stands for the decision that it is part of, so all control steps are drawn alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tandem.decisions import Decisions
from tandem.layouts import ActionLayout
from tandem.types import Spec, Transition


class _Newest(NamedTuple):
    """The newest step of an episode that runs."""

    step: int
    place: int
    """Which step of its decision it is."""
    by_person: bool
    action: np.ndarray
    base: np.ndarray
    """What was executed before the decision."""


class DecisionRows:
    """Which rows of a replay belong to one decision."""

    def __init__(self, decisions: Decisions, spec: Spec, capacity: int, sliding: bool) -> None:
        self.decisions, self._layout, self._sliding = decisions, ActionLayout.of(spec), sliding
        self._shares = decisions.shares
        self.begins = np.zeros(capacity, np.int64)
        """The row with which the decision begins that each row is part of; -1: that row is not here."""
        self._place = np.zeros(capacity, np.int64)
        """Which step of its decision each row is."""
        self._by_person = np.zeros(capacity, bool)
        self._base = np.zeros((capacity if decisions.between == "interpolate" else 0, spec.action_dim), np.float32)
        """What was executed before the decision of each row; needed only where decisions are interpolated."""
        self._running: dict[tuple[str, int], _Newest] = {}

    def insert(self, step: Transition, row: int, before: int | None) -> None:
        """`before`: the row of the step before, if it is here."""
        newest = self.pass_by(step)
        self._place[row], self._by_person[row] = newest.place, newest.by_person
        self.begins[row] = row if newest.place == 0 else -1 if before is None else self.begins[before]
        if len(self._base):
            self._base[row] = newest.base

    def pass_by(self, step: Transition) -> _Newest:
        """A step that the replay may have no room for: where decisions begin must not depend on what is left of them."""
        name, action = (step.source, step.episode), step.action.reshape(self._layout.size)
        before = self._running.pop(name, None)
        if before is None or before.step != step.step - 1:
            newest = _Newest(step.step, 0, step.intervened, action, action if step.step else self._layout.rest)
        elif not self._sliding and before.by_person == step.intervened and before.place + 1 < self.decisions.steps:
            newest = _Newest(step.step, before.place + 1, step.intervened, action, before.base)
        else:
            newest = _Newest(step.step, 0, step.intervened, action, before.action)
        if not step.last:
            self._running[name] = newest
        return newest

    def forget(self, episodes: Iterable[tuple[str, int]]) -> None:
        for episode in episodes:
            self._running.pop(episode, None)

    def starts(self, rows: np.ndarray, episodes: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """The rows with which the decisions of these begin; a row itself where its beginning is not here any more."""
        first = self.begins.take(rows)
        here = first >= 0
        here &= (episodes.take(first) == episodes.take(rows)) & (steps.take(first) == steps.take(rows) - self._place.take(rows))
        return np.where(here, first, rows)

    def gathered(self, rows: np.ndarray, following: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The action that each decision from these rows on amounts to, and how many of its control steps are here.

        `following` is where the next step of each row is, `actions` what was executed in each.
        """
        base = self._base.take(rows, axis=0) if len(self._base) else np.zeros((*rows.shape, actions.shape[1]), np.float32)
        place, last, lasted = self._place.take(rows), rows, np.ones(rows.shape, np.int64)
        choice = executed = actions.take(rows, axis=0)
        share = self._shares.take(place)
        total, weight = share[..., None] * (executed - base), share**2
        for _ in range(self.decisions.steps - 1):
            after = following.take(last)
            goes_on = (after >= 0) & self._same_decision(last, after)
            last, lasted = np.where(goes_on, after, last), lasted + goes_on
            executed = actions.take(last, axis=0)
            share = np.where(goes_on, self._shares.take(place + lasted - 1), 0)
            total, weight = total + share[..., None] * (executed - base), weight + share**2
            choice = np.where(goes_on[..., None] & (executed != self._layout.rest), executed, choice)
        amounts = np.where(self._layout.is_discrete, choice, base + total / weight[..., None])
        return self._layout.clip(amounts).astype(np.float32), lasted

    def _same_decision(self, rows: np.ndarray, after: np.ndarray) -> np.ndarray:
        if self._sliding:
            return self._by_person.take(rows) == self._by_person.take(after)
        return self._place.take(after) == self._place.take(rows) + 1

    def columns(self) -> list[np.ndarray]:
        """One row each for every row of the replay."""
        return [self.begins, self._place, self._by_person, *([self._base] if len(self._base) else [])]

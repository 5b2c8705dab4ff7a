"""Decisions slower than control: a policy decides every h control steps, and what it decided is executed until then.

With small actions at a high rate one action changes the return by almost nothing, so all actions look alike to the critics. A decision
that lasts for h steps changes h times as much, and an episode has h times fewer of them.

    control step     0    1    2    3    4    5    6    7
    h = 4, hold      a    a    a    a    b    b    b    b
    h = 4, interpolate, from what was executed before to what was decided:
                    a/4  a/2 3a/4   a    ..   ..   ..   b

Only the policy is slower. Limits, take-over, stop, page and recorded data stay at control rate: steps are stored one by one, so that h
can be changed afterwards (`data/decisions.py` puts them together again). A person who takes over ends the decision at once, and
when they let go the policy decides anew. Choices (a gripper that opens or closes) are held, never interpolated.

A policy carries its h among its parameters, so that every program acts with it at the pace that it was trained with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tandem.errors import ConfigError
from tandem.layouts import ActionLayout

Between = Literal["hold", "interpolate"]
DECIDES = "decision/steps"
"""The parameter of a policy that says how often it decides; one that decides at every control step has none."""
MOST = 1000
"""Control steps of a decision; more are a mistake."""
_WAYS: tuple[Between, ...] = ("hold", "interpolate")


@dataclass(frozen=True)
class Decisions:
    """How often a policy decides, and what is executed in between."""

    steps: int = 1
    """Control steps of a decision."""
    between: Between = "hold"

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MOST:
            raise ConfigError(f"decision_steps must be from 1 to {MOST}, got {self.steps}: how many control steps a decision lasts")
        if self.between not in _WAYS:
            raise ConfigError(f"between_decisions must be one of {', '.join(_WAYS)}, got '{self.between}'")

    @property
    def shares(self) -> np.ndarray:
        """(steps,) float32: how much of the decision each of its control steps executes; the rest is what was executed before it."""
        part = np.arange(1, self.steps + 1, dtype=np.float32) / np.float32(self.steps)
        return part if self.between == "interpolate" else np.ones_like(part)

    def arrays(self) -> dict[str, np.ndarray]:
        """As parameters of a policy; none for one that decides at every control step."""
        return {} if self.steps == 1 else {DECIDES: np.array([self.steps, _WAYS.index(self.between)], np.int32)}

    @classmethod
    def of(cls, parameters: Mapping[str, np.ndarray]) -> Decisions:
        """Those of a policy."""
        found = parameters.get(DECIDES)
        if found is None:
            return cls()
        if found.shape != (2,) or found.dtype.kind not in "iu" or not 0 <= found[1] < len(_WAYS):
            raise ConfigError(f"the policy does not say how often it decides: {DECIDES} is {found!r:.80}, expected two whole numbers")
        return cls(int(found[0]), _WAYS[int(found[1])])

    def __str__(self) -> str:
        return f"decides every {self.steps} control steps ({self.between})"


class Held:
    """Executes decisions of N robots, each of which began at a time of its own."""

    def __init__(self, decisions: Decisions, layout: ActionLayout) -> None:
        self.decisions, self._layout, self._shares = decisions, layout, decisions.shares
        self._made = np.zeros(0, np.int64)
        """Control steps since the last decision of each row; as many as it lasts: a new one is due."""
        self._decided = self._before = self._last = np.zeros((0, layout.size), np.float32)
        """What each row decided, what was executed before that, and what was executed last."""

    def __call__(self, propose: Callable[[], np.ndarray], rows: int) -> np.ndarray:
        """The actions of the next control step; `propose` is asked for (rows, action_dim) where a decision is due."""
        if len(self._made) != rows:
            self._start(rows)
        due = self._made >= self.decisions.steps
        if due.any():
            self._decided = np.where(due[:, None], np.asarray(propose(), np.float32), self._decided)
            self._before = np.where(due[:, None], self._last, self._before)
            self._made = np.where(due, 0, self._made)
        share = self._shares[self._made][:, None]
        actions = np.where(self._layout.is_discrete, self._decided, self._before + share * (self._decided - self._before))
        self._made, self._last = self._made + 1, actions
        return actions.copy()

    def begin(self, rows: Sequence[int] | np.ndarray | None = None) -> None:
        """New episodes in these rows (None: in all): a decision is due, and nothing was executed before."""
        chosen = slice(None) if rows is None else rows
        if len(self._made):
            self._made[chosen] = self.decisions.steps
            self._last[chosen] = self._layout.rest

    def cut(self, rows: np.ndarray, executed: np.ndarray) -> None:
        """In the rows of this mask somebody else acted: the decision is over. `executed` (N, action_dim) is what was done instead."""
        if len(self._made) == len(rows) and rows.any():
            self._made[rows] = self.decisions.steps
            self._last[rows] = executed[rows]

    def _start(self, rows: int) -> None:
        self._made = np.full(rows, self.decisions.steps)
        self._decided, self._before, self._last = (np.tile(self._layout.rest, (rows, 1)) for _ in range(3))

    def memory(self) -> dict[str, Any]:
        """What goes on from here needs."""
        return {"made": self._made.tolist(), "decided": self._decided, "before": self._before, "last": self._last}

    def restore(self, memory: Mapping[str, Any]) -> None:
        self._made = np.minimum(np.array(memory["made"], np.int64), self.decisions.steps)
        self._decided, self._before, self._last = (np.array(memory[name], np.float32) for name in ("decided", "before", "last"))


def held_for(parameters: Mapping[str, np.ndarray], layout: ActionLayout, now: Held | None = None) -> Held | None:
    """What executes the decisions of this policy: `now`, if it decides as often as the one before; None if it decides at every step."""
    decisions = Decisions.of(parameters)
    if decisions.steps == 1:
        return None
    return now if now is not None and now.decisions == decisions else Held(decisions, layout)

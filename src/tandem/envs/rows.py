"""Rows: which of the simulations of a batch a method of a task works on."""

from __future__ import annotations

from typing import Any

import numpy as np

Rows = slice | np.ndarray
"""Which simulations: `ALL`, or their indices in rising order."""

ALL = slice(None)


def ids(rows: Rows) -> np.ndarray | None:
    """The same rows in the form that `mujoco.batch` takes."""
    return None if isinstance(rows, slice) else rows


STREAMS = "streams"
"""Where a state holds the random streams of its rows."""


def with_row(state: dict[str, Any], row: int, alone: dict[str, Any]) -> dict[str, Any]:
    """A state of many simulations in which this row is where another simulation is; `alone` is the state of that one.

    The row goes on with its own random numbers: otherwise the same state would always be followed by the same noise.
    """
    changed: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, dict):
            changed[name] = with_row(value, row, alone[name])
        else:
            changed[name] = np.array(value)
            if name != STREAMS:
                changed[name][row] = alone[name][0]
    return changed

"""Rows: which of the simulations of a batch a method of a task works on."""

from __future__ import annotations

import numpy as np

Rows = slice | np.ndarray
"""Which simulations: `ALL`, or their indices in rising order."""

ALL = slice(None)


def ids(rows: Rows) -> np.ndarray | None:
    """The same rows in the form that `mujoco.batch` takes."""
    return None if isinstance(rows, slice) else rows

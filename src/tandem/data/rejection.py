"""Why the arrays of a step cannot be used, by entry and index. Asked only about a step that failed the quick test (`validation.py`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tandem.data.plausibility import believed
from tandem.layouts import TOLERANCE, ActionLayout
from tandem.types import Discrete, Entry, Observation


def observation_reason(observation: Observation, entries: Mapping[str, Entry], which: str) -> str | None:
    """The first entry that is missing, unknown or wrong; None if all are sound."""
    missing = sorted(entries.keys() - observation.keys())
    if missing:
        return f"{which} entry '{missing[0]}' is missing"
    unknown = sorted(observation.keys() - entries.keys(), key=str)  # names from outside need not be texts
    if unknown:
        return f"{which} entry '{unknown[0]!s:.100}' is not in the spec, which has {sorted(entries)}"
    for name, entry in entries.items():
        reason = array_reason(observation[name], entry, f"{which} entry '{name}'")
        if reason:
            return reason
    return None


def array_reason(array: np.ndarray, entry: Entry, what: str) -> str | None:
    """Wrong type, shape or dtype, or the first number that is NaN or infinite; None if it is sound."""
    if not isinstance(array, np.ndarray):
        return f"{what} is a {type(array).__name__}, not an array"
    if array.shape != entry.shape:
        return f"{what} has shape {array.shape}, the spec says {entry.shape}"
    if not np.can_cast(array.dtype, entry.dtype, casting="same_kind"):
        return f"{what} has dtype {array.dtype}, which cannot become {entry.dtype}"
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf here, and is named as such
        cast = array.astype(entry.dtype)
    bad = np.argwhere(~np.isfinite(cast))
    if len(bad):
        return f"{what} has {float(cast[tuple(bad[0])])} at {_index_text(bad[0])}"
    return _range_reason(cast, entry, what) if cast.dtype.kind == "f" else None


def action_reason(vector: np.ndarray, layout: ActionLayout) -> str | None:
    """The first column of an action of the right shape that is out of its range; None if it is sound."""
    parts = [part for part in layout.parts for _ in range(part.size)]
    for column, (part, value) in enumerate(zip(parts, vector.tolist(), strict=True)):
        if isinstance(part, Discrete):
            if not (abs(value - round(value)) <= TOLERANCE and 0 <= round(value) < len(part.choices)):
                return f"action at [{column}] is {value:.6g}, no choice of '{part.name}' ({part.numbered})"
        elif abs(value) > 1.0 + TOLERANCE:
            return f"action at [{column}] is {value:.6g}, outside [-1, 1]"
    return None


def _range_reason(array: np.ndarray, entry: Entry, what: str) -> str | None:
    """The first number that cannot be believed. Only its size is named, so that equal reasons can be counted."""
    low, high = believed(entry)
    beyond = np.argwhere((array < low) | (array > high))
    if not len(beyond):
        return None
    index = tuple(beyond[0])
    return f"{what} has about {array[index]:.0e} at {_index_text(beyond[0])}, beyond the plausible {low[index]:.4g} to {high[index]:.4g}"


def _index_text(index: np.ndarray) -> str:
    return f"[{', '.join(str(i) for i in index)}]"

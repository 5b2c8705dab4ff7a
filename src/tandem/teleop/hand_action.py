"""What a person's hand on a device commands, as an action."""

from __future__ import annotations

import numpy as np

from tandem.layouts import ActionLayout


def hand_action(layout: ActionLayout, axes: np.ndarray, standing: np.ndarray | None = None) -> np.ndarray:
    """The action of the axes of a device, `(size,)` in [-1, 1] each: an axis as it is; beyond a half, the next or the last choice from
    rest, and one end or the other of an absolute command, which otherwise stays as it is in the action `standing`."""
    clipped = np.clip(axes, -1.0, 1.0)
    if layout.all_continuous and not layout.stays.any():
        return clipped
    without, beyond = layout.rest if standing is None else still(layout, standing), np.abs(clipped) > 0.5
    pushed = np.clip(layout.rest + np.sign(clipped) * beyond, layout.low, layout.high)
    ends = np.where(beyond, np.sign(clipped), without)
    return np.where(layout.is_discrete, pushed, np.where(layout.stays, ends, clipped)).astype(np.float32)


def still(layout: ActionLayout, standing: np.ndarray) -> np.ndarray:
    """No motion after the action `standing`."""
    return np.where(layout.stays, standing, layout.rest).astype(np.float32)


def blend(layout: ActionLayout, share: float, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """`share` of the new action and the rest of the old one; choices are the new ones."""
    mixed = share * new + (1 - share) * old
    return (mixed if layout.all_continuous else np.where(layout.is_discrete, new, mixed)).astype(np.float32)

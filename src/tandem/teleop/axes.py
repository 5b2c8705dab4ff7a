"""Names of the columns of an action, as a person who steers knows them."""

from __future__ import annotations

from tandem.layouts import ActionLayout
from tandem.types import ActionPart, Continuous

AXES = ("x", "y", "z", "roll", "pitch", "yaw", "gripper")


def axes_of(layout: ActionLayout) -> tuple[str, ...]:
    """A name for every column."""
    if len(layout.parts) == 1 and isinstance(layout.parts[0], Continuous):
        return axis_names(layout.size)
    return tuple(name for part in layout.parts for name in _names_of(part))


def axis_names(size: int) -> tuple[str, ...]:
    """The axes of a tool that is moved and turned, by the size of the action; else by number."""
    if size in (1, 2, 3, 6, 7):
        return AXES[:size]
    return (*AXES[:3], "gripper") if size == 4 else tuple(f"axis {i}" for i in range(size))


def _names_of(part: ActionPart) -> tuple[str, ...]:
    if part.size == 1:
        return (part.name,)
    return AXES[: part.size] if part.size in (3, 6) else tuple(f"{part.name} {i}" for i in range(part.size))

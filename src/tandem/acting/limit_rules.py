"""The axes that limits speak of, with names and units, and the rules that limits must keep.

A limit that cannot hold is refused before anything moves: a number that is not finite or not positive, an axis that was left out, a
force or a workspace that the robot has no sensor for, a unit that contradicts the spec.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tandem.envs.limits import LimitSettings
from tandem.layouts import ActionLayout
from tandem.teleop.axes import axes_of
from tandem.types import Continuous, Entry, Spec

LENGTHS, ANGLES = ("m", "cm", "mm"), ("rad", "deg")


@dataclass(frozen=True)
class Axis:
    """A continuous axis of the action."""

    name: str
    column: int
    """Its place in the action's vector."""
    unit: str
    """m, rad or another unit of `LENGTHS` and `ANGLES`; empty where the spec says nothing that a motion is measured in."""
    moved: float
    """What an action of 1 moves in one control period, in `unit`; in the action's own units where that is empty."""
    fastest: float
    """The same in a second: the speed of an action of 1."""


def limit_axes(spec: Spec) -> tuple[Axis, ...]:
    """The continuous axes in their order. A name that two parts share has its part in front ("left x")."""
    layout = ActionLayout.of(spec)
    usual = axes_of(layout)
    found: list[tuple[Continuous, Axis]] = []
    column = 0
    for part in spec.action:
        for index in range(part.size):
            if isinstance(part, Continuous):
                name = part.axes[index] if part.axes else usual[column]
                unit = units_of(part.unit, part.size)[index]
                found.append((part, _axis(name, column, unit, float(layout.scales[column]), spec.control_hz)))
            column += 1
    count = Counter(axis.name for _, axis in found)
    return tuple(axis if count[axis.name] == 1 else replace(axis, name=f"{part.name} {axis.name}") for part, axis in found)


def _axis(name: str, column: int, unit: str, scale: float, hz: float) -> Axis:
    """An action may be a step (m, rad) or a speed (m/s, rad/s)."""
    motion = unit.removesuffix("/s")
    known = motion if motion in (*LENGTHS, *ANGLES) else ""
    is_speed = bool(known) and unit.endswith("/s")
    return Axis(name, column, known, scale / hz if is_speed else scale, scale if is_speed else scale * hz)


def units_of(text: str, size: int) -> tuple[str, ...]:
    """The unit of every number: "m" for all, "m, rad" for one half each, or one for each number; empty where that is not said."""
    given = [part.strip() for part in text.split(",")] if text else []
    if not given or size % len(given):
        return ("",) * size
    return tuple(unit for unit in given for _ in range(size // len(given)))


def number_problem(value: Any, above: float | None = None) -> str:
    """What is wrong with a number; empty if it is finite and, where that is asked for, larger than `above`."""
    wanted = "a finite number" if above is None else f"a finite number above {above:g}"
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        return f"is {_shown(value)}, expected {wanted}"
    try:
        fits = math.isfinite(value) and (above is None or value > above)
    except OverflowError:
        return f"is a whole number that is too large, expected {wanted}"
    return "" if fits else f"is {value:.6g}, expected {wanted}"


def _shown(value: Any) -> str:
    kinds = {bool: "a boolean", str: "a text", list: "a list", dict: "a table"}
    return f"{kinds.get(type(value), f'a {type(value).__name__}')} ({value!r:.40})"


def problems(spec: Spec, settings: LimitSettings) -> list[str]:
    """Everything that is wrong with these limits for this spec, in words; empty if they can hold."""
    axes = limit_axes(spec)
    shapes = _wrong_lengths(settings, axes)
    if shapes:
        return shapes
    return [
        *_wrong_speeds(settings, axes),
        *_wrong_workspace(spec, settings, axes),
        *_wrong_force(spec, settings, axes),
        *_wrong_stops(spec, settings),
        *_wrong_times(settings),
    ]


def _wrong_lengths(settings: LimitSettings, axes: Sequence[Axis]) -> list[str]:
    names = ", ".join(axis.name for axis in axes)
    return [
        f"`{field}` has {len(values)} numbers; the action has {len(axes)} axes ({names}), and an axis that is left out would not be limited"
        for field in ("speed", "low", "high")
        if (values := getattr(settings, field)) and len(values) != len(axes)
    ] + (["`low` and `high` are needed together: one of them is missing"] if bool(settings.low) != bool(settings.high) else [])


def _wrong_speeds(settings: LimitSettings, axes: Sequence[Axis]) -> list[str]:
    found = ((axis, "" if speed == math.inf else number_problem(speed, above=0)) for axis, speed in zip(axes, settings.speed, strict=False))
    return [f"the speed of axis '{axis.name}' {wrong}" for axis, wrong in found if wrong]


def _wrong_workspace(spec: Spec, settings: LimitSettings, axes: Sequence[Axis]) -> list[str]:
    wrong = []
    for axis, low, high in zip(axes, settings.low, settings.high, strict=False):
        for word, bound, free in (("lowest", low, -math.inf), ("highest", high, math.inf)):
            problem = "" if bound == free else number_problem(bound)
            if problem:
                wrong.append(f"the {word} position of axis '{axis.name}' {problem}")
        if not low < high and not wrong:
            wrong.append(
                f"the workspace of axis '{axis.name}' reaches from {low:g} to {high:g}: the lowest position is not below the highest"
            )
    bounded = [axis for axis, low, high in zip(axes, settings.low, settings.high, strict=False) if (low, high) != (-math.inf, math.inf)]
    if bounded and not settings.position:
        names = ", ".join(axis.name for axis in bounded)
        return [*wrong, f"the workspace of {names} needs `position`, the observation entry with the measured position; none is named"]
    for field in ("position", "offset"):
        last = axes.index(bounded[-1]) + 1 if bounded else 0
        wrong += _wrong_entry(spec, field, getattr(settings, field), last, lambda index: axes[index].unit)
    return wrong


def _wrong_force(spec: Spec, settings: LimitSettings, axes: Sequence[Axis]) -> list[str]:
    if settings.force == 0 and not isinstance(settings.force, bool):
        return _wrong_entry(spec, "wrench", settings.wrench, 0, lambda index: "N")
    wrong = number_problem(settings.force, above=0)
    if wrong:
        return [f"the force limit {wrong} (N)"]
    if not settings.wrench:
        return [f"a force limit of {settings.force:g} N needs `wrench`, the observation entry with the measured force; none is named"]
    units = [axis.unit for axis in axes[:3]]
    if len(units) < 3 or len(set(units)) > 1 or units[0] in ANGLES:
        along = ", ".join(f"{axis.name} ({axis.unit or 'no unit'})" for axis in axes[:3])
        return [f"a force limit needs an action whose first three axes move the tool along x, y and z; this one begins with {along}"]
    return _wrong_entry(spec, "wrench", settings.wrench, 3, lambda index: "N")


def _wrong_stops(spec: Spec, settings: LimitSettings) -> list[str]:
    """Limits of what is measured. They are beyond those that hold the command, which would otherwise never come to bear."""
    wrong = []
    if settings.stop_force:
        problem = number_problem(settings.stop_force, above=settings.force or 0.0)
        if problem:
            wrong.append(f"the force at which the robot stops {problem} (N; `force_n` is {settings.force:g})")
        elif not settings.wrench:
            wrong.append(
                f"a stop at {settings.stop_force:g} N needs `wrench`, the observation entry with the measured force; none is named"
            )
        else:
            wrong += _wrong_entry(spec, "wrench", settings.wrench, 3, lambda index: "N")
    if settings.stop_outside:
        problem = number_problem(settings.stop_outside, above=0)
        if problem:
            wrong.append(f"the share of the workspace at which the robot stops {problem}")
        elif not any(math.isfinite(high - low) for low, high in zip(settings.low, settings.high, strict=False)):
            wrong.append("a stop outside of the workspace needs a workspace with both ends (low and high) along an axis; there is none")
    return wrong


def _wrong_entry(spec: Spec, field: str, name: str, needed: int, unit: Callable[[int], str]) -> list[str]:
    """The entry is there, has enough numbers, and none of the units that it declares is another than expected."""
    if not name:
        return []
    entry: Entry | None = spec.observation.get(name)
    if entry is None:
        return [f"`{field}` names the observation entry '{name}'; '{spec.task}' has {', '.join(spec.observation)}"]
    if entry.dtype != "float32" or entry.size < needed:
        return [f"`{field}` names '{name}', which has {entry.size} numbers of {entry.dtype}; expected at least {needed} of float32"]
    declared = units_of(entry.unit, entry.size)
    for index in range(needed):
        if declared[index] and unit(index) and declared[index] != unit(index):
            return [f"`{field}` names '{name}', whose number {index} is in {declared[index]}; expected {unit(index)}"]
    return []


def _wrong_times(settings: LimitSettings) -> list[str]:
    wrong = []
    for field in ("stall_s", "reset_s"):
        value = getattr(settings, field)
        problem = "" if type(value) in (int, float) and value == 0 else number_problem(value, above=0)
        if problem:
            wrong.append(f"`{field}` {problem} (seconds)")
    return wrong

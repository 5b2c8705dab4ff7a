"""A file of limits: a TOML whose keys say the unit, one table for each axis of the action.

    force_n = 15.0                # N
    stop_force_n = 40.0           # N: measured once, it stands still until resume
    stall_s = 2.0                 # s

    [axis.x]
    speed_m_per_s = 0.05          # or speed_share = 0.2: of the fastest that the action can do
    low_m = -0.05
    high_m = 0.05

    [axis.yaw]
    speed_rad_per_s = 0.3
    unlimited = ["workspace"]     # on purpose, not forgotten

A speed or a workspace that is given for one axis is given for every axis, or the axis says that it is not limited. What a file does not
speak of at all stays as the task has it. All problems of a file are found at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tandem.acting.limit_rules import ANGLES, LENGTHS, Axis, limit_axes, number_problem, problems
from tandem.envs.limits import LimitSettings
from tandem.errors import ConfigError
from tandem.files import read_toml
from tandem.types import Spec

UNITS = (*LENGTHS, *ANGLES)
ENTRIES = ("position", "offset", "wrench")
"""Keys that name an observation entry."""
NUMBERS = {
    "force_n": "force",
    "stop_force_n": "stop_force",
    "stop_outside_share": "stop_outside",
    "stall_s": "stall_s",
    "reset_s": "reset_s",
}
"""Keys with one number, and the settings that they are."""
KINDS = ("speed", "workspace")
"""What an axis can be limited in."""
FORMER = {
    "speed": "one table for each axis: [axis.x] speed_m_per_s = 0.05 (or speed_rad_per_s, or speed_share)",
    "low": "one table for each axis: [axis.x] low_m = -0.05 (or low_rad)",
    "high": "one table for each axis: [axis.x] high_m = 0.05 (or high_rad)",
    "force": "force_n, in newtons",
}
"""Keys that said no unit or no axis, and what to write instead."""


@dataclass(frozen=True)
class AxisLimits:
    """What a file says about one axis."""

    name: str
    unit: str = ""
    """The unit that its keys have; empty where only a share is given."""
    speed: float | None = None
    """In `unit` a second; infinity: not limited on purpose; None: nothing is said."""
    share: float | None = None
    """The same as a share of the fastest that the action can do."""
    low: float | None = None
    high: float | None = None


@dataclass
class LimitsFile:
    """A file as it was read: what it says of each axis, of the rest, and everything that is wrong with it."""

    path: Path
    axes: dict[str, AxisLimits] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)
    """Settings by their name in `LimitSettings`."""
    problems: list[str] = field(default_factory=list)

    def settings(self, spec: Spec, own: LimitSettings) -> LimitSettings:
        """The settings for this spec, over the task's `own`; what does not fit is added to `problems`."""
        if self.problems:
            return own
        settings = replace(own, **self.rest)
        if self.axes:
            settings = self._with_axes(settings, limit_axes(spec))
        if not self.problems:
            self.problems += problems(spec, settings)
        return settings

    def _with_axes(self, settings: LimitSettings, axes: Sequence[Axis]) -> LimitSettings:
        unknown = [name for name in self.axes if name not in {axis.name for axis in axes}]
        missing = [axis.name for axis in axes if axis.name not in self.axes]
        if unknown:
            self.problems.append(f"[axis.{unknown[0]}]: no such axis; the action has {', '.join(axis.name for axis in axes)}")
        if missing:
            wanted = 'give each its limits, or `unlimited = ["speed", "workspace"]` if it is meant to have none'
            self.problems.append(f"no table for {', '.join(f'[axis.{name}]' for name in missing)}: {wanted}")
        for axis in axes:
            if axis.name in self.axes:
                self._check_unit(self.axes[axis.name], axis)
        if self.problems:
            return settings
        said = [(axis, self.axes[axis.name]) for axis in axes]
        for kind in KINDS:
            settings = self._with_kind(settings, kind, said)
        return settings

    def _with_kind(self, settings: LimitSettings, kind: str, said: Sequence[tuple[Axis, AxisLimits]]) -> LimitSettings:
        """The speeds or the workspace of all axes; unchanged if the file speaks of none of them."""
        silent = [axis.name for axis, given in said if _silent(given, kind)]
        if len(silent) == len(said):
            return settings
        if silent:
            others = "its speed" if kind == "speed" else "its workspace (low and high)"
            self.problems.append(
                f"{', '.join(f'[axis.{name}]' for name in silent)}: {others} is not given, though other axes have one; give it, or say "
                f'`unlimited = ["{kind}"]`'
            )
            return settings
        if kind == "speed":
            return replace(settings, speed=tuple(_speed(axis, given) for axis, given in said))
        return replace(settings, low=tuple(given.low or 0.0 for _, given in said), high=tuple(given.high or 0.0 for _, given in said))

    def _check_unit(self, given: AxisLimits, axis: Axis) -> None:
        if given.unit and not axis.unit:
            self.problems.append(
                f"[axis.{axis.name}] has keys in {given.unit}, but the spec does not say what an action of 1 moves on this axis: declare "
                f"`action.units` and `action.scales` of the environment (docs/limits.md), or give `speed_share` alone"
            )
        elif given.unit and given.unit != axis.unit:
            self.problems.append(f"[axis.{axis.name}] has keys in {given.unit}; this axis moves in {axis.unit}")


def _silent(given: AxisLimits, kind: str) -> bool:
    return (given.speed is None and given.share is None) if kind == "speed" else given.low is None


def _speed(axis: Axis, given: AxisLimits) -> float:
    return given.share * axis.fastest if given.share is not None else given.speed or 0.0


def read_limits(path: Path, spec: Spec, own: LimitSettings) -> LimitSettings:
    """The limits of a file for this spec; a file with any problem is refused, with all of them."""
    file = look_at(path)
    settings = file.settings(spec, own)
    if file.problems:
        raise ConfigError(refusal(file))
    return settings


def refusal(file: LimitsFile) -> str:
    """All problems in words; the first line names the file."""
    first = f"the file of limits {file.path} "
    if len(file.problems) == 1:
        return f"{first}is refused: {file.problems[0]}"
    return f"{first}has {len(file.problems)} problems:" + "".join(f"\n  {problem}" for problem in file.problems)


def look_at(path: Path) -> LimitsFile:
    """Read a file without a spec: keys, kinds of values and numbers."""
    file, given = LimitsFile(path), read_toml(path, "file of limits")
    for key, value in given.items():
        if key in FORMER:
            file.problems.append(
                f"'{key}' does not say its unit and axes; write {FORMER[key]}. `tandem limits template TASK` writes a file"
            )
        elif key == "axis":
            _read_axes(file, value)
        elif key in ENTRIES:
            if not isinstance(value, str) or not value:
                file.problems.append(f"'{key}' is {value!r:.40}, expected the name of an observation entry")
            file.rest[key] = value
        elif key in NUMBERS:
            wrong = number_problem(value, above=0)
            if wrong:
                file.problems.append(f"'{key}' {wrong}")
            else:
                file.rest[NUMBERS[key]] = float(value)
        else:
            file.problems.append(f"'{key}' is unknown; there are {', '.join((*ENTRIES, *NUMBERS))} and the tables [axis.NAME]")
    return file


def _read_axes(file: LimitsFile, given: Any) -> None:
    if not isinstance(given, Mapping):
        file.problems.append(f"'axis' is {given!r:.40}, expected tables [axis.NAME], one for each axis of the action")
        return
    for name, table in given.items():
        if isinstance(table, Mapping):
            file.axes[name] = _read_axis(file, name, table)
        else:
            file.problems.append(f"'axis.{name}' is {table!r:.40}, expected a table [axis.{name}]")


def _read_axis(file: LimitsFile, name: str, table: Mapping[str, Any]) -> AxisLimits:
    before, where = len(file.problems), f"[axis.{name}]"
    found: dict[str, Any] = {}
    units = set()
    for key, value in table.items():
        kind, unit = _known(key)
        if key == "unlimited":
            _read_unlimited(file, where, value, found)
        elif kind is None:
            file.problems.append(f"{where} '{key}' is unknown; {_keys()}")
        else:
            above = 0.0 if kind in ("speed", "share") else None
            wrong = number_problem(value, above) or (
                f"is {value:g}, expected a share of at most 1" if kind == "share" and value > 1 else ""
            )
            if wrong:
                file.problems.append(f"{where} '{key}' {wrong}")
            elif kind in found:
                file.problems.append(f"{where} says its {kind} twice, once with '{key}'")
            else:
                found[kind] = float(value)
            units |= {unit} - {""}
    if len(units) > 1:
        file.problems.append(f"{where} has keys in {' and '.join(sorted(units))}; an axis moves in one unit")
    if len(file.problems) == before:
        _check_together(file, where, found)
    return AxisLimits(name, next(iter(units), ""), **found) if len(file.problems) == before else AxisLimits(name)


def _check_together(file: LimitsFile, where: str, found: Mapping[str, Any]) -> None:
    if "speed" in found and "share" in found:
        file.problems.append(f"{where} gives its speed twice: as a share, and in its unit or as unlimited")
    if ("low" in found) != ("high" in found):
        there, other = ("low", "high") if "low" in found else ("high", "low")
        file.problems.append(f"{where} has a `{there}` and no `{other}`: the workspace needs both")
    elif "low" in found and not found["low"] < found["high"]:
        file.problems.append(f"{where} reaches from {found['low']:g} to {found['high']:g}: the lowest position must be below the highest")


def _read_unlimited(file: LimitsFile, where: str, value: Any, found: dict[str, Any]) -> None:
    if not isinstance(value, list) or not value or not all(kind in KINDS for kind in value):
        file.problems.append(f"{where} 'unlimited' is {value!r:.40}, expected a list of {' and '.join(KINDS)}")
        return
    for kind in value:
        told = {"speed": math.inf} if kind == "speed" else {"low": -math.inf, "high": math.inf}
        if told.keys() & found.keys() or (kind == "speed" and "share" in found):
            file.problems.append(f"{where} limits its {kind} and says that it is unlimited")
        found.update(told)


def _known(key: str) -> tuple[str | None, str]:
    """What a key of an axis is about, and its unit."""
    if key == "speed_share":
        return "share", ""
    for unit in UNITS:
        for kind, word in (("speed", f"speed_{unit}_per_s"), ("low", f"low_{unit}"), ("high", f"high_{unit}")):
            if key == word:
                return kind, unit
    return None, ""


def _keys() -> str:
    units = "_m or _rad (also " + ", ".join(f"_{unit}" for unit in UNITS if unit not in ("m", "rad")) + ")"
    return f"there are speed_m_per_s, low_m, high_m with {units}, speed_share, and unlimited"


def template(spec: Spec, own: LimitSettings) -> str:
    """A first file for this spec: the task's own limits where it has them, a tenth of the full speed elsewhere."""
    lines = [
        f"# Limits of '{spec.task}'. Correct every number for your robot, then look at what it means:",
        "# tandem limits check FILE --task TASK",
        *(f'{key} = "{value}"' for key in ENTRIES if (value := getattr(own, key))),
        f"force_n = {own.force:g}" if own.force else '# wrench = "ENTRY"   # observation entry: force on the tool, N\n# force_n = 15.0',
        f"stop_force_n = {own.stop_force:g}" if own.stop_force else "# stop_force_n = 40.0   # measured once, it stands still until resume",
        *([f"stop_outside_share = {own.stop_outside:g}"] if own.stop_outside else []),
        f"stall_s = {own.stall_s or LimitSettings.stall_s:g}",
        f"reset_s = {own.reset_s or LimitSettings.reset_s:g}",
    ]
    if not own.position:
        lines.insert(2, '# position = "ENTRY"   # observation entry: measured position along the axes; a workspace needs it')
    for number, axis in enumerate(limit_axes(spec)):
        lines += ["", f"[axis.{_quoted(axis.name)}]", *_axis_lines(axis, number, own)]
    return "\n".join(lines) + "\n"


def _axis_lines(axis: Axis, number: int, own: LimitSettings) -> list[str]:
    lines, unlimited = ["speed_share = 0.1   # of the fastest that the action can do"], []
    speed = own.speed[number] if own.speed else 0.1 * axis.fastest
    if speed == math.inf:
        lines, unlimited = [], ["speed"]
    elif axis.unit:
        lines = [f"speed_{axis.unit}_per_s = {speed:g}   # an action of 1: {axis.fastest:g}"]
    if not own.low or own.low[number] == -math.inf or not axis.unit:
        unlimited = [*unlimited, "workspace"]
    else:
        lines += [f"low_{axis.unit} = {own.low[number]:g}", f"high_{axis.unit} = {own.high[number]:g}"]
    listed = ", ".join(f'"{kind}"' for kind in unlimited)
    return [*lines, f"unlimited = [{listed}]"] if unlimited else lines


def _quoted(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'

"""`tandem limits check FILE` says in words what a file of limits means; `tandem limits template TASK` writes a first one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tandem.acting.limit_rules import limit_axes, problems
from tandem.acting.limits import own_settings
from tandem.acting.limits_file import AxisLimits, LimitsFile, look_at, template
from tandem.envs.limits import LimitSettings
from tandem.envs.registry import spec_for
from tandem.errors import ConfigError
from tandem.files import write_atomically
from tandem.programs.terminal import say
from tandem.types import Spec


def limits(
    action: Annotated[Literal["check", "template"], tyro.conf.Positional],
    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE|TASK")],
    task: str | None = None,
    out: Path | None = None,
) -> int:
    """Say in words what a file of limits means, or write a first file for a task.

    Args:
        action: `check FILE` prints what it means and every problem that it has; `template TASK` writes a first file.
        what: The file to check, or the task to write a file for.
        task: The task whose robot is limited. With it the axes, units and sensors are checked too.
        out: Where `template` writes the file. Default: it is printed.
    """
    if action == "check":
        return check(Path(what), task)
    text = template(spec_for(what), own_settings(what))
    if out is None:
        print(text, end="")
    elif out.exists():
        raise ConfigError(f"{out} exists and was not written over")
    else:
        write_atomically(out, text.encode())
        say(f"wrote {out}; correct its numbers, then: tandem limits check {out} --task {what}")
    return 0


def check(path: Path, task: str | None) -> int:
    """Print what the limits mean; 1 if they have a problem, after all of their problems."""
    file = look_at(path)
    if task is None:
        lines = _without_spec(file)
    else:
        spec = spec_for(task)
        settings = file.settings(spec, own_settings(task))
        lines = in_words(spec, settings) if not file.problems else []
    for problem in file.problems:
        say(f"{path}: {problem}", "problem", "bold red")
    if file.problems:
        return 1
    for line in lines:
        say(line)
    return 0


def in_words(spec: Spec, settings: LimitSettings) -> list[str]:
    """What these limits mean for a robot of this spec, one line each, and what they do not limit."""
    assert not problems(spec, settings)
    axes = limit_axes(spec)
    lines = [f"limits of '{spec.task}', {spec.control_hz:g} actions a second:"]
    for number, axis in enumerate(axes):
        speed = settings.speed[number] if settings.speed else math.inf
        unit, share = axis.unit or "(units of the action)", speed / axis.fastest
        slower = f"at most {speed:.4g} {unit}/s, {share:.1%} of what the action can do"
        speed_said = slower if share < 0.999 else f"as fast as the action can, {axis.fastest:.4g} {unit}/s"
        low, high = (settings.low[number], settings.high[number]) if settings.low else (-math.inf, math.inf)
        lines.append(f"  {axis.name}: {speed_said}; {_box(low, high, unit)}")
    if any(math.isfinite(bound) for bound in settings.low):
        command = f" plus '{settings.offset}', the command" if settings.offset else ""
        lines.append(f"  the position is the observation entry '{settings.position}'{command}")
    return [*lines, *_rest(settings)]


def _box(low: float, high: float, unit: str) -> str:
    return "workspace not limited" if math.inf in (-low, high) else f"commanded position from {low:.4g} to {high:.4g} {unit}"


def _rest(settings: LimitSettings) -> list[str]:
    lines = [f"  force: beyond {settings.force:g} N in '{settings.wrench}' nothing pushes further against it"]
    lines = lines if settings.force else ["  force: not limited"]
    stays = "the robot is halted and stands still until somebody says resume"
    if settings.stop_force:
        lines.append(f"  once more than {settings.stop_force:g} N are measured in '{settings.wrench}', {stays}")
    if settings.stop_outside:
        lines.append(f"  once the measured position is outside by more than {settings.stop_outside:.3g} of the workspace's width, {stays}")
    for seconds, what in ((settings.stall_s, "a step"), (settings.reset_s, "a reset")):
        lines.append(f"  {what} that takes longer than {seconds:g} s is stopped" if seconds else f"  {what} may take any time")
    return lines


def _without_spec(file: LimitsFile) -> list[str]:
    lines = [f"{file.path}, without a task (--task TASK also checks axes, units and sensors):"]
    lines += [f"  {axis.name}: {_axis_alone(axis)}" for axis in file.axes.values()]
    return [*lines, *(f"  {key}: {value}" for key, value in file.rest.items())]


def _axis_alone(axis: AxisLimits) -> str:
    speed = f"at most {axis.speed:g} {axis.unit}/s" if axis.speed is not None and axis.speed < math.inf else "speed not limited"
    if axis.share is not None:
        speed = f"at most {axis.share:.0%} of the fastest that the action can do"
    if axis.low is None or axis.high is None:
        return f"{speed}; nothing is said about the workspace"
    return f"{speed}; {_box(axis.low, axis.high, axis.unit)}"

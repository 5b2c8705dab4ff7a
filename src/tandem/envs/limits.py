"""The limits that a task declares for its robot: speed, workspace, force and time. `acting/limits.py` applies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tandem.envs.arm import ControlLimits  # needs MuJoCo


@dataclass(frozen=True)
class LimitSettings:
    """The limits of one task; an empty entry limits nothing.

    `speed`, `low` and `high` have one number for every continuous axis of the action, in the unit that the spec gives the axis (a speed:
    that unit a second). Infinity says that this axis is not limited on purpose. A file of limits has its units in its keys and is read by
    `acting/limits_file.py`; `acting/limit_rules.py` has the rules that both must keep.
    """

    speed: tuple[float, ...] = ()
    """Largest speed of the command along each axis."""
    position: str = ""
    """Observation entry whose first numbers are the measured position along the axes of the action."""
    offset: str = ""
    """Observation entry with the command minus that position, where there is one."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """The workspace of the commanded position."""
    wrench: str = ""
    """Observation entry whose first three numbers are the force of the world on the tool (N), along the first three axes."""
    force: float = 0.0
    """Newtons beyond which no action pushes further against what pushes back; 0: no limit."""
    stop_force: float = 0.0
    """Newtons that must never be measured: beyond them the robot is halted and stands still until somebody says resume; 0: no limit."""
    stop_outside: float = 0.0
    """The same for a measured position that is farther outside of the workspace than this share of its width; 0: no limit."""
    stall_s: float = 2.0
    """Seconds after which a step counts as hanging and motion is stopped; 0: never."""
    reset_s: float = 60.0
    """The same for a reset, which may have to drive a robot to its start; 0: never."""


def limits_of_control(control: ControlLimits, axes: int, hz: float, **entries: Any) -> LimitSettings:
    """The speed and workspace of our own Cartesian control, for the first axes of the action."""
    speed = tuple(step * hz for step in control.action_scale[:axes])
    return LimitSettings(speed=speed, low=control.workspace_low[:axes], high=control.workspace_high[:axes], **entries)

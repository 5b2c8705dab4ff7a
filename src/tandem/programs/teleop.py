"""`tandem teleop test`: try the device that a person steers with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from tandem.programs.terminal import say
from tandem.teleop.axes import axis_names
from tandem.teleop.devices import Gamepad, SpaceMouse, watch_device
from tandem.teleop.mapping import Mapping


def teleop(
    action: Annotated[Literal["test"], tyro.conf.Positional],
    device: Literal["browser", "spacemouse", "gamepad"] = "browser",
    seconds: float = 20.0,
    axes: int = 6,
    mapping: Path | None = None,
) -> int:
    """Try the device that a person steers with: what it reads, and what that would do to the robot.

    Args:
        action: `test` prints every motion and button that arrives.
        device: The device to try.
        seconds: How long to read it.
        axes: Components of the action: 3 for a task that only translates, 6 for one that also rotates.
        mapping: File that says what sticks and buttons do. Default: the file that comes with Tandem.
    """
    table = Mapping.load(axis_names(axes), mapping)
    if device == "browser":
        say("Keys and gamepads in a browser are read by the page: start `tandem train TASK`, open the address it prints, and")
        say("press a key under 'Take control'; the page shows what it reads before it steers. It reads these:")
        for row in table.table():
            if row["device"] not in ("spacemouse", "spacemouse button"):
                say(f"  {row['device']:16} {row['input']:12} {row['does']}")
        return 0
    hand = SpaceMouse(table) if device == "spacemouse" else Gamepad(table)
    try:
        say(f"reading the {device} for {seconds:g} s: move every axis, press every button")
        seen = watch_device(hand, say, seconds, table.axes)
    finally:
        hand.close()
    say(f"{seen} readings with motion or a button" if seen else f"nothing arrived: the {device} is connected, but sends nothing")
    return 0 if seen else 1

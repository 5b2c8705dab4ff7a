"""Devices on the actor's own machine: SpaceMouse and gamepad. Their packages are extras, imported when a device is opened.

A device is a `Hand` (`teleop/steering.py`): read once for every step, without waiting. One that is unplugged raises `DeviceLost`;
the robot then stands still, and the device is looked for again until it is back.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tandem.errors import ConfigError, DeviceError, DeviceLost
from tandem.teleop.ask import TAGS
from tandem.teleop.mapping import Mapping
from tandem.teleop.steering import LOST_S, Reading

KEEPS_S = 0.5
"""How long a SpaceMouse holds control after it was last moved: between two pushes the policy does not jump in."""
_LOOK_AGAIN_S = 1.0
_MAX_PACKETS = 500
_COMMANDS: dict[str, tuple[str, dict[str, Any]]] = {
    "success": ("label", {"success": True}),
    "failure": ("label", {"success": False}),
    "discard": ("record", {"what": "discard"}),
    "pause": ("pause", {}),
    "stop": ("stop", {"stay": True}),
    **{why: ("tag", {"why": why}) for why in TAGS},
}
"""The command of each button, as a page would send it."""
_STANDARD_BUTTONS = (0, 1, 2, 3, 9, 10, None, None, 4, 6, 7, 8, 11, 12, 13, 14, 5)
"""SDL's number of each button in the browser's standard order; the two triggers are axes in SDL."""


class Buttons:
    """A command is given once for each press, not for as long as the button is down."""

    def __init__(self) -> None:
        self._down: set[str] = set()

    def pressed(self, down: set[str]) -> tuple[tuple[str, dict[str, Any]], ...]:
        new, self._down = down - self._down, down
        return tuple(_COMMANDS[name] for name in sorted(new) if name in _COMMANDS)


class SpaceMouse:
    """Takes over when it is moved, lets go half a second after it rests (`pyspacemouse`)."""

    name = "spacemouse"

    def __init__(self, mapping: Mapping, driver: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._mapping, self._clock, self._buttons = mapping, clock, Buttons()
        self._driver = driver or _needed("pyspacemouse", "spacemouse")
        self._moved_at = -KEEPS_S
        self._packet: Any = None
        self._heard_at = clock()
        self._device = self._open()
        self._tried_at = clock()

    def _open(self) -> Any:
        try:
            device = self._driver.open()
        except Exception as problem:  # the driver raises whatever its HID library does
            raise DeviceError(
                f"no SpaceMouse can be opened ({type(problem).__name__}: {problem}). Is it plugged in? On Linux the user needs "
                "permission for it: a udev rule for /dev/hidraw*, or membership of the group that owns it."
            ) from None
        if not device:
            raise DeviceError("no SpaceMouse was found. Is it plugged in, and is no other program using it?")
        return device

    def read(self) -> Reading:
        if self._device is None:
            self._look_again()
        state, down, now = *self._newest(), self._clock()
        six = {name: float(getattr(state, name)) for name in ("x", "y", "z", "roll", "pitch", "yaw")}
        buttons = [float(button) for button in state.buttons]
        axes = self._mapping.axes_from_spacemouse(six, buttons)
        if np.any(axes) and not np.any(self._mapping.axes_from_spacemouse(six)):
            self._moved_at = max(self._moved_at, self._heard_at)  # a button: one that is held sends no packets, and is no motion
        elif np.any(axes):
            # While it is deflected it sends packets all the time. If they stop, it was unplugged, and must not move the robot for ever.
            if now - self._heard_at > LOST_S:
                self._device = None
                raise DeviceLost("the SpaceMouse was lost (silent while it was pushed)")
            self._moved_at = now
        return Reading(axes, now - self._moved_at < KEEPS_S, self._buttons.pressed(down))

    def _newest(self) -> tuple[Any, set[str]]:
        """Reads all waiting packets, because one at a time would fall behind. Returns the last state and the buttons pressed meanwhile."""
        device, down = self._device, set()
        try:
            for _ in range(_MAX_PACKETS):
                state = device.read()  # pyright: ignore[reportOptionalMemberAccess]
                down |= self._mapping.button_commands("spacemouse", list(state.buttons))
                if state.t == self._packet:
                    break
                self._packet, self._heard_at = state.t, self._clock()
        except Exception as problem:  # whatever its HID library raises
            self._device = None
            raise DeviceLost(f"the SpaceMouse was lost ({problem})") from None
        return state, down

    def _look_again(self) -> None:
        if self._clock() - self._tried_at < _LOOK_AGAIN_S:
            raise DeviceLost("the SpaceMouse is not there")
        self._tried_at = self._clock()
        try:
            self._device = self._open()
        except DeviceError as problem:
            raise DeviceLost(f"the SpaceMouse is not there ({problem})") from None

    def close(self) -> None:
        if self._device is not None:
            self._device.close()
            self._device = None


class Gamepad:
    """Takes over while its shoulder button is held (`pygame`, any controller that SDL knows)."""

    name = "gamepad"

    def __init__(self, mapping: Mapping, driver: Any = None) -> None:
        self._mapping, self._buttons = mapping, Buttons()
        self._driver = driver or _SDL()
        if not self._driver.present():
            raise DeviceError("no gamepad was found. Is it plugged in or paired, and does the system see it (Linux: /dev/input/js0)?")

    def read(self) -> Reading:
        if not self._driver.present():
            raise DeviceLost("the gamepad was lost")
        sticks, buttons = self._driver.state()
        commands = self._buttons.pressed(self._mapping.button_commands("pad", buttons))
        return Reading(self._mapping.axes_from_pad(sticks, buttons), self._mapping.held_by_pad(buttons), commands)

    def close(self) -> None:
        self._driver.close()


class _SDL:
    """The first controller, in the browser's standard order of sticks and buttons."""

    def __init__(self) -> None:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # no window: a robot's computer has no screen
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        os.environ.setdefault("SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", "1")
        self._pygame = _needed("pygame", "gamepad")
        self._controller = importlib.import_module("pygame._sdl2.controller")
        self._pygame.display.init()
        self._controller.init()
        self._pad: Any = None

    def present(self) -> bool:
        self._pygame.event.pump()
        if self._pad is not None and not self._pad.attached():
            self._pad = None
        if self._pad is None and self._controller.get_count() > 0:
            self._pad = self._controller.Controller(0)
        return self._pad is not None

    def state(self) -> tuple[list[float], list[float]]:
        sticks = [self._pad.get_axis(i) / 32768 for i in range(4)]
        triggers = {6: self._pad.get_axis(4) / 32767, 7: self._pad.get_axis(5) / 32767}
        buttons = [triggers[i] if sdl is None else float(self._pad.get_button(sdl)) for i, sdl in enumerate(_STANDARD_BUTTONS)]
        return sticks, buttons

    def close(self) -> None:
        self._controller.quit()
        self._pygame.quit()


def _needed(package: str, extra: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as problem:
        raise ConfigError(
            f"a {extra} needs the package '{package}', which is not installed ({problem}): pip install 'tandem-rl[{extra}]'"
        ) from None


def watch_device(hand: Any, say: Callable[[str], None], seconds: float, names: Sequence[str], hz: float = 10.0) -> int:
    """Print the readings of a device for some seconds; returns how many showed motion or a button."""
    until, alive = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        try:
            reading = hand.read()
        except DeviceLost as problem:
            say(str(problem))
        else:
            moved = bool(np.any(reading.axes) or reading.commands)
            alive += moved
            values = "  ".join(f"{name} {value:+.2f}" for name, value in zip(names, reading.axes, strict=True))
            commands = ", ".join(f"{command} {detail}" for command, detail in reading.commands)
            if moved:
                say(f"{values}  {'HOLDS' if reading.holds else '     '}  {commands}".rstrip())
        time.sleep(1 / hz)
    return alive

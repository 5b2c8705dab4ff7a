"""From keys, sticks and buttons to the axes of an action: a table in a file that anybody can read and change (`mapping.toml`).

Every method gives numbers in [-1, 1], one for each axis of the action, in the agent's own frame: what a page sends, and what a
device on this machine gives to `Steering`.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tandem.errors import ConfigError
from tandem.files import read_toml
from tandem.teleop.ask import TAGS
from tandem.teleop.axes import AXES

DEFAULT = Path(__file__).with_name("mapping.toml")
COMMANDS = ("take", "success", "failure", "discard", "pause", "stop", *TAGS)
"""Commands that a key or a button can give besides motion."""
_INPUTS = ("keys", "pad_axes", "pad_buttons", "spacemouse", "spacemouse_buttons")
_OPTIONAL = "spacemouse_buttons"
"""A file that was written before there was this table has none."""
_COMMAND_TABLES = ("key_commands", "pad_commands", "spacemouse_commands")
_NUMBERS = {"speed": (0.0, 1.0), "fine_speed": (0.0, 1.0), "dead_zone": (0.0, 0.9), "turn": (-360.0, 360.0)}


@dataclass(frozen=True)
class Mapping:
    """One person's way to steer one kind of action."""

    axes: tuple[str, ...]
    """Axes of the action, in its order."""
    speed: float
    fine_speed: float
    dead_zone: float
    turn: float
    tables: Map[str, Map[str, str]]
    """`keys`, `pad_axes`, ...: name of the input -> `+x`, `fine`, `success`, ..."""

    @classmethod
    def load(cls, axes: Sequence[str], path: Path | None = None) -> Mapping:
        """For an action with these axes (`axes.axes_of`), from a file or the one that comes with Tandem; errors are named."""
        file = path or DEFAULT
        return cls(tuple(axes), **_checked(read_toml(file, "mapping file"), file))

    # ---- motion

    def axes_from_keys(self, held: set[str], turn: float | None = None) -> np.ndarray:
        """Keys that are down (KeyboardEvent.code). `turn` in degrees takes the place of the file's, for a page that turns its view."""
        table = self.tables["keys"]
        pressed = [(table[code], 1.0) for code in held if code in table]
        return self._sum(pressed, turn)

    def axes_from_pad(self, axes: Sequence[float], buttons: Sequence[float], turn: float | None = None) -> np.ndarray:
        """Sticks and buttons of a gamepad in the browser's standard order."""
        sticks = [(self.tables["pad_axes"][str(i)], self._alive(v)) for i, v in enumerate(axes) if str(i) in self.tables["pad_axes"]]
        table = self.tables["pad_buttons"]
        pressed = [(table[str(i)], float(v)) for i, v in enumerate(buttons) if str(i) in table and float(v) > self.dead_zone]
        return self._sum([*sticks, *pressed], turn)

    def axes_from_spacemouse(self, six: Map[str, float], buttons: Sequence[float] = (), turn: float | None = None) -> np.ndarray:
        """The six axes of a SpaceMouse by name, and its buttons."""
        table, by_button = self.tables["spacemouse"], self.tables["spacemouse_buttons"]
        pressed = [(by_button[str(i)], float(v)) for i, v in enumerate(buttons) if str(i) in by_button]
        return self._sum([*((table[name], self._alive(value)) for name, value in six.items() if name in table), *pressed], turn)

    # ---- the rest

    def held_by_pad(self, buttons: Sequence[float]) -> bool:
        """Whether the button that holds control is down."""
        return any(
            name == "hold" and int(i) < len(buttons) and float(buttons[int(i)]) > 0.5 for i, name in self.tables["pad_buttons"].items()
        )

    def button_commands(self, device: str, buttons: Sequence[float]) -> set[str]:
        """The commands of the buttons that are down; `device` is pad or spacemouse. A button that moves an axis of this action gives
        none."""
        moves = {i for i, does in self.tables[f"{device}_buttons"].items() if does[1:] in self.axes}
        table = {int(i): name for i, name in self.tables[f"{device}_commands"].items() if i not in moves}
        return {name for i, name in table.items() if i < len(buttons) and float(buttons[i]) > 0.5}

    def table(self) -> list[dict[str, str]]:
        """For the help on a page: which input does what."""
        rows = []
        moves = {i for i, does in self.tables["spacemouse_buttons"].items() if does[1:] in self.axes}
        for table in (*_INPUTS, *_COMMAND_TABLES):
            for name, does in self.tables[table].items():
                if table == "spacemouse_commands" and name in moves:
                    continue
                if does in ("fine", "hold", *COMMANDS) or does[1:] in self.axes:
                    rows.append({"device": _DEVICES[table], "input": name, "does": does})
        return rows

    def _alive(self, value: float) -> float:
        """A stick's value beyond the dead zone, from 0 there to 1 at its end: no jump where it begins to count."""
        beyond = (abs(float(value)) - self.dead_zone) / (1 - self.dead_zone)
        return float(np.sign(value)) * min(1.0, beyond) if beyond > 0 else 0.0

    def _sum(self, inputs: Sequence[tuple[str, float]], turn: float | None) -> np.ndarray:
        action = np.zeros(len(self.axes), np.float32)
        speed = self.fine_speed if any(does == "fine" for does, _ in inputs) else self.speed
        for does, value in inputs:
            if does[1:] in self.axes:
                action[self.axes.index(does[1:])] += value if does[0] == "+" else -value
        moved = speed * self._turned(np.clip(action, -1, 1), self.turn if turn is None else turn)
        if "gripper" in self.axes:  # a button: half a press would be none, and there is no fine closing
            moved[self.axes.index("gripper")] = action[self.axes.index("gripper")]
        return np.clip(moved, -1, 1).astype(np.float32)

    def _turned(self, action: np.ndarray, degrees: float) -> np.ndarray:
        """From the person's horizontal axes to the action's."""
        cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        turned = action.copy()
        for first, second in (("x", "y"), ("roll", "pitch")):
            if first in self.axes and second in self.axes:
                i, j = self.axes.index(first), self.axes.index(second)
                turned[i], turned[j] = cos * action[i] - sin * action[j], sin * action[i] + cos * action[j]
        return turned


_DEVICES = {
    "keys": "keyboard",
    "key_commands": "keyboard",
    "pad_axes": "gamepad stick",
    "pad_buttons": "gamepad button",
    "pad_commands": "gamepad button",
    "spacemouse": "spacemouse",
    "spacemouse_buttons": "spacemouse button",
    "spacemouse_commands": "spacemouse button",
}


_NUMBERED = ("pad_axes", "pad_buttons", "pad_commands", "spacemouse_commands")
"""Tables whose inputs have numbers."""


def _checked(given: dict[str, Any], file: Path) -> dict[str, Any]:
    """The settings and tables of a mapping file; unknown and missing ones are named."""
    given = {_OPTIONAL: {}, **given}
    unknown = set(given) - set(_NUMBERS) - set(_INPUTS) - set(_COMMAND_TABLES)
    missing = (set(_NUMBERS) | set(_INPUTS) | set(_COMMAND_TABLES)) - set(given)
    if unknown or missing:
        raise ConfigError(
            f"the mapping file {file} has unknown entries {sorted(unknown)} and lacks {sorted(missing)}; compare it with {DEFAULT}"
        )
    for name, (low, high) in _NUMBERS.items():
        value = given[name]
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise ConfigError(f"the mapping file {file} has {name} = {value!r}; expected a number from {low:g} to {high:g}")
    motions = {f"{sign}{axis}" for sign in "+-" for axis in AXES} | {"fine", "hold"}
    for table in (*_INPUTS, *_COMMAND_TABLES):
        allowed = motions if table in _INPUTS else set(COMMANDS)
        if not isinstance(given[table], dict):
            raise ConfigError(f"the mapping file {file} has {table} = {given[table]!r:.60}; expected a table [{table}]")
        for name, does in given[table].items():
            if table in _NUMBERED and not name.isdecimal():
                raise ConfigError(f"the mapping file {file} has [{table}] {name!r:.60}; its inputs are numbers: 0, 1, 2, ...")
            if not isinstance(does, str) or does not in allowed:
                raise ConfigError(
                    f"the mapping file {file} has [{table}] {name} = {does!r:.60}; expected a sign and an axis such as '+x', or one of "
                    f"{', '.join(sorted(allowed - motions) or ('fine', 'hold'))}"
                )
    return {**{name: float(given[name]) for name in _NUMBERS}, "tables": {name: dict(given[name]) for name in (*_INPUTS, *_COMMAND_TABLES)}}

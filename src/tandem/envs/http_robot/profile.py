"""What a client must know of a server that says nothing of itself: a TOML file, one source for actions, box, reset, cameras and reward.

Profiles that come with Tandem are named; a file of your own is named by its path. The name of the file is that of the task in runs,
journals and policies: `isaac:NAME`, whatever the address of the server. The tables that all servers have are here; the rest is with each
client.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, get_origin, get_type_hints

import numpy as np

from tandem.errors import ConfigError
from tandem.types import ActionPart, Continuous, Discrete, Entry, Spec

STATE = "gripper 0, force 1:4, x y z 4:7, Euler x y z 7:10, torque 10:13, velocity 13:19"
SETUP_MODES = {"single-arm-fixed-gripper": "none", "single-arm-learned-gripper": "three-way"}
"""hil-serl's `setup_mode`, and the gripper of the action that it means."""
TURN_FREE = (math.pi, math.pi, math.pi)


@dataclass(frozen=True)
class ActionProfile:
    position_m: float = 0.01
    """What 1 moves in a step, on each axis."""
    rotation_rad: float = 0.06
    frame: Literal["tool", "world"] = "tool"
    """In whose axes an action is. The step is clipped along the axes of the world in both cases, as hil-serl's clients do."""
    builds_on: Literal["commanded", "measured"] = "commanded"
    """What a step is added to: the pose that was commanded last, or the one that was measured last."""
    gripper: Literal["absolute", "delta", "three-way", "none"] = "absolute"
    gripper_step: float = 0.05
    """What 1 changes the opening by, for `delta`; 1 is the whole stroke."""


@dataclass(frozen=True)
class BoxProfile:
    """Where the command stays, in the world (m)."""

    low_m: tuple[float, ...] = (-0.15, -1.0, 0.41)
    high_m: tuple[float, ...] = (0.15, -0.2, 0.72)
    turn_rad: tuple[float, ...] = TURN_FREE
    """How far the commanded orientation may be from that of the start, about x, y and z of the world; pi: any."""


@dataclass(frozen=True)
class TimeProfile:
    control_hz: float = 10.0
    max_episode_steps: int = 1800
    observe_at: float = 0.7
    """Share of the control period after which the state is read; the rest is for the policy."""
    grace_s: float = 1.0
    """A state or a picture that is not renewed for longer ends the episode without a transition."""


class Reset(Protocol):
    """What every client needs to know of a reset."""

    @property
    def pose(self) -> tuple[float, ...]:
        """x, y, z (m), Euler x, y, z (rad) of the tool when an episode begins."""
        ...

    @property
    def within_s(self) -> float:
        """How long it may take."""
        ...


class Profile(Protocol):
    """What every client needs of the profile of its server."""

    @property
    def name(self) -> str: ...

    @property
    def action(self) -> ActionProfile: ...

    @property
    def box(self) -> BoxProfile: ...

    @property
    def time(self) -> TimeProfile: ...

    @property
    def reset(self) -> Reset: ...

    @property
    def crops(self) -> Mapping[str, tuple[float, ...]]:
        """By camera: rows from, to, columns from, to, as shares of the picture that arrives."""
        ...

    @property
    def size(self) -> tuple[int, ...]:
        """Height and width of a picture in the observation."""
        ...

    @property
    def spec(self) -> Spec: ...


def robot_spec(task: str, profile: Profile, extra: Mapping[str, Entry]) -> Spec:
    """The spec of an arm that is moved by poses: 19 numbers and the cameras; `extra` entries of the observation."""
    action, time = profile.action, profile.time
    arm = Continuous(
        "arm", 6, unit="m, m, m, rad, rad, rad", scale=(action.position_m,) * 3 + (action.rotation_rad,) * 3,
        meaning=f"step of the commanded pose, in the axes of the {action.frame}: x, y, z, rotation vector",
    )  # fmt: skip
    return Spec(
        task=task,
        observation={
            "state": Entry((19,), meaning=f"{STATE}; pose relative to that after the reset, velocity in the tool's axes"),
            **{name: Entry((*profile.size, 3), "uint8", meaning=f"picture of the camera '{name}'") for name in profile.crops},
            **extra,
        },
        action=(arm, *_gripper(action)),
        control_hz=time.control_hz,
        max_episode_steps=time.max_episode_steps,
        return_range=(0.0, 1.0),
    )


def _gripper(action: ActionProfile) -> tuple[ActionPart, ...]:
    if action.gripper == "none":
        return ()
    if action.gripper == "three-way":
        return (Discrete("gripper", ("close", "hold", "open"), rest=1, meaning="where the fingers go"),)
    if action.gripper == "delta":
        return (Continuous("gripper", 1, scale=action.gripper_step, meaning="step of the commanded opening; 1 is the whole stroke"),)
    return (Continuous("gripper", 1, scale=0.5, meaning="opening to go to: -1 closed, 1 open", stands_at=1.0),)


# ---- reading


def profile_names(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.toml"))


def read_tables(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """A profile that comes with Tandem by its name, or a file by its path: where it is, and what it says."""
    path = Path(name).expanduser() if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(profile_names(folder))
        raise ConfigError(f"no profile '{name}': there are {known}, or the path of a file that ends with .toml")
    try:
        tables = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"the profile {path} is not a TOML file: {problem}") from None
    return path, _with_setup_mode(path, tables)


def _with_setup_mode(path: Path, tables: dict[str, Any]) -> dict[str, Any]:
    """hil-serl's name for who holds the gripper, as the setting of the action that it stands for."""
    action = tables.get("action", {})
    if not isinstance(action, Mapping) or "setup_mode" not in action:
        return tables
    mode = action["setup_mode"]
    if mode not in SETUP_MODES:
        raise ConfigError(
            f"the profile {path}, [action] setup_mode = {mode!r:.60}, expected one of {', '.join(SETUP_MODES)} (one server moves one arm)"
        )
    if "gripper" in action:
        raise ConfigError(
            f"the profile {path}, [action] has both gripper and setup_mode; setup_mode = {mode!r} is gripper = {SETUP_MODES[mode]!r}"
        )
    others = {name: value for name, value in action.items() if name != "setup_mode"}
    return tables | {"action": others | {"gripper": SETUP_MODES[mode]}}


def checked_keys(path: Path, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Only these tables, and each of them a table."""
    for key, table in given.items():
        if key not in known or not isinstance(table, Mapping):
            raise ConfigError(f"the profile {path} has '{key}'; there are the tables {', '.join(f'[{kind}]' for kind in known)}")


def table(path: Path, key: str, kind: Any, given: Mapping[str, Any]) -> Any:
    """One table of the file as the dataclass that it stands for."""
    hints = get_type_hints(kind)
    for name, value in given.items():
        where = f"the profile {path}, [{key}] {name}"
        if name not in hints:
            raise ConfigError(f"{where} is unknown; there are {', '.join(hints)}")
        if get_origin(hints[name]) is Literal:
            fits, wanted = value in get_args(hints[name]), f"one of {', '.join(get_args(hints[name]))}"
        elif get_origin(hints[name]) is tuple:
            inner = get_args(hints[name])[0]
            fits, wanted = isinstance(value, list) and all(fits_type(item, inner) for item in value), f"a list of {inner.__name__}"
        else:
            fits, wanted = fits_type(value, hints[name]), hints[name].__name__
        if not fits:
            raise ConfigError(f"{where} = {value!r:.60}, expected {wanted}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def fits_type(value: Any, kind: type) -> bool:
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is kind


def check_common(path: Path, profile: Profile) -> None:
    """What holds for the profile of every server."""
    box, time, action = profile.box, profile.time, profile.action
    checks = (
        (len(box.low_m) == 3 == len(box.high_m) and all(np.less(box.low_m, box.high_m)), "[box] needs three low_m below three high_m"),
        (len(box.turn_rad) == 3 and min(box.turn_rad) > 0, "[box] turn_rad needs three angles above 0"),
        (len(profile.reset.pose) == 6, "[reset] pose needs six numbers: x, y, z, Euler x, y, z"),
        (len(profile.size) == 2 and min(profile.size) > 0, "[cameras] size needs height and width"),
        (all(len(crop) == 4 and 0 <= crop[0] < crop[1] <= 1 and 0 <= crop[2] < crop[3] <= 1 for crop in profile.crops.values()),
         "[cameras] crop needs four shares of the picture: rows from, to, columns from, to"),
        (min(action.position_m, action.rotation_rad, action.gripper_step) > 0, "[action] position_m, rotation_rad, gripper_step: above 0"),
        (time.control_hz > 0 and time.max_episode_steps > 0 and 0 < time.observe_at < 1 and time.grace_s > 0, "[time]: numbers above 0"),
    )  # fmt: skip
    require(path, checks)
    inside = np.clip(profile.reset.pose[:3], box.low_m, box.high_m)
    if not np.allclose(inside, profile.reset.pose[:3]):
        raise ConfigError(f"the profile {path}: [reset] pose is outside of the [box]; the first step would jump to {inside.tolist()}")


def require(path: Path, checks: tuple[tuple[bool, str], ...]) -> None:
    for holds, wanted in checks:
        if not holds:
            raise ConfigError(f"the profile {path}: {wanted}")

"""What the client must know of a server that says nothing of itself: a TOML file, one source for actions, box, reset, cameras and reward.

The fork's versions come with Tandem (`profiles/`); a file of your own is named by its path. The name of the file is that of the task in
runs, journals and policies: `isaac:NAME`, whatever the address of the server.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from tandem.errors import ConfigError
from tandem.types import ActionPart, Continuous, Discrete, Entry, Spec

FOLDER = Path(__file__).parent / "profiles"
DEFAULT = "gear_assembly"
STATE = "gripper 0, force 1:4, x y z 4:7, Euler x y z 7:10, torque 10:13, velocity 13:19"


@dataclass(frozen=True)
class ActionProfile:
    position_m: float = 0.01
    """What 1 moves in a step, on each axis."""
    rotation_rad: float = 0.06
    frame: Literal["tool", "world"] = "tool"
    """In whose axes an action is. The step is clipped along the axes of the world in both cases, as the fork's client does."""
    gripper: Literal["absolute", "delta", "three-way"] = "absolute"
    gripper_step: float = 0.05
    """What 1 changes the opening by, for `delta`; 1 is the whole stroke."""


@dataclass(frozen=True)
class BoxProfile:
    """Where the command stays, in the world (m)."""

    low_m: tuple[float, ...] = (-0.15, -1.0, 0.41)
    high_m: tuple[float, ...] = (0.15, -0.2, 0.72)


@dataclass(frozen=True)
class ResetProfile:
    pose: tuple[float, ...] = (0.0, -0.4, 0.55, 0.0, math.pi, 0.0)
    """x, y, z (m), Euler x, y, z (rad): where the server drives the arm after /reset_scene."""
    within_m: float = 0.02
    within_s: float = 30.0


@dataclass(frozen=True)
class CameraProfile:
    names: tuple[str, ...] = ("wrist_1", "wrist_2")
    """As the server names them; none: learn without pictures."""
    size: tuple[int, ...] = (128, 128)
    """Height and width of a picture."""
    crop: tuple[float, ...] = (0.0, 1.0, 0.0, 1.0)
    """Rows from, to, columns from, to, as shares of the picture that arrives; what is left is resized to `size`."""


@dataclass(frozen=True)
class RewardProfile:
    kind: Literal["assembly", "lift"] = "assembly"
    lift_m: float = 0.1
    """Above where the gear lay at the reset."""
    axis_cosine: float = 0.996
    aside_m: float = 0.002
    seated_below_m: float = 0.402
    hole_m: float = 0.02
    """x of the gear's hole in its frame, and of the pin in the base's."""
    hold_steps: int = 0
    """Steps in a row in which it must be seated; above 0 the count is observed as `hold`."""
    gear: str = "gear_medium"
    base: str = "gear_base"


@dataclass(frozen=True)
class TimeProfile:
    control_hz: float = 10.0
    max_episode_steps: int = 1800
    observe_at: float = 0.7
    """Share of the control period after which the state is read; the rest is for the policy."""
    grace_s: float = 1.0
    """A state or a picture that is not renewed for longer ends the episode without a transition."""


@dataclass(frozen=True)
class Profile:
    """One version of the server and of its task."""

    name: str
    action: ActionProfile = field(default_factory=ActionProfile)
    box: BoxProfile = field(default_factory=BoxProfile)
    reset: ResetProfile = field(default_factory=ResetProfile)
    cameras: CameraProfile = field(default_factory=CameraProfile)
    reward: RewardProfile = field(default_factory=RewardProfile)
    time: TimeProfile = field(default_factory=TimeProfile)

    @property
    def spec(self) -> Spec:
        hold = {"hold": Entry((1,), scale=float(self.reward.hold_steps), meaning="steps in a row in which the gear was seated")}
        return Spec(
            task=f"isaac:{self.name}",
            observation={
                "state": Entry((19,), meaning=f"{STATE}; pose relative to that after the reset, velocity in the tool's axes"),
                **{name: _picture(name, self.cameras.size) for name in self.cameras.names},
                **(hold if self.reward.hold_steps else {}),
            },
            action=(
                Continuous(
                    "arm", 6, unit="m, m, m, rad, rad, rad", scale=(self.action.position_m,) * 3 + (self.action.rotation_rad,) * 3,
                    meaning=f"step of the commanded pose, in the axes of the {self.action.frame}: x, y, z, rotation vector",
                ),
                self._gripper(),
            ),
            control_hz=self.time.control_hz,
            max_episode_steps=self.time.max_episode_steps,
            return_range=(0.0, 1.0),
        )  # fmt: skip

    def _gripper(self) -> ActionPart:
        if self.action.gripper == "three-way":
            return Discrete("gripper", ("close", "hold", "open"), rest=1, meaning="where the fingers go")
        if self.action.gripper == "delta":
            return Continuous("gripper", 1, scale=self.action.gripper_step, meaning="step of the commanded opening; 1 is the whole stroke")
        return Continuous("gripper", 1, scale=0.5, meaning="opening to go to: -1 closed, 1 open", stands_at=1.0)


def _picture(name: str, size: tuple[int, ...]) -> Entry:
    return Entry((*size, 3), "uint8", meaning=f"picture of the camera '{name}'")


def profile_names() -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def read_profile(name: str) -> Profile:
    """A profile that comes with Tandem by its name, or a file by its path."""
    path = Path(name).expanduser() if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        raise ConfigError(f"no profile '{name}': there are {', '.join(profile_names())}, or the path of a file that ends with .toml")
    try:
        given = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"the profile {path} is not a TOML file: {problem}") from None
    kinds = {key: kind for key, kind in get_type_hints(Profile).items() if key != "name"}
    parts = {}
    for key, table in given.items():
        if key not in kinds or not isinstance(table, Mapping):
            raise ConfigError(f"the profile {path} has '{key}'; there are the tables {', '.join(f'[{kind}]' for kind in kinds)}")
        parts[key] = _table(path, key, kinds[key], table)
    profile = Profile(path.stem, **parts)
    _check(path, profile)
    return profile


def _table(path: Path, key: str, kind: Any, table: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    for name, value in table.items():
        where = f"the profile {path}, [{key}] {name}"
        if name not in hints:
            raise ConfigError(f"{where} is unknown; there are {', '.join(hints)}")
        if get_origin(hints[name]) is Literal:
            fits, wanted = value in get_args(hints[name]), f"one of {', '.join(get_args(hints[name]))}"
        elif get_origin(hints[name]) is tuple:
            inner = get_args(hints[name])[0]
            fits, wanted = isinstance(value, list) and all(_fits(item, inner) for item in value), f"a list of {inner.__name__}"
        else:
            fits, wanted = _fits(value, hints[name]), hints[name].__name__
        if not fits:
            raise ConfigError(f"{where} = {value!r:.60}, expected {wanted}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in table.items()})


def _fits(value: Any, kind: type) -> bool:
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is kind


def _check(path: Path, profile: Profile) -> None:
    box, time, action, cameras = profile.box, profile.time, profile.action, profile.cameras
    checks = (
        (len(box.low_m) == 3 == len(box.high_m) and all(np.less(box.low_m, box.high_m)), "[box] needs three low_m below three high_m"),
        (len(profile.reset.pose) == 6, "[reset] pose needs six numbers: x, y, z, Euler x, y, z"),
        (len(cameras.size) == 2 and min(cameras.size) > 0, "[cameras] size needs height and width"),
        (len(cameras.crop) == 4 and 0 <= cameras.crop[0] < cameras.crop[1] <= 1 and 0 <= cameras.crop[2] < cameras.crop[3] <= 1,
         "[cameras] crop needs four shares of the picture: rows from, to, columns from, to"),
        (min(action.position_m, action.rotation_rad, action.gripper_step) > 0, "[action] position_m, rotation_rad, gripper_step: above 0"),
        (time.control_hz > 0 and time.max_episode_steps > 0 and 0 < time.observe_at < 1 and time.grace_s > 0, "[time]: numbers above 0"),
        (profile.reward.hold_steps >= 0, "[reward] hold_steps cannot be negative"),
        (profile.reset.within_m > 0 and profile.reset.within_s > 0, "[reset] within_m and within_s must be above 0"),
    )  # fmt: skip
    for holds, wanted in checks:
        if not holds:
            raise ConfigError(f"the profile {path}: {wanted}")
    inside = np.clip(profile.reset.pose[:3], box.low_m, box.high_m)
    if not np.allclose(inside, profile.reset.pose[:3]):
        raise ConfigError(f"the profile {path}: [reset] pose is outside of the [box]; the first step would jump to {inside.tolist()}")

"""The profile of Isaac's gear server; the versions of the fork come with Tandem (`profiles/`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_type_hints

from tandem.envs.http_robot import profile as common
from tandem.envs.http_robot.profile import ActionProfile, BoxProfile, TimeProfile, check_common, checked_keys, read_tables, require, table
from tandem.spec import ROBOT_SERVERS
from tandem.types import Entry, Spec

FOLDER = Path(__file__).parent / "profiles"
DEFAULT = ROBOT_SERVERS["isaac"]


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
    def crops(self) -> Mapping[str, tuple[float, ...]]:
        return dict.fromkeys(self.cameras.names, self.cameras.crop)

    @property
    def size(self) -> tuple[int, ...]:
        return self.cameras.size

    @property
    def spec(self) -> Spec:
        hold = {"hold": Entry((1,), scale=float(self.reward.hold_steps), meaning="steps in a row in which the gear was seated")}
        return common.robot_spec(f"isaac:{self.name}", self, hold if self.reward.hold_steps else {})


def profile_names() -> list[str]:
    return common.profile_names(FOLDER)


def read_profile(name: str) -> Profile:
    """A profile that comes with Tandem by its name, or a file by its path."""
    path, given = read_tables(name, FOLDER)
    kinds = {key: kind for key, kind in get_type_hints(Profile).items() if key != "name"}
    checked_keys(path, given, tuple(kinds))
    profile = Profile(path.stem, **{key: table(path, key, kinds[key], values) for key, values in given.items()})
    check_common(path, profile)
    checks = (
        (profile.reward.hold_steps >= 0, "[reward] hold_steps cannot be negative"),
        (profile.reset.within_m > 0 and profile.reset.within_s > 0, "[reset] within_m and within_s must be above 0"),
    )
    require(path, checks)
    return profile

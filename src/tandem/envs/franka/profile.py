"""The profile of a robot behind hil-serl's Franka server: what hil-serl keeps in a Python class for each task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tandem.envs.http_robot import profile as common
from tandem.envs.http_robot.profile import ActionProfile, BoxProfile, TimeProfile, checked_keys, fits_type, read_tables, require, table
from tandem.errors import ConfigError
from tandem.spec import ROBOT_SERVERS
from tandem.types import Spec

FOLDER = Path(__file__).parent / "profiles"
DEFAULT = ROBOT_SERVERS["franka"]
_AXES = ("x", "y", "z")
PARAMETERS: dict[str, float] = {
    "translational_stiffness": 6000.0,
    "translational_damping": 400.0,
    "rotational_stiffness": 300.0,
    "rotational_damping": 30.0,
    "nullspace_stiffness": 100.0,
    "joint1_nullspace_stiffness": 100.0,
    "translational_Ki": 100.0,
    "rotational_Ki": 100.0,
    **{f"translational_clip_{side}{axis}": 0.1 for side in ("", "neg_") for axis in _AXES},
    **{f"rotational_clip_{side}{axis}": math.inf for side in ("", "neg_") for axis in _AXES},
}
"""The parameters of serl_franka_controllers, and the largest value of each. It cuts rotational clips off at 0.1; hil-serl sends 0.5."""


@dataclass(frozen=True)
class GripperProfile:
    kind: Literal["robotiq", "franka", "none"] = "franka"
    """`--gripper_type` of the server. The two count /move_gripper in opposite directions; with None the server cannot answer /getstate."""


@dataclass(frozen=True)
class ResetProfile:
    pose: tuple[float, ...] = (0.45, 0.0, 0.20, math.pi, 0.0, 0.0)
    """x, y, z (m), Euler x, y, z (rad) in the frame of the robot's base: where an episode begins."""
    speed_m_s: float = 0.15
    speed_rad_s: float = 0.6
    """How fast the arm is driven to the start."""
    up_m: float = 0.0
    """So far straight up first, so that a tool in a hole is pulled out before it goes aside."""
    random_xy_m: float = 0.0
    random_rz_rad: float = 0.0
    """The start is moved by up to this much, each time another way."""
    gripper: Literal["keep", "open", "close"] = "keep"
    joint_reset_every: int = 0
    """Every so many episodes the joints are driven to their angles of the server's `--reset_joint_target`; 0: never."""
    within_m: float = 0.015
    within_rad: float = 0.1
    within_s: float = 30.0
    """How near to the start is near enough, and how long a reset may take without its joint reset."""


@dataclass(frozen=True)
class CameraProfile:
    kind: Literal["realsense", "opencv", "served"] = "realsense"
    source: str = ""
    """RealSense: the serial number. OpenCV: its number, a device or a file. Served: the address of a JPEG or an MJPEG stream; one that
    begins with / is on the robot's server."""
    width: int = 640
    height: int = 480
    hz: int = 15
    exposure: int = 0
    """RealSense, in microseconds; 0: automatic."""
    crop: tuple[float, ...] = (0.0, 1.0, 0.0, 1.0)
    """Rows from, to, columns from, to, as shares of the picture; what is left is resized."""


@dataclass(frozen=True)
class RewardProfile:
    kind: Literal["pose", "person"] = "person"
    """`pose`: the tool is at the target. `person`: nobody but a person says so (`--reward person`)."""
    target: tuple[float, ...] = ()
    """x, y, z (m), Euler x, y, z (rad) in the frame of the robot's base."""
    threshold: tuple[float, ...] = ()
    """How far each of the six may be off."""
    gripper: tuple[float, ...] = (0.0, 1.0)
    """The measured opening must lie between the two as well: a hand that closed without an object is no success."""


@dataclass(frozen=True)
class Profile:
    """One task of one robot."""

    name: str
    action: ActionProfile
    gripper: GripperProfile
    box: BoxProfile
    reset: ResetProfile
    reward: RewardProfile
    time: TimeProfile
    compliance: Mapping[str, float]
    """Parameters of the impedance controller while the policy acts."""
    precision: Mapping[str, float]
    """While the arm is driven to its start."""
    clear_errors: bool
    """Send /clearerr before each pose, as hil-serl does: the arm goes on after it stopped itself, for example at a contact."""
    size: tuple[int, ...]
    cameras: Mapping[str, CameraProfile]

    @property
    def crops(self) -> Mapping[str, tuple[float, ...]]:
        return {name: camera.crop for name, camera in self.cameras.items()}

    @property
    def spec(self) -> Spec:
        return common.robot_spec(f"franka:{self.name}", self, {})


_TABLES: dict[str, Any] = {
    "action": ActionProfile, "gripper": GripperProfile, "box": BoxProfile, "reset": ResetProfile, "reward": RewardProfile,
    "time": TimeProfile,
}  # fmt: skip
_DEFAULTS = {
    "action": {"builds_on": "measured", "gripper": "three-way"},
    "box": {"low_m": [0.3, -0.2, 0.02], "high_m": [0.6, 0.2, 0.4], "turn_rad": [0.5, 0.5, 0.8]},
    "time": {"max_episode_steps": 100},
}
"""What a table means that does not say it, where that differs from Isaac's server."""


def profile_names() -> list[str]:
    return common.profile_names(FOLDER)


def read_profile(name: str) -> Profile:
    """A profile that comes with Tandem by its name, or a file by its path."""
    path, given = read_tables(name, FOLDER)
    checked_keys(path, given, (*_TABLES, "compliance", "precision", "errors", "cameras"))
    parts: dict[str, Any] = {key: table(path, key, kind, _DEFAULTS.get(key, {}) | given.get(key, {})) for key, kind in _TABLES.items()}
    parts |= {key: _parameters(path, key, given.get(key, {})) for key in ("compliance", "precision")}
    cleared = given.get("errors", {}).get("clear", True)
    require(
        path, ((type(cleared) is bool and set(given.get("errors", {})) <= {"clear"}, "[errors] has one setting: clear = true or false"),)
    )
    size, cameras = _cameras(path, given.get("cameras", {}))
    profile = Profile(path.stem, **parts, clear_errors=cleared, size=size, cameras=cameras)
    common.check_common(path, profile)
    _check(path, profile)
    return profile


def _parameters(path: Path, key: str, given: Mapping[str, Any]) -> dict[str, float]:
    for name, value in given.items():
        where = f"the profile {path}, [{key}] {name}"
        if name not in PARAMETERS:
            raise ConfigError(f"{where} is no parameter of the impedance controller; there are {', '.join(PARAMETERS)}")
        if not fits_type(value, float) or not 0 <= value <= PARAMETERS[name]:
            raise ConfigError(f"{where} = {value!r:.60}, expected a number from 0 to {PARAMETERS[name]:g}")
    return dict(given)


def _cameras(path: Path, given: Mapping[str, Any]) -> tuple[tuple[int, ...], dict[str, CameraProfile]]:
    """`size` for all of them, and a table for each by its name."""
    named = {name: values for name, values in given.items() if name != "size"}
    for name, values in named.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"the profile {path}, [cameras] {name} = {values!r:.60}: expected `size`, or a table [cameras.{name}]")
    size = given.get("size", [128, 128])
    if not isinstance(size, list) or not all(fits_type(item, int) for item in size):
        raise ConfigError(f"the profile {path}, [cameras] size = {size!r:.60}, expected height and width")
    return tuple(size), {name: table(path, f"cameras.{name}", CameraProfile, values) for name, values in named.items()}


def _check(path: Path, profile: Profile) -> None:
    reset, reward = profile.reset, profile.reward
    fingers = profile.action.gripper != "none"
    checks = (
        (min(reset.speed_m_s, reset.speed_rad_s, reset.within_m, reset.within_rad, reset.within_s) > 0,
         "[reset] speeds and within_*: above 0"),
        (min(reset.up_m, reset.random_xy_m, reset.random_rz_rad, reset.joint_reset_every) >= 0, "[reset]: no number below 0"),
        (reward.kind == "person" or len(reward.target) == 6 == len(reward.threshold), "[reward] pose needs six target and threshold"),
        (all(number > 0 for number in reward.threshold), "[reward] threshold: numbers above 0; pi for an angle that does not matter"),
        (len(reward.gripper) == 2 and reward.gripper[0] < reward.gripper[1], "[reward] gripper needs the smallest and largest opening"),
        (profile.gripper.kind != "none" or not fingers, '[gripper] kind = "none" goes with [action] gripper = "none"'),
        (profile.gripper.kind != "none" or reset.gripper == "keep", '[gripper] kind = "none" goes with [reset] gripper = "keep"'),
        (all(camera.source for camera in profile.cameras.values()), "each [cameras.NAME] needs a source"),
        (all(min(camera.width, camera.height, camera.hz) > 0 for camera in profile.cameras.values()), "[cameras.NAME]: numbers above 0"),
    )  # fmt: skip
    require(path, checks)

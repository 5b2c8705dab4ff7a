"""The gear task by eye: two cameras on the hand in the place of the measured board.

Physics, calibration, reward and episodes are those of `gear_assembly`. What differs is what is seen and where it is counted from. The
tool's pose, velocity and command are in the robot's own frame, about the place where the board would be without randomisation; neither
the board's pose nor the phase of its gears is observed, so they have to be seen. The workspace is wider, for it does not move with the
board. The demonstrator still knows what was measured, in entries of the role `privileged`, which no learner gets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs.arm import LINKS, CartesianControl
from tandem.envs.cameras import Cameras, hide, picture_entry
from tandem.envs.gear_assembly.board import DEGREE, MM, Board
from tandem.envs.gear_assembly.expert import GearCorrector, GearExpert
from tandem.envs.gear_assembly.scene import BOARD_NOMINAL, TEETH, describe_scene
from tandem.envs.gear_assembly.task import CONTROL, SPEC, GearAssembly
from tandem.envs.limits import LimitSettings, limits_of_control
from tandem.envs.looks import Looks, OtherLooks
from tandem.envs.rotations import compose, quat_conjugate, rotate
from tandem.envs.shaping import Reward
from tandem.envs.surroundings import looking
from tandem.envs.task import Judgement, Practice, Rows, Task
from tandem.errors import ConfigError
from tandem.types import Entry, Observation, Spec

CAMERAS = {"wrist_left": 45 * DEGREE, "wrist_right": -45 * DEGREE}
"""Names, and the direction from the tool's axis to the camera: at right angles to each other, past the mounted gears."""
SIZE = (128, 128)
AWAY, ABOVE, AIM, FOVY = 100 * MM, 38 * MM, -12 * MM, 50.0
"""From the tool's axis, over the gear's bottom, the height looked at, and the field of view (degrees): about 1 pixel for a millimetre."""
WIDER = dataclasses.replace(
    CONTROL,
    workspace_low=(-70 * MM, -70 * MM, -12 * MM, -15 * DEGREE, -15 * DEGREE, -45 * DEGREE),
    workspace_high=(70 * MM, 70 * MM, 75 * MM, 15 * DEGREE, 15 * DEGREE, 45 * DEGREE),
)
LOOKS = {
    "usual": Looks(),
    "moved": Looks(camera_place=3 * MM, camera_turn=3 * DEGREE, light=0.3, colour=0.1),
    "camera_1mm": Looks(camera_place=1 * MM, camera_turn=1 * DEGREE),
    "camera_3mm": Looks(camera_place=3 * MM, camera_turn=3 * DEGREE),
    "light": Looks(light=0.3),
    "colour": Looks(colour=0.1),
    "noise": Looks(noise=4.0),
}
"""All that differs at once, and each alone, for measuring what it costs a policy that has not seen it."""
_MEANING = "picture of the camera on the hand that looks past the mounted gears at the gear's lower edge"
PIXELS = dataclasses.replace(
    SPEC,
    task="gear_assembly_pixels",
    observation={
        **{name: picture_entry(SIZE, _MEANING) for name in CAMERAS},
        "tcp_pose": Entry(
            (6,), unit="m, rad", scale=(20 * MM, 20 * MM, 20 * MM, 0.1, 0.1, 0.15),
            meaning="middle of the gear's bottom face about the board's nominal seat, in the base's axes: x, y, z, rotation vector",
        ),
        **{name: SPEC.observation[name] for name in ("tcp_velocity", "wrench", "command_offset", "previous_action")},
        "measured_pose": dataclasses.replace(SPEC.observation["tcp_pose"], role="privileged"),
        "measured_yaw": Entry((1,), unit="rad", scale=0.1, role="privileged", meaning="of the measured seat in the base's axes"),
        "gear_phase": dataclasses.replace(SPEC.observation["gear_phase"], role="privileged"),
    },
)  # fmt: skip


def pixel_limits() -> LimitSettings:
    """Limits of a robot that does this task."""
    return limits_of_control(WIDER, 6, 10.0, position="tcp_pose", offset="command_offset", wrench="wrench", force=20.0)


class GearAssemblyPixels(Task):
    """Holds a `GearAssembly` and shows it through cameras; what differs in every episode is named in `LOOKS`."""

    def __init__(self, looks: str = "usual", reward: Reward = "sparse", practice: Practice | None = None) -> None:
        self.gears = GearAssembly(reward=reward, practice=practice)
        self.gears.control = CartesianControl(WIDER)
        self._looks = LOOKS[looks]
        name = PIXELS.task if looks == "usual" else f"{PIXELS.task}_{looks}"
        self.spec: Spec = dataclasses.replace(PIXELS, task=name, return_range=self.gears.spec.return_range)

    def build(self) -> mujoco.MjModel:
        spec = describe_scene(self.gears.geometry, self.gears.impedance, reference="nominal_seat")
        spec.worldbody.add_site(name="nominal_seat", pos=BOARD_NOMINAL, size=[0.001, 0, 0], rgba=[0, 0, 0, 0])
        for name, azimuth in CAMERAS.items():
            place = np.array([AWAY * np.cos(azimuth), AWAY * np.sin(azimuth), ABOVE])
            spec.body("held_gear").add_camera(name=name, pos=place, quat=looking(place, np.array([0, 0, AIM])), fovy=FOVY)
        hide(spec, ("base", *(f"link{number}" for number in range(1, len(LINKS) + 1))))
        return spec.compile()

    def bind(self, batch: mujoco.batch.Batch) -> None:
        self.gears.bind(batch)
        self._cameras = Cameras(batch, tuple(CAMERAS), SIZE)
        self._other = OtherLooks(batch, self._looks, tuple(CAMERAS))
        self._count = batch.nsim

    def reset(self, rows: Rows, streams: list[np.random.Generator]) -> None:
        self.gears.reset(rows, streams)
        for row, stream in zip(np.arange(self._count)[rows], streams, strict=True):
            self._other.draw(int(row), stream)

    def advance(self, rows: Rows, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        self.gears.advance(rows, action, streams)

    def observe(self, rows: Rows) -> Observation:
        gears = self.gears
        measured, yaw = from_measured_board(gears.board, rows, gears.control.pose[rows])
        angle = (gears.board.measured_phase[rows] - measured[:, 5]) * TEETH
        felt = gears.observe(rows)
        return {
            **self.pictures(rows),
            **{name: felt[name] for name in ("tcp_pose", "tcp_velocity", "wrench", "command_offset", "previous_action")},
            "measured_pose": measured.astype(np.float32),
            "measured_yaw": yaw.astype(np.float32),
            "gear_phase": np.stack([np.sin(angle), np.cos(angle)], -1).astype(np.float32),
        }

    def pictures(self, rows: Rows) -> dict[str, np.ndarray]:
        """By camera, (n, height, width, 3) uint8."""
        return {name: self._other.taken(pictures) for name, pictures in self._cameras.pictures(rows).items()}

    def judge(self, rows: Rows) -> Judgement:
        return self.gears.judge(rows)

    def memory(self) -> dict[str, np.ndarray]:
        return {**self.gears.memory(), **self._other.memory()}

    def close(self) -> None:
        self._cameras.close()


def from_measured_board(board: Board, rows: Rows, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A pose (n, 6) about the nominal seat in the measured seat's frame, and the yaw (n, 1) of that frame in the base's axes."""
    return about_seat(*board.measured_seat(rows), pose)


def about_seat(place: np.ndarray, orientation: np.ndarray, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same for any seat, by its place (n, 3) and orientation (n, 4) in the world."""
    yaw = 2 * np.arctan2(orientation[:, 3], orientation[:, 0])[:, None]
    turned = compose(np.concatenate([np.zeros((len(yaw), 2)), -yaw], axis=1), pose[:, 3:])
    return np.concatenate([rotate(quat_conjugate(orientation), pose[:, :3] - (place - BOARD_NOMINAL)), turned], axis=1), yaw


def _as_measured(observation: Observation) -> Observation:
    """What `gear_assembly` would have shown, in the measured seat's frame."""
    if "measured_yaw" not in observation:
        raise ConfigError(
            "the script of the gear task needs the measured pose of the board, which only teachers get, and this run has cameras in its "
            "place: record with --operator scripted, and train with --operator none or browser"
        )
    back = yaw_quat(-observation["measured_yaw"])
    felt = {name: observation[name] for name in ("wrench", "gear_phase")}
    offset, previous = (turned(back, observation[name].astype(float)) for name in ("command_offset", "previous_action"))
    return felt | {"tcp_pose": observation["measured_pose"], "command_offset": offset, "previous_action": previous}


def turned(quat: np.ndarray, action: np.ndarray) -> np.ndarray:
    """The same step or offset (..., 6) in other axes; three axes have one scale, and the three turns another."""
    return np.concatenate([rotate(quat, action[..., :3]), rotate(quat, action[..., 3:])], axis=-1)


def yaw_quat(yaw: np.ndarray) -> np.ndarray:
    """(..., 1) -> (..., 4)."""
    nothing = np.zeros_like(yaw)
    return np.concatenate([np.cos(yaw / 2), nothing, nothing, np.sin(yaw / 2)], axis=-1)


class Script(Protocol):
    """A scripted demonstrator or corrector of a task that sees states."""

    name: str

    def reset(self) -> None: ...

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]: ...


class InOtherAxes:
    """A script of the task that sees states, demonstrating here: it sees what was measured, and its steps are turned into the base's axes.

    What follows the six axes of the arm, a gripper, is left as it is.
    """

    def __init__(self, script: Script, as_measured: Callable[[Observation], Observation]) -> None:
        self._script, self._as_measured = script, as_measured
        self.name = script.name

    def reset(self) -> None:
        self._script.reset()

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        action, by_human = self._script.decide(self._as_measured(observation), proposed)
        arm = turned(yaw_quat(observation["measured_yaw"]), action[:6].astype(float))
        return np.concatenate([np.clip(arm, -1, 1), action[6:]]).astype(np.float32), by_human


def pixel_expert(seed: int | None = None) -> InOtherAxes:
    return InOtherAxes(GearExpert(seed), _as_measured)


def pixel_corrector(seed: int | None = None) -> InOtherAxes:
    return InOtherAxes(GearCorrector(seed), _as_measured)


def pixel_distance(observation: Observation) -> float:
    """How far from seated it looks (m): beside the measured peg and above the measured board."""
    x, y, z = _as_measured(observation)["tcp_pose"][:3]
    return float(np.hypot(x, y) + max(0.0, z))

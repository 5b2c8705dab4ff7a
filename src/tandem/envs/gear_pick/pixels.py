"""The whole gear assembly by eye: cameras in the place of the measured board and of the gear's seen place.

Physics, calibration, reward and episodes are those of `gear_pick_assembly`. The tool's pose, velocity and command are in the robot's own
frame, about the place where the board would be without randomisation; where the gear lies, where the board is and how its gears stand
have to be seen. Three cameras:

    overview                  stands on the far side of the board: gear, peg and board at every stage, at about 2.5 mm for a pixel
    wrist_left, wrist_right   on the hand, at right angles: the hub before the grasp, then the peg's tip and the teeth, at about 1 mm

The demonstrator still knows what was measured, in entries of the role `privileged`, which no learner gets.
"""

from __future__ import annotations

import dataclasses

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs.arm import LINKS, CartesianControl
from tandem.envs.cameras import Cameras, hide, picture_entry
from tandem.envs.gear_assembly.board import DEGREE, MM
from tandem.envs.gear_assembly.pixels import ABOVE, AIM, AWAY, FOVY, SIZE, InOtherAxes, about_seat, from_measured_board, turned, yaw_quat
from tandem.envs.gear_assembly.pixels import CAMERAS as ON_THE_HAND
from tandem.envs.gear_assembly.scene import BOARD_NOMINAL
from tandem.envs.gear_pick.expert import PickCorrector, PickExpert, pick_distance
from tandem.envs.gear_pick.scene import describe_scene
from tandem.envs.gear_pick.task import CONTROL, GearPick, pick_limits_of
from tandem.envs.gripper import Mode
from tandem.envs.limits import LimitSettings
from tandem.envs.surroundings import add_camera, looking
from tandem.envs.task import Judgement, Rows, Task
from tandem.errors import ConfigError
from tandem.types import Entry, Observation

OVERVIEW = "overview"
CAMERAS = (OVERVIEW, *ON_THE_HAND)
MARGIN = 35 * MM
"""The workspace is so much wider on every side: it does not move with the board."""
WIDER = dataclasses.replace(
    CONTROL,
    workspace_low=(*(low - MARGIN for low in CONTROL.workspace_low[:2]), *CONTROL.workspace_low[2:5], -55 * DEGREE),
    workspace_high=(*(high + MARGIN for high in CONTROL.workspace_high[:2]), *CONTROL.workspace_high[2:5], 55 * DEGREE),
)
_OWN = ("tcp_place", "tcp_velocity", "wrench", "command_offset", "previous_action", "gripper")
"""What the robot knows of itself, in its own axes."""
_TAUGHT = ("gear_offset", "gear_place", "gear_tilt", "gear_phase")
"""What only teachers and critics that see the state get, in the measured seat's axes."""
_TRUE = {
    "true_phase": ("gear_phase", ("gear_phase",)),
    "true_place": ("tcp_place", ("tcp_place",)),
    "true_pose": ("tcp_pose", ("tcp_pose", "measured_pose")),
}
"""What critics get in the place of what was measured: cameras see the board where it is, and an error that nobody sees tells demonstrations
apart. By which entry of the task that sees states each is described, and what it stands in the place of."""


def pick_pixel_limits(mode: Mode) -> LimitSettings:
    return pick_limits_of(WIDER, mode)


class GearPickPixels(Task):
    """Holds a `GearPick` and shows it through cameras."""

    def __init__(self, mode: Mode = "absolute") -> None:
        self.pick = pick = GearPick("assembly", mode)
        pick.control = CartesianControl(WIDER)
        known = pick.spec.observation
        entries = {
            OVERVIEW: picture_entry(SIZE, "picture of a camera that stands behind the board and sees gear, peg and board"),
            **{name: picture_entry(SIZE, "picture of a camera on the hand that looks past the fingers") for name in ON_THE_HAND},
            "tcp_pose": Entry(
                (6,), unit="m, rad", scale=(20 * MM, 20 * MM, 20 * MM, 0.1, 0.1, 0.15),
                meaning="tool about the board's nominal seat, in the base's axes: x, y, z, rotation vector",
            ),
            **{name: known[name] for name in _OWN},
            "measured_pose": dataclasses.replace(known["tcp_pose"], role="privileged"),
            "measured_yaw": Entry((1,), unit="rad", scale=0.1, role="privileged", meaning="of the measured seat in the base's axes"),
            **{name: dataclasses.replace(known[name], role="privileged") for name in _TAUGHT},
            **{true: dataclasses.replace(known[name], role="privileged", in_place_of=worse) for true, (name, worse) in _TRUE.items()},
            "true_yaw": Entry((1,), unit="rad", scale=0.1, role="privileged", in_place_of=("measured_yaw",), meaning="of the true seat"),
        }  # fmt: skip
        task = pick.spec.task.replace("gear_pick_assembly", "gear_pick_assembly_pixels")
        self.spec = dataclasses.replace(pick.spec, task=task, observation=entries)

    def build(self) -> mujoco.MjModel:
        pick = self.pick
        spec = describe_scene(self.spec.task, pick.geometry, pick.impedance, pick.gripper, reference="nominal_seat")
        spec.worldbody.add_site(name="nominal_seat", pos=BOARD_NOMINAL, size=[0.001, 0, 0], rgba=[0, 0, 0, 0])
        add_camera(spec, OVERVIEW, place=(0.80, -0.20, 0.30), target=(0.42, 0.0, 0.02), fovy=36)
        for name, azimuth in ON_THE_HAND.items():
            place = np.array([AWAY * np.cos(azimuth), AWAY * np.sin(azimuth), ABOVE])
            spec.body("tool").add_camera(name=name, pos=place, quat=looking(place, np.array([0, 0, AIM])), fovy=FOVY)
        hide(spec, ("base", *(f"link{number}" for number in range(1, len(LINKS) + 1))))
        return spec.compile()

    def bind(self, batch: mujoco.batch.Batch) -> None:
        self.pick.bind(batch)
        self._cameras = Cameras(batch, CAMERAS, SIZE)

    def reset(self, rows: Rows, streams: list[np.random.Generator]) -> None:
        self.pick.reset(rows, streams)

    def advance(self, rows: Rows, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        self.pick.advance(rows, action, streams)

    def observe(self, rows: Rows) -> Observation:
        pick = self.pick
        pose = pick.control.pose[rows]
        measured, yaw = from_measured_board(pick.board, rows, pose)
        true, true_yaw = about_seat(*pick.board.true_seat(rows), pose)
        own, taught = pick.observe(rows), pick.observed_from(rows, measured)
        return {
            **self._cameras.pictures(rows),
            **{name: own[name] for name in ("tcp_pose", *_OWN)},
            "measured_pose": measured.astype(np.float32),
            "measured_yaw": yaw.astype(np.float32),
            **{name: taught[name] for name in _TAUGHT},
            "true_phase": pick.true_phase(rows).astype(np.float32),
            "true_place": true[:, :3].astype(np.float32),
            "true_pose": true.astype(np.float32),
            "true_yaw": true_yaw.astype(np.float32),
        }

    def judge(self, rows: Rows) -> Judgement:
        return self.pick.judge(rows)

    def memory(self) -> dict[str, np.ndarray]:
        return self.pick.memory()

    def close(self) -> None:
        self._cameras.close()


def _as_measured(observation: Observation) -> Observation:
    """What `gear_pick_assembly` would have shown, in the measured seat's frame."""
    if "measured_yaw" not in observation:
        raise ConfigError(
            "the script of the pick task needs the measured poses of board and gear, which only teachers get, and this run has cameras in "
            "their place: record with --operator scripted, and train with --operator none or browser"
        )
    back = yaw_quat(-observation["measured_yaw"])
    seen = {name: observation[name] for name in (*_TAUGHT, "wrench", "gripper")}
    previous = observation["previous_action"].astype(float)
    return seen | {
        "tcp_pose": observation["measured_pose"],
        "command_offset": turned(back, observation["command_offset"].astype(float)),
        "previous_action": np.concatenate([turned(back, previous[..., :6]), previous[..., 6:]], axis=-1),
    }


def pick_pixel_expert(mode: Mode, seed: int | None = None) -> InOtherAxes:
    return InOtherAxes(PickExpert("assembly", mode, seed), _as_measured)


def pick_pixel_corrector(mode: Mode, seed: int | None = None) -> InOtherAxes:
    return InOtherAxes(PickCorrector("assembly", mode, seed), _as_measured)


def pick_pixel_distance(observation: Observation) -> float:
    """How far from done it looks (m)."""
    return pick_distance("assembly", _as_measured(observation))

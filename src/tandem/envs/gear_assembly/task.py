"""The gear task: what is random, what is hidden, what is seen, what counts.

The robot knows the board's pose only up to a few millimetres and the neighbours' phase only up to a quarter of a pitch: aiming
is not enough, touch has to find the peg and the gap between the teeth. The reward is 1 when the gear sits on the board, around
the peg and between its neighbours' teeth, and the episode ends; before that it is 0. With `reward="dense"` every step also costs
what is left to do (`DENSE`), judged by the true pose and phase, which the policy does not see.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs.arm import CartesianControl, ControlLimits, Impedance, InverseKinematics
from tandem.envs.gear_assembly.board import DEGREE, MM, Board, BoardOptions, about_z
from tandem.envs.gear_assembly.practice import Levels, OtherPhysics
from tandem.envs.gear_assembly.scene import PITCH, TEETH, Geometry, build_scene
from tandem.envs.limits import LimitSettings, limits_of_control
from tandem.envs.rotations import quat_multiply, rotate, rotvec_to_quat
from tandem.envs.shaping import Reward, judged, shaped
from tandem.envs.task import Judgement, Practice, Rows, Task, ids
from tandem.envs.wrench import WrenchSensor
from tandem.types import Continuous, Entry, Observation, Spec


@dataclass(frozen=True)
class GearOptions(BoardOptions):
    """Ranges are uniform, half-widths; lengths in m, angles in rad. Frozen once calibrated: change to make it harder."""

    start_xy: float = 27 * MM
    start_height: tuple[float, float] = (20 * MM, 40 * MM)
    """Height of the gear's bottom over the peg's tip."""
    start_yaw: float = 10 * DEGREE
    start_tilt: float = 3 * DEGREE
    force_noise: float = 0.3
    """Standard deviation per control step (N)."""
    torque_noise: float = 0.005
    seated_height: float = 1.5 * MM
    seated_radius: float = 1.0 * MM


CONTROL = ControlLimits(
    action_scale=(7 * MM,) * 3 + (3 * DEGREE,) * 3,
    leash=(11 * MM,) * 3 + (6 * DEGREE,) * 3,
    workspace_low=(-50 * MM, -50 * MM, -12 * MM, -15 * DEGREE, -15 * DEGREE, -35 * DEGREE),
    workspace_high=(50 * MM, 50 * MM, 75 * MM, 15 * DEGREE, 15 * DEGREE, 35 * DEGREE),
)


def gear_limits() -> LimitSettings:
    """Limits of a robot that does this task."""
    return limits_of_control(CONTROL, 6, 10.0, position="tcp_pose", offset="command_offset", wrench="wrench", force=20.0)


SPEC = Spec(
    task="gear_assembly",
    observation={
        "tcp_pose": Entry(
            (6,), unit="m, rad", scale=(8 * MM, 8 * MM, 12 * MM, 0.1, 0.1, 0.1),
            meaning="middle of the gear's bottom face in the measured seat's frame: x, y, z, rotation vector; zero is the measured goal",
        ),
        "tcp_velocity": Entry((6,), unit="m/s, rad/s", scale=(0.05,) * 3 + (0.3,) * 3, meaning="of the same, in the same frame"),
        "wrench": Entry(
            (6,), unit="N, N m", scale=(5.0,) * 3 + (0.05,) * 3,
            meaning="what the world does to the gear, in the gear's axes about its middle: mean over the control period, tared, noisy",
        ),
        "command_offset": Entry((6,), unit="m, rad", scale=CONTROL.leash, meaning="commanded minus measured pose: the spring's tension"),
        "previous_action": Entry((6,), meaning="what was executed last"),
        "gear_phase": Entry((2,), meaning="sine and cosine of the measured angle to the next mesh, in units of a pitch"),
    },
    action=(
        Continuous("arm", 6, unit="m, rad", scale=CONTROL.action_scale, meaning="step of the commanded pose: x, y, z, rotation vector"),
    ),
    control_hz=10.0,
    max_episode_steps=100,
    return_range=(0.0, 1.0),
)  # fmt: skip

DENSE = {"approach": 0.004, "alignment": 0.002, "phase": 0.002, "insertion": 0.006, "action": 0.001}
"""What a step costs at most: the bore beside the peg, the gear tilted, its teeth out of phase, the way down, and moving."""


class GearAssembly(Task):
    """See the module; `options` vary it, `geometry` and `impedance` are the hardware, `practice` is for learning alone.

    Another `control` goes with the `spec` that says so.
    """

    def __init__(
        self,
        options: GearOptions | None = None,
        geometry: Geometry | None = None,
        impedance: Impedance | None = None,
        reward: Reward = "sparse",
        practice: Practice | None = None,
        spec: Spec = SPEC,
        control: ControlLimits = CONTROL,
    ) -> None:
        self.reward = reward
        self.practice = practice or Practice()
        self.spec = spec if reward == "sparse" else shaped(spec, DENSE)
        self.options = options or GearOptions()
        self.geometry = geometry or Geometry()
        self.impedance = impedance or Impedance()
        self.control = CartesianControl(control)

    def build(self) -> mujoco.MjModel:
        return build_scene(self.geometry, self.impedance)

    def bind(self, batch: mujoco.batch.Batch) -> None:
        self._batch = batch
        model = batch.get_model(0)
        self.control.bind(batch)
        self._inverse = InverseKinematics(model, "tcp")
        self._qpos = batch.bind("qpos")
        self._sensors = batch.bind("sensordata")
        place, turn = (int(model.sensor(name).adr[0]) for name in ("true_position", "true_orientation"))
        self._place_columns, self._turn_columns = slice(place, place + 3), slice(turn, turn + 4)
        count = batch.nsim
        self.board = Board(batch, self.options)
        self._wrench = WrenchSensor(batch, self.options.force_noise, self.options.torque_noise)
        self._previous_action = np.zeros((count, 6))
        self.levels = Levels(count, self.practice.curriculum)
        self._physics = OtherPhysics(batch, self.practice.randomise)

    def reset(self, rows: Rows, streams: list[np.random.Generator]) -> None:
        numbers = np.arange(self._batch.nsim)[rows]
        self.levels.begin(rows)
        for row, stream in zip(numbers, streams, strict=True):
            self._place(int(row), stream)
            self._physics.draw(int(row), stream)
        self._previous_action[rows] = 0
        self._batch.forward(ids(rows))
        self.control.start(rows)
        self._wrench.start(rows, streams)

    def _place(self, row: int, stream: np.random.Generator) -> None:
        """Draw an episode: the board, what is believed of it, the neighbours' phase and where the arm starts."""
        options, width = self.options, self.levels.width(row)
        board, board_quat = self.board.draw(row, stream, width)
        height = self.levels.start(row, self.geometry.peg_height) + width * stream.uniform(*options.start_height)
        start = board + rotate(board_quat, np.array([*(width * stream.uniform(-options.start_xy, options.start_xy, 2)), height]))
        tilt = width * stream.uniform(-options.start_tilt, options.start_tilt, 2)
        yaw = width * stream.uniform(-options.start_yaw, options.start_yaw) + (1 - width) * self.board.phase[row]
        turn = quat_multiply(about_z(yaw), rotvec_to_quat(np.array([*tilt, 0.0])))
        self._qpos[row, self._inverse.qpos] = self._inverse.solve(start, quat_multiply(board_quat, turn))

    def advance(self, rows: Rows, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        readings = self.control.advance(rows, action)
        self._wrench.read(rows, readings, streams)
        self._previous_action[rows] = action

    def observe(self, rows: Rows) -> Observation:
        pose = self.control.pose[rows]
        angle = (self.board.measured_phase[rows] - pose[:, 5]) * TEETH
        return {
            "tcp_pose": pose.astype(np.float32),
            "tcp_velocity": self.control.velocity[rows].astype(np.float32),
            "wrench": self._wrench.value[rows].astype(np.float32),
            "command_offset": (self.control.command[rows] - pose).astype(np.float32),
            "previous_action": self._previous_action[rows].astype(np.float32),
            "gear_phase": np.stack([np.sin(angle), np.cos(angle)], -1).astype(np.float32),
        }

    def judge(self, rows: Rows) -> Judgement:
        place = self.true_place(rows)
        seated = (place[:, 2] < self.options.seated_height) & (np.hypot(place[:, 0], place[:, 1]) < self.options.seated_radius)
        self.levels.finished_step(rows, seated)
        if self.reward == "dense":
            return judged(seated, self._costs(rows, place), DENSE)
        return Judgement(reward=seated.astype(float), terminated=seated, success=seated)

    def _costs(self, rows: Rows, place: np.ndarray) -> dict[str, np.ndarray]:
        """What is left to do, each from 0 to 1."""
        w, x, y, z = self._sensors[rows][:, self._turn_columns].T
        beside, height = np.hypot(place[:, 0], place[:, 1]), place[:, 2]
        tilt = 2 * np.arcsin(np.minimum(1.0, np.hypot(x, y)))
        # the angle to the nearest mesh, of the turn about the peg alone
        phase = np.abs((2 * np.arctan2(z, w) - self.board.phase[rows] + PITCH / 2) % PITCH - PITCH / 2)
        return {
            # steep near the goal, and never flat: what is far away must be worth improving too
            "approach": 0.5 * np.tanh(beside / (4 * MM)) + 0.5 * np.minimum(1.0, beside / (60 * MM)),
            "alignment": np.minimum(1.0, tilt / (20 * DEGREE)),
            "phase": phase / (PITCH / 2),
            # who goes down beside the peg is not getting anywhere
            "insertion": np.clip(np.maximum(height / (80 * MM), beside / (60 * MM)), 0.0, 1.0),
            "action": np.square(self._previous_action[rows]).mean(1),
        }

    def true_place(self, rows: Rows) -> np.ndarray:
        """Middle of the gear's bottom in the true seat's frame (n, 3); the policy does not see it."""
        return self._sensors[rows][:, self._place_columns]

    def memory(self) -> dict[str, np.ndarray]:
        return {
            **self.board.memory(),
            **self._wrench.memory(),
            "command": self.control.command,
            "previous_action": self._previous_action,
            **self.levels.memory(),
            **self._physics.memory(),
        }

    def figures(self) -> dict[str, float]:
        return {"level": float(self.levels.level.mean())} if self.practice.curriculum else {}

"""Reach: bring the tool to a ball in the air. The smallest task with the same arm and control; it trains in seconds."""

from __future__ import annotations

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs.arm import CartesianControl, ControlLimits, Impedance, InverseKinematics, add_arm, add_cartesian_actuators
from tandem.envs.limits import LimitSettings, limits_of_control
from tandem.envs.shaping import Reward, judged, shaped
from tandem.envs.surroundings import add_surroundings
from tandem.envs.task import Judgement, Rows, Task, ids
from tandem.types import Continuous, Entry, Observation, Spec

CENTRE = np.array([0.5, 0.0, 0.25])
"""Middle of the box in which everything happens (m)."""
HALF_BOX = 0.1
TOLERANCE = 0.025
"""Distance at which the ball counts as reached (m)."""
CONTROL = ControlLimits(
    action_scale=(0.03,) * 3 + (0.05,) * 3,
    leash=(0.05,) * 3 + (0.1,) * 3,
    workspace_low=(-HALF_BOX - 0.03,) * 3 + (-0.1,) * 3,
    workspace_high=(HALF_BOX + 0.03,) * 3 + (0.1,) * 3,
    substeps=25,
    ramp=20,
)


def reach_limits() -> LimitSettings:
    """Limits of a robot that does this task."""
    return limits_of_control(CONTROL, 3, 10.0, position="tcp_position", offset="command_offset")


SPEC = Spec(
    task="reach",
    observation={
        "tcp_position": Entry((3,), unit="m", scale=0.1, meaning="tool relative to the middle of the box"),
        "tcp_velocity": Entry((3,), unit="m/s", scale=0.2),
        "to_ball": Entry((3,), unit="m", scale=0.1, meaning="from the tool to the ball"),
        "command_offset": Entry((3,), unit="m", scale=0.05, meaning="commanded minus measured position"),
    },
    action=(Continuous("arm", 3, unit="m", scale=(0.03,) * 3, meaning="step of the commanded position: x, y, z"),),
    control_hz=10.0,
    max_episode_steps=30,
    return_range=(0.0, 1.0),
)
DENSE = {"approach": 0.02, "action": 0.002}
"""What a step costs at most: being far from the ball, and moving."""


class Reach(Task):
    """Reward 1 and the end of the episode when the tool is within `TOLERANCE` of the ball."""

    def __init__(self, reward: Reward = "sparse") -> None:
        self.reward = reward
        self.spec = SPEC if reward == "sparse" else shaped(SPEC, DENSE)
        self.control = CartesianControl(CONTROL)

    def build(self) -> mujoco.MjModel:
        spec = mujoco.MjSpec()
        spec.modelname = "reach"
        spec.compiler.degree = False
        spec.option.timestep = 0.004
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        add_surroundings(spec, target=(0.36, 0.0, 0.33))
        fingertips = add_arm(spec)
        fingertips.add_site(name="tcp", size=[0.012, 0, 0], quat=[0, 1, 0, 0], rgba=[0.95, 0.52, 0.12, 1])
        box = spec.worldbody.add_body(name="box", pos=CENTRE)
        box.add_site(name="centre", size=[0.001, 0, 0], rgba=[0, 0, 0, 0])
        ball = spec.worldbody.add_body(name="ball", mocap=True, pos=CENTRE)
        ball.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[TOLERANCE, 0, 0], rgba=[0.2, 0.6, 0.3, 1], contype=0, conaffinity=0)
        add_cartesian_actuators(spec, "tcp", "centre", Impedance(force_limit=120.0))
        return spec.compile()

    def bind(self, batch: mujoco.batch.Batch) -> None:
        self._batch = batch
        self.control.bind(batch)
        self._inverse = InverseKinematics(batch.get_model(0), "tcp")
        self._qpos, self._mocap = batch.bind("qpos"), batch.bind("mocap_pos")
        self.ball = np.zeros((batch.nsim, 3))
        """Relative to the middle of the box (m)."""
        self._action = np.zeros((batch.nsim, 3))

    def reset(self, rows: Rows, streams: list[np.random.Generator]) -> None:
        for row, stream in zip(np.arange(self._batch.nsim)[rows], streams, strict=True):
            start, self.ball[row] = stream.uniform(-HALF_BOX, HALF_BOX, (2, 3))
            self._qpos[row, self._inverse.qpos] = self._inverse.solve(CENTRE + start, np.array([1.0, 0, 0, 0]))
            self._mocap[row, 0] = CENTRE + self.ball[row]
        self._batch.forward(ids(rows))
        self.control.start(rows)

    def advance(self, rows: Rows, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        del streams
        self.control.advance(rows, action)
        self._action[rows] = action

    def observe(self, rows: Rows) -> Observation:
        position = self.control.pose[rows][:, :3]
        return {
            "tcp_position": position.astype(np.float32),
            "tcp_velocity": self.control.velocity[rows][:, :3].astype(np.float32),
            "to_ball": (self.ball[rows] - position).astype(np.float32),
            "command_offset": (self.control.command[rows][:, :3] - position).astype(np.float32),
        }

    def judge(self, rows: Rows) -> Judgement:
        distance = np.linalg.norm(self.ball[rows] - self.control.pose[rows][:, :3], axis=1)
        there = distance < TOLERANCE
        if self.reward == "dense":
            costs = {"approach": np.tanh(distance / HALF_BOX), "action": np.square(self._action[rows]).mean(1)}
            return judged(there, costs, DENSE)
        return Judgement(reward=there.astype(float), terminated=there, success=there)

    def memory(self) -> dict[str, np.ndarray]:
        return {"ball": self.ball, "command": self.control.command}


def reach_distance(observation: Observation) -> float:
    """From the tool to the ball (m)."""
    return float(np.linalg.norm(observation["to_ball"]))


class ReachExpert:
    """Goes to the ball with noise, not at full speed."""

    name = "scripted"

    def __init__(self, seed: int | None = None) -> None:
        self._random = np.random.default_rng(seed)
        self.reset()

    def reset(self) -> None:
        self._speed = self._random.uniform(0.3, 0.7)

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        del proposed
        wanted = (observation["to_ball"] - observation["command_offset"]) / CONTROL.action_scale[0]
        wanted *= self._speed / max(1.0, float(np.abs(wanted).max()))
        return np.clip(wanted + self._random.normal(0, 0.15, 3), -1, 1).astype(np.float32), True

"""Gymnasium's runners and its pendulum on the batch stepper: the same models, rules and random numbers, many times as fast.

The models are the XML files that the gymnasium package installs, the rules those of its v4 and v5 environments. With the same seed
and the same actions a row lives what `gymnasium.make(id)` lives, bit for bit in float64 (observations are then handed out as
float32), through falls and resets. Two things differ by our contract:

* actions are in [-1, 1]: InvertedPendulum, which takes -3 to 3, gets three times the action;
* a step that falls exactly when the time is up is terminated, where Gymnasium says terminated and truncated.

What v4 and v5 disagree on, of these five:

* the step that falls still earns the healthy reward in v4, not in v5 (InvertedPendulum too);
* Walker2d has one foot with less friction in v4 (0.9 and 1.9), 1.9 on both in v5;
* Ant-v5 observes the contact forces on its bodies and pays for them, Ant-v4 does neither.

Observations are raw, one entry `state` with scale 1: who needs them normalised keeps running statistics, as PPO does. There is no
such thing as success here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import resources

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs.task import Judgement, Rows, Task, ids
from tandem.errors import ConfigError
from tandem.types import Continuous, Entry, Observation, Spec, Symmetry

EPISODE_STEPS = 1000
TORSO = 1
"""The body by which Ant measures how far it came."""

Healthy = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Positions (n, nq) and velocities (n, nv) -> who has not fallen (n,)."""


def _hopper(qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    sound = (np.abs(qpos[:, 2:]) < 100).all(1) & (np.abs(qvel) < 100).all(1)
    return sound & (qpos[:, 1] > 0.7) & (np.abs(qpos[:, 2]) < 0.2)


def _walker(qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    del qvel
    return (qpos[:, 1] > 0.8) & (qpos[:, 1] < 2.0) & (np.abs(qpos[:, 2]) < 1.0)


def _ant(qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    del qvel  # NaN or infinity raises SimulationDiverged here
    return (qpos[:, 2] >= 0.2) & (qpos[:, 2] <= 1.0)


def _pendulum(qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    del qvel
    return np.abs(qpos[:, 1]) <= 0.2


@dataclass(frozen=True)
class Rules:
    """What Gymnasium's environments differ in."""

    model: str
    substeps: int
    hidden: int
    """Positions at the front that are not observed: where on the floor it is does not matter."""
    forward: float = 1.0
    """Reward per m/s."""
    control_cost: float = 0.0
    healthy: Healthy | None = None
    """None: it cannot fall."""
    healthy_reward: float = 0.0
    fall_is_paid: bool = True
    """The step that falls earns the healthy reward like any other (v4)."""
    contact_cost: float | None = None
    """None: contact forces are neither paid for nor observed."""
    velocity_clip: float | None = None
    noise: float = 0.1
    """Half-width of the uniform start."""
    normal_velocity: bool = True
    """Start velocities are normal rather than uniform."""
    by_torso: bool = False
    """Progress is the torso's, as MuJoCo last computed it (a stage of the integrator behind the state), not the root joint's."""


_CHEETAH = Rules("half_cheetah.xml", substeps=5, hidden=1, control_cost=0.1)
_HOPPER = Rules(
    "hopper.xml", substeps=4, hidden=1, control_cost=1e-3, healthy=_hopper, healthy_reward=1.0,
    velocity_clip=10.0, noise=5e-3, normal_velocity=False,
)  # fmt: skip
_WALKER = replace(_HOPPER, model="walker2d.xml", healthy=_walker)
_ANT = Rules("ant.xml", substeps=5, hidden=2, control_cost=0.5, healthy=_ant, healthy_reward=1.0, by_torso=True)
_PENDULUM = Rules(
    "inverted_pendulum.xml", substeps=2, hidden=0, forward=0.0, healthy=_pendulum, healthy_reward=1.0, noise=0.01, normal_velocity=False
)
RULES = {
    "HalfCheetah-v4": _CHEETAH,
    "HalfCheetah-v5": _CHEETAH,
    "Hopper-v4": _HOPPER,
    "Hopper-v5": replace(_HOPPER, fall_is_paid=False),
    "Walker2d-v4": _WALKER,
    "Walker2d-v5": replace(_WALKER, model="walker2d_v5.xml", fall_is_paid=False),
    "Ant-v4": _ANT,
    "Ant-v5": replace(_ANT, contact_cost=5e-4, fall_is_paid=False),
    "InvertedPendulum-v4": _PENDULUM,
    "InvertedPendulum-v5": replace(_PENDULUM, fall_is_paid=False),
}


_LEGS = Symmetry(  # height, pitch, right leg, left leg; then the same of the velocities, with one more in front
    {"state": (1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11, 15, 16, 17, 12, 13, 14)}, (4, 5, 6, 1, 2, 3)
)  # fmt: skip
_LEFT_AND_RIGHT = Symmetry(
    {
        "state": (
            1, 2, -3, 4, -5, -12, 13, -10, 11, -8, 9, -6, 7,  # height, quaternion, hip and ankle of four legs
            14, -15, 16, -17, 18, -19, -26, 27, -24, 25, -22, 23, -20, 21,  # their velocities
        )
    },
    (-3, 4, -1, 2, -7, 8, -5, 6),  # the motors begin with the last leg
)  # fmt: skip
SYMMETRIES = {
    "Walker2d-v5": _LEGS,  # in v4 one foot has less friction than the other
    "Ant-v4": _LEFT_AND_RIGHT,
}
"""HalfCheetah and Hopper have none: forward is not backward. InvertedPendulum's pole leans by a millimetre, in its model file. Ant-v5
shows contact forces, body by body, which nobody has mirrored."""


class Locomotion(Task):
    """One of `RULES`, by its Gymnasium id."""

    def __init__(self, name: str) -> None:
        if name not in RULES:
            raise ConfigError(f"no locomotion task '{name}'; there are {', '.join(RULES)}")
        self.rules, self.symmetry = RULES[name], SYMMETRIES.get(name)
        # contact forces are computed from what the last step left behind
        self.persistent = self.rules.contact_cost is not None
        self._model = model = _compile(self.rules.model)
        self._period = model.opt.timestep * self.rules.substeps
        self._gain = model.actuator_ctrlrange[:, 1].copy()
        self._seen = model.nq - self.rules.hidden
        contacts = 6 * (model.nbody - 1) if self.rules.contact_cost is not None else 0  # the world's own are not observed
        self._size = self._seen + model.nv + contacts
        self.spec = Spec(
            task=name,
            observation={"state": Entry((self._size,))},
            action=(Continuous("joints", model.nu, scale=tuple(float(gain) for gain in self._gain)),),
            control_hz=float(round(1 / self._period)),
            max_episode_steps=EPISODE_STEPS,
        )

    def build(self) -> mujoco.MjModel:
        return self._model

    def bind(self, batch: mujoco.batch.Batch) -> None:
        self._batch = batch
        self._qpos, self._qvel, self._ctrl = (batch.bind(name) for name in ("qpos", "qvel", "ctrl"))
        self._progress = batch.bind("xpos")[:, TORSO, 0] if self.rules.by_torso else self._qpos[:, 0]
        self._place = np.zeros(batch.nsim)
        """Where it was after its last step (m)."""
        self._speed = np.zeros(batch.nsim)
        count = self._model.nbody if self.rules.contact_cost is not None else 0
        self._contacts = np.zeros((batch.nsim, count, 6))
        self._scratch = mujoco.MjData(self._model)

    def reset(self, rows: Rows, streams: list[np.random.Generator]) -> None:
        noise, nq, nv = self.rules.noise, self._model.nq, self._model.nv
        for row, stream in zip(np.arange(self._batch.nsim)[rows], streams, strict=True):
            self._qpos[row] = self._model.qpos0 + stream.uniform(-noise, noise, nq)
            self._qvel[row] = noise * stream.standard_normal(nv) if self.rules.normal_velocity else stream.uniform(-noise, noise, nv)
        self._batch.forward(ids(rows))
        self._place[rows] = self._progress[rows]
        self._contacts[rows] = 0

    def advance(self, rows: Rows, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        del streams
        self._ctrl[rows] = action * self._gain
        self._batch.step(ids(rows), nstep=self.rules.substeps)
        place = self._progress[rows]
        self._speed[rows] = (place - self._place[rows]) / self._period
        self._place[rows] = place
        if self.rules.contact_cost is not None:
            self._feel(rows)

    def _feel(self, rows: Rows) -> None:
        """Contact forces as Gymnasium computes them, after the step and from what it left behind; the stepper does not."""
        data = self._scratch
        for row in range(self._batch.nsim) if isinstance(rows, slice) else rows.tolist():
            self._batch.get_data(row, data)
            mujoco.mj_rnePostConstraint(self._model, data)
            self._contacts[row] = data.cfrc_ext
        self._contacts[rows] = np.clip(self._contacts[rows], -1.0, 1.0)

    def observe(self, rows: Rows) -> Observation:
        qpos, qvel, clip = self._qpos[rows], self._qvel[rows], self.rules.velocity_clip
        seen, nv = self._seen, self._model.nv
        state = np.empty((len(qpos), self._size), np.float32)
        state[:, :seen] = qpos[:, self.rules.hidden :]
        state[:, seen : seen + nv] = qvel if clip is None else np.minimum(np.maximum(qvel, -clip), clip)
        if self.rules.contact_cost is not None:
            state[:, seen + nv :] = self._contacts[rows][:, 1:].reshape(len(qpos), -1)
        return {"state": state}

    def judge(self, rows: Rows) -> Judgement:
        rules, count = self.rules, len(self._speed[rows])
        healthy = np.ones(count, bool) if rules.healthy is None else rules.healthy(self._qpos[rows], self._qvel[rows])
        # added up in Gymnasium's order, or the last bits differ
        forward = rules.forward * self._speed[rows]
        alive = np.full(count, rules.healthy_reward) if rules.fall_is_paid else rules.healthy_reward * healthy
        costs = rules.control_cost * np.add.reduce(np.square(self._ctrl[rows]), axis=1)
        terms = {"forward": forward, "healthy": alive, "control": -costs}
        if rules.contact_cost is not None:
            contact = rules.contact_cost * np.add.reduce(np.square(self._contacts[rows].reshape(count, -1)), axis=1)
            terms["contact"] = -contact
            costs = costs + contact
        return Judgement(forward + alive - costs, terminated=~healthy, success=np.zeros(count, bool), terms=terms)

    def memory(self) -> dict[str, np.ndarray]:
        return {"place": self._place, "contacts": self._contacts}


def _compile(file: str) -> mujoco.MjModel:
    """As `MjModel.from_xml_path`, to the bit; but that complains of HalfCheetah's `settotalmass`, in a log file and on the screen."""
    spec = mujoco.MjSpec.from_file(str(resources.files("gymnasium") / "envs" / "mujoco" / "assets" / file))
    mass, spec.compiler.settotalmass = spec.compiler.settotalmass, -1
    model = spec.compile()
    if mass > 0:
        mujoco.mj_setTotalmass(model, mass)
        mujoco.mj_setConst(model, mujoco.MjData(model))
    return model

"""Cart-pole with a continuous force: keep a pole upright on a cart. The smallest task of all; PPO solves it in seconds.

Sizes, limits and episode length are those that everybody knows from Gymnasium's CartPole-v1; the force is any between -10 and 10 N
rather than one of the two, and the physics is MuJoCo's.
"""

from __future__ import annotations

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs.surroundings import add_camera
from tandem.envs.task import Judgement, Rows, Task, ids
from tandem.types import Continuous, Entry, Observation, Spec, Symmetry

FORCE = 10.0
RAIL = 2.4
"""The cart must stay this close to the middle (m)."""
TILT = 12 * np.pi / 180
"""The pole must stay this close to upright (rad)."""
START = 0.05
"""Half-width of the uniform start, of positions and velocities alike."""
SUBSTEPS = 2
SPEC = Spec(
    task="cartpole",
    observation={
        "position": Entry((2,), unit="m, rad", scale=(1.0, 0.1), meaning="of the cart from the middle, of the pole from upright"),
        "velocity": Entry((2,), unit="m/s, rad/s", scale=(1.0, 1.0)),
    },
    action=(Continuous("force", 1, unit="N", scale=FORCE, meaning="force on the cart"),),
    control_hz=50.0,
    max_episode_steps=500,
)  # no return_range: there is no success but not to have fallen


class CartPole(Task):
    """Reward 1 for every step; the end when the pole has fallen or the cart has left the rail."""

    spec = SPEC
    symmetry = Symmetry({"position": (-1, -2), "velocity": (-1, -2)}, (-1,))  # left and right

    def build(self) -> mujoco.MjModel:
        spec = mujoco.MjSpec()
        spec.modelname = "cartpole"
        spec.compiler.degree = False
        spec.option.timestep = 1 / SPEC.control_hz / SUBSTEPS
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_CONTACT
        spec.visual.headlight.ambient = [0.5] * 3
        add_camera(spec, "front", place=(0.0, -4.2, 0.9), target=(0.0, 0.0, 0.4), fovy=50)
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[RAIL + 0.2, 0.02, 0.02], pos=[0, 0, -0.08], rgba=[0.6, 0.6, 0.6, 1])
        cart = spec.worldbody.add_body(name="cart")
        cart.add_joint(name="rail", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0])
        cart.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.15, 0.08, 0.06], mass=1.0, rgba=[0.20, 0.45, 0.70, 1])
        pole = cart.add_body(name="pole")
        pole.add_joint(name="hinge", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 1, 0])
        pole.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CAPSULE, fromto=[0, 0, 0, 0, 0, 1.0], size=[0.025, 0, 0], mass=0.1, rgba=[0.95, 0.52, 0.12, 1]
        )
        motor = spec.add_actuator(name="force", trntype=mujoco.mjtTrn.mjTRN_JOINT, target="rail")
        motor.set_to_motor()
        motor.gear = [FORCE, 0, 0, 0, 0, 0]
        return spec.compile()

    def bind(self, batch: mujoco.batch.Batch) -> None:
        self._batch = batch
        self._qpos, self._qvel, self._ctrl = (batch.bind(name) for name in ("qpos", "qvel", "ctrl"))

    def reset(self, rows: Rows, streams: list[np.random.Generator]) -> None:
        starts = np.stack([stream.uniform(-START, START, 4) for stream in streams])
        self._qpos[rows], self._qvel[rows] = starts[:, :2], starts[:, 2:]
        self._batch.forward(ids(rows))

    def advance(self, rows: Rows, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        del streams
        self._ctrl[rows] = action
        self._batch.step(ids(rows), nstep=SUBSTEPS)

    def observe(self, rows: Rows) -> Observation:
        return {"position": self._qpos[rows].astype(np.float32), "velocity": self._qvel[rows].astype(np.float32)}

    def judge(self, rows: Rows) -> Judgement:
        place = np.abs(self._qpos[rows])
        fallen = (place[:, 0] > RAIL) | (place[:, 1] > TILT)
        return Judgement(reward=np.ones(len(place)), terminated=fallen, success=np.zeros(len(place), bool))

    def memory(self) -> dict[str, np.ndarray]:
        return {}  # the physics' state is all there is

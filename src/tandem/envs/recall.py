"""A cue that is shown once and asked for later: the smallest task that cannot be done without memory.

A lamp is lit above one of the four corners of a plate, for the first observation of an episode only. Then there is nothing to see and
nothing to do for a while. When the signal comes, the puck goes where the action says, and the episode ends: a reward of 1 in the
quarter of the lamp, of 0 in any other. Until then an action moves nothing, so nobody can park the puck where the lamp was and read the
answer off it; and how long the wait is nobody knows, so counting does not help either. Who does not remember succeeds in a quarter of
the episodes, whatever he does.
"""

from __future__ import annotations

import mujoco
import mujoco.batch
import numpy as np

from tandem.envs.surroundings import add_camera
from tandem.envs.task import Judgement, Rows, Task, ids
from tandem.types import Continuous, Entry, Observation, Spec

WAIT = (20, 30)
"""Steps from the lamp to the signal, both included in what may be drawn."""
CORNER = 0.2
"""Distance of the lamps from the middle of the plate along both axes (m)."""
HIDDEN = -0.15
"""Height of the lamp that is not lit: below the plate (m)."""
SPEC = Spec(
    task="recall",
    observation={
        "lamp": Entry((2,), meaning="its corner as -1 or 1 along both axes; 0 0 when it is not lit"),
        "signal": Entry((1,), meaning="1 when the next action is the answer, else 0"),
    },
    action=(Continuous("puck", 2, unit="m", scale=CORNER, meaning="where the puck goes when the signal is on"),),
    control_hz=10.0,
    max_episode_steps=40,
    return_range=(0.0, 1.0),
)


class Recall(Task):
    """Reward 1 for the right corner, and the end with the answer."""

    spec = SPEC

    def build(self) -> mujoco.MjModel:
        spec = mujoco.MjSpec()
        spec.modelname = "recall"
        spec.option.timestep = 1 / SPEC.control_hz
        spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_GRAVITY
        spec.visual.headlight.ambient = [0.5] * 3
        add_camera(spec, "front", place=(0.0, -0.75, 0.75), target=(0.0, 0.0, 0.0), fovy=45)
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.3, 0.3, 0.01], pos=[0, 0, -0.01], rgba=[0.75, 0.75, 0.75, 1])
        _sliding(spec, "puck", mujoco.mjtGeom.mjGEOM_CYLINDER, [0.04, 0.015, 0], [0.20, 0.45, 0.70, 1])
        _sliding(spec, "lamp", mujoco.mjtGeom.mjGEOM_SPHERE, [0.05, 0, 0], [0.95, 0.75, 0.12, 1])
        return spec.compile()

    def bind(self, batch: mujoco.batch.Batch) -> None:
        self._batch = batch
        count = batch.state.shape[0]
        self._qpos = batch.bind("qpos")
        """x y z of the puck, x y z of the lamp."""
        self._cue, self._answer = np.zeros((count, 2)), np.zeros((count, 2))
        self._waited, self._wait = np.zeros(count, int), np.ones(count, int)

    def reset(self, rows: Rows, streams: list[np.random.Generator]) -> None:
        self._cue[rows] = np.stack([stream.choice([-1.0, 1.0], 2) for stream in streams])
        self._wait[rows] = [stream.integers(WAIT[0], WAIT[1], endpoint=True) for stream in streams]
        self._waited[rows], self._answer[rows] = 0, 0.0
        self._show(rows)

    def advance(self, rows: Rows, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        del streams
        asked = self._waited[rows] == self._wait[rows]
        self._answer[rows] = np.where(asked[:, None], action, 0.0)
        self._waited[rows] += 1
        self._show(rows)

    def _show(self, rows: Rows) -> None:
        """Nothing moves by itself here: the puck and the lamp are put where they belong."""
        lit = (self._waited[rows] == 0)[:, None]
        self._qpos[rows] = np.concatenate(
            [CORNER * self._answer[rows], np.full(lit.shape, 0.015), CORNER * self._cue[rows], np.where(lit, 0.1, HIDDEN)], axis=1
        )
        self._batch.forward(ids(rows))

    def observe(self, rows: Rows) -> Observation:
        waited = self._waited[rows][:, None]
        lamp = np.where(waited == 0, self._cue[rows], 0.0)
        return {"lamp": lamp.astype(np.float32), "signal": (waited == self._wait[rows][:, None]).astype(np.float32)}

    def judge(self, rows: Rows) -> Judgement:
        answered = self._waited[rows] > self._wait[rows]
        right = answered & (self._answer[rows] * self._cue[rows] > 0).all(axis=1)
        return Judgement(reward=right.astype(float), terminated=answered, success=right)

    def memory(self) -> dict[str, np.ndarray]:
        return {"cue": self._cue, "answer": self._answer, "waited": self._waited, "wait": self._wait}


def _sliding(spec: mujoco.MjSpec, name: str, kind: mujoco.mjtGeom, size: list[float], colour: list[float]) -> None:
    body = spec.worldbody.add_body(name=name)
    for axis, direction in zip("xyz", np.eye(3), strict=True):
        body.add_joint(name=f"{name} {axis}", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=direction)
    body.add_geom(type=kind, size=size, mass=0.1, rgba=colour)

"""Write a task of your own in MuJoCo: many simulations are stepped together, and RLPD, PPO and the page know it by name.

    python examples/write_task.py                          about 1 minute on 2 cores

A puck on a rail is pushed to a mark. Every array of a task has one row per simulation, and every method works on the rows it is given.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mujoco
import mujoco.batch
import numpy as np

import tandem
from tandem.envs.task import Judgement, Rows, Task, ids
from tandem.types import Continuous, Entry, Observation, Spec

NEAR = 0.03
"""Distance from the mark that counts as success (m)."""
SUBSTEPS = 10
RAIL = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body><joint name="rail" type="slide" axis="1 0 0" range="-1 1" limited="true" damping="4"/><geom size="0.03" mass="1"/></body>
  </worldbody>
  <actuator><motor joint="rail" gear="4"/></actuator>
</mujoco>"""


class Push(Task):
    """Reward 1 where the puck is at the mark, which ends the episode."""

    spec = Spec(
        task="push",
        observation={
            "puck": Entry((2,), unit="m, m/s", scale=(0.5, 0.5), meaning="place and speed on the rail"),
            "to_mark": Entry((1,), unit="m", scale=0.5, meaning="from the puck to the mark"),
        },
        action=(Continuous("force", 1, unit="N", scale=4.0, meaning="force on the puck"),),
        control_hz=10.0,
        max_episode_steps=60,
        return_range=(0.0, 1.0),
    )

    def build(self) -> mujoco.MjModel:
        return mujoco.MjModel.from_xml_string(RAIL)

    def bind(self, batch: mujoco.batch.Batch) -> None:
        self._batch = batch
        self._qpos, self._qvel, self._ctrl = (batch.bind(name) for name in ("qpos", "qvel", "ctrl"))
        self._mark = np.zeros((len(self._qpos), 1))

    def reset(self, rows: Rows, streams: list[np.random.Generator]) -> None:
        starts = np.stack([stream.uniform(-0.8, 0.8, 2) for stream in streams])
        self._qpos[rows], self._mark[rows] = starts[:, :1], starts[:, 1:]
        self._batch.forward(ids(rows))

    def advance(self, rows: Rows, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        self._ctrl[rows] = action
        self._batch.step(ids(rows), nstep=SUBSTEPS)

    def observe(self, rows: Rows) -> Observation:
        puck = np.concatenate([self._qpos[rows], self._qvel[rows]], axis=1)
        return {"puck": puck.astype(np.float32), "to_mark": (self._mark[rows] - self._qpos[rows]).astype(np.float32)}

    def judge(self, rows: Rows) -> Judgement:
        success = np.abs(self._mark[rows] - self._qpos[rows])[:, 0] < NEAR
        return Judgement(reward=success.astype(float), terminated=success, success=success)

    def memory(self) -> dict[str, np.ndarray]:
        return {"mark": self._mark}


class PushExpert:
    """A script that pushes the puck to the mark: it demonstrates the task."""

    name = "scripted"

    def __init__(self, seed: int | None = None) -> None:
        del seed

    def reset(self) -> None:
        pass

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        return np.clip(4 * observation["to_mark"] - observation["puck"][1:], -1, 1).astype(np.float32), True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max_steps", type=int, default=3000, help="learner steps")
    parser.add_argument("--run", type=Path, default=Path("runs/push"), help="folder of the run")
    flags = parser.parse_args()
    tandem.register_task("push", Push, expert=PushExpert, summary="push a puck on a rail to a mark")
    settings = {"hidden": (32, 32), "learning_rate": 1e-3, "discount": 0.9, "num_envs": 8, "updates_per_actor_step": 0.25}
    result = tandem.train("push", scripted_demos=5, run=flags.run, max_steps=flags.max_steps, final_episodes=50, **settings)
    print(f"success {result.success:.0%} after {result.summary['learner_step']} learner steps, run {result.run}")


if __name__ == "__main__":
    main()

"""How much time do the environments add to the physics?

    python -m benchmarks.simulation [--quick] [--json]

The gear is pressed onto the tip of the peg and moved about, so that it is always in contact. The recorded controls are then replayed on
the same model by `mujoco.batch` alone: the difference is the overhead of the environment. HalfCheetah with random actions is the other
extreme: five steps of cheap physics per action. Both are measured in turns and the medians of the turns are compared, because the
machine's speed drifts.
"""

from __future__ import annotations

import time

import mujoco.batch
import numpy as np
import tyro
from gymnasium.vector import AutoresetMode

from benchmarks.gear_calibration import insert_at
from benchmarks.report import Report
from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.gear_assembly.task import CONTROL, MM, GearOptions
from tandem.envs.locomotion import Locomotion

KNOWN = GearOptions(measured_xy_error=0, measured_z_error=0, measured_yaw_error=0, measured_phase_error=0)
"""No hidden errors: the gear stays on the tip where it is placed."""
TARGETS = {
    "overhead_1": ("<=", 0.30),
    "overhead_64": ("<=", 0.15),
    "cheetah_overhead_64": ("<=", 0.15),
    "cheetah_overhead_1024": ("<=", 0.15),
}


class Pressing:
    """An environment in contact, and a replay of its physics."""

    def __init__(self, num_envs: int, num_threads: int, steps: int) -> None:
        self.env = BatchEnv(GearAssembly(KNOWN), num_envs, num_threads=num_threads, autoreset=AutoresetMode.DISABLED)
        self.task = self.env.task
        assert isinstance(self.task, GearAssembly)
        observation, _ = self.env.reset(seed=0)
        controller = insert_at(np.full((num_envs, 2), 2.6 * MM), np.zeros(num_envs))
        for _ in range(25):
            observation, *_ = self.env.step(controller(observation))
        self.contacts = float((observation["wrench"][:, 2] > 4.0).mean())
        self.start = self.env.state()
        self.steps = steps
        random = np.random.default_rng(0)
        self.actions = random.uniform(-0.1, 0.1, (steps, num_envs, 6))
        self._record()

    def _record(self) -> None:
        """Record the controls that the environment sends to the physics at each step."""
        self.controls = []
        rollout = self.env.batch.rollout

        def remember(*args, **kwargs):
            self.controls.append(kwargs["control"].copy())
            return rollout(*args, **kwargs)

        self.env.batch.rollout = remember
        self.env.restore(self.start)
        for action in self.actions:
            self.env.step(action)
        self.end = np.array(self.env.batch.state)
        del self.env.batch.rollout
        # the physics alone: the same model, states and controls, nothing recorded, nothing observed
        self.raw = mujoco.batch.Batch(self.env.model, self.env.num_envs, nthread=self.env.batch.nthread)
        for name in ("body_pos", "body_quat"):
            self.raw.expand(name)[:] = self.start["memory"][name]

    def time_environment(self) -> float:
        self.env.restore(self.start)
        began = time.perf_counter()
        for action in self.actions:
            self.env.step(action)
        return time.perf_counter() - began

    def time_physics(self) -> float:
        self.raw.state[:] = self.start["physics"]
        began = time.perf_counter()
        for control in self.controls:
            self.raw.rollout(CONTROL.substeps, control=control)
        elapsed = time.perf_counter() - began
        assert np.array_equal(self.raw.state, self.end), "the replay is not the same physics"
        return elapsed


class Running:
    """HalfCheetah with random actions, and a replay of its physics."""

    def __init__(self, num_envs: int, num_threads: int, steps: int) -> None:
        task = Locomotion("HalfCheetah-v4")
        self.env = BatchEnv(task, num_envs, num_threads=num_threads)
        self.env.reset(seed=0)
        self.start = self.env.state()
        self.actions = np.random.default_rng(0).uniform(-1, 1, (steps, num_envs, task.spec.action_dim))
        self.raw = mujoco.batch.Batch(self.env.model, num_envs, nthread=self.env.batch.nthread)
        self._ctrl, self._substeps = self.raw.bind("ctrl"), task.rules.substeps

    def time_environment(self) -> float:
        self.env.restore(self.start)
        began = time.perf_counter()
        for action in self.actions:
            self.env.step(action)
        return time.perf_counter() - began

    def time_physics(self) -> float:
        self.raw.state[:] = self.start["physics"]
        began = time.perf_counter()
        for action in self.actions:
            self._ctrl[:] = action
            self.raw.step(nstep=self._substeps)
        elapsed = time.perf_counter() - began
        assert np.array_equal(self.raw.state, self.env.batch.state), "the replay is not the same physics"
        return elapsed


def overhead(timed: Pressing | Running, turns: int) -> tuple[float, float, float]:
    """Relative overhead of the environment over its physics, and the seconds of both."""
    env_time, raw_time = np.array([(timed.time_environment(), timed.time_physics()) for _ in range(turns)]).T
    return float(np.median(env_time / raw_time) - 1), float(np.median(env_time)), float(np.median(raw_time))


def main(quick: bool = False, json: bool = False) -> None:
    """Overhead of the environment over its physics.

    Args:
        quick: Fewer repeats.
        json: One JSON object instead of the table.
    """
    report = Report("simulation", ("task", "rows", "contact", "actions/s", "physics alone", "overhead"), TARGETS)
    turns = 4 if quick else 25
    for num_envs, steps in ((1, 60), (64, 12)):
        pressing = Pressing(num_envs, 2, steps)
        share, seconds, raw = overhead(pressing, turns)
        report.figures |= {f"actions_per_s_{num_envs}": num_envs * steps / seconds, f"overhead_{num_envs}": share}
        contact, rates = f"{pressing.contacts:.0%}", (f"{num_envs * steps / time:,.0f}" for time in (seconds, raw))
        report.row("gear_assembly", num_envs, contact, *rates, f"{share:.1%}")
    for num_envs, steps in ((16, 200), (64, 60), (1024, 15)):
        share, seconds, raw = overhead(Running(num_envs, 2, steps), turns)
        report.figures |= {f"cheetah_actions_per_s_{num_envs}": num_envs * steps / seconds, f"cheetah_overhead_{num_envs}": share}
        report.row("HalfCheetah-v4", num_envs, "", *(f"{num_envs * steps / time:,.0f}" for time in (seconds, raw)), f"{share:.1%}")
    report.show(json)


if __name__ == "__main__":
    tyro.cli(main)

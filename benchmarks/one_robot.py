"""How many minutes does one robot need? The gear assembly with one arm at 10 Hz, resets counted, and a learner next to it.

    python -m benchmarks.one_robot --seeds 0 1 2 [--minutes 20] [--at-once 2] [--quick] [--json] [--runs FOLDER]

Robot minutes are simulated: a control step takes 0.1 s, a reset 2 s, and the learner makes 2.2 learner steps per control step, which is
the ratio of the system in the seeds (22 learner steps a second at 10 Hz). So the figures do not depend on the speed of this machine, and
runs may share it (`--at-once`).
Every minute or so the policy is evaluated on 100 held-out episodes, which cost the robot nothing. Next to Tandem's recipe, in the same
call and from the same demonstrations: hil-serl's settings.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro

from benchmarks.plots import robot_minutes_curves
from benchmarks.report import Report, machine_gflops
from tandem.data.journal import Journal
from tandem.envs.registry import make_env, make_expert
from tandem.files import name_for_files
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.recipes import RECIPES, for_one_robot
from tandem.off_policy.sync import train
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder

TASK = "gear_assembly"

DEMOS = 25
RESET_S = 2.0
LEARNER_STEPS = for_one_robot(TrainConfig()).updates_per_actor_step
"""Per control step."""
COMPARED = {
    "Tandem": for_one_robot(RECIPES[TASK]()),
    "hil-serl's settings": replace(RECIPES["default"](), num_envs=1, updates_per_actor_step=LEARNER_STEPS),
}
EVAL_PERIOD = 1100
"""Learner steps: 500 control steps."""
TARGETS = {"robot_minutes_90": ("<=", 10.0), "robot_minutes_97": ("<=", 20.0), "success_at_15": (">=", 0.92)}


@dataclass(frozen=True)
class Curve:
    """Evaluations of one run."""

    minutes: np.ndarray
    """Robot minutes: control steps and resets until then."""
    success: np.ndarray

    def minutes_to(self, success: float) -> float:
        """Until two evaluations in a row are at least this good; infinite if that never happens."""
        good = self.success >= success
        both = np.flatnonzero(good[:-1] & good[1:])
        return float(self.minutes[both[0] + 1]) if len(both) else math.inf

    def success_at(self, minutes: float) -> float:
        """The last evaluation until then."""
        until = self.success[self.minutes <= minutes]
        return float(until[-1]) if len(until) else 0.0


def one_robot(config: TrainConfig, minutes: float) -> TrainConfig:
    """The same settings for so many minutes without any reset (with resets it is a little more)."""
    steps = int(LEARNER_STEPS * 600 * minutes)
    return replace(
        config,
        eval_period=EVAL_PERIOD,
        eval_episodes=100,
        final_episodes=0,
        stop_success=None,
        max_minutes=None,
        max_steps=steps,
        checkpoint_period=10**9,
    )


def curve_of(run: Path) -> Curve:
    folder = RunFolder.open(run)
    with Journal.open(folder.journal, folder.spec, read_only=True) as journal:
        ends = np.cumsum([step.last for _, step in journal.read()])
    rows = [row for row in folder.metrics() if "eval/success" in row]
    steps = np.array([row["actor_step"] for row in rows])
    seconds = steps / folder.spec.control_hz + RESET_S * ends[steps - 1]
    return Curve(seconds / 60, np.array([row["eval/success"] for row in rows]))


def learn(name: str, seed: int, minutes: float, runs: Path, say: bool) -> Curve:
    """One run; both methods record the same demonstrations, which depend on the seed alone."""
    run = runs / name_for_files(f"{name}_{seed}")
    demos = record_demos(make_env(TASK), make_expert(TASK, seed), DEMOS, runs / f"demos_{run.name}", seed)
    display = Display("lines" if say else "quiet")
    train(replace(one_robot(COMPARED[name], minutes), task=TASK, demos=(demos,), seed=seed), run, display)
    curve = curve_of(run)
    display.say(f"{name}, seed {seed}: 90 % after {curve.minutes_to(0.9):.1f} robot minutes")
    return curve


def learn_all(seeds: tuple[int, ...], minutes: float, runs: Path, say: bool, at_once: int) -> dict[str, list[Curve]]:
    """All runs, each in a process of its own, so many at a time and each of those on its own share of the cores."""
    shares: multiprocessing.Queue[set[int]] = multiprocessing.get_context("spawn").Queue()
    cores = sorted(os.sched_getaffinity(0))
    for worker in range(at_once):
        shares.put(set(cores[worker::at_once]) or set(cores))
    with ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn"), _take_share, (shares,)) as pool:
        asked = {name: [pool.submit(learn, name, seed, minutes, runs, say and at_once == 1) for seed in seeds] for name in COMPARED}
        return {name: [run.result() for run in found] for name, found in asked.items()}


def _take_share(shares: multiprocessing.Queue[set[int]]) -> None:
    os.sched_setaffinity(0, shares.get())


def main(
    seeds: tuple[int, ...] = (0, 1, 2),
    minutes: float = 20.0,
    at_once: int = 1,
    quick: bool = False,
    json: bool = False,
    runs: Path = Path("runs/benchmark_one_robot"),
) -> None:
    """One robot, 10 Hz, 2.2 learner steps per control step, 2 s for a reset.

    Args:
        seeds: One run of each recipe per seed.
        minutes: Robot minutes of control, without resets.
        at_once: Runs at the same time.
        quick: A minute, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs and the picture.
    """
    runs = runs / time.strftime("%Y-%m-%d_%H-%M-%S")
    minutes, gflops = 1.0 if quick else minutes, machine_gflops()
    curves = learn_all(seeds, minutes, runs, not json, at_once)
    report = Report("one_robot", ("recipe, seed", "minutes to 90 %", "to 97 %", "success after 15 minutes", "best"), TARGETS)
    for name, found in curves.items():
        for seed, curve in zip(seeds, found, strict=True):
            to = [f"{curve.minutes_to(share):.1f}" for share in (0.9, 0.97)]
            report.row(f"{name}, {seed}", *to, f"{curve.success_at(15):.0%}", f"{curve.success.max():.0%}")
    ours, theirs = curves.values()
    report.figures = {
        "robot_minutes_90": max(curve.minutes_to(0.9) for curve in ours),
        "robot_minutes_97": max(curve.minutes_to(0.97) for curve in ours),
        "success_at_15": float(np.mean([curve.success_at(15) for curve in ours])),
        "hil_serl_minutes_90": max(curve.minutes_to(0.9) for curve in theirs),
        "hil_serl_success_at_15": float(np.mean([curve.success_at(15) for curve in theirs])),
        "gflops": gflops,
    }
    robot_minutes_curves({name: [(c.minutes, c.success) for c in found] for name, found in curves.items()}, runs / "one_robot.png")
    report.show(json)
    if not json:
        print(f"runs, one_robot.png: {runs}; inf: not within {minutes:g} minutes of control")


if __name__ == "__main__":
    tyro.cli(main)

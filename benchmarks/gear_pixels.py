"""Does RLPD learn the gear assembly from two cameras, and what are the cameras worth?

    python -m benchmarks.gear_pixels --seeds 0 1 2 [--quick] [--json] [--runs FOLDER] [--go-on FOLDER]

Each seed does what `make train-pixels` does: 25 demonstrations, training, 100 episodes on separate seeds; `minutes` are from the first
demonstration to the last evaluation. The same seed learns from state too, for the ratio of actor steps.

For the comparison: critics that see the state. And, each for the minutes that the first seed took: the same
network with random weights, one that learns to see, and pictures that show nothing (one grey level each, drawn at random).

The policy of the first seed is also judged where one thing differs in every episode that it has never seen differ: cameras, light, colours,
noise. With `--moved` a policy learns with cameras, light and colours changed in every episode, and is judged so; its critics see the state.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.plots import success_curves
from benchmarks.report import Report, machine_gflops
from tandem.acting.evaluate import Evaluation, evaluate, wilson
from tandem.acting.policy import act_with, load_policy
from tandem.agents.bc import BCConfig
from tandem.data.journal import Journal
from tandem.envs.gear_assembly.pixels import CAMERAS, LOOKS, SIZE, GearAssemblyPixels, pixel_expert
from tandem.envs.registry import make_env, make_expert, register_task, registered
from tandem.envs.task import Rows
from tandem.files import write_atomically
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.recipes import RECIPES
from tandem.off_policy.sync import train
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.seeding import episode_seeds
from tandem.types import Observation

TASK, STATE, BLIND, MOVED = "gear_assembly_pixels", "gear_assembly", "gear_assembly_blind", "gear_assembly_pixels_moved"
DEMOS = 25
LEARNED, WINDOW = 0.9, 100
"""Success of so many training episodes in a row from which on the task counts as learned, for the ratio of steps."""
TARGETS = {
    "success": (">=", 285),
    "success_min": (">=", 92),
    "minutes_max": ("<=", 15.0),
    "state_ratio": ("<=", 1.5),
    "moved_cameras_success": (">=", 0.9),
}


class Blind(GearAssemblyPixels):
    """Pictures of one grey level each: as many numbers, and nothing to see."""

    def __init__(self) -> None:
        super().__init__()
        self.spec = dataclasses.replace(self.spec, task=BLIND)
        self._grey = np.random.default_rng(0)

    def pictures(self, rows: Rows) -> Observation:
        count = len(np.arange(self._count)[rows])
        levels = self._grey.integers(0, 256, (len(CAMERAS), count, 1, 1, 1))
        return {name: np.broadcast_to(level, (count, *SIZE, 3)).astype(np.uint8) for name, level in zip(CAMERAS, levels, strict=True)}


def learn(task: str, recipe: TrainConfig, seed: int, runs: Path, name: str, display: Display, quick: bool) -> tuple[dict[str, Any], float]:
    """The summary of a run with demonstrations of its own, and the minutes that both took."""
    known, began, folder = runs / f"{name}_{seed}.json", time.monotonic(), runs / f"{name}_{seed}"
    if known.exists():
        kept = loads(known.read_text())
        return kept["summary"], kept["minutes"]
    for leftover in (folder, runs / f"{name}_demos_{seed}"):
        shutil.rmtree(leftover, ignore_errors=True)
    env = make_env(task)
    demos = record_demos(env, make_expert(task, seed), 2 if quick else DEMOS, runs / f"{name}_demos_{seed}", seed)
    env.close()
    config = replace(recipe, task=task, demos=(demos,), seed=seed)
    if quick:
        config = replace(config, max_steps=20, final_episodes=2, eval_period=0)
    summary = train(config, folder, display)
    minutes = (time.monotonic() - began) / 60
    if "deterministic" not in summary:
        raise SystemExit(f"{name}, seed {seed}: {summary['stopped']}; --go-on {runs} learns it again")
    write_atomically(known, dumps({"summary": summary, "minutes": minutes, "gflops": machine_gflops()}).encode())
    display.say(
        f"{name}, seed {seed}: {summary['deterministic']['successes']} of {summary['deterministic']['episodes']}, {minutes:.1f} min"
    )
    return summary, minutes


def compared(
    seed: int, recipe: TrainConfig, runs: Path, display: Display, quick: bool
) -> Iterator[tuple[str, tuple[dict[str, Any], float]]]:
    """What critics that see the state, the cameras and the weights are worth, and what the demonstrations alone give."""
    yield "critics_see_state", learn(TASK, RECIPES[MOVED](), seed, runs, "critics_see_state", display, quick)
    yield "random_features", learn(TASK, replace(recipe, encoder="random-lite0"), seed, runs, "random_features", display, quick)
    yield "end_to_end", learn(TASK, replace(recipe, encoder="end-to-end"), seed, runs, "end_to_end", display, quick)
    yield "blind", learn(BLIND, recipe, seed, runs, "blind", display, quick)
    demos = tuple((runs / f"pixels_demos_{seed}").glob("*_demos_*.db"))
    args = CloneArgs(TASK, demos, BCConfig(min_steps=200 if quick else 3000), seed=seed, final_episodes=2 if quick else 100)
    summary = clone_demos(args, runs / "cloning", display)
    yield "cloning", (summary | {"deterministic": summary["trained_long"]}, summary["minutes"])


def judged_elsewhere(run: Path, seed: int, quick: bool) -> Iterator[tuple[str, Evaluation]]:
    """The best policy of a run where one thing differs that did not differ when it learned, on the run's final seeds."""
    snapshot, spec = load_policy(run)
    for looks in LOOKS:
        task = TASK if looks == "usual" else f"{TASK}_{looks}"
        if registered(task) is None:
            register_task(task, partial(GearAssemblyPixels, looks), looks, rewards=("sparse",), expert=pixel_expert)
        yield looks, evaluate(task, act_with(snapshot, spec, None), episode_seeds(seed, "final", 2 if quick else 100))


def steps_to_learn(run: Path) -> float:
    """Actor steps until the last `WINDOW` training episodes succeed as often as `LEARNED`; not a number if never."""
    recent: deque[bool] = deque(maxlen=WINDOW)
    with Journal.open(RunFolder.open(run).journal) as journal:
        for number, (_, step) in enumerate(journal.read(), start=1):
            if step.last:
                recent.append(bool(step.success))
                if len(recent) == WINDOW and np.mean(recent) >= LEARNED:
                    return float(number)
    return float("nan")


def main(
    seeds: tuple[int, ...] = (0, 1, 2),
    quick: bool = False,
    json: bool = False,
    runs: Path = Path("runs/benchmark_pixels"),
    go_on: Path | None = None,
    moved: bool = True,
    compare: bool = True,
) -> None:
    """RLPD on the gear assembly from pictures.

    Args:
        seeds: One run per seed.
        quick: Some steps and two episodes, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs.
        go_on: Folder of an earlier call that was stopped: what it has learned to the end is not learned again.
        moved: Also learn with cameras, light and colours that change.
        compare: Also learn with critics that see the state, with random weights, with a network that learns to see and with pictures
            that show nothing, and clone the demonstrations.
    """
    register_task(BLIND, Blind, "pictures that show nothing", rewards=("sparse",), expert=pixel_expert)
    runs = go_on or runs / time.strftime("%Y-%m-%d_%H-%M-%S")
    display, gflops, recipe = Display("quiet" if json else "lines"), machine_gflops(), RECIPES[TASK]()
    report = Report("gear_pixels", ("method", "success [95 %]", "minutes", "learner / actor steps"), TARGETS)

    def row(name: str, summary: dict[str, Any], minutes: float) -> None:
        found = summary["deterministic"]
        steps = f"{summary['learner_step']:,} / {summary['actor_step']:,}"
        report.row(name, wilson(found["successes"], found["episodes"]), f"{minutes:.1f}", steps)

    seen, known = [], []
    for seed in seeds:
        seen.append(learn(TASK, recipe, seed, runs, "pixels", display, quick))
        row(f"pixels, seed {seed}", *seen[-1])
        known.append(learn(STATE, RECIPES[STATE](), seed, runs, "state", display, quick))
        row(f"state, seed {seed}", *known[-1])
    successes = [summary["deterministic"]["successes"] for summary, _ in seen]
    ratios = [steps_to_learn(runs / f"pixels_{seed}") / steps_to_learn(runs / f"state_{seed}") for seed in seeds]
    report.figures = {
        "success": sum(successes),
        "success_min": min(successes),
        "success_stochastic": sum(summary["stochastic"]["successes"] for summary, _ in seen),
        "minutes_max": max(minutes for _, minutes in seen),
        "state_ratio": float(np.mean(ratios)),
        "gflops": gflops,
    }
    for looks, evaluation in judged_elsewhere(runs / f"pixels_{seeds[0]}", seeds[0], quick):
        report.row(f"pixels, seed {seeds[0]}, {looks}", evaluation.rate, "", "")
        report.figures[f"seen_{looks}"] = float(evaluation.rate.value)
    if moved:
        summary, minutes = learn(MOVED, RECIPES[MOVED](), seeds[0], runs, "moved", display, quick)
        row("cameras moved, light and colours changed", summary, minutes)
        report.figures["moved_cameras_success"] = summary["deterministic"]["success"]
    if compare:
        same_time = replace(recipe, max_minutes=seen[0][1], stop_success=None)
        for name, (summary, minutes) in compared(seeds[0], same_time, runs, display, quick):
            row(name.replace("_", " "), summary, minutes)
            report.figures[f"{name}_success"] = summary["deterministic"]["success"]
            if name == "critics_see_state":
                report.figures[f"{name}_ratio"] = steps_to_learn(runs / f"{name}_{seeds[0]}") / steps_to_learn(runs / f"state_{seeds[0]}")
    curves = [(f"{name}, seed {seed}", runs / f"{name}_{seed}") for name in ("pixels", "state") for seed in seeds]
    success_curves(curves, runs / "curves.png")
    report.show(json)
    if not json:
        print(f"runs, curves.png: {runs}; this machine: {gflops:.0f} GFLOP/s")


if __name__ == "__main__":
    tyro.cli(main)

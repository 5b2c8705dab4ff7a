"""Should the learner warm up on the demonstrations before the robot moves?

    python -m benchmarks.warmup [--task gear_assembly_fine] [--arms "no warm-up" ...] [--seeds 0 1 2] [--quick] [--json]
        [--go-on FOLDER]

Actor steps and minutes until an evaluation reaches 90 %, on the same demonstrations per seed: without a warm-up, with updates on the
demonstrations alone (`pretrain_steps`), with a cloned start alone, with the cloned start of the recipe, which waits for the critics and
goes on imitating as long as it fails, and with that one where half of the first episodes begin in the middle of a demonstration. On the
long tasks there are more such updates, and an arm in which the share of demonstrations in a batch falls from 0.8 to 0.5. All arms are
changes of the task's recipe, so on a long task all of them decide every few control steps; hil-serl's own settings are in
`benchmarks.long_tasks`.

The runs are those of a `tandem sweep` (docs/sweeps.md), one after the other: `--go-on FOLDER` makes only what is missing there.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from benchmarks.plots import evaluations, points_by_variant, success_curves
from benchmarks.report import Report, machine_gflops
from benchmarks.swept import make_runs, run_of
from tandem.off_policy.recipes import RECIPES

Task = Literal["gear_assembly", "gear_assembly_fine", "gear_pick_assembly_fine"]
FREE = {"demo_imitation": 0.0}
"""Nothing holds the policy to the demonstrations."""
BARE = {"clone_steps": 0, "critic_steps": 0, **FREE}
SHORT: dict[str, dict[str, Any]] = {
    "no warm-up": BARE,
    "200 steps": {**BARE, "pretrain_steps": 200},
    "500 steps": {**BARE, "pretrain_steps": 500},
    "clone alone": {"critic_steps": 0, **FREE},
    "clone, held": {},
    "clone, held, demo starts": {"demo_starts": 0.5},
}
"""Differences from the recipe. The last one needs a simulation: its episodes begin in the middle of a demonstration, fewer and fewer."""
LONG: dict[str, dict[str, Any]] = {
    "no warm-up": BARE,
    "5,000 steps": {**BARE, "pretrain_steps": 5000},
    "share 0.8 to 0.5": {**BARE, "initial_demo_ratio": 0.8, "final_demo_ratio": 0.5},
    "5,000 steps, share 0.8 to 0.5": {**BARE, "pretrain_steps": 5000, "initial_demo_ratio": 0.8, "final_demo_ratio": 0.5},
    "clone alone": {"critic_steps": 0, **FREE},
    "clone, held": {},
    "clone, held, demo starts": {"demo_starts": 0.5},
}
"""The same for long tasks; the fourth is what a fork of hil-serl does."""
DEMOS = 25
SOLVED = 0.9


def until_solved(run: Path) -> tuple[float, float]:
    """Minutes and actor steps at the first evaluation at or above 90 %; NaN if there was none."""
    data = evaluations(run)
    reached = np.flatnonzero(data["success"] >= SOLVED)
    return (float(data["minutes"][reached[0]]), float(data["actor_step"][reached[0]])) if len(reached) else (np.nan, np.nan)


def every_run(task: Task, quick: bool) -> dict[str, Any]:
    """Options of all runs: the recipe of the task until the first evaluation at or above 90 %, from demonstrations that depend on the
    seed alone."""
    options = {
        "sync": True,
        "scripted_demos": 3 if quick else DEMOS,
        "stop_success": SOLVED,
        "stop_evaluations": 1,  # only the time to the first 90 % counts
        "final_episodes": 0,
        "max_steps": 8000 if task == "gear_assembly" else RECIPES[task]().max_steps,
    }
    return options | ({"max_steps": 100, "max_minutes": 0.5, "eval_period": 100, "eval_episodes": 2} if quick else {})


def shortened(task: Task, changes: dict[str, Any]) -> dict[str, Any]:
    """The same start with at most 50 updates before the robot moves."""
    recipe = RECIPES[task]()
    counts = ("pretrain_steps", "clone_steps", "critic_steps")
    return changes | {name: min(changes.get(name, getattr(recipe, name)), 50) for name in counts}


def main(
    task: Task = "gear_assembly",
    arms: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (0, 1, 2),
    quick: bool = False,
    json: bool = False,
    runs: Path = Path("runs/benchmark_warmup"),
    go_on: Path | None = None,
) -> None:
    """Compare starts with and without a warm-up on the demonstrations.

    Args:
        task: The short task, or one of the long ones.
        arms: Which starts, by their names in `SHORT` and `LONG`; none: all of the task's.
        seeds: One run per seed and start.
        quick: 100 learner steps and one seed, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs.
        go_on: Folder of an earlier call with the same options, whose runs are not made again.
    """
    runs, known = go_on or runs / time.strftime("%Y-%m-%d_%H-%M-%S"), SHORT if task == "gear_assembly" else LONG
    unknown = set(arms) - set(known)
    if unknown:
        raise SystemExit(f"no start {', '.join(sorted(unknown))} for {task}; there are {', '.join(known)}")
    seeds, asked = seeds[:1] if quick else seeds, {name: known[name] for name in arms or known}
    settings = {name: shortened(task, changes) if quick else changes for name, changes in asked.items()}
    metrics = ("minutes", "actor_step", "eval/success")
    make_runs(runs, task, seeds, settings, every_run(task, quick), metrics=metrics, best="lowest actor_step", quiet=json)
    columns = ("start", "solved", "minutes to 90 %", "actor steps to 90 %", "of each seed (minutes)", "best evaluation of each seed")
    report = Report("warmup" if task == "gear_assembly" else f"warmup_{task}", columns, {})
    points: dict[str, np.ndarray] = {}
    for name in settings:
        paths = [(f"{name}, seed {seed}", run_of(runs, name, seed)) for seed in seeds]
        points[name] = _row(report, name, [path for _, path in paths]) / 1000
        success_curves(paths, runs / f"{_key(name)}.png")
    points_by_variant(points, "thousand actor steps to 90 %", runs / "warmup.png")
    report.show(json)
    if not json:
        print(f"runs and curves: {runs}; this machine: {machine_gflops():.0f} GFLOP/s")


def _key(name: str) -> str:
    return name.replace(" ", "_").replace("-", "_").replace(",", "").replace(".", "")


def _row(report: Report, name: str, paths: list[Path]) -> np.ndarray:
    """The row of one start; returns the actor steps to 90 % of each seed, NaN where it was not reached."""
    minutes, steps = np.array([until_solved(path) for path in paths]).T
    solved, best = int(np.isfinite(minutes).sum()), [float(np.max(evaluations(path)["success"], initial=0.0)) for path in paths]
    report.figures |= {f"{_key(name)}_minutes": float(np.nanmean(minutes)) if solved else float("nan"), f"{_key(name)}_solved": solved}
    report.row(
        name, f"{solved} of {len(paths)}",
        f"{np.nanmean(minutes):.2f}" if solved else "-", f"{np.nanmean(steps):,.0f}" if solved else "-",
        ", ".join("-" if np.isnan(m) else f"{m:.2f}" for m in minutes),
        ", ".join(f"{one:.0%}" for one in best),
    )  # fmt: skip
    return steps


if __name__ == "__main__":
    tyro.cli(main)

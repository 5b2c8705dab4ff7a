"""Should the learner warm up on the demonstrations before the robot moves?

    python -m benchmarks.warmup [--seeds 0 1 2] [--quick] [--json]

Actor steps and minutes until an evaluation of 100 episodes reaches 90 %, on the same demonstrations per seed: without a warm-up, with
`pretrain_steps` 200 and 500, with a cloned start alone, and with the cloned start of the recipe, which waits for the critics and goes on
imitating as long as it fails.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.plots import evaluations, points_by_variant, success_curves
from benchmarks.report import Report, machine_gflops
from tandem.envs.registry import make_env, make_expert
from tandem.off_policy.recipes import RECIPES
from tandem.off_policy.sync import train
from tandem.programs.record import record_demos
from tandem.runs.display import Display

TASK = "gear_assembly"
BARE = {"clone_steps": 0, "critic_steps": 0}
VARIANTS: dict[str, dict[str, Any]] = {
    "no warm-up": BARE,
    "200 steps": {**BARE, "pretrain_steps": 200},
    "500 steps": {**BARE, "pretrain_steps": 500},
    "clone alone": {"critic_steps": 0},
    "clone, held": {},
}
"""Differences from the recipe. All but the last one do not imitate the demonstrations during training."""
SOLVED = 0.9


def until_solved(run: Path) -> tuple[float, float]:
    """Minutes and actor steps at the first evaluation at or above 90 %; NaN if there was none."""
    data = evaluations(run)
    reached = np.flatnonzero(data["success"] >= SOLVED)
    return (float(data["minutes"][reached[0]]), float(data["actor_step"][reached[0]])) if len(reached) else (np.nan, np.nan)


def main(seeds: tuple[int, ...] = (0, 1, 2), quick: bool = False, json: bool = False, runs: Path = Path("runs/benchmark_warmup")) -> None:
    """Compare starts with and without a warm-up on the demonstrations.

    Args:
        seeds: One run per seed and variant.
        quick: 600 learner steps and one seed, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs.
    """
    runs = runs / time.strftime("%Y-%m-%d_%H-%M-%S")
    seeds = seeds[:1] if quick else seeds
    display = Display("quiet")
    report = Report("warmup", ("start", "solved", "minutes to 90 %", "actor steps to 90 %", "of each seed (minutes)"), {})
    points: dict[str, np.ndarray] = {}
    for name, changes in VARIANTS.items():
        solved_at = []
        for seed in seeds:
            folder = runs / f"demos_{seed}"
            demos = next(iter(sorted(folder.glob("*.db"))), None) or record_demos(make_env(TASK), make_expert(TASK, seed), 25, folder, seed)
            config = replace(
                RECIPES[TASK](),
                task=TASK,
                demos=(demos,),
                seed=seed,
                stop_success=SOLVED,
                stop_evaluations=1,  # only the time to the first 90 % counts
                final_episodes=0,
                max_steps=600 if quick else 8000,
                **changes,
            )
            if changes:
                config = replace(config, agent=replace(config.agent, demo_imitation=0.0))
            path = runs / f"{name.replace(' ', '_')}_{seed}"
            train(config, path, display)
            solved_at.append(until_solved(path))
        minutes, steps = np.array(solved_at).T
        solved = int(np.isfinite(minutes).sum())
        key = name.replace(" ", "_").replace("-", "_")
        report.figures |= {f"{key}_minutes": float(np.nanmean(minutes)) if solved else float("nan"), f"{key}_solved": solved}
        report.row(
            name, f"{solved} of {len(seeds)}",
            f"{np.nanmean(minutes):.2f}" if solved else "-", f"{np.nanmean(steps):,.0f}" if solved else "-",
            ", ".join("-" if np.isnan(m) else f"{m:.2f}" for m in minutes),
        )  # fmt: skip
        points[name] = steps / 1000
        success_curves([(f"{name}, seed {seed}", runs / f"{name.replace(' ', '_')}_{seed}") for seed in seeds], runs / f"{key}.png")
    points_by_variant(points, "thousand actor steps to 90 %", runs / "warmup.png")
    report.show(json)
    if not json:
        print(f"runs and curves: {runs}; this machine: {machine_gflops():.0f} GFLOP/s")


if __name__ == "__main__":
    tyro.cli(main)

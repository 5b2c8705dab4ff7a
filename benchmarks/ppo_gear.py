"""Does PPO learn a gear task from scratch, and in how many steps compared with RLPD?

    python -m benchmarks.ppo_gear [--task gear_assembly] [--seed 0] [--quick] [--json] [--runs FOLDER] [--rlpd RUN]

`tandem ppo gear_assembly`: no demonstrations, a dense reward of named terms, a curriculum; at most 3.3 million steps, the budget of
Isaac Lab's Factory task. It is evaluated like RLPD: on the sparse task, with 100 episodes on separate seeds. `--task gear_lift` picks a
gear up from the table, with a gripper that is one more axis; with `--task gear_lift_threeway` it is a choice.

* `success`: success rate of the best policy on those episodes, deterministic.
* `steps_to_90`: simulation steps until the first evaluation of at least 90 % (50 episodes each).
* `minutes`: training time, evaluations included.

The plot also shows RLPD with 25 demonstrations, which is trained here unless a run is given.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import tyro

from benchmarks.plots import evaluations, success_curves
from benchmarks.report import Report, machine_gflops
from tandem.acting.evaluate import wilson
from tandem.envs.registry import make_env, make_expert
from tandem.off_policy.recipes import RECIPES
from tandem.off_policy.sync import train
from tandem.on_policy.presets import PRESETS
from tandem.on_policy.run import train_ppo
from tandem.programs.record import record_demos
from tandem.runs.display import Display

BUDGET = 3_300_000
TARGETS = {"success": (">=", 0.9), "steps": ("<=", BUDGET)}
PICTURES = Path(__file__).parents[1] / "docs" / "images"


def rlpd_run(task: str, folder: Path, display: Display) -> Path:
    """Train RLPD as `make train` does."""
    demos = record_demos(make_env(task), make_expert(task, 0), 25, folder / "demos", 0)
    train(replace(RECIPES[task](), task=task, demos=(demos,)), folder / "rlpd", display)
    return folder / "rlpd"


def main(
    task: str = "gear_assembly",
    seed: int = 0,
    quick: bool = False,
    json: bool = False,
    runs: Path = Path("runs/benchmark_ppo_gear"),
    rlpd: Path | None = None,
) -> None:
    """PPO on a gear task.

    Args:
        task: A task that PPO has a preset for.
        seed: Random seed of the run.
        quick: Ten iterations and no picture, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs.
        rlpd: A finished RLPD run for the plot. Default: train one.
    """
    folder, display = runs / time.strftime("%Y-%m-%d_%H-%M-%S"), Display("quiet" if json else "lines")
    config = replace(PRESETS[task](), task=task, seed=seed)
    config = replace(config, max_iterations=10 if quick else BUDGET // config.samples)
    if quick:
        config = replace(config, eval_period=5, final_episodes=10)
    gflops = machine_gflops()
    summary = train_ppo(config, folder / "ppo", display)
    curve = evaluations(folder / "ppo")
    reached = np.flatnonzero(curve["success"] >= 0.9)
    report = Report("ppo_gear", ("figure", "value"), TARGETS)
    for name in ("deterministic", "stochastic"):
        successes, episodes = summary[name]["successes"], summary[name]["episodes"]
        report.row(f"success, {name}", wilson(successes, episodes))
    report.figures = {
        "success": summary["deterministic"]["successes"] / summary["deterministic"]["episodes"],
        "steps": summary["actor_step"],
        "minutes": summary["minutes"],
    }
    if len(reached):
        report.figures["steps_to_90"] = int(curve["actor_step"][reached[0]])
        report.figures["minutes_to_90"] = float(curve["minutes"][reached[0]])
    for name, value in report.figures.items():
        report.row(name, f"{value:,.3g}" if value < 1000 else f"{value:,.0f}")
    if not quick:
        other, picture = rlpd or rlpd_run(task, folder, display), "ppo_gear" if task == "gear_assembly" else f"ppo_{task}"
        success_curves([("PPO, from scratch", folder / "ppo"), ("RLPD, 25 demonstrations", other)], PICTURES / f"{picture}.png")
    report.show(json)
    if not json:
        print(f"this machine: {gflops:.0f} GFLOP/s; runs in {folder}")


if __name__ == "__main__":
    tyro.cli(main)

"""Does RLPD learn the gear assembly? Compared with cloning the same demonstrations, the demonstrator and random actions.

    python -m benchmarks.gear_assembly --seeds 0 1 2 [--quick] [--json] [--runs FOLDER]

Each seed does what `make train` does, with its own demonstrations. Every success rate is measured on 100 episodes with separate seeds.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.plots import success_curves
from benchmarks.report import Report, machine_gflops
from tandem.acting.evaluate import wilson
from tandem.agents.bc import BCConfig
from tandem.data.report import inspect
from tandem.envs.registry import make_env, make_expert, spec_for
from tandem.layouts import ActionLayout
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.recipes import RECIPES
from tandem.off_policy.sync import train
from tandem.programs.record import play_episode, record_demos
from tandem.runs.display import Display
from tandem.seeding import episode_seeds
from tandem.teleop.operator import RandomActions

TASK = "gear_assembly"
DEMOS = 25
TARGETS = {
    "rlpd_success": (">=", 291),
    "rlpd_success_min": (">=", 95),
    "random_success": ("==", 0),
    "minutes_max": ("<=", 10.0),
    "speedup_over_demos": (">=", 1.5),
}


def one_seed(seed: int, runs: Path, display: Display, quick: bool) -> dict[str, Any]:
    """Record demonstrations, train RLPD and both clones. `minutes`: from the first demonstration to the last evaluation of RLPD."""
    began = time.monotonic()
    demos = record_demos(make_env(TASK), make_expert(TASK, seed), DEMOS, runs / f"demos_{seed}", seed)
    config = replace(RECIPES[TASK](), task=TASK, demos=(demos,), seed=seed)
    if quick:
        config = replace(config, max_minutes=1.0, final_episodes=20)
    rlpd = train(config, runs / f"rlpd_{seed}", display)
    minutes = (time.monotonic() - began) / 60
    cloning = CloneArgs(TASK, (demos,), BCConfig(min_steps=200 if quick else 3000), seed=seed, final_episodes=config.final_episodes)
    bc = clone_demos(cloning, runs / f"bc_{seed}", display)
    display.say(f"seed {seed}: {rlpd['deterministic']['successes']} of {rlpd['deterministic']['episodes']} in {minutes:.1f} minutes")
    return {"rlpd": rlpd, "bc": bc, "minutes": minutes, "demo_seconds": inspect(demos).duration_s / DEMOS}


def by_operator(operator: Any, episodes: int) -> int:
    """Number of successes of an operator instead of a learned policy."""
    env = make_env(TASK)
    return sum(bool(play_episode(env, operator, seed)[-1].success) for seed in episode_seeds(0, "final", episodes))


def main(seeds: tuple[int, ...] = (0, 1, 2), quick: bool = False, json: bool = False, runs: Path = Path("runs/benchmark_gear")) -> None:
    """RLPD on the gear assembly.

    Args:
        seeds: One run per seed.
        quick: A minute of training and 20 episodes, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs.
    """
    runs = runs / time.strftime("%Y-%m-%d_%H-%M-%S")
    display = Display("quiet" if json else "lines")
    gflops = machine_gflops()
    results = [one_seed(seed, runs, display, quick) for seed in seeds]
    episodes = results[0]["rlpd"]["deterministic"]["episodes"]
    total = episodes * len(seeds)
    random_action = RandomActions(ActionLayout.of(spec_for(TASK)), 0)
    expert, chance = by_operator(make_expert(TASK, 0), episodes), by_operator(random_action, episodes)

    def pooled(kind: str, manner: str) -> int:
        return sum(result[kind][manner]["successes"] for result in results)

    report = Report("gear_assembly", ("method", "success [95 %]", "seconds per success", "minutes", "learner / actor steps"), TARGETS)
    for seed, result in zip(seeds, results, strict=True):
        rlpd = result["rlpd"]
        report.row(
            f"RLPD, seed {seed}",
            wilson(rlpd["deterministic"]["successes"], episodes),
            f"{rlpd['deterministic']['success_seconds'] or float('nan'):.2f}",
            f"{result['minutes']:.1f}",
            f"{rlpd['learner_step']:,} / {rlpd['actor_step']:,}",
        )
    rlpd_seconds = float(np.mean([r["rlpd"]["deterministic"]["success_seconds"] or np.nan for r in results]))
    demo_seconds = float(np.mean([r["demo_seconds"] for r in results]))
    report.row("RLPD, pooled, deterministic", wilson(pooled("rlpd", "deterministic"), total), f"{rlpd_seconds:.2f}", "", "")
    report.row("RLPD, pooled, stochastic", wilson(pooled("rlpd", "stochastic"), total), "", "", "")
    report.row("cloning, validation plateau", wilson(pooled("bc", "deterministic"), total), "", "", "")
    report.row("cloning, trained long", wilson(pooled("bc", "trained_long"), total), "", "", "")
    report.row("demonstrator", wilson(expert, episodes), f"{demo_seconds:.2f}", "", "")
    report.row("random", wilson(chance, episodes), "", "", "")
    report.figures = {
        "rlpd_success": pooled("rlpd", "deterministic"),
        "rlpd_success_min": min(result["rlpd"]["deterministic"]["successes"] for result in results),
        "rlpd_success_stochastic": pooled("rlpd", "stochastic"),
        "bc_success": pooled("bc", "deterministic"),
        "bc_success_long": pooled("bc", "trained_long"),
        "expert_success": expert,
        "random_success": chance,
        "minutes_max": max(result["minutes"] for result in results),
        "speedup_over_demos": demo_seconds / rlpd_seconds,
        "gflops": gflops,
    }
    success_curves([(f"seed {seed}", runs / f"rlpd_{seed}") for seed in seeds], runs / "curves.png")
    report.show(json)
    if not json:
        print(f"runs, curves.png: {runs}; this machine: {gflops:.0f} GFLOP/s")


if __name__ == "__main__":
    tyro.cli(main)

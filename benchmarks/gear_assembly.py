"""Does RLPD learn the gear assembly, and in how many minutes? Compared with an earlier recipe, cloning, the demonstrator and chance.

    python -m benchmarks.gear_assembly --seeds 0 1 2 [--quick] [--json] [--runs FOLDER]

Each seed does what `make train` does, with its own demonstrations, and once more with the recipe that Tandem had before it started
from a clone (`BASELINE`): the ratios of minutes and steps are of the same call. Every success rate is measured on 100 episodes with
separate seeds.
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
from tandem.agents.sac_config import SACConfig
from tandem.data.report import inspect
from tandem.envs.registry import make_env, make_expert, spec_for
from tandem.layouts import ActionLayout
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.recipes import RECIPES
from tandem.off_policy.sync import train
from tandem.programs.record import play_episode, record_demos
from tandem.runs.display import Display
from tandem.seeding import episode_seeds
from tandem.teleop.operator import RandomActions

TASK = "gear_assembly"
DEMOS = 25
TARGETS = {
    "rlpd_success": (">=", 294),
    "rlpd_success_min": (">=", 95),
    "minutes_ratio": ("<=", 0.6),
    "actor_steps_ratio": ("<=", 0.6),
    "random_success": ("==", 0),
    "minutes_max": ("<=", 10.0),
    "speedup_over_demos": (">=", 1.5),
}
BASELINE = replace(
    TrainConfig(),
    agent=SACConfig(learning_rate=1e-3, soft_target_update_rate=0.01, discount=0.95, imitation=3.0),
    **{
        name: getattr(RECIPES[TASK](), name)
        for name in (
            "num_envs",
            "updates_per_actor_step",
            "eval_period",
            "eval_episodes",
            "stop_success",
            "max_minutes",
            "max_steps",
            "checkpoint_period",
        )
    },
)
"""The recipe before: the same number of simulations, evaluations and the same stop rule."""


def one_seed(seed: int, runs: Path, display: Display, quick: bool) -> dict[str, Any]:
    """Record demonstrations, train RLPD with both recipes and both clones. `minutes` are those of recording and of a run."""
    began = time.monotonic()
    demos = record_demos(make_env(TASK), make_expert(TASK, seed), DEMOS, runs / f"demos_{seed}", seed)
    recorded = time.monotonic() - began

    def learned(recipe: TrainConfig, name: str) -> tuple[dict[str, Any], float]:
        config = replace(recipe, task=TASK, demos=(demos,), seed=seed)
        if quick:
            config = replace(config, max_minutes=1.0, final_episodes=20)
        began = time.monotonic()
        return train(config, runs / f"{name}_{seed}", display), (recorded + time.monotonic() - began) / 60

    rlpd, minutes = learned(RECIPES[TASK](), "rlpd")
    before, minutes_before = learned(BASELINE, "before")
    config = replace(RECIPES[TASK](), final_episodes=20 if quick else 100)
    cloning = CloneArgs(TASK, (demos,), BCConfig(min_steps=200 if quick else 3000), seed=seed, final_episodes=config.final_episodes)
    bc = clone_demos(cloning, runs / f"bc_{seed}", display)
    display.say(f"seed {seed}: {rlpd['deterministic']['successes']} of {rlpd['deterministic']['episodes']} in {minutes:.1f} minutes")
    demo_seconds = inspect(demos).duration_s / DEMOS
    return {"rlpd": rlpd, "before": before, "bc": bc, "minutes": minutes, "minutes_before": minutes_before, "demo_seconds": demo_seconds}


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
    for name, kind, minutes in (("RLPD", "rlpd", "minutes"), ("RLPD, recipe before", "before", "minutes_before")):
        for seed, result in zip(seeds, results, strict=True):
            rlpd = result[kind]
            report.row(
                f"{name}, seed {seed}",
                wilson(rlpd["deterministic"]["successes"], episodes),
                f"{rlpd['deterministic']['success_seconds'] or float('nan'):.2f}",
                f"{result[minutes]:.1f}",
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
        "success_before": pooled("before", "deterministic"),
        "minutes_ratio": sum(r["minutes"] for r in results) / sum(r["minutes_before"] for r in results),
        "actor_steps_ratio": sum(r["rlpd"]["actor_step"] for r in results) / sum(r["before"]["actor_step"] for r in results),
        "bc_success": pooled("bc", "deterministic"),
        "bc_success_long": pooled("bc", "trained_long"),
        "expert_success": expert,
        "random_success": chance,
        "minutes_max": max(result["minutes"] for result in results),
        "speedup_over_demos": demo_seconds / rlpd_seconds,
        "gflops": gflops,
    }
    curves = [(f"seed {seed}", runs / f"rlpd_{seed}") for seed in seeds] + [
        (f"before, seed {seed}", runs / f"before_{seed}") for seed in seeds
    ]
    success_curves(curves, runs / "curves.png")
    report.show(json)
    if not json:
        print(f"runs, curves.png: {runs}; this machine: {gflops:.0f} GFLOP/s")


if __name__ == "__main__":
    tyro.cli(main)

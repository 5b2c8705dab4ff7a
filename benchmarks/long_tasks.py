"""Are tasks learned whose demonstrations take hundreds of steps, with one reward at the end? Compared with hil-serl's settings.

    python -m benchmarks.long_tasks --seeds 0 1 2 [--variants auto defaults warmup] [--tasks fine long] [--quick] [--go-on FOLDER]

`fine` is `gear_assembly_fine` (about 300 steps), `long` is `gear_pick_assembly_fine` (about 550). Each seed has its own 25
demonstrations, and each variant the same minutes. `auto` is the task's recipe, which chooses discount, n-step sums and decisions from the
demonstrations; the others differ from it or from hil-serl's settings in what their name says. Every success is measured on 100 episodes
with separate seeds, and what the critics say along a demonstration is drawn beside the return that followed (`values_*.png`).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.report import Report, machine_gflops
from tandem.acting.evaluate import wilson
from tandem.agents.sac_config import SACConfig
from tandem.data.formats.kinds import open_any
from tandem.data.journal import Journal
from tandem.data.report import inspect
from tandem.doctor.values import DemoValues, read_critics, summed_up, values_in
from tandem.envs.registry import make_env, make_expert
from tandem.files import write_atomically
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.recipes import RECIPES
from tandem.off_policy.sync import train
from tandem.programs.record import record_demos
from tandem.programs.value_plot import write_values
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder

TASKS = {"fine": "gear_assembly_fine", "long": "gear_pick_assembly_fine"}
MINUTES = {"fine": 20.0, "long": 40.0}
DEMOS = 25
TARGETS: dict[str, tuple[str, float]] = {
    "fine_success": (">=", 285),
    "fine_minutes_max": ("<=", 20.0),
    "long_success": (">=", 270),
    "long_minutes_max": ("<=", 40.0),
    "speedup_over_demos": (">=", 1.3),
    "auto_regret": ("<=", 3.0),
}
"""Successes are pooled over the seeds, deterministic, 100 episodes each. The regret is in points of success."""
SIMULATED = {"num_envs": 8, "updates_per_actor_step": 0.125}


def agent(config: TrainConfig, **changes: Any) -> TrainConfig:
    return replace(config, agent=replace(config.agent, **changes))


VARIANTS: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    "auto": lambda recipe: recipe,
    # set by hand: what `auto` is compared with
    "h 5, n 5": lambda recipe: agent(replace(recipe, decision_steps=5), n_step=5),
    "h 10, n 1": lambda recipe: agent(replace(recipe, decision_steps=10), n_step=1),
    "h 10, n 3": lambda recipe: agent(replace(recipe, decision_steps=10), n_step=3),
    "h 20, n 3": lambda recipe: agent(replace(recipe, decision_steps=20), n_step=3),
    "h 1, n 10": lambda recipe: agent(replace(recipe, decision_steps=1), n_step=10),
    # the recipe without one of its parts
    "interpolated": lambda recipe: replace(recipe, between_decisions="interpolate"),
    "without bounds": lambda recipe: agent(recipe, return_bound="off"),
    "without imitation": lambda recipe: agent(recipe, demo_imitation=0.0),
    "without the clone": lambda recipe: replace(recipe, clone_steps=0, critic_steps=0),
    "without the average": lambda recipe: agent(recipe, actor_average=0.0),
    # one part alone, in hil-serl's settings
    "defaults": lambda recipe: _defaults(recipe),
    "defaults, discount matched": lambda recipe: agent(_defaults(recipe), discount="auto"),
    "defaults, discount matched, n 10": lambda recipe: agent(_defaults(recipe), discount="auto", n_step=10),
    "defaults, discount matched, h 10": lambda recipe: agent(replace(_defaults(recipe), decision_steps=10), discount="auto"),
    "warmup": lambda recipe: _warmed_up(_defaults(recipe)),
    "auto, share 0.8 to 0.5": lambda recipe: replace(recipe, initial_demo_ratio=0.8),
    "auto, 5,000 steps first": lambda recipe: replace(recipe, pretrain_steps=5000),
    # a scripted person helps in the middle of the episodes; what they do at control rate is learned from as decisions
    "auto, with a person": lambda recipe: replace(recipe, operator="person:scripted"),
}
BY_HAND = tuple(name for name in VARIANTS if name.startswith("h "))
USUAL = ("auto", "defaults", "warmup", "h 10, n 1", "h 10, n 3", "h 1, n 10")


def _defaults(recipe: TrainConfig) -> TrainConfig:
    """hil-serl's settings, with the same simulations, evaluations and stop rule."""
    kept = ("task", "demos", "seed", "eval_period", "eval_episodes", "stop_success", "max_minutes", "max_steps", "checkpoint_period")
    return replace(TrainConfig(agent=SACConfig()), **SIMULATED, **{name: getattr(recipe, name) for name in kept})


def _warmed_up(config: TrainConfig) -> TrainConfig:
    """What a fork of hil-serl does against long demonstrations."""
    return agent(replace(config, pretrain_steps=5000, initial_demo_ratio=0.8, final_demo_ratio=0.5), discount=0.995)


def learned(task: str, variant: str, seed: int, demos: Path, runs: Path, minutes: float, quick: bool) -> dict[str, Any]:
    """Train, and say how it ended and what the critics say along the first demonstration."""
    most = minutes - 1 if minutes > 2 else minutes  # the final evaluation takes time too
    config = VARIANTS[variant](replace(RECIPES[task](), task=task, demos=(demos,), seed=seed, max_minutes=most))
    if quick:
        config = replace(config, pretrain_steps=min(config.pretrain_steps, 100), final_episodes=4, eval_period=0, max_steps=300)
    path = runs / f"{task}_{variant.replace(' ', '_').replace(',', '')}_{seed}"
    known = path.with_suffix(".json")
    if not known.exists():
        shutil.rmtree(path, ignore_errors=True)
        began = time.monotonic()
        summary = train(config, path, Display("lines"))
        if "deterministic" not in summary:
            raise SystemExit(f"{variant}, seed {seed}: {summary['stopped']}; --go-on {runs} learns it again")
        summary |= {"took_min": (time.monotonic() - began) / 60, "gflops": machine_gflops()}
        write_atomically(known, dumps(summary).encode())
    summary = loads(known.read_text()) | {"values": values_of(RunFolder.open(path), demos)}
    return summary | ({"helped": helped_by_thirds(RunFolder.open(path))} if config.operator == "person:scripted" else {})


def helped_by_thirds(run: RunFolder) -> list[float]:
    """Share of the steps that the person made, in the first, middle and last third of the episodes."""
    episodes: dict[tuple[str, int], list[bool]] = {}
    with Journal.open(run.journal) as journal:
        for _, step in journal.read():
            episodes.setdefault((step.source, step.episode), []).append(step.intervened)
    thirds = zip(*(np.array_split(np.array(steps), 3) for steps in episodes.values()), strict=True)
    return [float(np.concatenate(third).mean()) for third in thirds]


def values_of(run: RunFolder, demos: Path) -> list[DemoValues]:
    settings = run.settings_of("rlpd")
    critics = read_critics(run, settings)
    if critics is None:
        return []
    with open_any(demos, run.spec) as opened:
        return values_in(opened, critics, run.spec, settings, [0])


def main(
    seeds: tuple[int, ...] = (0, 1, 2),
    variants: tuple[str, ...] = USUAL,
    tasks: tuple[str, ...] = tuple(TASKS),
    quick: bool = False,
    json: bool = False,
    runs: Path = Path("runs/benchmark_long_tasks"),
    go_on: Path | None = None,
) -> None:
    """Learn long tasks, with the settings that the demonstrations suggest and with others.

    Args:
        seeds: One run per seed, task and variant.
        variants: Which settings: names of `VARIANTS`, or `all`.
        tasks: `fine` (about 300 steps), `long` (about 550).
        quick: One seed, three demonstrations, half a minute for each variant, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs.
        go_on: Folder of an earlier call that was stopped: what it has learned to the end is not learned again.
    """
    runs = go_on or runs / time.strftime("%Y-%m-%d_%H-%M-%S")
    chosen = tuple(VARIANTS) if variants == ("all",) else variants
    columns = (
        "task, variant",
        "successes",
        "success [95 %]",
        "actions",
        "minutes",
        "learner / actor steps",
        "Q / return at start",
        "gap / spread",
    )
    report = Report("long_tasks", columns, TARGETS)
    for kind in tasks:
        compare(kind, chosen, seeds[:1] if quick else seeds, runs, quick, report)
    report.row(f"{machine_gflops():.0f} GFLOP/s", *[""] * 7)
    report.show(json)


def compare(kind: str, variants: tuple[str, ...], seeds: tuple[int, ...], runs: Path, quick: bool, report: Report) -> None:
    """All variants of one task, on the same demonstrations per seed."""
    task, minutes, count = TASKS[kind], 0.5 if quick else MINUTES[kind], 3 if quick else DEMOS
    files = {seed: recorded(task, count, runs / f"demos_{kind}_{seed}", seed) for seed in seeds}
    shown = [inspect(file) for file in files.values()]
    demo_actions = sum(one.transitions for one in shown) / sum(one.episodes for one in shown)
    report.row(f"{kind}, demonstrations", "", "", f"{demo_actions:.0f}", "", "", "", "")
    rates: dict[str, float] = {}
    for variant in variants:
        found = [learned(task, variant, seed, file, runs, minutes, quick) for seed, file in files.items()]
        rates[variant] = _row(report, kind, variant, found, demo_actions)
        drawn = [one for summary in found for one in summary["values"]]
        if drawn:
            write_values(drawn, runs / f"values_{kind}_{variant.replace(' ', '_').replace(',', '')}.png")
    best = max((rates[name] for name in BY_HAND if name in rates), default=None)
    if "auto" in rates and best is not None:
        regret = 100 * max(0.0, best - rates["auto"])
        report.figures["auto_regret"] = max(regret, report.figures.get("auto_regret", 0.0))


def recorded(task: str, count: int, folder: Path, seed: int) -> Path:
    """The demonstrations of a seed, recorded where they are not there yet."""
    there = sorted(folder.glob("*_demos_*.db"))
    return there[0] if there else record_demos(make_env(task), make_expert(task, seed), count, folder, seed)


def _row(report: Report, kind: str, variant: str, found: list[dict[str, Any]], demo_actions: float) -> float:
    """The row of a variant and its figures; returns its success, pooled."""
    judged = [summary["deterministic"] for summary in found]
    successes, episodes = sum(one["successes"] for one in judged), sum(one["episodes"] for one in judged)
    minutes = [summary["took_min"] for summary in found]
    hz = make_spec_hz(TASKS[kind])
    lengths = [one["success_seconds"] * hz for one in judged if one["success_seconds"] is not None]
    seen = summed_up([one for summary in found for one in summary["values"]])
    report.row(
        f"{kind}, {variant}",
        f"{successes} of {episodes}",
        wilson(successes, episodes),
        f"{np.mean(lengths):.0f}" if lengths else "-",
        ", ".join(f"{one:.1f}" for one in minutes),
        ", ".join(f"{summary['learner_step']:,} / {summary['actor_step']:,}" for summary in found),
        "-" if seen is None or seen.return_at_start is None else f"{seen.q_at_start:.2f} / {seen.return_at_start:.2f}",
        "-" if seen is None else f"{seen.gap:.3f} / {seen.spread:.3f}",
    )
    if variant == "auto":
        report.figures |= {f"{kind}_success": float(successes), f"{kind}_minutes_max": max(minutes)}
        if lengths:
            faster = demo_actions / float(np.mean(lengths))
            report.figures["speedup_over_demos"] = min(faster, report.figures.get("speedup_over_demos", np.inf))
    elif variant == "auto, with a person":
        shares = np.mean([summary["helped"] for summary in found], axis=0)
        report.figures |= {f"{kind}_success_with_a_person": float(successes)}
        report.figures |= {f"{kind}_helped_{name}": float(share) for name, share in zip(("first", "middle", "last"), shares, strict=True)}
    elif variant in ("defaults", "warmup"):
        report.figures[f"{variant}_success"] = report.figures.get(f"{variant}_success", 0.0) + float(successes)
    return successes / episodes


def make_spec_hz(task: str) -> float:
    env = make_env(task)
    env.close()
    return env.spec.control_hz


if __name__ == "__main__":
    tyro.cli(main)

"""Does RLPD learn to pick the gear up and put it on its peg, with a gripper that it learns too?

    python -m benchmarks.gear_pick --seeds 0 1 2 [--pixels] [--quick] [--json] [--runs FOLDER] [--go-on FOLDER]

Each seed does what `tandem train gear_pick_assembly_threeway --scripted-demos 25` does: hil-serl's hybrid agent, the arm by SAC and the
gripper by a grasp critic. The first seed also trains a continuous gripper (`gear_pick_assembly`), the hybrid agent without the penalty of
opening and closing, and a clone. With `--pixels` every seed learns from cameras, and nothing else is trained. Every success rate is
measured on 100 episodes with separate seeds; for those that fail the table says how far they came.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import replace
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.plots import success_curves
from benchmarks.report import Report, machine_gflops
from tandem.acting.evaluate import wilson
from tandem.acting.policy import act_with, load_policy
from tandem.agents.bc import BCConfig
from tandem.data.report import inspect
from tandem.envs.gear_pick.stages import STAGES, stage
from tandem.envs.registry import make_env, make_expert, spec_for
from tandem.files import write_atomically
from tandem.layouts import ActionLayout
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.recipes import RECIPES
from tandem.off_policy.sync import train
from tandem.programs.record import play_episode, record_demos
from tandem.runs.display import Display
from tandem.seeding import episode_seeds
from tandem.teleop.operator import RandomActions

HYBRID, CONTINUOUS, PIXELS = "gear_pick_assembly_threeway", "gear_pick_assembly", "gear_pick_assembly_pixels_threeway"
DEMOS = 25
TARGETS = {
    "success": (">=", 285),
    "success_min": (">=", 90),
    "minutes_max": ("<=", 20.0),
    "speedup_over_demos": (">=", 1.3),
    "random_success": ("==", 0),
}
PIXEL_TARGETS = {"success_pixels": (">=", 0.9), "minutes_pixels": ("<=", 60.0)}
HEADS = ("method", "success [95 %]", "s per success", "minutes", "learner / actor steps", "failed at")


class Runs:
    """Trains into one folder; what is there already, demonstrations or a run that came to its end, is not made again."""

    def __init__(self, folder: Path, display: Display, quick: bool) -> None:
        self.folder, self._display, self.quick = folder, display, quick
        self.episodes = 20 if quick else 100

    def demos(self, task: str, seed: int) -> tuple[Path, float]:
        """The file, and the seconds that recording took."""
        known = self.folder / f"demos_{task}_{seed}.json"
        if not known.exists():
            shutil.rmtree(known.with_suffix(""), ignore_errors=True)
            began = time.monotonic()
            file = record_demos(make_env(task), make_expert(task, seed), DEMOS, known.with_suffix(""), seed)
            write_atomically(known, dumps({"file": file.name, "seconds": time.monotonic() - began}).encode())
        kept = loads(known.read_text())
        return known.with_suffix("") / kept["file"], kept["seconds"]

    def learned(self, name: str, task: str, seed: int, recipe: TrainConfig) -> dict[str, Any]:
        """A run's summary, with `minutes` of recording and training, and how far its failures came."""
        known, path = self.folder / f"{name}_{seed}.json", self.folder / f"{name}_{seed}"
        if not known.exists():
            demos, recorded = self.demos(task, seed)
            config = replace(recipe, task=task, demos=(demos,), seed=seed, final_episodes=self.episodes)
            if self.quick:
                config = replace(config, max_minutes=1.0)
            shutil.rmtree(path, ignore_errors=True)
            began = time.monotonic()
            summary = train(config, path, self._display)
            minutes = (recorded + time.monotonic() - began) / 60
            if "deterministic" not in summary:
                raise SystemExit(f"{name}, seed {seed}: {summary['stopped']}; --go-on {self.folder} learns it again")
            kept = {"summary": summary, "took": minutes, "failures": self._failures(path, task, seed), "gflops": machine_gflops()}
            write_atomically(known, dumps(kept).encode())
            done = summary["deterministic"]
            self._display.say(f"{name}, seed {seed}: {done['successes']} of {done['episodes']} in {minutes:.1f} minutes")
        kept = loads(known.read_text())
        return {**kept["summary"], "took": kept["took"], "path": path, "failures": Counter(kept["failures"])}

    def _failures(self, path: Path, task: str, seed: int) -> Counter[str]:
        return Counter() if task == PIXELS else failures(path, task, episode_seeds(seed, "final", self.episodes))

    def cloned(self, task: str, seed: int) -> dict[str, Any]:
        steps = 200 if self.quick else 3000
        args = CloneArgs(task, (self.demos(task, seed)[0],), BCConfig(min_steps=steps), seed=seed, final_episodes=self.episodes)
        return clone_demos(args, self.folder / f"bc_{seed}", self._display)


def failures(run: Path, task: str, seeds: list[int]) -> Counter[str]:
    """How far the failed episodes of the best policy came, by the furthest stage that each reached."""
    snapshot, spec = load_policy(run)
    act, env = act_with(snapshot, spec), make_env(task, len(seeds))
    observation = env.reset(seeds=seeds)
    furthest, success, running = stage(observation), np.zeros(len(seeds), bool), np.ones(len(seeds), bool)
    while running.any():
        step = env.step(act(observation))
        observation = step.observation
        furthest = np.where(running, np.maximum(furthest, stage(observation)), furthest)
        success |= step.success
        running &= ~step.ended
    env.close()
    return Counter(STAGES[number] for number in furthest[~success])


def by_operator(operator: Any, episodes: int) -> int:
    """Number of successes of an operator instead of a learned policy."""
    env = make_env(HYBRID)
    return sum(bool(play_episode(env, operator, seed)[-1].success) for seed in episode_seeds(0, "final", episodes))


def by_eye(made: Runs, seeds: tuple[int, ...]) -> Report:
    """One run with cameras per seed."""
    runs = [made.learned("pixels", PIXELS, seed, RECIPES[PIXELS]()) for seed in seeds]
    report = Report("gear_pick_pixels", HEADS, PIXEL_TARGETS)
    for seed, run in zip(seeds, runs, strict=True):
        report.row(f"by eye, seed {seed}", *_cells(run, made.episodes))
    report.figures = {
        "success_pixels": sum(run["deterministic"]["successes"] for run in runs) / (made.episodes * len(runs)),
        "minutes_pixels": max(run["took"] for run in runs),
    }
    return report


def main(
    seeds: tuple[int, ...] = (0, 1, 2),
    pixels: bool = False,
    quick: bool = False,
    json: bool = False,
    runs: Path = Path("runs/benchmark_pick"),
    go_on: Path | None = None,
) -> None:
    """RLPD on the whole gear assembly.

    Args:
        seeds: One run of the hybrid agent per seed; the first seed also trains what it is compared with.
        pixels: Learn from cameras instead; needs MUJOCO_GL=egl on a machine without a screen.
        quick: A minute of training and 20 episodes, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs.
        go_on: Folder of an earlier call that was stopped: what it has learned to the end is not learned again.
    """
    display, gflops = Display("quiet" if json else "lines"), machine_gflops()
    made = Runs(go_on or runs / time.strftime("%Y-%m-%d_%H-%M-%S"), display, quick)
    if pixels:
        by_eye(made, seeds).show(json)
        return
    recipe, first = RECIPES[HYBRID](), seeds[0]
    hybrid = [made.learned("hybrid", HYBRID, seed, recipe) for seed in seeds]
    continuous = made.learned("continuous", CONTINUOUS, first, RECIPES[CONTINUOUS]())
    free = made.learned("no_penalty", HYBRID, first, replace(recipe, agent=replace(recipe.agent, grasp_penalty=0.0)))
    bc = made.cloned(HYBRID, first)
    chance = by_operator(RandomActions(ActionLayout.of(spec_for(HYBRID)), 0), made.episodes)
    expert = by_operator(make_expert(HYBRID, 0), made.episodes)

    report = Report("gear_pick", HEADS, TARGETS)
    named = [(f"hybrid, seed {seed}", run) for seed, run in zip(seeds, hybrid, strict=True)]
    for name, run in [*named, (f"continuous, seed {first}", continuous), (f"no penalty, seed {first}", free)]:
        report.row(name, *_cells(run, made.episodes))
    total = sum(run["deterministic"]["successes"] for run in hybrid)
    seconds = float(np.mean([run["deterministic"]["success_seconds"] or np.nan for run in hybrid]))
    demo_seconds = float(np.mean([inspect(made.demos(HYBRID, seed)[0]).duration_s / DEMOS for seed in seeds]))
    report.row("hybrid, pooled", wilson(total, made.episodes * len(seeds)), f"{seconds:.2f}", "", "", "")
    report.row("cloning, trained long", wilson(bc["trained_long"]["successes"], made.episodes), "", "", "", "")
    report.row("demonstrator", wilson(expert, made.episodes), f"{demo_seconds:.2f}", "", "", "")
    report.row("random", wilson(chance, made.episodes), "", "", "", "")
    report.figures = {
        "success": total,
        "success_min": min(run["deterministic"]["successes"] for run in hybrid),
        "success_stochastic": sum(run["stochastic"]["successes"] for run in hybrid),
        "minutes_max": max(run["took"] for run in hybrid),
        "speedup_over_demos": demo_seconds / seconds,
        "continuous_success": continuous["deterministic"]["successes"],
        "continuous_minutes": continuous["took"],
        "no_penalty_success": free["deterministic"]["successes"],
        "bc_success": bc["deterministic"]["successes"],
        "bc_success_long": bc["trained_long"]["successes"],
        "expert_success": expert,
        "random_success": chance,
        "gflops": gflops,
    }
    curves = [*((f"seed {seed}", run["path"]) for seed, run in zip(seeds, hybrid, strict=True)), ("continuous", continuous["path"])]
    success_curves([*curves, ("no penalty", free["path"])], made.folder / "curves.png")
    report.show(json)
    if not json:
        print(f"runs, curves.png: {made.folder}; this machine: {gflops:.0f} GFLOP/s")


def _cells(run: dict[str, Any], episodes: int) -> tuple[str, ...]:
    done = run["deterministic"]
    died = ", ".join(f"{name} {run['failures'][name]}" for name in STAGES if run["failures"][name])
    seconds = f"{done['success_seconds'] or float('nan'):.2f}"
    steps = f"{run['learner_step']:,} / {run['actor_step']:,}"
    return str(wilson(done["successes"], episodes)), seconds, f"{run['took']:.1f}", steps, died


if __name__ == "__main__":
    tyro.cli(main)

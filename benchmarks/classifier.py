"""Is a reward classifier good enough to learn from? The gear assembly from pixels, judged by a classifier alone.

    python -m benchmarks.classifier [--seed 0] [--quick] [--json] [--runs FOLDER] [--go-on FOLDER]

The scripted operator does the task 200 times: the last frame of each episode is a success, five others are failures (200 + 1,000 frames).
`precision`, `recall` and `false_positives_per_1000` are of episodes that the classifier had not seen, with a threshold that these
episodes did not choose. Then RLPD learns twice from the same 25 demonstrations, with the recipe of the task: with the simulation's reward,
and with the classifier as its only reward. The demonstrations have its rewards then, too: those of which it sees no success pay nothing.
`success` of both is the simulation's own truth, in 100 episodes; `success_ratio` is the classifier's share of it. When a run stops, and
which of its policies is judged, is decided by evaluations; these too ask the simulation, in both runs.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.report import Report, machine_gflops
from tandem.acting.evaluate import wilson
from tandem.data.demos import read_demos
from tandem.envs.registry import make_env, make_expert
from tandem.files import write_atomically
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.recipes import RECIPES
from tandem.off_policy.sync import train
from tandem.programs.record import record_demos
from tandem.programs.reward import apply
from tandem.programs.train_reward import train_classifier
from tandem.rewards.classifier import read_classifier
from tandem.rewards.labels import FAILURE, Frame, Label, write_labels
from tandem.rewards.stored import open_stored
from tandem.runs.display import Display

TASK = "gear_assembly_pixels"
SUCCESSES, FAILURES_EACH, DEMOS = 200, 5, 25
TARGETS = {"precision": (">=", 0.99), "success_ratio": (">=", 0.9)}
FIGURES = ("precision", "recall", "false_positives_per_1000", "calibration_error", "successes", "failures")


def recorded(task: str, count: int, folder: Path, seed: int) -> Path:
    """Demonstrations of the scripted operator; those of an earlier call that was stopped are taken again."""
    if known := sorted(folder.glob(f"*_{count}_demos_*.db")):
        return known[0]
    shutil.rmtree(folder, ignore_errors=True)
    env = make_env(task)
    made = record_demos(env, make_expert(task, seed), count, folder, seed)
    env.close()
    return made


def labelled(file: Path, path: Path, seed: int) -> None:
    """The last frame of each episode, and some of the others, the one just before the success among them."""
    rng, found = np.random.default_rng(seed), {}
    for episode in open_stored([file]).episodes():
        last = len(episode) - 1
        found[Frame(*episode.name, last)] = Label("success", "the simulation")
        others = rng.choice(last - 1, min(FAILURES_EACH - 1, last - 1), replace=False).tolist()
        found |= {Frame(*episode.name, frame): Label(FAILURE, "the simulation") for frame in (*others, last - 1)}
    write_labels(path, found)


def judged(demos: Path, source: str, folder: Path) -> Path:
    """The demonstrations with the rewards of this source."""
    if not (known := sorted(folder.glob("*_demos_*.db"))):
        shutil.rmtree(folder, ignore_errors=True)
        apply((demos,), source, folder)
        known = sorted(folder.glob("*_demos_*.db"))
    return known[0]


def settings(source: str, demos: Path, seed: int, quick: bool) -> TrainConfig:
    """The recipe of the task as it is today, with this reward."""
    config = replace(RECIPES[TASK](), task=TASK, demos=(demos,), seed=seed, reward_source=source)
    return replace(config, max_steps=20, final_episodes=2, eval_period=0) if quick else config


def learned(config: TrainConfig, run: Path, display: Display) -> tuple[dict[str, Any], float]:
    """The summary of a run and the minutes that it took; one that came to its end in an earlier call is not learned again."""
    known, began = run.with_suffix(".json"), time.monotonic()
    if known.exists():
        kept = loads(known.read_text())
        return kept["summary"], kept["minutes"]
    shutil.rmtree(run, ignore_errors=True)
    summary = train(config, run, display)
    if "deterministic" not in summary:
        raise SystemExit(f"{run.name}: {summary['stopped']}; --go-on {run.parent} learns it again")
    minutes = (time.monotonic() - began) / 60
    write_atomically(known, dumps({"summary": summary, "minutes": minutes}).encode())
    return summary, minutes


def main(
    seed: int = 0, quick: bool = False, json: bool = False, runs: Path = Path("runs/benchmark_classifier"), go_on: Path | None = None
) -> None:
    """A reward classifier for the gear assembly from pixels, and RLPD that learns from it alone.

    Args:
        seed: Seed of demonstrations, training and runs.
        quick: Some episodes and some steps, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs.
        go_on: Folder of an earlier call that was stopped: what it has made and learned to the end is taken from there.
    """
    runs, display = go_on or runs / time.strftime("%Y-%m-%d_%H-%M-%S"), Display("quiet" if json else "lines")
    report = Report("classifier", ("what", "figure"), TARGETS)
    shown = recorded(TASK, 6 if quick else SUCCESSES, runs / "frames", seed + 1)
    demos = recorded(TASK, 2 if quick else DEMOS, runs / "demos", seed)
    labels, file = runs / "labels.csv", runs / "seated.safetensors"
    if not file.exists():
        labelled(shown, labels, seed)
        train_classifier((shown,), labels=(labels,), out=file, seed=seed)
    figures = read_classifier(file).figures["stages"]["success"]
    report.figures = {name: figures[name] or 0.0 for name in FIGURES}
    source = f"classifier:{file}"
    paid = judged(demos, source, runs / "judged")
    report.figures["demonstrations_paid"] = sum(bool(steps[-1].success) for steps in read_demos(paid).episodes())
    rates = {}
    for name, config in (
        ("true_reward", settings("simulation", demos, seed, quick)),
        ("classifier", settings(source, paid, seed, quick)),
    ):
        summary, minutes = learned(config, runs / name, display)
        found = summary["deterministic"]
        rates[name] = found["success"]
        rate = f"{wilson(found['successes'], found['episodes'])}, {summary['actor_step']:,} actor steps, {minutes:.1f} minutes"
        report.row(f"success with the {name.replace('_', ' ')}", rate)
        report.figures[f"minutes_{name}"] = minutes
    report.figures |= {"success": rates["classifier"], "success_true_reward": rates["true_reward"]}
    report.figures["success_ratio"] = rates["classifier"] / rates["true_reward"] if rates["true_reward"] else 0.0
    report.figures["gflops"] = machine_gflops()
    report.show(json)
    if not json:
        print(f"runs, classifier, seated.png: {runs}")


if __name__ == "__main__":
    tyro.cli(main)

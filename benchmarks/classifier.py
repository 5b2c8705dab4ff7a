"""Is a reward classifier good enough to learn from? The gear assembly from pixels, judged by a classifier alone.

    python -m benchmarks.classifier [--seed 0] [--quick] [--json] [--runs FOLDER]

The scripted operator does the task 200 times: the last frame of each episode is a success, five others are failures (200 + 1,000 frames).
`precision`, `recall` and `false_positives_per_1000` are of episodes that the classifier had not seen, with a threshold that these
episodes did not choose. Then RLPD learns twice from the same 25 demonstrations: with the simulation's reward, and with the classifier as
its only reward. `success` of both is the simulation's own truth, in 100 episodes; `success_ratio` is the classifier's share of it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.report import Report
from tandem.acting.evaluate import wilson
from tandem.envs.registry import make_env, make_expert
from tandem.off_policy.recipes import RECIPES
from tandem.off_policy.sync import train
from tandem.programs.record import record_demos
from tandem.programs.train_reward import train_classifier
from tandem.rewards.classifier import read_classifier
from tandem.rewards.labels import FAILURE, Frame, Label, write_labels
from tandem.rewards.stored import open_stored
from tandem.runs.display import Display

TASK = "gear_assembly_pixels"
SUCCESSES, FAILURES_EACH, DEMOS = 200, 5, 25
TARGETS = {"precision": (">=", 0.99), "success_ratio": (">=", 0.9)}


def labelled(file: Path, path: Path, seed: int) -> None:
    """The last frame of each episode, and some of the others, the one just before the success among them."""
    rng, found = np.random.default_rng(seed), {}
    for episode in open_stored([file]).episodes():
        last = len(episode) - 1
        found[Frame(*episode.name, last)] = Label("success", "the simulation")
        others = rng.choice(last - 1, min(FAILURES_EACH - 1, last - 1), replace=False).tolist()
        found |= {Frame(*episode.name, frame): Label(FAILURE, "the simulation") for frame in (*others, last - 1)}
    write_labels(path, found)


def learned(source: str, demos: Path, seed: int, run: Path, display: Display, quick: bool) -> dict[str, Any]:
    """The summary of a run with this reward."""
    config = replace(RECIPES[TASK](), task=TASK, demos=(demos,), seed=seed, reward_source=source)
    if quick:
        config = replace(config, max_steps=20, final_episodes=2, eval_period=0)
    return train(config, run, display)


def main(seed: int = 0, quick: bool = False, json: bool = False, runs: Path = Path("runs/benchmark_classifier")) -> None:
    """A reward classifier for the gear assembly from pixels, and RLPD that learns from it alone.

    Args:
        seed: Seed of demonstrations, training and runs.
        quick: Some episodes and some steps, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs.
    """
    runs, display = runs / time.strftime("%Y-%m-%d_%H-%M-%S"), Display("quiet" if json else "lines")
    report = Report("classifier", ("what", "figure"), TARGETS)
    env = make_env(TASK)
    shown = record_demos(env, make_expert(TASK, seed + 1), 6 if quick else SUCCESSES, runs / "frames", seed + 1)
    demos = record_demos(env, make_expert(TASK, seed), 2 if quick else DEMOS, runs / "demos", seed)
    env.close()
    labels, file = runs / "labels.csv", runs / "seated.safetensors"
    labelled(shown, labels, seed)
    train_classifier((shown,), labels=(labels,), out=file, seed=seed)
    figures = read_classifier(file).figures["stages"]["success"]
    report.figures = {name: figures[name] or 0.0 for name in ("precision", "recall", "false_positives_per_1000", "calibration_error")}
    rates = {}
    for name, source in (("true reward", "simulation"), ("classifier", f"classifier:{file}")):
        summary = learned(source, demos, seed, runs / name.replace(" ", "_"), display, quick)
        found = summary["deterministic"]
        rates[name] = found["success"]
        report.row(f"success with the {name}", f"{wilson(found['successes'], found['episodes'])}, {summary['actor_step']:,} actor steps")
    report.figures |= {"success": rates["classifier"], "success_true_reward": rates["true reward"]}
    report.figures["success_ratio"] = rates["classifier"] / rates["true reward"] if rates["true reward"] else 0.0
    for name in ("precision", "recall", "false_positives_per_1000"):
        report.row(name, f"{report.figures[name]:.4g}")
    report.show(json)


if __name__ == "__main__":
    tyro.cli(main)

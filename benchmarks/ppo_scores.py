"""Does PPO reach the published scores, and in how many minutes?

    python -m benchmarks.ppo_scores [--seeds 0 1 2] [--quick] [--json]

HalfCheetah-v4, Hopper-v4, Walker2d-v4 and InvertedPendulum-v4, a million steps each (488 rollouts of 2048), three seeds, by
`tandem ppo NAME --preset gym_mujoco`, against CleanRL's `ppo_continuous_action`: 1442.6 ± 46.0, 2382.9 ± 271.7, 2288.0 ± 571.8 and
963.1 ± 22.2, mean and standard deviation over its three seeds. The score is the one CleanRL reports: the mean return of the last 100
training episodes, with the policy's noise, without an evaluation; then the mean over the seeds. The target is the lower end of CleanRL's
band.

The minutes of a run are those of its whole process: start of Python, compilation, a million steps, saving. Runs follow each other, so
that they do not share the cores. Finished runs are stored in `results.json`: an interrupted benchmark continues, and a run with other
settings is repeated. The curves go to `docs/images/ppo_scores.png` when all runs have finished.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import tyro

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.report import Report, machine_gflops
from tandem.files import write_atomically
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.presets import PRESETS
from tandem.runs.folder import RunFolder

PUBLISHED = {
    "HalfCheetah-v4": (1442.6, 46.0),
    "Hopper-v4": (2382.9, 271.7),
    "Walker2d-v4": (2288.0, 571.8),
    "InvertedPendulum-v4": (963.1, 22.2),
}
"""CleanRL's mean and standard deviation over three seeds."""
TARGETS = {f"score_{name}": (">=", round(mean - deviation, 1)) for name, (mean, deviation) in PUBLISHED.items()}
TARGETS |= {"minutes_max": ("<=", 2.0)}
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "ppo_scores.png"
QUICK_ITERATIONS = 20
Results = dict[str, dict[str, Any]]
"""By environment and seed: settings, score, minutes, gflops, and the curve (steps, returns)."""


def config_for(name: str, seed: int, quick: bool) -> OnPolicyConfig:
    """The preset without evaluations: the score comes from the training episodes."""
    config = replace(PRESETS["gym_mujoco"](), task=name, seed=seed, eval_period=0, final_episodes=0)
    return replace(config, max_iterations=QUICK_ITERATIONS) if quick else config


def run_one(config: OnPolicyConfig, folder: Path) -> dict[str, Any]:
    """A new run, started from the command line in its own process."""
    path = folder / f"{config.task}_{config.seed}_{time.strftime('%Y-%m-%d_%H-%M-%S')}"
    asked = {
        "--preset": "gym_mujoco", "--seed": config.seed, "--max-iterations": config.max_iterations, "--run": path,
        "--eval-period": 0, "--final-episodes": 0,
    }  # fmt: skip
    arguments = [str(word) for pair in asked.items() for word in pair]
    gflops, began = machine_gflops(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "tandem.cli", "ppo", config.task, *arguments, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    minutes = (time.perf_counter() - began) / 60
    rows = [row for row in RunFolder.open(path).metrics() if "Train/mean_reward" in row]  # from the first episode that ended
    returns = [row["Train/mean_reward"] for row in rows]
    return {
        "settings": settings(config),
        "score": returns[-1] if returns else None,
        "minutes": minutes,
        "gflops": gflops,
        "steps": [row["actor_step"] for row in rows],
        "returns": returns,
    }


def settings(config: OnPolicyConfig) -> str:
    """The settings of a run; a stored result is valid only for the same settings."""
    return json.dumps(dataclasses.asdict(config), sort_keys=True)


def load(file: Path) -> Results:
    return json.loads(file.read_text()) if file.exists() else {}


def store(results: Results, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(results).encode())


def draw(results: Results, seeds: tuple[int, ...], path: Path) -> None:
    """One plot per environment, one line per seed, with CleanRL's band."""
    figure, axes = plt.subplots(1, len(PUBLISHED), figsize=(15, 3.6))
    for axis, (name, (mean, deviation)) in zip(axes, PUBLISHED.items(), strict=True):
        axis.axhspan(mean - deviation, mean + deviation, color="C7", alpha=0.3, label="CleanRL after 1M steps")
        for seed in seeds:
            result = results[f"{name} {seed}"]
            axis.plot(np.array(result["steps"]) / 1e6, result["returns"], linewidth=1.2, label=f"seed {seed}")
        axis.set(title=name, xlabel="million steps")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("return, last 100 episodes of training")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(
    seeds: tuple[int, ...] = (0, 1, 2), quick: bool = False, json: bool = False, runs: Path = Path("runs/benchmark_ppo_scores")
) -> None:
    """PPO's scores after a million steps, and the time in minutes.

    Args:
        seeds: One run per seed and environment.
        quick: 20 iterations and one seed, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs and `results.json`.
    """
    seeds, file = (seeds[:1], runs / "quick.json") if quick else (seeds, runs / "results.json")
    results = load(file)
    for seed in seeds:  # the first seed of all environments first
        for name in PUBLISHED:
            config, key = config_for(name, seed, quick), f"{name} {seed}"
            if results.get(key, {}).get("settings") != settings(config):
                results[key] = run_one(config, runs)
                store(results, file)
                print(f"{key}: {results[key]['score']}, {results[key]['minutes']:.2f} minutes", file=sys.stderr)
    draw(results, seeds, runs / "quick.png" if quick else PICTURE)
    report = Report("ppo_scores", ("environment", "score", "of each seed", "CleanRL", "minutes"), TARGETS)
    for name, (mean, deviation) in PUBLISHED.items():
        finished = [results[f"{name} {seed}"] for seed in seeds]
        scores = np.array([result["score"] for result in finished], float)
        minutes = [result["minutes"] for result in finished]
        report.figures |= {f"score_{name}": float(scores.mean()), f"minutes_{name}": float(np.mean(minutes))}
        report.row(
            name, f"{scores.mean():.0f}", ", ".join(f"{score:.0f}" for score in scores), f"{mean:.0f} ± {deviation:.0f}",
            ", ".join(f"{m:.2f}" for m in minutes),
        )  # fmt: skip
    used = [results[f"{name} {seed}"] for name in PUBLISHED for seed in seeds]
    report.figures |= {
        "minutes_max": max(result["minutes"] for result in used),
        "gflops": float(np.mean([result["gflops"] for result in used])),
    }
    report.show(json)
    if not json:
        print(
            f"this machine while they ran: {report.figures['gflops']:.0f} GFLOP/s; curves: {PICTURE if not quick else runs / 'quick.png'}"
        )


if __name__ == "__main__":
    tyro.cli(main)

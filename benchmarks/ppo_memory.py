"""Does a policy with memory solve a task that needs memory?

    python -m benchmarks.ppo_memory [--seeds 0 1 2] [--quick] [--json]

`recall`: a lamp is lit once, above one of four corners; 20 to 30 steps later the policy must go to that corner. The preset `recall` is
trained with an LSTM, a GRU and no memory before the same small networks, with the same number of iterations; then 400 deterministic
episodes each on separate seeds. A random choice succeeds in a quarter of them. The curves of the evaluations during training go to
`docs/images/ppo_memory.png`.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import matplotlib
import numpy as np
import tyro

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.report import Report
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.presets import PRESETS
from tandem.on_policy.run import train_ppo
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder

KINDS: dict[str, Literal["lstm", "gru", "none"]] = {"lstm": "lstm", "gru": "gru", "mlp": "none"}
CHANCE = 0.25
TARGETS = {"success_lstm": (">=", 0.95), "success_gru": (">=", 0.95), "success_mlp": ("<=", 0.35)}
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "ppo_memory.png"


@dataclass(frozen=True)
class Result:
    """One run: its success, its time, and the curve of its evaluations."""

    success: float
    minutes: float
    steps: list[int]
    curve: list[float]


def config_for(kind: str, seed: int, quick: bool) -> OnPolicyConfig:
    """The preset with all its iterations, so that every kind gets the same amount of training."""
    preset = PRESETS["recall"]()
    agent = replace(preset.agent, actor_rnn_type=KINDS[kind], critic_rnn_type=KINDS[kind])
    config = replace(preset, task="recall", agent=agent, seed=seed, stop_success=None, eval_period=2, final_episodes=400)
    return replace(config, max_iterations=30) if quick else config


def run_one(config: OnPolicyConfig) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        summary = train_ppo(config, Path(folder) / "run", Display("quiet"))
        rows = [row for row in RunFolder.open(Path(folder) / "run").metrics() if "eval/success" in row]
    curve = [row["eval/success"] for row in rows]
    return Result(summary["deterministic"]["success"], summary["minutes"], [row["actor_step"] for row in rows], curve)


def draw(results: dict[str, list[Result]], path: Path) -> None:
    """Success over steps; one line per kind at the mean of the seeds, with a band from the worst seed to the best."""
    figure, axis = plt.subplots(figsize=(7, 3.6))
    axis.axhline(100 * CHANCE, color="C7", linestyle="--", linewidth=1, label="chance")
    for colour, (kind, runs) in zip(("C0", "C2", "C3"), results.items(), strict=True):
        steps, curves = np.array(runs[0].steps) / 1000, 100 * np.array([run.curve for run in runs])
        axis.fill_between(steps, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.2)
        axis.plot(steps, curves.mean(axis=0), color=colour, label=kind.upper())
    axis.set(xlabel="steps (thousands)", ylabel="success (%)", ylim=(-2, 102), title="recall: which corner was lit, 20 to 30 steps ago?")
    axis.legend(loc="center right")
    axis.grid(alpha=0.3)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(seeds: tuple[int, ...] = (0, 1, 2), quick: bool = False, json: bool = False, picture: Path | None = None) -> None:
    """PPO with an LSTM, with a GRU and without memory, on a task that needs it.

    Args:
        seeds: One run per seed and kind.
        quick: Half the iterations and one seed, to check that it works; writes no picture.
        json: One JSON object instead of the table.
        picture: File for the curves. Default: docs/images/ppo_memory.png.
    """
    results: dict[str, list[Result]] = {}
    for kind in KINDS:
        results[kind] = [run_one(config_for(kind, seed, quick)) for seed in (seeds[:1] if quick else seeds)]
        print(f"{kind}: {', '.join(f'{run.success:.3f}' for run in results[kind])}", file=sys.stderr)
    if picture is not None or not quick:
        draw(results, picture or PICTURE)
    report = Report("ppo_memory", ("networks", "success", "of each seed", "seconds"), TARGETS)
    for kind, runs in results.items():
        success = np.array([run.success for run in runs])
        report.figures |= {f"success_{kind}": float(success.mean()), f"minutes_{kind}": float(np.mean([run.minutes for run in runs]))}
        report.row(
            kind, f"{success.mean():.3f}", ", ".join(f"{s:.3f}" for s in success), ", ".join(f"{60 * run.minutes:.0f}" for run in runs)
        )
    report.show(json)


if __name__ == "__main__":
    tyro.cli(main)

"""Plots of runs as PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from tandem.runs.folder import RunFolder


def evaluations(run: Path) -> dict[str, np.ndarray]:
    """Evaluation success over minutes and actor steps, and training success (stochastic, with exploration) over minutes."""
    rows = RunFolder.open(run).metrics()
    evaluated = [row for row in rows if "eval/success" in row]
    training = [row for row in rows if "environment/episode/success" in row]
    return {
        "minutes": np.array([row["wall_s"] / 60 for row in evaluated]),
        "actor_step": np.array([row["actor_step"] for row in evaluated]),
        "success": np.array([row["eval/success"] for row in evaluated]),
        "train_minutes": np.array([row["wall_s"] / 60 for row in training]),
        "train_success": np.array([row["environment/episode/success"] for row in training]),
    }


def success_curves(runs: Sequence[tuple[str, Path]], path: Path) -> None:
    """Success over minutes and over actor steps, one line per run."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
    for index, (label, run) in enumerate(runs):
        data, colour = evaluations(run), f"C{index}"
        left.plot(data["train_minutes"], 100 * data["train_success"], color=colour, alpha=0.25, linewidth=1)
        left.plot(data["minutes"], 100 * data["success"], color=colour, marker="o", markersize=3, label=label)
        right.plot(data["actor_step"] / 1000, 100 * data["success"], color=colour, marker="o", markersize=3, label=label)
    left.set(xlabel="minutes", ylabel="success (%)", ylim=(-2, 102), title="deterministic evaluation; faint: while training, stochastic")
    right.set(xlabel="actor steps (thousands)", title="deterministic evaluation")
    left.title.set_fontsize(9), right.title.set_fontsize(9)
    right.legend(loc="lower right")
    for axis in (left, right):
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def points_by_variant(results: dict[str, np.ndarray], label: str, path: Path) -> None:
    """One dot per seed and a line at the mean, for each variant."""
    figure, axis = plt.subplots(figsize=(7, 3.2))
    for index, (name, values) in enumerate(results.items()):
        axis.scatter(np.full(len(values), index), values, color=f"C{index}", zorder=3)
        if np.isfinite(values).any():
            axis.hlines(np.nanmean(values), index - 0.25, index + 0.25, color=f"C{index}", linewidth=2)
        axis.annotate(name, (index, 0), xytext=(0, -16), textcoords="offset points", ha="center", annotation_clip=False)
    axis.set(ylabel=label, xticks=[], ylim=(0, None), xlim=(-0.6, len(results) - 0.4))
    axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def robot_minutes_curves(curves: dict[str, list[tuple[np.ndarray, np.ndarray]]], path: Path) -> None:
    """Success over robot minutes: one thin line per seed, a thick one for their mean."""
    figure, axis = plt.subplots(figsize=(7, 4))
    for index, (name, found) in enumerate(curves.items()):
        for minutes, success in found:
            axis.plot(minutes, 100 * success, color=f"C{index}", alpha=0.3, linewidth=1)
        grid = np.linspace(max(minutes[0] for minutes, _ in found), min(minutes[-1] for minutes, _ in found), 100)
        mean = np.mean([np.interp(grid, minutes, success) for minutes, success in found], axis=0)
        axis.plot(grid, 100 * mean, color=f"C{index}", linewidth=2.5, label=name)
    axis.set(xlabel="robot minutes, resets included", ylabel="success on 100 held-out starts (%)", ylim=(-2, 102), xlim=(0, None))
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)

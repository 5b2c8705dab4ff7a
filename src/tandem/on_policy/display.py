"""How an iteration of PPO is printed: rsl_rl's block, line by line, and the metrics that rsl_rl leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tandem.runs.clocks import Clocks
from tandem.runs.folder import RunFolder
from tandem.types import Metrics

WIDTH, PAD = 80, 40
LINES = (
    ("Loss/value", "Mean value loss", "{:.4f}"),
    ("Loss/surrogate", "Mean surrogate loss", "{:.4f}"),
    ("Loss/entropy", "Mean entropy loss", "{:.4f}"),
    ("Loss/rnd", "Mean rnd loss", "{:.4f}"),
    ("Loss/symmetry", "Mean symmetry loss", "{:.4f}"),
    ("Rnd/mean_extrinsic_reward", "Mean extrinsic reward", "{:.4f}"),
    ("Rnd/mean_intrinsic_reward", "Mean intrinsic reward", "{:.4f}"),
    ("Rnd/weight", "RND weight", "{:.4f}"),
    ("Train/mean_reward", "Mean reward", "{:.2f}"),
    ("Train/mean_episode_length", "Mean episode length", "{:.2f}"),
    ("Policy/mean_std", "Mean action std", "{:.2f}"),
    ("Policy/kl", "KL divergence", "{:.4f}"),
    ("Policy/clip_fraction", "Clip fraction", "{:.3f}"),
    ("Value/explained_variance", "Explained variance", "{:.3f}"),
    ("Policy/grad_norm", "Gradient norm, policy", "{:.3f}"),
    ("Value/grad_norm", "Gradient norm, values", "{:.3f}"),
    ("Loss/learning_rate", "Learning rate", "{:.2e}"),
)


@dataclass(frozen=True)
class Times:
    """Seconds of one iteration."""

    collection: float
    learning: float

    @property
    def total(self) -> float:
        return self.collection + self.learning


def iteration_block(clocks: Clocks, max_iterations: int, run: RunFolder, metrics: Metrics, times: Times) -> str:
    """The block of one iteration, in the layout that users of rsl_rl know."""
    left = max_iterations - clocks.learner_step
    rows = [
        ("Run name", run.path.name),
        ("Total steps", str(clocks.actor_step)),
        ("Steps per second", f"{metrics['Perf/total_fps']:.0f}"),
        ("Collection time", f"{times.collection:.3f}s"),
        ("Learning time", f"{times.learning:.3f}s"),
        *((label, form.format(metrics[name])) for name, label, form in LINES if name in metrics),
        *((name.removeprefix("Episode/"), f"{value:.4f}") for name, value in metrics.items() if name.startswith("Episode/")),
    ]
    end = [
        ("Iteration time", f"{times.total:.2f}s"),
        ("Time elapsed", str(timedelta(seconds=round(run.wall_s)))),
        ("ETA", str(timedelta(seconds=round(run.wall_s / clocks.learner_step * left)))),
    ]
    lines = [f"{label + ':':>{PAD}} {value}" for label, value in rows]
    ending = [f"{label + ':':>{PAD}} {value}" for label, value in end]
    title = f"Learning iteration {clocks.learner_step}/{max_iterations}"
    return "\n".join(["#" * WIDTH, title.center(WIDTH).rstrip(), "", *lines, "-" * WIDTH, *ending])

"""The plots of the page, in order, with the metrics and labels of each. A plot without any logged metric is hidden."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tandem.runs.folder import Kind

_EPISODE = "environment/episode/"


@dataclass(frozen=True)
class Plot:
    """One plot."""

    title: str
    lines: tuple[tuple[str, str], ...]
    """Metric and label."""
    percent: bool = False
    log: bool = False
    """Logarithmic y axis, for losses and temperatures."""
    help: str = ""


RLPD = (
    Plot(
        "Success",
        (
            (f"{_EPISODE}success", "all"),
            (f"{_EPISODE}success_alone", "alone"),
            (f"{_EPISODE}success_helped", "helped"),
            ("eval/success", "eval"),
        ),
        percent=True,
        help="Share of the last 20 episodes that succeeded; eval: evaluation without exploration, from its own start states.",
    ),
    Plot("Return", ((f"{_EPISODE}r", "episode"), ("eval/return", "eval")), help="Sum of the rewards of an episode."),
    Plot("Length", ((f"{_EPISODE}l", "episode"), ("eval/length", "eval")), help="Actions in an episode; shorter is better."),
    Plot("Person's share", ((f"{_EPISODE}intervention_share", "of the steps"),), percent=True, help="Steps in which a person acted."),
    Plot("Corrections", (("dagger/corrections", "steps"),), help="Steps that a person chose and the policy imitates."),
    Plot("Cloning loss", (("bc/train_loss", "loss"),), log=True, help="Squared distance to the imitated actions."),
    Plot("Critic loss", (("critic/critic_loss", "loss"),), log=True, help="Squared distance of the Q values from their targets."),
    Plot(
        "Q",
        (("critic/predicted_qs", "predicted"), ("critic/target_qs", "target")),
        help="Predicted return; it should stay within the range of possible returns.",
    ),
    Plot("Entropy", (("actor/entropy", "entropy"),), help="How much the policy still explores."),
    Plot("Temperature", (("actor/temperature", "temperature"),), log=True, help="Weight of the entropy in the objective."),
)
PPO = (
    Plot("Reward", (("Train/mean_reward", "training"), ("eval/return", "eval")), help="Mean return of the last 100 episodes."),
    Plot("Success", (("Train/mean_success", "training"), ("eval/success", "eval")), percent=True),
    Plot("Length", (("Train/mean_episode_length", "training"), ("eval/length", "eval")), help="Actions in an episode."),
    Plot("KL", (("Policy/kl", "KL"),), log=True, help="How far one iteration changed the policy."),
    Plot("Std", (("Policy/mean_std", "standard deviation"),), help="How much the policy still explores."),
    Plot("Explained variance", (("Value/explained_variance", "value"),), help="1: the value function predicts the returns exactly."),
    Plot("Losses", (("Loss/value", "value"), ("Loss/surrogate", "surrogate")), help="Value and surrogate loss."),
    Plot("Entropy", (("Loss/entropy", "entropy"),)),
    Plot("Clip fraction", (("Policy/clip_fraction", "clipped"),), percent=True, help="Samples whose ratio was clipped."),
    Plot("Learning rate", (("Loss/learning_rate", "rate"),), log=True),
    Plot("Steps per second", (("Perf/total_fps", "steps/s"),)),
)


def in_iterations(kind: Kind) -> bool:
    """Whether a run of this kind counts iterations over many simulations, with the metrics of rsl_rl."""
    return kind in ("ppo", "distill")


def plots(kind: Kind) -> list[dict[str, Any]]:
    """The plots for this kind of run, as a page gets them. The page shows those whose metrics were logged."""
    return [asdict(plot) for plot in (PPO if in_iterations(kind) else RLPD)]

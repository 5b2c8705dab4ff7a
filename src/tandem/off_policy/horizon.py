"""Settings that follow from the demonstrations: how far ahead a run has to look, and whether there is anything to start from.

A discount of 0.97 makes the reward at the end of a demonstration of 830 steps worth 0.97^830 = 1e-11 at its start: nothing can be
learned from it. A discount so near 1 that it is worth 0.9 makes all actions look alike. So the discount is chosen so that a
demonstration of mean length L is worth 0.2 where it begins: discount^L = 0.2 (`value_at_start`).

With many small steps a single action changes almost nothing, and the critics cannot tell a good one from a bad one: a matched discount
alone makes their values large everywhere and flat in the action. So a policy decides every h control steps (`tandem.decisions`): about 30
decisions in a demonstration. Not longer than 2 seconds, in which it does not react, and not so long that the mean of h demonstrated actions
loses the motion. Below h = 5 it stays at one decision a step: what n-step sums do for shorter tasks is enough.

Critics that have seen little over-estimate, and correct themselves by one factor discount^n per round of targets: with n = 1 that takes
thousands of updates, in which the policy follows them into the wrong. So rewards are summed over n decisions before the critics are asked.
More of them mean more of what another policy did; n grows with the square root of their number D: 3 for 30, 4 for 40, 6 for 100.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tandem.agents.sac_config import SACConfig
from tandem.errors import ConfigError
from tandem.off_policy.config import TrainConfig
from tandem.types import Transition

STEPS_PER_ROOT = 0.6
DECISIONS_PER_DEMO = 30
LONGEST_S = 2.0
"""A decision lasts no longer: until the next one the policy does not react to what it touches."""
SHORTEST = 5
"""Control steps of a decision; fewer are not worth it."""
MOTION_KEPT = 0.7
"""What the mean over a decision has to leave of the demonstrated motion."""


def automatic(config: TrainConfig) -> TrainConfig:
    """The same settings, with everything that the demonstrations can tell left to them."""
    return replace(config, decision_steps="auto", agent=replace(config.agent, discount="auto", n_step="auto"))


def settle(
    config: TrainConfig, demos: Sequence[Transition], control_hz: float, say: Callable[[str], None] = lambda line: None
) -> TrainConfig:
    """The settings with numbers in the place of "auto", each said with its reason. A number that somebody gave stays."""
    lengths = [step.step + 1 for step in demos if step.last]
    if not lengths and config.pretrain_steps:
        raise ConfigError(
            f"pretrain_steps is {config.pretrain_steps}, but there are no demonstrations to train on: give --demos FILE, or "
            "--scripted-demos N where the task has an expert"
        )
    if not lengths and config.clone_steps:
        say("no demonstrations to clone: the policy does not start from a clone")
        config = replace(config, clone_steps=0)
    if config.decision_steps == "auto":
        config = replace(config, decision_steps=_decision_steps(demos, lengths, control_hz, say))
    return replace(config, agent=_with_horizon(config.agent, lengths, config.decisions.steps, say))


def _decision_steps(demos: Sequence[Transition], lengths: Sequence[int], control_hz: float, say: Callable[[str], None]) -> int:
    """How many control steps a decision should last."""
    if not lengths:
        return 1  # `_with_horizon` says that there are no demonstrations
    length = float(np.mean(lengths))
    wanted = round(length / DECISIONS_PER_DEMO)
    longest = max(1, int(LONGEST_S * control_hz))
    steps = min(wanted, longest)
    if steps < SHORTEST:
        say(f"decision_steps 1: the demonstrations take {length:.0f} steps in the mean, few enough to decide at every one")
        return 1
    actions = _by_episode(demos)
    kept = motion_kept(actions, steps)
    while steps >= SHORTEST and kept < MOTION_KEPT:
        steps -= 1
        kept = motion_kept(actions, steps)
    if steps < SHORTEST:
        say(
            f"decision_steps 1: the demonstrations take {length:.0f} steps in the mean, which asks for decisions of {wanted}, but their "
            f"actions change so fast that the mean of {SHORTEST} keeps only {motion_kept(actions, SHORTEST):.0%} of the motion"
        )
        return 1
    say(
        f"decision_steps {steps}: the demonstrations take {length:.0f} steps in the mean, which makes {length / steps:.0f} decisions of "
        f"{steps / control_hz:.1f} s each; the mean of {steps} actions keeps {kept:.0%} of the demonstrated motion"
    )
    return steps


def _by_episode(demos: Sequence[Transition]) -> list[np.ndarray]:
    """The actions of each demonstration, (steps, action_dim)."""
    episodes: dict[tuple[str, int], list[np.ndarray]] = {}
    for step in demos:
        episodes.setdefault((step.source, step.episode), []).append(step.action)
    return [np.stack(actions) for actions in episodes.values()]


def motion_kept(episodes: Sequence[np.ndarray], steps: int) -> float:
    """What is left of the motion when so many actions are replaced by their mean, wherever a decision begins.

    The root mean squares of means and of actions compared.
    """
    means, actions = [], []
    for episode in episodes:
        length = min(steps, len(episode))
        sums = np.concatenate([np.zeros((1, episode.shape[1])), np.cumsum(episode, axis=0, dtype=float)])
        means.append(np.square((sums[length:] - sums[:-length]) / length).sum(axis=1))
        actions.append(np.square(episode.astype(float)).sum(axis=1))
    whole = float(np.mean(np.concatenate(actions)))
    return float(np.mean(np.concatenate(means)) / whole) ** 0.5 if whole else 1.0


def _with_horizon(agent: SACConfig, lengths: Sequence[int], decision_steps: int, say: Callable[[str], None]) -> SACConfig:
    if "auto" not in (agent.discount, agent.n_step):
        return agent
    if not lengths:
        plain = SACConfig()
        discount, n = (plain.discount if agent.discount == "auto" else agent.discount), (1 if agent.n_step == "auto" else agent.n_step)
        say(f"discount {discount:g}, n_step {n}: there are no demonstrations to tell the length of an episode")
        return replace(agent, discount=discount, n_step=n)
    length = float(np.mean(lengths))
    because = f"the demonstrations take {length:.0f} steps in the mean"
    if agent.discount == "auto":
        discount = round(agent.value_at_start ** (1 / length), 4)
        say(f"discount {discount:g}: {because}, and {discount:g}^{length:.0f} = {discount**length:.2f}")
        agent = replace(agent, discount=discount)
    if agent.n_step == "auto":
        decisions = length / decision_steps
        agent = replace(agent, n_step=max(1, round(STEPS_PER_ROOT * decisions**0.5)))
        made = because if decision_steps == 1 else f"{because}, so {decisions:.0f} decisions are made"
        say(f"n_step {agent.n_step}: {made}, and {STEPS_PER_ROOT:g} times the square root of that is {agent.n_step}")
    return agent

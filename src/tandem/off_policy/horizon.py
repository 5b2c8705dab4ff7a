"""Settings that follow from the demonstrations: how far ahead a run has to look, and whether there is anything to start from.

A discount of 0.97 makes the reward at the end of a demonstration of 830 steps worth 0.97^830 = 1e-11 at its start: nothing can be
learned from it. A discount so near 1 that it is worth 0.9 makes all actions look alike. So the discount is chosen so that a
demonstration of mean length L is worth 0.2 where it begins: discount^L = 0.2.

Critics that have seen little over-estimate, and correct themselves by one factor discount^n per round of targets: with n = 1 that takes
thousands of updates, in which the policy follows them into the wrong. And with many small steps a single action changes little. So
rewards are summed over n steps before the critics are asked. More steps mean more of what another policy did; n grows with the square
root of the length: 4 for 40 steps, 6 for 100, 10 for 300, 14 for 550.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tandem.agents.sac_config import SACConfig
from tandem.off_policy.config import TrainConfig
from tandem.types import Transition

VALUE_AT_START = 0.2
STEPS_PER_ROOT = 0.6


def settle(config: TrainConfig, demos: Sequence[Transition], say: Callable[[str], None] = lambda line: None) -> TrainConfig:
    """The settings with numbers in the place of "auto", each said with its reason. A number that somebody gave stays."""
    lengths = [step.step + 1 for step in demos if step.last]
    if not lengths and config.clone_steps:
        say("no demonstrations to clone: the policy does not start from a clone")
        config = replace(config, clone_steps=0)
    return replace(config, agent=_with_horizon(config.agent, lengths, say))


def _with_horizon(agent: SACConfig, lengths: Sequence[int], say: Callable[[str], None]) -> SACConfig:
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
        discount = round(VALUE_AT_START ** (1 / length), 4)
        say(f"discount {discount:g}: {because}, and {discount:g}^{length:.0f} = {discount**length:.2f}")
        agent = replace(agent, discount=discount)
    if agent.n_step == "auto":
        agent = replace(agent, n_step=max(1, round(STEPS_PER_ROOT * length**0.5)))
        say(f"n_step {agent.n_step}: {because}, and {STEPS_PER_ROOT:g} times the square root of that is {agent.n_step}")
    return agent

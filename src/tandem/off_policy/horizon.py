"""How far ahead a run has to look, from the length of its demonstrations.

A discount of 0.97 makes the reward at the end of a demonstration of 830 steps worth 0.97^830 = 1e-11 at its start: nothing can be
learned from it. A discount so near 1 that it is worth 0.9 makes all actions look alike. So the discount is chosen so that a
demonstration of mean length L has the value `VALUE_AT_START` where it begins, discount^L = 0.2. With many small steps a single action
changes little, and rewards are summed over n steps before the critics are asked: n = L / 30.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tandem.agents.sac_config import SACConfig
from tandem.errors import ConfigError
from tandem.types import Transition

VALUE_AT_START = 0.2
STEPS_PER_SUM = 30


def settle(agent: SACConfig, demos: Sequence[Transition], say: Callable[[str], None] = lambda line: None) -> SACConfig:
    """The settings with numbers in the place of "auto", each with its reason. A number that somebody typed stays."""
    if "auto" not in (agent.discount, agent.n_step):
        return agent
    lengths = [step.step + 1 for step in demos if step.last]
    if not lengths:
        raise ConfigError(
            "discount or n_step is 'auto': they follow from the length of the demonstrations, and there are none. Give --demos FILE, or "
            "numbers (--discount 0.97 --n-step 1)"
        )
    length = float(np.mean(lengths))
    because = f"the demonstrations take {length:.0f} steps in the mean"
    if agent.discount == "auto":
        discount = round(VALUE_AT_START ** (1 / length), 4)
        say(f"discount {discount:g}: {because}, and {discount:g}^{length:.0f} = {discount**length:.2f}")
        agent = replace(agent, discount=discount)
    if agent.n_step == "auto":
        agent = replace(agent, n_step=max(1, round(length / STEPS_PER_SUM)))
        say(f"n_step {agent.n_step}: {because}, and a {STEPS_PER_SUM}th of that is summed before the critics are asked")
    return agent

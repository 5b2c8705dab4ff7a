"""What the length of the demonstrations decides."""

from dataclasses import replace

import numpy as np
import pytest

from tandem.agents.sac_config import SACConfig
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.horizon import settle
from tandem.types import Transition

AUTO = TrainConfig(agent=SACConfig(discount="auto", n_step="auto"), clone_steps=100)


def demos(*lengths: int) -> list[Transition]:
    nothing = {"state": np.zeros(1, np.float32)}
    return [
        Transition(nothing, np.zeros(1, np.float32), 0.0, nothing, step == length - 1, False, episode=number, step=step)
        for number, length in enumerate(lengths)
        for step in range(length)
    ]


@pytest.mark.parametrize(("lengths", "discount", "n"), [((37, 37), 0.9574, 4), ((86,), 0.9815, 6), ((200, 400), 0.9946, 10)])
def test_discount_and_n_follow_from_the_mean_length(lengths: tuple[int, ...], discount: float, n: int) -> None:
    said: list[str] = []
    agent = settle(AUTO, demos(*lengths), said.append).agent
    assert (agent.discount, agent.n_step) == (discount, n)
    assert 0.1 <= float(agent.discount) ** np.mean(lengths) <= 0.3
    assert len(said) == 2 and all(f"take {np.mean(lengths):.0f} steps" in line for line in said)


def test_a_number_that_was_given_stays() -> None:
    given = replace(AUTO, agent=SACConfig(discount=0.5, n_step="auto"))
    assert settle(given, demos(300)).agent == SACConfig(discount=0.5, n_step=10)
    plain = TrainConfig()
    said: list[str] = []
    assert settle(plain, demos(300), said.append) is not None and settle(plain, demos(300)) == plain and not said


def test_without_demonstrations_the_defaults_hold_and_it_is_said() -> None:
    said: list[str] = []
    config = settle(AUTO, [], said.append)
    assert (config.agent.discount, config.agent.n_step, config.clone_steps) == (0.97, 1, 0)
    assert len(said) == 2 and "no demonstrations to clone" in said[0] and "discount 0.97, n_step 1" in said[1]

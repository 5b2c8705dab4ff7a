"""What the length of the demonstrations decides."""

from dataclasses import replace

import numpy as np
import pytest

from tandem.agents.sac_config import SACConfig
from tandem.errors import ConfigError
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.horizon import automatic, motion_kept, settle
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
    agent = settle(AUTO, demos(*lengths), 10.0, said.append).agent
    assert (agent.discount, agent.n_step) == (discount, n)
    assert 0.1 <= float(agent.discount) ** np.mean(lengths) <= 0.3
    assert len(said) == 2 and all(f"take {np.mean(lengths):.0f} steps" in line for line in said)


def test_haste_can_be_worth_less() -> None:
    """0.5^(1/100) = 0.9931: a demonstration is worth half of a success where it begins."""
    patient = replace(AUTO, agent=replace(AUTO.agent, value_at_start=0.5))
    assert settle(patient, demos(100), 10.0).agent.discount == 0.9931
    with pytest.raises(ConfigError, match="value_at_start"):
        SACConfig(value_at_start=1.0)


def test_a_number_that_was_given_stays() -> None:
    given = replace(AUTO, agent=SACConfig(discount=0.5, n_step="auto"))
    assert settle(given, demos(300), 10.0).agent == SACConfig(discount=0.5, n_step=10)
    plain = TrainConfig()
    said: list[str] = []
    assert settle(plain, demos(300), 10.0, said.append) is not None and settle(plain, demos(300), 10.0) == plain and not said


def test_without_demonstrations_the_defaults_hold_and_it_is_said() -> None:
    said: list[str] = []
    config = settle(AUTO, [], 10.0, said.append)
    assert (config.agent.discount, config.agent.n_step, config.clone_steps) == (0.97, 1, 0)
    assert len(said) == 2 and "no demonstrations to clone" in said[0] and "discount 0.97, n_step 1" in said[1]


def test_a_warm_up_needs_demonstrations_which_may_be_recorded_when_the_run_begins() -> None:
    with pytest.raises(ConfigError, match="pretrain_steps is 5, but there are no demonstrations"):
        settle(TrainConfig(pretrain_steps=5), [], 10.0)
    assert settle(TrainConfig(pretrain_steps=5), demos(100), 10.0).pretrain_steps == 5, "also where the settings name no file yet"


# ---- decisions

BOTH = replace(AUTO, decision_steps="auto")


def moving(length: int, period: int, noise: float = 0.0) -> list[Transition]:
    """A demonstration whose one axis moves to and fro with this period."""
    random = np.random.default_rng(0)
    steady = np.sin(2 * np.pi * np.arange(length) / period) + noise * random.standard_normal(length)
    return [replace(step, action=np.array([action], np.float32)) for step, action in zip(demos(length), steady, strict=True)]


@pytest.mark.parametrize(
    ("length", "hz", "steps", "n"),
    [
        (40, 10.0, 1, 4),  # short: as before
        (120, 10.0, 1, 7),  # 120 / 30 = 4 is not worth it
        (300, 10.0, 10, 3),  # 30 decisions of a second
        (830, 10.0, 20, 4),  # 28 would last for 2.8 s: at most 2
        (830, 20.0, 28, 3),
    ],
)
def test_long_demonstrations_get_decisions(length: int, hz: float, steps: int, n: int) -> None:
    said: list[str] = []
    config = settle(BOTH, moving(length, 10_000), hz, said.append)
    assert (config.decision_steps, config.agent.n_step) == (steps, n)
    assert said[0].startswith(f"decision_steps {steps}: the demonstrations take {length} steps")
    assert float(config.agent.discount) ** length == pytest.approx(0.2, abs=0.02), "the discount is that of a control step"


def test_motion_that_a_decision_would_average_away_makes_it_shorter() -> None:
    """The mean of h steps of a sine of period p keeps sin(pi h / p) / (pi h / p) of it: 0.64 for h = p / 2."""
    said: list[str] = []
    config = settle(BOTH, moving(300, 16), 10.0, said.append)
    assert config.decision_steps in (6, 7), said
    assert motion_kept([step.action[None] for step in moving(300, 16)], 1) == 1.0
    whole = np.stack([step.action for step in moving(320, 16)])
    assert motion_kept([whole], 8) == pytest.approx(0.64, abs=0.03) and motion_kept([whole], 16) < 0.01
    jerky = settle(BOTH, moving(300, 4), 10.0, said.append)
    assert jerky.decision_steps == 1 and "change so fast" in said[-3]


def test_decisions_that_were_given_stay() -> None:
    config = settle(replace(BOTH, decision_steps=4), moving(300, 10_000), 10.0)
    assert config.decision_steps == 4 and config.agent.n_step == 5  # 75 decisions


def test_everything_can_be_left_to_the_demonstrations() -> None:
    config = automatic(TrainConfig())
    assert (config.decision_steps, config.agent.discount, config.agent.n_step) == ("auto", "auto", "auto")
    assert settle(config, [], 10.0).decisions.steps == 1

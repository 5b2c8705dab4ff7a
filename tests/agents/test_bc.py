"""Cloning: what is learned, what is held out, and when it ends."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from tandem.agents.bc import BCConfig, Clone, clone, validation_episodes
from tandem.agents.sac import SAC
from tandem.agents.sac_start import with_policy
from tandem.errors import ConfigError, DataError
from tandem.networks.numpy_policy import NumpyPolicy
from tests.agents.sac_samples import CONFIG

QUICK = BCConfig(batch_size=64, learning_rate=3e-3, eval_period=25, patience=8, min_steps=1500, max_steps=3000)


def demonstrator(observations: np.ndarray) -> np.ndarray:
    return np.clip(observations[:, :2] * [1.0, -0.8], -1, 1).astype(np.float32)  # clipped: many actions are exactly ±1


@functools.cache
def demonstrations(noise: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """20 episodes of 30 noisy steps."""
    random = np.random.default_rng(0)
    observations = random.standard_normal((600, 5), dtype=np.float32)
    actions = np.clip(demonstrator(observations) + noise * random.standard_normal((600, 2)), -1, 1).astype(np.float32)
    return observations, actions, np.repeat(np.arange(20), 30)


@functools.cache
def cloned() -> Clone:
    return clone(QUICK, CONFIG, *demonstrations(), seed=1)


def test_the_clone_imitates_the_demonstrations() -> None:
    fresh = np.random.default_rng(5).standard_normal((200, 5), dtype=np.float32)
    error = NumpyPolicy(cloned().best).mode(fresh) - demonstrator(fresh)
    assert np.sqrt((error**2).mean()) < 0.22  # the noise of single actions is 0.3, the spread of what is to be learned 0.7


def test_sampled_actions_are_like_the_learned_one() -> None:
    fresh = np.zeros((2000, 5), np.float32)
    policy = NumpyPolicy(cloned().best)
    u = np.arctanh(policy.sample(fresh, np.random.default_rng(0)))
    np.testing.assert_allclose(u.std(0), 0.3, rtol=0.1)
    np.testing.assert_allclose(u.mean(0), np.arctanh(policy.mode(fresh[0])), atol=0.03)


def test_weight_decay_does_not_change_the_std() -> None:
    """The loss has no gradient for the std, so nothing but the decay would move it: towards 1."""
    config = replace(QUICK, std=0.1, weight_decay=1.0, min_steps=500, max_steps=500)
    policy = clone(config, CONFIG, *demonstrations(), seed=1).last
    _, std = NumpyPolicy(policy).gaussian(demonstrations()[0])
    np.testing.assert_allclose(std, 0.1, rtol=1e-5)


def test_best_is_the_policy_of_the_lowest_validation_loss_and_last_that_of_the_longest_training() -> None:
    result, (observations, actions, episodes) = cloned(), demonstrations()
    held_out = np.isin(episodes, validation_episodes(QUICK, episodes, 1))

    def loss(parameters: dict[str, np.ndarray], rows: np.ndarray) -> float:
        return float(((NumpyPolicy(parameters).mode(observations[rows]) - actions[rows]) ** 2).mean())

    assert result.last_step >= QUICK.min_steps > result.best_step
    assert result.best_step == QUICK.eval_period * (1 + int(np.argmin(result.validation_losses)))
    assert loss(result.best, held_out) == pytest.approx(min(result.validation_losses), rel=1e-3)
    assert loss(result.last, held_out) == pytest.approx(result.validation_losses[-1], rel=1e-3)
    # overfitted: better on the training episodes, worse on the others
    assert loss(result.last, ~held_out) < loss(result.best, ~held_out)
    assert loss(result.last, held_out) > loss(result.best, held_out)


def test_it_stops_on_the_plateau() -> None:
    result = clone(replace(QUICK, min_steps=0), CONFIG, *demonstrations(), seed=1)
    assert result.last_step == result.best_step + QUICK.patience * QUICK.eval_period < QUICK.max_steps


def test_validation_episodes_are_whole_and_never_trained_on() -> None:
    episodes = demonstrations()[2]
    held_out = validation_episodes(QUICK, episodes, seed=1)
    assert len(held_out) == 2 and len(set(held_out)) == 2  # 10 % of 20
    assert len(validation_episodes(QUICK, np.repeat([7, 9], 5), seed=0)) == 1
    # turn the actions of the held-out episodes round: what is learned must not notice
    observations, actions, _ = demonstrations()
    turned = np.where(np.isin(episodes, held_out)[:, None], -actions, actions)
    config = replace(QUICK, min_steps=250, max_steps=250)
    other, same = clone(config, CONFIG, observations, turned, episodes, seed=1), clone(config, CONFIG, *demonstrations(), seed=1)
    assert all((other.last[name] == same.last[name]).all() for name in same.last)
    assert other.validation_losses[-1] > 2 * same.validation_losses[-1]


def test_sac_starts_from_a_clone() -> None:
    agent = SAC(CONFIG, 5, 2)
    state = with_policy(agent, agent.init(0), cloned().best)
    x = demonstrations()[0]
    np.testing.assert_array_equal(NumpyPolicy(agent.policy_parameters(state)).mode(x), NumpyPolicy(cloned().best).mode(x))


def test_one_episode_is_not_enough() -> None:
    with pytest.raises(DataError, match="at least two episodes"):
        clone(QUICK, CONFIG, np.zeros((5, 5)), np.zeros((5, 2)), np.zeros(5))


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="validation_share"):
        BCConfig(validation_share=1.0)
    with pytest.raises(ConfigError, match="min_steps"):
        BCConfig(min_steps=10, max_steps=5)

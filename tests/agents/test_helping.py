"""What a correction teaches: blame for the steps before it, and an anchor where people are consistent, by hand."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.agents import anchoring, blaming
from tandem.agents.sac import SAC, network_of
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_start import agent_for
from tandem.envs.registry import spec_for
from tandem.errors import ConfigError
from tandem.types import Batch, Blamed
from tests.agents.sac_samples import batch_of

CONFIG = SACConfig(hidden=(16,), learning_rate=1e-2, cta_ratio=1)
ROWS = 32
HELPED = replace(CONFIG, anchor=True, imitation=1.0, blame="penalty", blame_size=0.05, temperature_init=1e-6)
AGENT = SAC(HELPED, 2, 1, (0.0, 1.0), anchor=anchoring.Anchor(HELPED, 2, 1))
"""One agent for both, so that it is compiled once."""


# ---- blame


def test_the_critics_blame_by_how_much_they_prefer_the_policys_action() -> None:
    # means 0.7, 0.2, 0.9 and 0.5, 0.6, 0.1: differences 0.2, -0.4, 0.8; at least 0 and at most 0.3
    of_policy, of_person = jnp.array([[0.6, 0.1, 0.8], [0.8, 0.3, 1.0]]), jnp.array([[0.4, 0.6, 0.0], [0.6, 0.6, 0.2]])
    np.testing.assert_allclose(blaming.counterfactual(of_policy, of_person, 0.3), [0.2, 0.0, 0.3], rtol=1e-6)
    with pytest.raises(AssertionError):
        blaming.counterfactual(of_policy[0], of_person[0], 0.3)


def takeovers(weights: np.ndarray, observation_dim: int, action_dim: int) -> Blamed:
    random = np.random.default_rng(3)
    seen = random.standard_normal((*weights.shape, observation_dim), dtype=np.float32)
    return Blamed(weights, seen, random.uniform(-1, 1, (*weights.shape, action_dim)).astype(np.float32), {})


def test_a_penalty_is_taken_from_the_targets_of_its_rows_alone() -> None:
    nothing = np.zeros((1, ROWS), np.float32)
    something = np.pad(np.array([[1.0, 0.5]], np.float32), ((0, 0), (0, ROWS - 2)))
    batch = batch_of(AGENT, ROWS)._replace(imitation=nothing)
    free, blamed = (AGENT.update(AGENT.init(0), batch._replace(blamed=takeovers(weights, 2, 1)))[1] for weights in (nothing, something))
    # 0.05 (1 + 0.5) over the rows
    assert float(free["critic/target_qs"] - blamed["critic/target_qs"]) == pytest.approx(0.05 * 1.5 / ROWS, rel=1e-2)
    assert float(free["anchor/person_loss"]) == 0.0, "no row is a person's"


def test_blame_by_the_critics_is_that_of_the_target_critics_where_the_person_took_over() -> None:
    config = replace(CONFIG, blame="critics", blame_size=10.0)
    state, weights = SAC(config, 5, 2).init(0), np.repeat(np.array([1.0, 0.5, 0.0], np.float32), 6)
    target = jax.tree.map(lambda array: 3 * array, state.target_critic)  # not what the newest critics say
    blamed = takeovers(weights, 5, 2)
    own = network_of(state.actor).mode(jnp.asarray(blamed.observations))
    found = blaming.lost(config, blamed, target, jnp.asarray(blamed.observations), own, jnp.asarray(blamed.actions))

    def value(actions: np.ndarray) -> np.ndarray:
        return np.asarray(target(jnp.concatenate((blamed.observations, actions), axis=1))).mean(axis=0)

    preferred = np.maximum(0, value(np.asarray(own)) - value(blamed.actions))
    np.testing.assert_allclose(found, weights * preferred, rtol=1e-4, atol=1e-6)
    assert all((preferred[part] > 0).any() for part in (slice(0, 6), slice(6, 12), slice(12, 18)))


def test_returns_may_be_lower_than_the_tasks_by_the_size_of_the_blame() -> None:
    spec = spec_for("reach")
    assert agent_for(CONFIG, spec).return_range == spec.return_range == (0.0, 1.0)
    assert agent_for(replace(CONFIG, blame="penalty", blame_size=0.1), spec).return_range == (-0.1, 1.0)


def test_how_many_steps_are_blamed_follows_from_the_settings() -> None:
    assert [replace(CONFIG, blame=how).blamed_steps for how in ("none", "penalty", "critics")] == [0, 1, 5]
    with pytest.raises(ConfigError, match="blame_steps must be from 2 to inf, got 1"):
        SACConfig(blame_steps=1)
    with pytest.raises(ConfigError, match="anchor is on, but imitation is 0"):
        SACConfig(anchor=True)


# ---- the anchor


def test_the_distance_from_a_person_is_euclidean_and_its_slope_is_finite_at_zero() -> None:
    mean, a = jnp.array([[0.3, 0.0], [0.5, 0.5]]), jnp.array([[0.0, 0.4], [0.5, 0.5]])
    np.testing.assert_allclose(anchoring.distance(mean, a), [0.5, 0.0], atol=1e-5)
    slope = jax.grad(lambda a: anchoring.distance(mean, a).sum())(a)
    np.testing.assert_allclose(slope, [[-0.6, 0.8], [0.0, 0.0]], atol=1e-5)


def test_the_anchored_loss_weighs_returns_against_distance_row_by_row() -> None:
    # (-1 + 0 * 5) / 1 = -1;  (-1 + 1 * 0.5) / 2 = -0.25;  (-1 + 3 * 1) / 4 = 0.5;  mean -0.25
    found = anchoring.anchored(jnp.array([-1.0, -1.0, -1.0]), jnp.array([5.0, 0.5, 1.0]), jnp.array([0.0, 1.0, 3.0]))
    assert float(found) == pytest.approx(-0.25)
    with pytest.raises(AssertionError):
        anchoring.anchored(jnp.zeros(3), jnp.zeros((3, 1)), jnp.zeros(3))


def test_the_multiplier_grows_where_the_policy_is_further_away_than_people_differ() -> None:
    # d - sum of std - 0.2: 1.0 - 0.3 - 0.2 = 0.5;  1.0 - 1.5 - 0.2 = -0.7.  With multipliers 2 and 1: -(1.0 - 0.7) / 2
    d, std = jnp.array([1.0, 1.0]), jnp.array([[0.1, 0.2], [0.5, 1.0]])
    assert float(anchoring.multiplier_loss(jnp.array([2.0, 1.0]), d, std)) == pytest.approx(-0.15)
    slope = jax.grad(anchoring.multiplier_loss)(jnp.array([2.0, 1.0]), d, std)
    np.testing.assert_allclose(slope, [-0.25, 0.35], rtol=1e-5)  # descent raises the first and lowers the second


def test_the_model_of_people_is_fitted_to_their_rows_alone() -> None:
    # one axis, std 2: 0.5 (1 / 2)² + log 2 + log sqrt(2 pi) = 0.125 + 0.6931 + 0.9189; the other row is not theirs
    mean, std, shown = jnp.zeros((2, 1)), jnp.full((2, 1), 2.0), jnp.array([[1.0], [9.0]])
    assert float(anchoring.person_loss(mean, std, shown, jnp.array([1.0, 0.0]))) == pytest.approx(1.7371, abs=1e-4)
    assert float(anchoring.person_loss(mean, std, shown, jnp.zeros(2))) == 0.0


def test_an_anchored_policy_is_held_where_people_agree_and_free_where_they_do_not() -> None:
    """Two states: in the first people always do 0.8, in the second 0.8 or -0.8. Nothing is worth anything, so only they count."""
    state, random, info = AGENT.init(1), np.random.default_rng(0), {}
    s = np.eye(2, dtype=np.float32)[np.arange(ROWS) % 2][None]
    zeros = np.zeros((1, ROWS), np.float32)
    for _ in range(200):
        a = np.where(s[..., :1] > 0, 0.8, random.choice([-0.8, 0.8], (1, ROWS, 1))).astype(np.float32)
        state, info = AGENT.update(state, Batch(s, a, zeros, zeros, s, imitation=zeros + 1, blamed=takeovers(zeros, 2, 1)))
    assert state.anchor is not None
    mean, std = state.anchor.person(jnp.eye(2))
    np.testing.assert_allclose(mean[:, 0], [0.8, 0.0], atol=0.2)
    assert float(std[0, 0]) < 0.2 and 0.6 < float(std[1, 0]) < 1.0  # 0.8 is that of a fair coin
    first, second = np.asarray(jax.nn.softplus(state.anchor.multiplier(jnp.eye(2))))
    assert second < first, "where they do now this, now that, the multiplier falls"
    assert float(state.actor.mode(jnp.eye(2))[0, 0]) == pytest.approx(0.8, abs=0.2)
    assert set(info) >= {"anchor/person_loss", "anchor/distance", "anchor/multiplier"}


def test_without_help_nothing_of_it_is_there() -> None:
    state = jax.eval_shape(partial(SAC(CONFIG, 5, 2).init, 0))
    assert state.anchor is None

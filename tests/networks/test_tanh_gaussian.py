"""The squashed Gaussian: its density is one, exact far out, and its bounds hold."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.networks.mlp import LARGEST_ACTION, Hidden, TanhGaussian, log_one_minus_tanh_squared, squashed_log_prob

KEY = jax.random.PRNGKey(0)
log_prob, sample = jax.jit(TanhGaussian.log_prob), jax.jit(TanhGaussian.sample)
log_prob_of = jax.jit(squashed_log_prob)


@functools.cache
def policy(action_dim: int = 1) -> TanhGaussian:
    return jax.jit(lambda: TanhGaussian(KEY, 3, action_dim, Hidden((8, 8))))()


def with_heads(actor: TanhGaussian, mean: float, log_std: float) -> TanhGaussian:
    """The same mean and log-std whatever is seen."""
    zeros, biases = np.zeros((8, 1), np.float32), np.array([[mean], [log_std]], np.float32)
    return eqx.tree_at(
        lambda a: (a.mean.weight, a.mean.bias, a.log_std.weight, a.log_std.bias), actor, (zeros, biases[0], zeros, biases[1])
    )


def test_log_prob_by_hand() -> None:
    # u = 0.5 of N(0, 1): log N = -0.125 - 0.9189 = -1.0439; tanh(0.5) = 0.46212, log(1 - 0.21355) = -0.24023; sum -0.8037
    value = log_prob_of(np.full((1, 1), 0.5), np.full((1, 1), 0.5), np.zeros((1, 1)))
    assert float(value[0]) == pytest.approx(-0.8037, abs=1e-4)


def test_log_prob_sums_over_the_entries_of_the_action() -> None:
    one = log_prob_of(np.full((1, 1), 0.5), np.full((1, 1), 0.5), np.zeros((1, 1)))
    two = log_prob_of(np.full((1, 2), 0.5), np.full((1, 2), 0.5), np.zeros((1, 2)))
    np.testing.assert_allclose(two, 2 * one, rtol=1e-6)


def test_the_density_integrates_to_one() -> None:
    actor = with_heads(policy(), mean=0.4, log_std=-0.5)
    actions = np.linspace(-1, 1, 20_001, dtype=np.float32)[1:-1, None]
    density = np.exp(log_prob(actor, np.zeros((len(actions), 3), np.float32), actions))
    assert float(density.sum() * 2 / 20_000) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("u", [0.0, 1.0, -3.0, 8.0, 12.0, -30.0, 80.0])
def test_change_of_variables_is_exact_where_the_naive_form_fails(u: float) -> None:
    # in float32 tanh(12) is 1, so log(1 - tanh²) would be -inf; in the limit it is 2 log 2 - 2|u|
    true = np.log1p(-(np.tanh(np.float64(u)) ** 2)) if abs(u) < 5 else 2 * np.log(2) - 2 * abs(u)
    assert float(log_one_minus_tanh_squared(jnp.float32(u))) == pytest.approx(true, rel=1e-5, abs=1e-5)


def test_gradients_far_out_are_finite() -> None:
    gradient = jax.jit(jax.grad(lambda u: squashed_log_prob(u, jnp.zeros((1, 1)), jnp.zeros((1, 1)))[0]))(jnp.array([[60.0]]))
    assert float(gradient[0, 0]) == pytest.approx(2.0)  # -d/du (2 log 2 - 2u)


def test_a_sample_comes_with_the_log_prob_of_its_action() -> None:
    actor = policy(action_dim=2)
    x = jnp.asarray(np.random.default_rng(0).standard_normal((64, 3), dtype=np.float32))
    actions, log_pi = sample(actor, x, KEY)
    assert actions.shape == (64, 2) and log_pi.shape == (64,)
    inside = np.abs(actions).max(1) < 0.999  # atanh of what float32 kept of the action is exact only there
    np.testing.assert_allclose(np.asarray(log_prob(actor, x, actions))[inside], np.asarray(log_pi)[inside], atol=2e-3)


def test_samples_have_the_mean_and_std_of_the_heads() -> None:
    actor = with_heads(policy(), mean=0.3, log_std=float(np.log(0.2)))
    actions, _ = sample(actor, jnp.zeros((20_000, 3)), KEY)
    u = np.arctanh(np.asarray(actions))
    assert u.mean() == pytest.approx(0.3, abs=0.005) and u.std() == pytest.approx(0.2, abs=0.005)
    assert float(actor.mode(jnp.zeros((1, 3)))[0, 0]) == pytest.approx(np.tanh(0.3))


@pytest.mark.parametrize(("wanted", "bounded"), [(50.0, np.log(5.0)), (-50.0, np.log(1e-5))])
def test_the_standard_deviation_is_bounded(wanted: float, bounded: float) -> None:
    _, log_std = with_heads(policy(), mean=0.0, log_std=wanted)(jnp.zeros((1, 3)))
    assert float(log_std[0, 0]) == pytest.approx(bounded, rel=1e-5)


@pytest.mark.parametrize("std", [0.1, 1.0])
def test_the_log_prob_of_an_action_at_the_bound_is_that_of_the_largest_action(std: float) -> None:
    """In float64: u = atanh of the largest action, log N(u; 0.2, std) - log(1 - tanh² u)."""
    actor = with_heads(policy(), mean=0.2, log_std=float(np.log(std)))
    for sign in (1.0, -1.0):
        u = np.arctanh(np.float64(sign * LARGEST_ACTION))
        expected = -0.5 * ((u - 0.2) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi) - np.log1p(-(np.float64(LARGEST_ACTION) ** 2))
        value = log_prob(actor, jnp.zeros((1, 3)), jnp.array([[sign]]))
        assert float(value[0]) == pytest.approx(expected, rel=1e-5)

"""A Gaussian whose spread cannot break, and its formulas against SciPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tandem.networks import gaussian
from tandem.networks.gaussian import Gaussian, StdType, raw_of_std, smooth_clip, std_of_raw
from tandem.networks.mlp import Hidden

TYPES: list[StdType] = ["scalar", "log", "state"]
RANGE = (0.01, 10.0)


@pytest.mark.parametrize("std_type", TYPES)
def test_no_learned_number_gives_an_invalid_std(std_type: StdType) -> None:
    raw = jnp.array([-np.inf, -1e38, -1e6, -100, -5, -1, 0, 1, 5, 100, 1e6, 1e38, np.inf], jnp.float32)
    std = std_of_raw(raw, std_type, RANGE)
    assert np.isfinite(std).all() and (std > 0).all()
    assert float(std.min()) >= RANGE[0] * 0.999 and float(std.max()) <= RANGE[1] * 1.001
    assert (np.diff(std) >= 0).all()


@pytest.mark.parametrize("std_type", TYPES)
@pytest.mark.parametrize("std", [0.02, 0.1, 0.5, 1.0, 5.0, 9.0])
def test_the_std_starts_as_configured(std_type: StdType, std: float) -> None:
    assert float(std_of_raw(jnp.float32(raw_of_std(std, std_type, RANGE)), std_type, RANGE)) == pytest.approx(std, rel=1e-5)


def test_a_std_near_its_lower_bound_can_grow_again() -> None:
    """With a clamp the slope below the floor is 0 and the number stays where it is."""
    slope = jax.grad(lambda raw: std_of_raw(raw, "scalar", RANGE))
    assert all(float(slope(jnp.float32(raw))) > 1e-3 for raw in (-0.5, -0.1, 0.0, 0.01))
    raw = jnp.float32(-0.3)
    for _ in range(200):  # towards a spread of 0.5
        raw = raw - 0.5 * jax.grad(lambda raw: (std_of_raw(raw, "scalar", RANGE) - 0.5) ** 2)(raw)
    assert float(std_of_raw(raw, "scalar", RANGE)) == pytest.approx(0.5, abs=0.01)


def test_between_the_bounds_the_learned_number_is_the_std() -> None:
    x = jnp.linspace(1.0, 9.0, 17)
    np.testing.assert_allclose(smooth_clip(x, 0.01, 10.0, 0.1), x, atol=1e-4)


@pytest.mark.parametrize("std_type", TYPES)
def test_the_std_starts_equal_for_all_observations(std_type: StdType) -> None:
    policy = Gaussian(jax.random.PRNGKey(0), 5, 3, Hidden((8, 8), "elu", layer_norm=False, init="torch"), std_type=std_type, init_std=0.7)
    mean, std = policy(jax.random.normal(jax.random.PRNGKey(1), (20, 5)))
    assert mean.shape == std.shape == (20, 3)
    np.testing.assert_allclose(std, 0.7, rtol=1e-5)


def test_formulas_agree_with_scipy() -> None:
    random = np.random.default_rng(0)
    actions, mean, old_mean = jnp.asarray(random.standard_normal((3, 50, 4)), jnp.float32)
    std, old_std = jnp.asarray(random.uniform(0.3, 2.0, (2, 50, 4)), jnp.float32)
    expected = (scipy.stats.norm.logpdf(actions, mean, std) - scipy.stats.norm.logpdf(actions, old_mean, old_std)).sum(1)
    np.testing.assert_allclose(gaussian.log_ratio(actions, old_mean, old_std, mean, std), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gaussian.entropy(std), scipy.stats.norm.entropy(mean, std).sum(1), rtol=1e-5, atol=1e-5)
    # KL(old || new) = Σ log(σ/σ_old) + (σ_old² + (μ_old - μ)²) / 2σ² - 1/2
    expected = (np.log(std / old_std) + (old_std**2 + (old_mean - mean) ** 2) / (2 * std**2) - 0.5).sum(1)
    np.testing.assert_allclose(gaussian.kl(old_mean, old_std, mean, std), expected, rtol=1e-4, atol=1e-4)


def test_ratio_and_kl_are_exact_if_nothing_has_changed() -> None:
    random = np.random.default_rng(1)
    mean, noise = jnp.asarray(random.standard_normal((2, 1000, 6)), jnp.float32)
    std = jnp.asarray(random.uniform(0.01, 9, (1000, 6)), jnp.float32)
    actions = mean + std * noise
    assert (gaussian.log_ratio(actions, mean, std, mean, std) == 0).all()
    assert (gaussian.kl(mean, std, mean, std) == 0).all()
    assert (gaussian.kl(mean, std, mean + 1e-3, std * 1.01) > 0).all()


def test_the_gradient_of_the_ratio_is_that_of_the_log_density() -> None:
    """At equal arguments: (a - μ) / σ² for the mean, ((a - μ)² / σ² - 1) / σ for the std."""
    a, mean, std = jnp.array([[0.7, -1.0]]), jnp.array([[0.2, 0.5]]), jnp.array([[0.5, 2.0]])
    slopes = jax.grad(lambda m, s: gaussian.log_ratio(a, mean, std, m, s).sum(), argnums=(0, 1))(mean, std)
    np.testing.assert_allclose(slopes[0], (a - mean) / std**2, rtol=1e-5)
    np.testing.assert_allclose(slopes[1], ((a - mean) ** 2 / std**2 - 1) / std, rtol=1e-5, atol=1e-6)


def test_a_column_is_refused_as_a_row() -> None:
    with pytest.raises(AssertionError):
        gaussian.log_ratio(jnp.zeros((4, 1)), *[jnp.ones((4, 3))] * 4)

"""What an actor computes is what the learner trained."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.agents.sac import policy_parameters
from tandem.errors import SpecMismatch
from tandem.networks import numpy_policy
from tandem.networks.mlp import ACTIVATIONS, Hidden, TanhGaussian
from tandem.networks.numpy_policy import NumpyPolicy

X = np.clip(3 * np.random.default_rng(0).standard_normal((128, 11), dtype=np.float32), -5, 5)


def actor(activation: str = "tanh", layer_norm: bool = True) -> TanhGaussian:
    """One whose every parameter has some size, as after training."""
    made = jax.eval_shape(lambda: TanhGaussian(jax.random.PRNGKey(0), 11, 4, Hidden((32, 16), activation, layer_norm)))
    noise = np.random.default_rng(1)
    return jax.tree.map(lambda a: (noise.standard_normal(a.shape) * 0.3 + (a.ndim == 1)).astype(np.float32), made)


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_the_numpy_forward_equals_the_jax_forward(activation: str, layer_norm: bool) -> None:
    learned = actor(activation, layer_norm)
    acting = NumpyPolicy(policy_parameters(learned))
    mean, log_std, mode = jax.jit(lambda actor: (*actor(X), actor.mode(X)))(learned)
    ours = acting.gaussian(X)
    np.testing.assert_allclose(acting.mode(X), mode, atol=1e-5)
    np.testing.assert_allclose(ours[0], mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.log(ours[1]), log_std, rtol=1e-5, atol=1e-5)


def test_samples_have_the_mean_and_std_of_the_gaussian() -> None:
    acting = NumpyPolicy(policy_parameters(actor()))
    mean, std = acting.gaussian(X[0])
    drawn = acting.sample(np.repeat(X[:1], 20_000, axis=0), np.random.default_rng(0))
    # quantiles pass through tanh: the median is tanh(mean), and 15.87 % lie below tanh(mean - std)
    np.testing.assert_allclose(np.median(drawn, axis=0), np.tanh(mean), atol=0.03)
    np.testing.assert_allclose((drawn < np.tanh(mean - std)).mean(0), 0.1587, atol=0.012)


def test_one_observation_or_many_float32_throughout() -> None:
    acting = NumpyPolicy(policy_parameters(actor()))
    assert acting.observation_dim == 11 and acting.action_dim == 4
    assert acting.mode(X[0]).shape == (4,) and acting.mode(X.reshape(2, 64, 11)).shape == (2, 64, 4)
    np.testing.assert_allclose(acting.mode(X)[0], acting.mode(X[0]), atol=1e-6)
    assert acting.mode(X).dtype == acting.sample(X, np.random.default_rng(0)).dtype == np.float32


def test_the_same_stream_draws_the_same_actions() -> None:
    acting = NumpyPolicy(policy_parameters(actor()))
    assert (acting.sample(X, np.random.default_rng(3)) == acting.sample(X, np.random.default_rng(3))).all()


def test_the_wrong_observation_is_refused_with_both_sizes() -> None:
    with pytest.raises(SpecMismatch, match=r"11 numbers.*\(128, 10\)"):
        NumpyPolicy(policy_parameters(actor())).mode(X[:, :10])


def test_parameters_that_are_not_a_policy_are_refused_by_name() -> None:
    parameters = policy_parameters(actor())
    del parameters["mean/weight"]
    with pytest.raises(SpecMismatch, match="mean/weight"):
        NumpyPolicy(parameters)


def test_both_lists_of_activations_have_one_order() -> None:
    x = np.linspace(-100, 100, 1001, dtype=np.float32)
    for ours, theirs in zip(numpy_policy.ACTIVATIONS, ACTIVATIONS.values(), strict=True):
        np.testing.assert_allclose(ours(x), theirs(jnp.asarray(x)), rtol=1e-5, atol=1e-6)


def test_acting_does_not_import_jax() -> None:
    code = "import sys, tandem.networks.numpy_policy; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

"""Layers: what they compute, and that the gradients written by hand are the true ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.networks.mlp import ACTIVATIONS, MLP, Dense, Hidden, affine, drop, layer_norm

KEY = jax.random.PRNGKey(0)


forward = jax.jit(MLP.__call__)


def made(**settings) -> MLP:
    return jax.jit(lambda: MLP(KEY, 4, Hidden((8, 6), **settings)))()


def numbers(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def test_affine_is_x_times_w_plus_b() -> None:
    # 1*2 + 4*3 + 10 = 24
    assert affine(jnp.array([[1.0, 4.0]]), jnp.array([[2.0], [3.0]]), jnp.array([10.0])).tolist() == [[24.0]]


def test_dense_starts_with_xavier_uniform_weights_and_no_bias() -> None:
    dense = jax.jit(lambda: Dense(KEY, 100, 200))()
    limit = np.sqrt(6 / (100 + 200))  # 0.1414
    assert np.abs(dense.weight).max() == pytest.approx(limit, rel=1e-3)
    assert np.asarray(dense.weight).std() == pytest.approx(limit / np.sqrt(3), rel=0.02)  # of a uniform distribution
    assert not np.asarray(dense.bias).any()


def test_layer_norm_by_hand() -> None:
    # row [1, 3]: mean 2, deviations -1 and 1, variance 1; then gain (2, 5) and shift (0, 1)
    row = jax.jit(layer_norm)(jnp.array([[1.0, 3.0]]), jnp.array([2.0, 5.0]), jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(row, [[-2.0, 6.0]], rtol=1e-5)


def test_layer_norm_keeps_its_precision_far_from_zero() -> None:
    # mean(x²) - mean(x)² would lose all digits of the variance here
    row = jax.jit(layer_norm)(jnp.array([[10_000.0, 10_002.0]]), jnp.ones(2), jnp.zeros(2))
    np.testing.assert_allclose(row, [[-1.0, 1.0]], rtol=1e-5)


def plain_affine(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    return x @ weight + bias


def plain_layer_norm(x: jax.Array, gain: jax.Array, shift: jax.Array) -> jax.Array:
    return (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-6) * gain + shift


@pytest.mark.parametrize("outputs", [3, 9])  # fewer and more than inputs: two ways to the same gradient
def test_gradients_of_affine_are_those_of_autodiff(outputs: int) -> None:
    arguments = numbers(5, 6), numbers(6, outputs, seed=1), numbers(outputs, seed=2)
    weights = numbers(5, outputs, seed=3)

    def gradients(function):
        return jax.jit(jax.grad(lambda *a: (weights * jnp.sin(function(*a))).sum(), argnums=(0, 1, 2)))(*arguments)

    for ours, true in zip(gradients(affine), gradients(plain_affine), strict=True):
        np.testing.assert_allclose(ours, true, rtol=1e-5, atol=1e-6)


def test_gradients_of_layer_norm_are_those_of_autodiff() -> None:
    arguments = 3 * numbers(5, 8) + 1, numbers(8, seed=1), numbers(8, seed=2)
    weights = numbers(5, 8, seed=3)

    def gradients(function):
        return jax.jit(jax.grad(lambda *a: (weights * jnp.tanh(function(*a))).sum(), argnums=(0, 1, 2)))(*arguments)

    for ours, true in zip(gradients(layer_norm), gradients(plain_layer_norm), strict=True):
        np.testing.assert_allclose(ours, true, rtol=1e-4, atol=1e-5)


def test_mlp_is_dense_then_norm_then_activation_and_the_last_layer_is_active_too() -> None:
    mlp = made(activation="tanh")
    x = np.asarray(numbers(3, 4))
    for dense, norm in zip(mlp.layers, mlp.norms, strict=True):
        x = x @ np.asarray(dense.weight) + np.asarray(dense.bias)
        x = np.tanh((x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True) * np.asarray(norm.gain) + np.asarray(norm.shift))
    np.testing.assert_allclose(forward(mlp, numbers(3, 4)), x, rtol=1e-4, atol=1e-5)


def test_mlp_without_norm_has_no_norm_parameters() -> None:
    mlp = made(activation="relu", layer_norm=False)
    assert mlp.norms == ()
    assert float(forward(mlp, numbers(3, 4)).min()) == 0.0  # relu


def test_dropout_drops_its_share_keeps_the_mean_and_is_off_without_a_key() -> None:
    dropped = np.asarray(jax.jit(lambda: drop(jnp.ones((200, 100)), 0.25, KEY))())
    # survivors are 1 / 0.75
    assert set(np.unique(dropped).tolist()) == {0.0, float(np.float32(1 / 0.75))}
    assert float((dropped == 0).mean()) == pytest.approx(0.25, abs=0.01)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.015)
    mlp = made(dropout=0.5)
    assert (forward(mlp, numbers(3, 4)) == forward(mlp, numbers(3, 4))).all()
    assert (forward(mlp, numbers(3, 4), KEY) != forward(mlp, numbers(3, 4), jax.random.PRNGKey(1))).any()


def test_elu_and_its_gradient_are_those_of_the_textbook() -> None:
    x = jnp.concatenate([jnp.linspace(-100, 100, 2001), jnp.array([-1e-4, 0.0, 1e-4, -1e30, 1e30])])
    np.testing.assert_allclose(ACTIVATIONS["elu"](x), jax.nn.elu(x), rtol=1e-6, atol=1e-7)
    ours, theirs = (jax.vmap(jax.grad(f))(x) for f in (ACTIVATIONS["elu"], jax.nn.elu))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


def test_orthogonal_weights_keep_lengths_times_the_gain() -> None:
    weight = np.asarray(Dense(jax.random.PRNGKey(0), 48, 16, init="orthogonal", gain=0.01).weight)
    np.testing.assert_allclose(weight.T @ weight, 1e-4 * np.eye(16), atol=1e-9)
    trunk = MLP(jax.random.PRNGKey(0), 48, Hidden((32, 16), layer_norm=False, init="orthogonal"))
    for layer in trunk.layers:
        w = np.asarray(layer.weight)
        np.testing.assert_allclose(w.T @ w, 2 * np.eye(w.shape[1]), atol=1e-5)


def test_torch_weights_and_biases_are_uniform_by_the_number_of_inputs() -> None:
    layer = Dense(jax.random.PRNGKey(0), 100, 400, init="torch")
    for values in (layer.weight, layer.bias):  # within ±1/√100, with the std of a uniform: 0.1/√3
        assert 0.095 < float(jnp.abs(values).max()) <= 0.1
        assert float(values.std()) == pytest.approx(0.1 / np.sqrt(3), rel=0.06)

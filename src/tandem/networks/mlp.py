"""Dense layers with optional dropout and LayerNorm; inputs are `(batch, features)`.

The gradients of the two inner functions are written out by hand: they are the ones of the textbook, put so that
XLA's CPU backend computes them well (a quarter of the time of an update, measured with `benchmarks/learner.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import optimization_barrier


@jax.custom_vjp
def elu(x: Array) -> Array:
    """x where it is positive, exp(x) - 1 elsewhere. `expm1` would be exact near 0 too, but takes XLA's CPU backend twice the time."""
    return jnp.where(x > 0, x, jnp.exp(jnp.minimum(x, 0)) - 1)


def _elu_forward(x: Array) -> tuple[Array, Array]:
    y = elu(x)
    return y, y


def _elu_backward(y: Array, g: Array) -> tuple[Array]:
    return (jnp.where(y > 0, g, g * (y + 1)),)  # the slope is exp(x) = y + 1: nothing to compute again


elu.defvjp(_elu_forward, _elu_backward)

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu, "swish": jax.nn.swish, "elu": elu}
"""By the names of a configuration. `numpy_policy.ACTIVATIONS` has the same order."""
LAYER_NORM_EPSILON = 1e-6
Init = Literal["xavier", "orthogonal", "torch"]
"""How weights begin: uniform by Xavier's rule, orthogonal, or as PyTorch's `nn.Linear` does (biases too)."""


class Dense(eqx.Module):
    """x W + b. Biases begin at 0, but for `torch`; `gain` scales orthogonal weights."""

    weight: Array  # (inputs, outputs)
    bias: Array  # (outputs,)

    def __init__(self, key: Array, inputs: int, outputs: int, *, init: Init = "xavier", gain: float = 1.0):
        self.bias = jnp.zeros(outputs)
        if init == "torch":
            bound = 1 / np.sqrt(inputs)
            weight_key, bias_key = jax.random.split(key)
            self.weight = jax.random.uniform(weight_key, (inputs, outputs), minval=-bound, maxval=bound)
            self.bias = jax.random.uniform(bias_key, (outputs,), minval=-bound, maxval=bound)
        elif init == "orthogonal":
            self.weight = jax.nn.initializers.orthogonal(gain)(key, (inputs, outputs))
        else:
            self.weight = jax.nn.initializers.xavier_uniform()(key, (inputs, outputs))

    def __call__(self, x: Array) -> Array:
        return affine(x, self.weight, self.bias)


class LayerNorm(eqx.Module):
    """Each row to mean 0 and variance 1, then a learned gain and shift."""

    gain: Array  # (features,)
    shift: Array  # (features,)

    def __init__(self, features: int):
        self.gain = jnp.ones(features)
        self.shift = jnp.zeros(features)

    def __call__(self, x: Array) -> Array:
        return layer_norm(x, self.gain, self.shift)


class MLP(eqx.Module):
    """Dense, dropout, LayerNorm, activation; as often as there are hidden sizes."""

    layers: tuple[Dense, ...]
    norms: tuple[LayerNorm, ...]  # one per layer, or none at all
    activation: str = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        inputs: int,
        hidden: Sequence[int],
        *,
        activation: str = "tanh",
        layer_norm: bool = True,
        dropout: float = 0.0,
        init: Init = "xavier",
    ):
        keys = jax.random.split(key, len(hidden))
        sizes = zip(keys, (inputs, *hidden[:-1]), hidden, strict=True)
        self.layers = tuple(Dense(k, i, o, init=init, gain=np.sqrt(2)) for k, i, o in sizes)
        self.norms = tuple(LayerNorm(features) for features in hidden) if layer_norm else ()
        self.activation = activation
        self.dropout = dropout

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        """The last hidden layer, `(batch, hidden[-1])`. Without a key nothing is dropped."""
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if self.dropout and key is not None:
                x = drop(x, self.dropout, jax.random.fold_in(key, i))
            if self.norms:
                x = self.norms[i](x)
            x = ACTIVATIONS[self.activation](x)
        return x


def drop(x: Array, rate: float, key: Array) -> Array:
    """Each entry is 0 with probability `rate`; the others grow so that the mean stays."""
    kept = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(kept, x / (1 - rate), 0)


@jax.custom_vjp
def affine(x: Array, weight: Array, bias: Array) -> Array:
    return x @ weight + bias


def _affine_forward(x: Array, weight: Array, bias: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ weight + bias, (x, weight)


def _affine_backward(saved: tuple[Array, Array], g: Array) -> tuple[Array, Array, Array]:
    x, weight = saved
    g = optimization_barrier(g)  # computed once, not again inside each of its three readers
    # Of the two the smaller is transposed. The barrier keeps XLA from turning the second product round into one it computes slowly.
    g_weight = _transposed(x) @ g if weight.shape[0] <= weight.shape[1] else optimization_barrier(_transposed(g) @ x).T
    return g @ weight.T, g_weight, _column_sums(g)


affine.defvjp(_affine_forward, _affine_backward)


@jax.custom_vjp
def layer_norm(x: Array, gain: Array, shift: Array) -> Array:
    return _layer_norm_forward(x, gain, shift)[0]


def _layer_norm_forward(x: Array, gain: Array, shift: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    centred = x - x.mean(axis=1, keepdims=True)
    inverse_std = jax.lax.rsqrt((centred * centred).mean(axis=1, keepdims=True) + LAYER_NORM_EPSILON)
    normal = centred * inverse_std
    return normal * gain + shift, (normal, inverse_std, gain)


def _layer_norm_backward(saved: tuple[Array, Array, Array], g: Array) -> tuple[Array, Array, Array]:
    normal, inverse_std, gain = saved
    features = normal.shape[1]
    # The four sums below are products with `gain` or ones: each reads its input once and writes next to nothing.
    g, g_normal = optimization_barrier((g, g * normal))
    mean_g = (g @ gain)[:, None] / features
    mean_g_normal = (g_normal @ gain)[:, None] / features
    g_x = inverse_std * (g * gain - mean_g - normal * mean_g_normal)
    return g_x, _column_sums(g_normal), _column_sums(g)


layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)


def _transposed(x: Array) -> Array:
    # On a CPU, XLA gives A @ B and A @ B.T to its fast library, but not A.T @ B: a transpose that is written out is cheaper.
    return optimization_barrier(x.T) if jax.default_backend() == "cpu" else x.T


def _column_sums(x: Array) -> Array:
    return jnp.ones(x.shape[0]) @ x

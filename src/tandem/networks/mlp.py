"""Dense networks: layers, MLPs, and the heads on them: values, ensembles of values, SAC's policy. Inputs are `(batch, features)`.

The gradients of `elu`, `affine` and `layer_norm` are written out by hand, in a form that XLA's CPU backend computes fast (a quarter of the
time of an update, measured with `benchmarks/learner.py`). All choices made for a CPU are in this file. On other backends (`on_cpu`) XLA
fuses what it likes, sums are sums, and the members of an ensemble are computed together; the gradients are the same mathematics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import optimization_barrier

UNROLLED = 4
"""Up to this many critic updates are unrolled (4 % faster on a CPU); more of them are a loop (compiles faster)."""


def on_cpu() -> bool:
    """Whether a CPU computes, so that the choices below are made for it."""
    return jax.default_backend() == "cpu"


def barrier(arrays: Any) -> Any:
    """On a CPU, keeps XLA from computing these arrays again wherever they are used; a GPU does better when XLA fuses what it likes."""
    return optimization_barrier(arrays) if on_cpu() else arrays


@jax.custom_vjp
def elu(x: Array) -> Array:
    """x where it is positive, exp(x) - 1 elsewhere. `expm1` would be exact near 0, but takes XLA's CPU backend twice the time."""
    return jnp.where(x > 0, x, jnp.exp(jnp.minimum(x, 0)) - 1)


def _elu_forward(x: Array) -> tuple[Array, Array]:
    y = elu(x)
    return y, y


def _elu_backward(y: Array, g: Array) -> tuple[Array]:
    return (jnp.where(y > 0, g, g * (y + 1)),)  # the slope is exp(x) = y + 1, known from the forward pass


elu.defvjp(_elu_forward, _elu_backward)

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu, "swish": jax.nn.swish, "elu": elu}
"""By their names in a configuration. `numpy_policy.ACTIVATIONS` has the same order."""
LAYER_NORM_EPSILON = 1e-6
LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
LARGEST_ACTION = 1 - 2**-20
"""Larger actions are clipped to this one: exactly 1 is tanh of infinity. The number is exact in float32, or its atanh would not be."""
Init = Literal["xavier", "orthogonal", "torch"]
"""Initialisation of weights: Xavier uniform, orthogonal, or that of PyTorch's `nn.Linear` (biases too)."""


class Dense(eqx.Module):
    """x W + b. Biases start at 0, except with `torch`; `gain` scales orthogonal weights."""

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
    """Each row normalised to mean 0 and variance 1, then scaled and shifted by learned numbers."""

    gain: Array  # (features,)
    shift: Array  # (features,)

    def __init__(self, features: int):
        self.gain = jnp.ones(features)
        self.shift = jnp.zeros(features)

    def __call__(self, x: Array) -> Array:
        return layer_norm(x, self.gain, self.shift)


@dataclass(frozen=True)
class Hidden:
    """The hidden layers of a network, for `MLP` to make."""

    units: Sequence[int]
    activation: str = "tanh"
    layer_norm: bool = True
    dropout: float = 0.0
    init: Init = "xavier"


class MLP(eqx.Module):
    """Dense, dropout, LayerNorm, activation, once per hidden layer."""

    layers: tuple[Dense, ...]
    norms: tuple[LayerNorm, ...]  # one per layer, or empty
    activation: str = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(self, key: Array, inputs: int, hidden: Hidden):
        keys = jax.random.split(key, len(hidden.units))
        sizes = zip(keys, (inputs, *hidden.units[:-1]), hidden.units, strict=True)
        self.layers = tuple(Dense(k, i, o, init=hidden.init, gain=np.sqrt(2)) for k, i, o in sizes)
        self.norms = tuple(LayerNorm(features) for features in hidden.units) if hidden.layer_norm else ()
        self.activation = hidden.activation
        self.dropout = hidden.dropout

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        """Output of the last hidden layer, `(batch, hidden[-1])`. Without a key there is no dropout."""
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if self.dropout and key is not None:
                x = drop(x, self.dropout, jax.random.fold_in(key, i))
            if self.norms:
                x = self.norms[i](x)
            x = ACTIVATIONS[self.activation](x)
        return x


class Regressor(eqx.Module):
    """An MLP with a linear head of one output: a value network."""

    trunk: MLP
    head: Dense

    def __init__(self, key: Array, inputs: int, hidden: Hidden):
        trunk_key, head_key = jax.random.split(key)
        self.trunk = MLP(trunk_key, inputs, hidden)
        self.head = Dense(head_key, hidden.units[-1], 1, init=hidden.init)

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        return self.head(self.trunk(x, key))[:, 0]


class Ensemble(eqx.Module):
    """Independent regressors: each has its own initial weights, trunk and head."""

    members: Regressor  # every array with one more axis in front: (members, ...)

    def __init__(self, key: Array, size: int, inputs: int, hidden: Hidden):
        self.members = jax.vmap(lambda key: Regressor(key, inputs, hidden))(jax.random.split(key, size))

    @property
    def size(self) -> int:
        return self.members.head.bias.shape[0]

    @property
    def values(self) -> Ensemble:
        """The critics themselves, without eyes (`heads.Seeing`); here there are none."""
        return self

    def see(self, vector: Array, features: Mapping[str, Array]) -> Array:
        """Its input: without cameras the vector alone."""
        del features
        return vector

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        """Outputs of all members, `(members, batch)`."""
        keys = None if key is None else jax.random.split(key, self.size)
        if not on_cpu():  # a few large products for a GPU, which the products of one member leave idle
            return jax.vmap(lambda member, key: member(x, key))(self.members, keys)
        # Stored together, computed one by one: on a CPU each thread takes a member. A `vmap` here costs 7 % of an update.
        arrays, structure = jax.tree.flatten(self.members)
        members = [structure.unflatten(each) for each in zip(*map(jnp.unstack, arrays), strict=True)]
        keys = [None] * self.size if keys is None else keys
        return jnp.stack([member(x, k) for member, k in zip(members, keys, strict=True)])

    def subset(self, indices: Array) -> Ensemble:
        """An ensemble of these members alone; the others are not computed."""
        return jax.tree.map(lambda array: array[indices], self)


class TanhGaussian(eqx.Module):
    """A distribution over actions in (-1, 1): a = tanh(u), u ~ N(mean(x), std(x)); `std_range` bounds std."""

    trunk: MLP
    mean: Dense
    log_std: Dense
    std_range: tuple[float, float] = eqx.field(static=True)

    def __init__(self, key: Array, inputs: int, action_dim: int, hidden: Hidden, std_range: tuple[float, float] = (1e-5, 5.0)):
        trunk_key, mean_key, std_key = jax.random.split(key, 3)
        self.trunk = MLP(trunk_key, inputs, hidden)
        self.mean = Dense(mean_key, hidden.units[-1], action_dim)
        self.log_std = Dense(std_key, hidden.units[-1], action_dim)
        self.std_range = std_range

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Mean and log-std of the Gaussian, `(batch, action_dim)` each."""
        h = self.trunk(x)
        low, high = np.log(self.std_range)
        return self.mean(h), jnp.clip(self.log_std(h), low, high)

    def sample(self, x: Array, key: Array) -> tuple[Array, Array]:
        """Actions `(batch, action_dim)`, differentiable in the parameters, and their log-probabilities `(batch,)`."""
        mean, log_std = self(x)
        noise = jax.random.normal(key, mean.shape)
        u = mean + jnp.exp(log_std) * noise
        return jnp.tanh(u), squashed_log_prob(u, noise, log_std)

    def log_prob(self, x: Array, actions: Array) -> Array:
        """Log-density of given actions, `(batch,)`."""
        mean, log_std = self(x)
        u = jnp.arctanh(jnp.clip(actions, -LARGEST_ACTION, LARGEST_ACTION))
        return squashed_log_prob(u, (u - mean) / jnp.exp(log_std), log_std)

    def mode(self, x: Array) -> Array:
        """The squashed mean: the action without exploration."""
        return jnp.tanh(self(x)[0])


def squashed_log_prob(u: Array, noise: Array, log_std: Array) -> Array:
    """log π(tanh u) = Σᵢ log N(uᵢ) - log(1 - tanh² uᵢ), for u = mean + std · noise."""
    assert u.shape == noise.shape == log_std.shape, (u.shape, noise.shape, log_std.shape)
    gaussian = -0.5 * noise**2 - log_std - LOG_SQRT_2PI
    return (gaussian - log_one_minus_tanh_squared(u)).sum(axis=-1)


def log_one_minus_tanh_squared(u: Array) -> Array:
    """log(1 - tanh² u) = 2 (log 2 - u - softplus(-2u)): exact where 1 - tanh² u itself would round to 0 (|u| > 9)."""
    return 2 * (np.log(2) - u - jax.nn.softplus(-2 * u))


def drop(x: Array, rate: float, key: Array) -> Array:
    """Dropout: each entry is 0 with probability `rate`; the others are scaled up so that the mean stays."""
    kept = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(kept, x / (1 - rate), 0)


@jax.custom_vjp
def affine(x: Array, weight: Array, bias: Array) -> Array:
    """x W + b."""
    return x @ weight + bias


def _affine_forward(x: Array, weight: Array, bias: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ weight + bias, (x, weight)


def _affine_backward(saved: tuple[Array, Array], g: Array) -> tuple[Array, Array, Array]:
    x, weight = saved
    g = barrier(g)  # computed once, not again inside each of the three products
    # The smaller of the two is transposed. The barrier keeps XLA from rewriting the second product into a slower one.
    g_weight = _transposed(x) @ g if weight.shape[0] <= weight.shape[1] else barrier(_transposed(g) @ x).T
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
    g, g_normal = barrier((g, g * normal))
    mean_g = _row_sums(g, gain)[:, None] / features
    mean_g_normal = _row_sums(g_normal, gain)[:, None] / features
    g_x = inverse_std * (g * gain - mean_g - normal * mean_g_normal)
    return g_x, _column_sums(g_normal), _column_sums(g)


layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)


def _transposed(x: Array) -> Array:
    # On a CPU, XLA gives A @ B and A @ B.T to its fast library, but not A.T @ B: an explicit transpose is cheaper.
    return barrier(x.T)


def _row_sums(x: Array, weight: Array) -> Array:
    """Sums of x * weight. A CPU reads its input once for a product and writes little; a GPU would round what it multiplies to TF32."""
    return x @ weight if on_cpu() else (x * weight).sum(axis=1)


def _column_sums(x: Array) -> Array:
    return jnp.ones(x.shape[0]) @ x if on_cpu() else x.sum(axis=0)

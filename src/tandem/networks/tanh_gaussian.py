"""A distribution over actions in (-1, 1): a Gaussian with mean and std from a network, squashed by tanh."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tandem.networks.mlp import MLP, Dense

LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
LARGEST_ACTION = 1 - 2**-20
"""Larger actions are clipped to this one: exactly 1 is tanh of infinity. The number is exact in float32, or its atanh would not be."""


class TanhGaussian(eqx.Module):
    """a = tanh(u), u ~ N(mean(x), std(x)); `std_range` bounds std."""

    trunk: MLP
    mean: Dense
    log_std: Dense
    std_range: tuple[float, float] = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        inputs: int,
        action_dim: int,
        hidden: Sequence[int],
        *,
        activation: str = "tanh",
        layer_norm: bool = True,
        std_range: tuple[float, float] = (1e-5, 5.0),
    ):
        trunk_key, mean_key, std_key = jax.random.split(key, 3)
        self.trunk = MLP(trunk_key, inputs, hidden, activation=activation, layer_norm=layer_norm)
        self.mean = Dense(mean_key, hidden[-1], action_dim)
        self.log_std = Dense(std_key, hidden[-1], action_dim)
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

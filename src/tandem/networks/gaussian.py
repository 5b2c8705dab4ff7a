"""A Gaussian over actions whose standard deviation approaches its bounds but never reaches them.

A standard deviation that is learned directly can become negative, and one that is clamped gets no gradient beyond the clamp and stays
there. Here the learned number passes through `smooth_clip`, which is the identity between the bounds and bends towards them at the ends:
for bounds 0.01 and 10 with a softness of 0.1

    learned   -1.0      -0.2     0.1    0.5     1.0    ...   9.0     20
    std       0.010004  0.0216   0.134  0.5007  1.0    ...   9.0     10.0
"""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import optimization_barrier

from tandem.networks.mlp import MLP, Dense, Hidden, affine

LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
SOFTNESS = {"scalar": 0.1, "log": 0.5, "state": 0.5}
"""How far from a bound the bend begins; in units of std for `scalar`, of its logarithm for the others."""
StdType = Literal["scalar", "log", "state"]
"""How the std is learned: one number per action, its logarithm, or a layer that outputs the logarithm for each observation."""


class Gaussian(eqx.Module):
    """N(mean(x), std) with a network for the mean; where an action has choices too, the same hidden layers give their logits."""

    trunk: MLP
    mean: Dense
    raw_std: Array | Dense
    """(action_dim,), or for `state` a layer; `std_of_raw` maps it to the std."""
    choices: Dense | None
    """The logits of all choices of all discrete parts; None where there are none."""
    std_type: StdType = eqx.field(static=True)
    std_range: tuple[float, float] = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        inputs: int,
        action_dim: int,
        hidden: Hidden,
        *,
        init_std: float = 1.0,
        std_type: StdType = "scalar",
        std_range: tuple[float, float] = (0.01, 10.0),
        choices: int = 0,
    ):
        trunk_key, mean_key, std_key = jax.random.split(key, 3)
        self.trunk = MLP(trunk_key, inputs, hidden)
        self.mean = Dense(mean_key, hidden.units[-1], action_dim, init=hidden.init, gain=0.01)  # a mean near 0 at the start (orthogonal)
        self.std_type, self.std_range = std_type, std_range
        raw = jnp.full(action_dim, raw_of_std(init_std, std_type, std_range), jnp.float32)
        head = Dense(std_key, hidden.units[-1], action_dim)
        # the same std for every observation at the start
        self.raw_std = eqx.tree_at(lambda d: (d.weight, d.bias), head, (head.weight * 0, raw)) if std_type == "state" else raw
        self.choices = None
        if choices:
            logits = Dense(jax.random.fold_in(key, 3), hidden.units[-1], choices)
            # every choice is about as likely as the others at the start
            self.choices = eqx.tree_at(lambda d: (d.weight, d.bias), logits, (logits.weight * 0.01, logits.bias * 0))

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Mean and std, `(batch, action_dim)` each."""
        return self.outputs(x)[:2]

    def outputs(self, x: Array) -> tuple[Array, Array, Array | None]:
        """The same, and the logits of all choices, `(batch, choices)`."""
        h = self.trunk(x)
        mean = _rowwise(self.mean, h)
        raw = _rowwise(self.raw_std, h) if isinstance(self.raw_std, Dense) else self.raw_std
        logits = None if self.choices is None else _rowwise(self.choices, h)
        return mean, jnp.broadcast_to(std_of_raw(raw, self.std_type, self.std_range), mean.shape), logits


def _rowwise(layer: Dense, h: Array) -> Array:
    """The layer, computed so that the result of a row does not depend on its position in the batch.

    XLA computes a product with one column by another routine, which rounds the last few rows of a batch differently; for PPO a row must
    give the same bits wherever it is shuffled to. So there are always at least two columns.
    """
    if layer.weight.shape[1] > 1:
        return layer(h)
    weight, bias = optimization_barrier((jnp.repeat(layer.weight, 2, axis=1), jnp.repeat(layer.bias, 2)))
    return affine(h, weight, bias)[:, :1]


def std_of_raw(raw: Array, std_type: StdType, std_range: tuple[float, float]) -> Array:
    low, high = std_range
    if std_type == "scalar":
        return smooth_clip(raw, low, high, SOFTNESS["scalar"])
    return jnp.exp(smooth_clip(raw, np.log(low), np.log(high), SOFTNESS[std_type]))


def raw_of_std(std: float, std_type: StdType, std_range: tuple[float, float]) -> float:
    """The inverse of `std_of_raw`."""
    low, high = (float(bound) for bound in std_range)
    if std_type != "scalar":
        std, low, high = np.log(std), np.log(low), np.log(high)
    softness = SOFTNESS[std_type]
    below_high = low + softness * _inverse_softplus((std - low) / softness)
    return float(high - softness * _inverse_softplus((high - below_high) / softness))


def _inverse_softplus(y: float) -> float:
    return y + np.log(-np.expm1(-y))


def smooth_clip(x: Array, low: float, high: float, softness: float) -> Array:
    """x between the bounds, bending towards them within a few `softness`: the slope fades out, where that of a clamp is 0 at once."""
    below_high = high - softness * jax.nn.softplus((high - x) / softness)
    return low + softness * jax.nn.softplus((below_high - low) / softness)


def log_ratio(actions: Array, old_mean: Array, old_std: Array, mean: Array, std: Array) -> Array:
    """log of new over old density, `(batch,)`.

    Written in differences between old and new, so that it is exactly 0 for equal arguments: the difference of two log-densities is 0 only
    if both happen to be rounded alike.
    """
    assert actions.ndim == 2 and actions.shape == old_mean.shape == old_std.shape == mean.shape == std.shape, (actions.shape, mean.shape)
    z = (actions - old_mean) / old_std
    moved = (z * (old_std - std) - (mean - old_mean)) / std  # new z minus old z
    return -(moved * (z + 0.5 * moved) + jnp.log1p((std - old_std) / old_std)).sum(axis=1)


def entropy(std: Array) -> Array:
    """In nats, `(batch,)`."""
    return (0.5 + LOG_SQRT_2PI + jnp.log(std)).sum(axis=1)


def kl(old_mean: Array, old_std: Array, mean: Array, std: Array) -> Array:
    """KL(old || new) in closed form, `(batch,)`; exactly 0 for equal arguments, for the same reason."""
    assert old_mean.shape == mean.shape == old_std.shape == std.shape, (old_mean.shape, mean.shape, old_std.shape, std.shape)
    wider = (old_std - std) / std
    return (0.5 * wider * (wider + 2) - jnp.log1p(wider) + 0.5 * jnp.square((mean - old_mean) / std)).sum(axis=1)

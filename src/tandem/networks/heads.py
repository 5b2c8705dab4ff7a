"""What is learned of a camera: a small head on the features of a frozen encoder.

    features (8, 8, 32) int8 ─► Dense 64 ─► LayerNorm ─► tanh ─► beside the vector of the other entries

The critic's loss trains the heads, and nothing else does: the actor sees through the same heads, but its loss stops there (Yarats et
al. 2021). There is no target copy of them. Dense layers are what a CPU is fast at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tandem.networks.encoders import FEATURE_SCALE
from tandem.networks.mlp import Dense, LayerNorm

UNITS = 64
"""Numbers that a head makes of a picture."""
Cameras = tuple[tuple[str, int], ...]
"""Name and number of features of each camera."""


class Head(eqx.Module):
    """Features `(batch, height, width, channels)` to `(batch, UNITS)`."""

    dense: Dense
    norm: LayerNorm

    def __init__(self, key: Array, features: int):
        self.dense = Dense(key, features, UNITS)
        self.norm = LayerNorm(UNITS)

    def __call__(self, features: Array) -> Array:
        x = jnp.reshape(jnp.asarray(features), (features.shape[0], -1)).astype(jnp.float32) / FEATURE_SCALE
        return jnp.tanh(self.norm(self.dense(x)))


class Seeing(eqx.Module):
    """A network with eyes: `see` makes its input, `values` is the network."""

    heads: dict[str, Head]
    values: Any

    def __init__(self, heads: dict[str, Head], values: Any):
        self.heads, self.values = heads, values

    def with_values(self, values: Any) -> Seeing:
        """Another network with the same eyes."""
        return Seeing(self.heads, values)

    def see(self, vector: Array, features: Mapping[str, Array]) -> Array:
        """The vector with what the heads say, cameras in the order of their names: `(batch, D + UNITS * cameras)`."""
        return jnp.concatenate([vector, *(self.heads[name](features[name]) for name in sorted(self.heads))], axis=1)

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        return self.values(x, key)


def new_heads(key: Array, cameras: Cameras) -> dict[str, Head]:
    keys = jax.random.split(key, len(cameras))
    return {name: Head(each, features) for each, (name, features) in zip(keys, cameras, strict=True)}

"""An MLP with several outputs: the two networks of random network distillation."""

from __future__ import annotations

import equinox as eqx
import jax
from jax import Array

from tandem.networks.mlp import MLP, Dense, Hidden


class Embedding(eqx.Module):
    """An MLP with a linear head of several outputs."""

    trunk: MLP
    head: Dense

    def __init__(self, key: Array, inputs: int, hidden: Hidden, outputs: int):
        trunk_key, head_key = jax.random.split(key)
        self.trunk = MLP(trunk_key, inputs, hidden)
        self.head = Dense(head_key, hidden.units[-1], outputs, init=hidden.init)

    def __call__(self, x: Array) -> Array:
        return self.head(self.trunk(x))

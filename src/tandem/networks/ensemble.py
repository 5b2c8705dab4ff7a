"""Several networks that answer the same question independently."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tandem.networks.mlp import MLP, Dense, Init


class Regressor(eqx.Module):
    """An MLP with a head of one number."""

    trunk: MLP
    head: Dense

    def __init__(
        self,
        key: Array,
        inputs: int,
        hidden: Sequence[int],
        *,
        activation: str,
        layer_norm: bool = False,
        dropout: float = 0.0,
        init: Init = "xavier",
    ):
        trunk_key, head_key = jax.random.split(key)
        self.trunk = MLP(trunk_key, inputs, hidden, activation=activation, layer_norm=layer_norm, dropout=dropout, init=init)
        self.head = Dense(head_key, hidden[-1], 1, init=init)

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        return self.head(self.trunk(x, key))[:, 0]


class Ensemble(eqx.Module):
    """Regressors that share nothing: each has its own start, its own trunk and its own head."""

    members: Regressor  # every array with one more axis in front: (members, ...)

    def __init__(
        self,
        key: Array,
        size: int,
        inputs: int,
        hidden: Sequence[int],
        *,
        activation: str = "tanh",
        layer_norm: bool = True,
        dropout: float = 0.0,
    ):
        def member(key: Array) -> Regressor:
            return Regressor(key, inputs, hidden, activation=activation, layer_norm=layer_norm, dropout=dropout)

        self.members = jax.vmap(member)(jax.random.split(key, size))

    @property
    def size(self) -> int:
        return self.members.head.bias.shape[0]

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        """Every member's answer, `(members, batch)`."""
        # Stored together, computed one by one: on a CPU, threads take one member each. A `vmap` here costs 7 % of an update.
        arrays, structure = jax.tree.flatten(self.members)
        members = [structure.unflatten(each) for each in zip(*map(jnp.unstack, arrays), strict=True)]
        keys = [None] * self.size if key is None else jax.random.split(key, self.size)
        return jnp.stack([member(x, k) for member, k in zip(members, keys, strict=True)])

    def subset(self, indices: Array) -> Ensemble:
        """Only these members; the others need not be computed."""
        return jax.tree.map(lambda array: array[indices], self)

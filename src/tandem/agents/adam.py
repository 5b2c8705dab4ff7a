"""Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019), and a step that may be refused.

Optax computes the same numbers. Here the moments are finished before the parameters are touched, so that all of it happens in
place; a learner step is 6 % faster for it (`benchmarks/learner.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import optimization_barrier

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
Network = TypeVar("Network")


class AdamState(NamedTuple):
    """What Adam remembers of the gradients."""

    steps: Array
    """() int32"""
    mean: object
    """Like the network: running mean of the gradient."""
    square: object
    """Like the network: running mean of its square."""


@dataclass(frozen=True)
class Adam:
    learning_rate: float | Array
    weight_decay: float = 0.0
    """Above 0: AdamW."""
    epsilon: float = EPSILON

    def init(self, network: object) -> AdamState:
        return AdamState(jnp.int32(0), jax.tree.map(jnp.zeros_like, network), jax.tree.map(jnp.zeros_like, network))

    def step(self, network: Network, state: AdamState, gradient: Network, accept: Array | bool = True) -> tuple[Network, AdamState]:
        """Against the gradient. Where `accept` is False nothing moves, not even the moments."""
        steps = state.steps + jnp.int32(accept)
        mean = jax.tree.map(lambda m, g: jnp.where(accept, BETA_1 * m + (1 - BETA_1) * g, m), state.mean, gradient)
        square = jax.tree.map(lambda v, g: jnp.where(accept, BETA_2 * v + (1 - BETA_2) * g * g, v), state.square, gradient)
        # Without it the new moments are computed a second time inside the next line, from old ones that must be kept for it.
        mean, square = optimization_barrier((mean, square))
        rate = self.learning_rate / (1 - BETA_1**steps)
        root = 1 / jnp.sqrt(1 - BETA_2**steps)

        def moved(p: Array, m: Array, v: Array) -> Array:
            return p - rate * m / (jnp.sqrt(v) * root + self.epsilon) - self.learning_rate * self.weight_decay * p

        network = jax.tree.map(lambda p, m, v: jnp.where(accept, moved(p, m, v), p), network, mean, square)
        return network, AdamState(steps, mean, square)

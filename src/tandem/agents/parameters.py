"""Parameters of networks: moved by Adam, and given away as named arrays (`saved.py` reads them again).

Adam is that of Kingma and Ba (2015), with weight decay AdamW (Loshchilov and Hutter 2019). Optax computes the same numbers. Here the
moments are finished before the parameters are touched, so that all of it happens in place; a learner step is 6 % faster for it
(`benchmarks/learner.py`).

The name of an array is the path of its leaf in the state: `critic/members/trunk/layers/0/weight`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tandem.networks.mlp import barrier

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
Tree = TypeVar("Tree")


class AdamState(NamedTuple):
    """Adam's running moments of the gradient."""

    steps: Array
    """() int32"""
    mean: object
    """Like the network: running mean of the gradient."""
    square: object
    """Like the network: running mean of its square."""


@dataclass(frozen=True)
class Adam:
    """The optimiser: its settings. The moments are in an `AdamState`."""

    learning_rate: float | Array
    weight_decay: float = 0.0
    """Above 0: AdamW."""
    epsilon: float = EPSILON

    def init(self, network: object) -> AdamState:
        return AdamState(jnp.int32(0), jax.tree.map(jnp.zeros_like, network), jax.tree.map(jnp.zeros_like, network))

    def step(self, network: Tree, state: AdamState, gradient: Tree, accept: Array | bool = True) -> tuple[Tree, AdamState]:
        """One step against the gradient. Where `accept` is False nothing changes, not even the moments."""
        steps = state.steps + jnp.int32(accept)
        mean = jax.tree.map(lambda m, g: jnp.where(accept, BETA_1 * m + (1 - BETA_1) * g, m), state.mean, gradient)
        square = jax.tree.map(lambda v, g: jnp.where(accept, BETA_2 * v + (1 - BETA_2) * g * g, v), state.square, gradient)
        # Without the barrier XLA computes the new moments a second time inside the next line, and has to keep the old ones for it.
        mean, square = barrier((mean, square))
        rate = self.learning_rate / (1 - BETA_1**steps)
        root = 1 / jnp.sqrt(1 - BETA_2**steps)

        def moved(p: Array, m: Array, v: Array) -> Array:
            return p - rate * m / (jnp.sqrt(v) * root + self.epsilon) - self.learning_rate * self.weight_decay * p

        network = jax.tree.map(lambda p, m, v: jnp.where(accept, moved(p, m, v), p), network, mean, square)
        return network, AdamState(steps, mean, square)


def norm(tree: object) -> Array:
    """Euclidean norm over all leaves."""
    return jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)))


def to_arrays(tree: object) -> dict[str, np.ndarray]:
    """Copies of all leaves by name. The tree may be donated afterwards."""
    return {name_of(path): np.array(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def name_of(path: tuple) -> str:
    """The name of a leaf, from its path in the tree."""
    return jax.tree_util.keystr(path, simple=True, separator="/")

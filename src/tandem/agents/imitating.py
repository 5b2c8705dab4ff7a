"""Parts of the actor's loss that only matter where people showed what to do."""

from __future__ import annotations

import jax.numpy as jnp

from tandem.types import Array


def imitation_loss(a: Array, shown: Array, weights: Array) -> Array:
    """Squared distance between sampled actions and those that a person chose, by the weight of each row (0: not imitated).

    Sampled actions, not the mode: so the loss also reduces the std where a person showed what to do.
    """
    assert a.shape == shown.shape and weights.shape == a.shape[:1], (a.shape, shown.shape, weights.shape)
    return jnp.mean(weights * jnp.sum((a - shown) ** 2, axis=1))


def own_entropy(log_pi: Array, imitation: Array) -> Array:
    """Mean entropy (nats) over the rows that are not imitated, by the weights of `imitation_loss`; over all where every row is.

    Imitation reduces the std where a person showed what to do. Were these rows counted, the temperature would make up for it where the
    robot acts: with half of a batch at -9 nats the other half has to be at +3 for a mean of -3, which is noise of half the range.
    """
    own = (imitation == 0).astype(log_pi.dtype)
    own = jnp.where(own.any(), own, 1.0)
    return -(log_pi * own).sum() / own.sum()

"""Categorical distributions over the choices of an action: what PPO needs of them, in closed form.

`logits` (batch, total) hold the numbers of all parts beside each other, p = softmax of those of a part. The parts are independent given
the observation, so log-probabilities, entropies and divergences of several parts are sums.

With d = new - old logits of a part and c the one that was chosen:

    log ratio     d_c - log Σ p_old exp(d)                 log Σ p_old exp(d) = log1p(Σ p_old expm1(d))
    KL(old||new)  log Σ p_old exp(d) - Σ p_old d

Written in differences, so that both are exactly 0 for equal logits, as they are for the Gaussian.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from tandem.networks.choices import Choices


def log_ratio(choices: Choices, chosen: Array, old: Array, new: Array) -> Array:
    """log of new over old probability of what was chosen `(batch, parts)`, `(batch,)`."""
    total = jnp.zeros(len(chosen))
    for number, part in enumerate(choices.parts):
        d = new[:, part] - old[:, part]
        taken = jnp.take_along_axis(d, jnp.rint(chosen[:, number : number + 1]).astype(jnp.int32), axis=1)[:, 0]
        total += taken - _log_mean_exp(old[:, part], d)
    return total


def entropy(choices: Choices, logits: Array) -> Array:
    """In nats, `(batch,)`."""
    total = jnp.zeros(len(logits))
    for part in choices.parts:
        log_p = jax.nn.log_softmax(logits[:, part])
        total -= (jnp.exp(log_p) * log_p).sum(axis=1)
    return total


def kl(choices: Choices, old: Array, new: Array) -> Array:
    """KL(old || new), `(batch,)`."""
    total = jnp.zeros(len(old))
    for part in choices.parts:
        d = new[:, part] - old[:, part]
        total += _log_mean_exp(old[:, part], d) - (jax.nn.softmax(old[:, part]) * d).sum(axis=1)
    return total


def _log_mean_exp(old: Array, d: Array) -> Array:
    """log of the mean of exp(d) under the old probabilities."""
    return jnp.log1p((jax.nn.softmax(old) * jnp.expm1(d)).sum(axis=1))


def drawn(choices: Choices, logits: Array, uniform: Array) -> Array:
    """A choice of each part with its probability, by one number of [0, 1) for each, `(batch, parts)`."""
    chosen = []
    for number, part in enumerate(choices.parts):
        reached = jnp.cumsum(jax.nn.softmax(logits[:, part]), axis=1)
        below = (reached <= uniform[:, number, None]).sum(axis=1)
        chosen.append(jnp.minimum(below, reached.shape[1] - 1))
    return jnp.stack(chosen, axis=1)

"""The mathematics of SAC in the symbols of the literature; no networks, no state.

    y    = r + γ · mask · (minᵢ Q'ᵢ(s', a') - α log π(a'|s'))     td_target (the α term with `backup_entropy`)
    y    = max(y, G)                                              where the return G that followed is known (`return_bound`)
    L_Q  = mean over members and batch of (Qᵢ(s, a) - y)²         critic_loss
    L_π  = mean over batch of α log π(ã|s) - meanᵢ Qᵢ(s, ã)       actor_loss
    L_I  = mean over batch of w · |ã - a|²                        imitation_loss (with `imitation`, added to L_π)
    y    = y - what is blamed for a take-over                     `blaming.py` (with `blame`); L_π with `anchor`: `anchoring.py`
    L_α  = α · (H - H_target)                                     temperature_loss

`qs` are always `(members, batch)`, everything else `(batch,)`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def td_target(
    r: Array,
    mask: Array,
    next_qs: Array,
    discount: float,
    *,
    alpha: Array | float = 0.0,
    next_log_pi: Array | None = None,
    return_range: tuple[float, float] | None = None,
    bounds: Array | None = None,
) -> Array:
    """The reward, then the smallest value of the ensemble.

    mask is 0 where the task ended, and 1 elsewhere, at a time-out too. Over k steps r is their discounted sum, and mask has the
    further factor γ^(k - 1), so that the value is discounted by γ^k. With `next_log_pi` the target includes the entropy of the next
    action (Haarnoja et al. 2018), discounted and masked like the value; the entropies between the k steps are left out.

    `bounds` are returns that really followed (Wilcox et al. 2022): what was reached once can be reached, so the target is at least that.
    """
    assert r.ndim == 1 and r.shape == mask.shape == next_qs.shape[1:], (r.shape, mask.shape, next_qs.shape)
    next_v = next_qs.min(axis=0)
    if next_log_pi is not None:
        assert next_log_pi.shape == r.shape, (next_log_pi.shape, r.shape)
        next_v = next_v - alpha * next_log_pi
    y = r + discount * mask * next_v
    if bounds is not None:
        assert bounds.shape == r.shape, (bounds.shape, r.shape)
        y = jnp.maximum(y, bounds)
    return y if return_range is None else jnp.clip(y, *return_range)


def critic_loss(qs: Array, y: Array) -> Array:
    """Mean squared error of every member to the same target."""
    assert y.ndim == 1 and qs.shape[1:] == y.shape, (qs.shape, y.shape)
    return jnp.mean((qs - y) ** 2)


def actor_loss(qs: Array, log_pi: Array, alpha: Array | float) -> Array:
    """High mean value of the ensemble, high entropy."""
    assert log_pi.ndim == 1 and qs.shape[1:] == log_pi.shape, (qs.shape, log_pi.shape)
    return jnp.mean(alpha * log_pi - qs.mean(axis=0))


def temperature_loss(alpha: Array, entropy: Array, target_entropy: float) -> Array:
    """Its gradient raises α while the entropy is below the target, and lowers it otherwise."""
    assert jnp.shape(alpha) == jnp.shape(entropy) == (), (jnp.shape(alpha), jnp.shape(entropy))
    return alpha * (entropy - target_entropy)


def positive(raw: Array) -> Array:
    """α from the learned raw number: softplus keeps it above 0."""
    return jax.nn.softplus(raw)


def raw_of_positive(alpha: float) -> Array:
    """The inverse of `positive`: log(exp(α) - 1)."""
    return jnp.log(jnp.expm1(jnp.float32(alpha)))


def random_subset(key: Array, size: int, of: int) -> Array:
    """`size` different indices below `of`. With replacement a "minimum of two" would sometimes be that of one."""
    assert 0 < size <= of, (size, of)
    return jax.random.permutation(key, of)[:size]

"""The mathematics of PPO in the symbols of the literature; no networks, no state.

L_PPO = mean of max(-A ρ, -A clip(ρ, 1-ε, 1+ε)),  ρ = π(a|s) / π_old(a|s)      clipped_surrogate
L_V   = mean of max((V - R)², (V_old + clip(V - V_old, ±ε) - R)²)              clipped_value_loss
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def clipped_surrogate(log_ratio: Array, advantage: Array, clip: float) -> tuple[Array, Array]:
    """PPO's loss (Schulman et al. 2017): no gain from moving the policy further than `clip`. Also returns the ratios, `(batch,)`."""
    # (batch,) against (batch, 1) would broadcast to (batch, batch) and train on nonsense
    assert log_ratio.ndim == 1 and log_ratio.shape == advantage.shape, (log_ratio.shape, advantage.shape)
    ratio = jnp.exp(log_ratio)
    return jnp.mean(jnp.maximum(-advantage * ratio, -advantage * jnp.clip(ratio, 1 - clip, 1 + clip))), ratio


def clipped_value_loss(v: Array, old_v: Array, returns: Array, clip: float | None) -> Array:
    """Squared error; with `clip` no gain from moving a value further than that from its old value. There is no factor of 1/2."""
    assert v.ndim == 1 and v.shape == old_v.shape == returns.shape, (v.shape, old_v.shape, returns.shape)
    error = jnp.square(v - returns)
    if clip is None:
        return jnp.mean(error)
    return jnp.mean(jnp.maximum(error, jnp.square(old_v + jnp.clip(v - old_v, -clip, clip) - returns)))


def adapted_learning_rate(
    rate: Array, kl: Array, desired_kl: float, *, high: float, low: float, factor: float, bounds: tuple[float, float]
) -> Array:
    """Lower if the policy moved too far, higher if it hardly moved. A KL of exactly 0 means no update yet: no change."""
    slower, faster = jnp.maximum(bounds[0], rate / factor), jnp.minimum(bounds[1], rate * factor)
    return jnp.where(kl > high * desired_kl, slower, jnp.where((kl > 0) & (kl < low * desired_kl), faster, rate))

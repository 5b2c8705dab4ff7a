"""Symmetry for PPO (Mittal et al. 2024): a task whose physics is the same in a mirror.

    augmentation   the loss is the mean over every sample and its mirrored copy
    mirror loss    c · mean |π(M s) - M π(s)|²: the mean action for a mirrored observation approaches the mirrored mean action (no gradient)

M is a signed permutation. The old policy's mean and std are mirrored with the sample, so the old log-probability of a mirrored action is
that of the action itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tandem.agents.packing import Info, PolicyOutputs, Samples
from tandem.agents.ppo_config import PPOConfig

Numbers = TypeVar("Numbers", Array, np.ndarray)


@dataclass(frozen=True)
class Mirror:
    """A signed permutation of the observation vector and one of the action. Entry i is sign(p) times entry |p| - 1, with p = places[i]."""

    observation: tuple[int, ...]
    action: tuple[int, ...]

    def observations(self, x: Numbers) -> Numbers:
        return _mirrored(x, self.observation)

    def actions(self, a: Numbers) -> Numbers:
        return _mirrored(a, self.action)

    def stds(self, std: Numbers) -> Numbers:
        """Standard deviations are permuted, without a change of sign."""
        return std[..., np.abs(self.action) - 1]


def _mirrored(x: Any, places: tuple[int, ...]) -> Any:
    return x[..., np.abs(places) - 1] * np.sign(places).astype(np.float32)


def mirrored(mirror: Mirror, samples: Samples) -> Samples:
    """The mirrored samples: same advantages, returns and old log-probabilities."""
    old = samples.old
    return samples._replace(
        observations=mirror.observations(samples.observations),
        actions=mirror.actions(samples.actions),
        old=old._replace(mean=mirror.actions(old.mean), std=mirror.stds(old.std)),
    )


def mirror_loss(mirror: Mirror, mean: Array, mirrored_mean: Array) -> Array:
    """Squared distance between the mean action for mirrored observations and the mirrored mean action."""
    assert mean.shape == mirrored_mean.shape, (mean.shape, mirrored_mean.shape)
    return jnp.mean(jnp.square(mirrored_mean - jax.lax.stop_gradient(mirror.actions(mean))))


def with_symmetry(
    config: PPOConfig,
    mirror: Mirror,
    samples: Samples,
    forward: Callable[[Array], PolicyOutputs],
    loss_of: Callable[[Samples, PolicyOutputs], tuple[Array, Info]],
) -> tuple[Array, Info]:
    """PPO's loss on these samples, with augmentation and mirror loss. Metrics are those of the original samples."""
    new, other = forward(samples.observations), forward(mirror.observations(samples.observations))
    loss, info = loss_of(samples, new)
    if config.use_data_augmentation:
        loss = 0.5 * (loss + loss_of(mirrored(mirror, samples), other)[0])
    distance = mirror_loss(mirror, new.mean, other.mean)
    if config.use_mirror_loss:
        loss = loss + config.mirror_loss_coeff * distance
    return loss, info | {"Loss/symmetry": distance}

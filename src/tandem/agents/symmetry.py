"""Symmetry for PPO (Mittal et al. 2024): what was learned on one side holds on the other.

    augmentation   every sample counts a second time, in the mirror: the loss is the mean of both
    mirror loss    c · mean |π(M s) - M π(s)|²: the mean action in the mirror is the mirrored one, which is not trained by it

M is a signed permutation. The old policy's mean and spread are mirrored with the sample, so the old log-probability of a mirrored
action is that of the action itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

if TYPE_CHECKING:
    from tandem.agents.ppo import Info, Opinion, PPOConfig, Samples

Numbers = TypeVar("Numbers", Array, np.ndarray)


@dataclass(frozen=True)
class Mirror:
    """Where each number comes from, by signed places that count from 1: of the whole observation vector, and of the action."""

    observation: tuple[int, ...]
    action: tuple[int, ...]

    def observations(self, x: Numbers) -> Numbers:
        return _mirrored(x, self.observation)

    def actions(self, a: Numbers) -> Numbers:
        return _mirrored(a, self.action)

    def spreads(self, std: Numbers) -> Numbers:
        """Standard deviations change places, and never their sign."""
        return std[..., np.abs(self.action) - 1]


def _mirrored(x: Any, places: tuple[int, ...]) -> Any:
    return x[..., np.abs(places) - 1] * np.sign(places).astype(np.float32)


def mirrored(mirror: Mirror, samples: Samples) -> Samples:
    """The same samples in the mirror: as good, and as likely to have been done."""
    old = samples.old
    return samples._replace(
        observations=mirror.observations(samples.observations),
        actions=mirror.actions(samples.actions),
        old=old._replace(mean=mirror.actions(old.mean), std=mirror.spreads(old.std)),
    )


def mirror_loss(mirror: Mirror, mean: Array, mean_in_the_mirror: Array) -> Array:
    """How far the policy in the mirror is from the mirrored policy."""
    assert mean.shape == mean_in_the_mirror.shape, (mean.shape, mean_in_the_mirror.shape)
    return jnp.mean(jnp.square(mean_in_the_mirror - jax.lax.stop_gradient(mirror.actions(mean))))


def with_symmetry(
    config: PPOConfig,
    mirror: Mirror,
    samples: Samples,
    opinion: Callable[[Array], Opinion],
    loss_of: Callable[[Samples, Opinion], tuple[Array, Info]],
) -> tuple[Array, Info]:
    """PPO's loss on these samples with what symmetry adds to it. Metrics are those of the samples themselves."""
    new, other = opinion(samples.observations), opinion(mirror.observations(samples.observations))
    loss, info = loss_of(samples, new)
    if config.use_data_augmentation:
        loss = 0.5 * (loss + loss_of(mirrored(mirror, samples), other)[0])
    apart = mirror_loss(mirror, new.mean, other.mean)
    if config.use_mirror_loss:
        loss = loss + config.mirror_loss_coeff * apart
    return loss, info | {"Loss/symmetry": apart}

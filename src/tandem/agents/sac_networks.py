"""The networks of SAC before the first update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax import Array

from tandem.agents.sac_config import SACConfig
from tandem.networks.mlp import Ensemble, Hidden, TanhGaussian

if TYPE_CHECKING:
    from tandem.networks.heads import Cameras, Seeing


def new_networks(
    config: SACConfig,
    actor_key: Array,
    critic_key: Array,
    observation_dim: int,
    action_dim: int,
    cameras: Cameras,
    known: int = 0,
    told: int = 0,
) -> tuple[TanhGaussian | Seeing, Ensemble | Seeing]:
    """Actor and critics. With cameras the critics hold the heads, and the actor sees through them too, or has its own (`critic_sees`).
    Critics that look at `known` numbers instead leave the heads to the actor, which may learn to say those of them that it does not see
    (`told`)."""
    seen = seen_numbers(observation_dim, cameras)
    actor = new_actor(config, actor_key, seen, action_dim)
    critics = _new_critics(config, critic_key, (known or seen) + action_dim)
    if not cameras:
        return actor, critics
    from tandem.networks.heads import Seeing, new_heads, new_read_out  # only those with cameras need it

    heads = new_heads(jax.random.fold_in(critic_key, 1), cameras)
    if not known:
        own = new_heads(jax.random.fold_in(actor_key, 1), cameras)
        return Seeing(own, actor) if config.critic_sees == "apart" else actor, Seeing(heads, critics)
    return Seeing(heads, actor, new_read_out(actor_key, seen, told) if config.state_loss else None), critics


def seen_numbers(observation_dim: int, cameras: Cameras) -> int:
    """How many numbers networks get: those of the vector, and what the heads make of the cameras."""
    if not cameras:
        return observation_dim
    from tandem.networks.heads import UNITS

    return observation_dim + UNITS * len(cameras)


def new_actor(config: SACConfig, key: Array, observation_dim: int, action_dim: int) -> TanhGaussian:
    """The policy network with its initial weights."""
    hidden = Hidden(config.hidden, config.activation, config.actor_layer_norm)
    return TanhGaussian(key, observation_dim, action_dim, hidden, (config.std_min, config.std_max))


def _new_critics(config: SACConfig, key: Array, inputs: int) -> Ensemble:
    hidden = Hidden(config.hidden, config.activation, config.critic_layer_norm, config.critic_dropout)
    return Ensemble(key, config.critic_ensemble_size, inputs, hidden)

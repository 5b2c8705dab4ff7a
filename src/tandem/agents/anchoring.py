"""Imitation where people are consistent: a weight for each state, learned with a model of what they do there. A part that `SAC` holds.

After SiLRI (2512.24288). A Gaussian N(μ(s), σ(s)) learns what people do; a multiplier λ(s) ≥ 0 holds the policy near it:

    d    = |μ(s) - ã|                                        how far the policy's action is from theirs
    L_π  = mean of (α log π(ã|s) - Q(s, ã) + λ(s) d) / (1 + λ(s))      anchored (the entropy term is not in SiLRI)
    L_λ  = -mean of λ(s) (d - Σ σ(s) - 0.2)                  multiplier_loss: λ grows where the policy is further away than people differ
    L_μσ = -mean over their rows of log N(a; μ(s), σ(s))     person_loss

Where they do now this, now that, σ is large and λ falls: there only returns count. λ starts at log 2 everywhere and learns at a hundredth
of the other networks' rate. People's rows are those with a weight in `Batch.imitation`; how large it is plays no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tandem.agents.parameters import Adam, AdamState, norm
from tandem.agents.sac_config import SACConfig
from tandem.networks.mlp import LOG_SQRT_2PI, MLP, Dense, Hidden, Regressor, TanhGaussian

SLACK = 0.2
"""Distance that is allowed however sure people are."""
RATE = 0.01
"""Learning rate of the multiplier, as a share of that of the others."""
STD_RANGE = (0.01, 2.0)
Info = dict[str, Array]


def distance(mean: Array, a: Array) -> Array:
    """Euclidean, `(batch,)`. A tiny number keeps its gradient finite where the two are equal."""
    assert mean.shape == a.shape, (mean.shape, a.shape)
    return jnp.sqrt(jnp.sum((mean - a) ** 2, axis=1) + 1e-12)


def anchored(losses: Array, d: Array, multiplier: Array) -> Array:
    """The actor's loss from that of each row, held near the person by the multiplier of each row."""
    assert losses.shape == d.shape == multiplier.shape and losses.ndim == 1, (losses.shape, d.shape, multiplier.shape)
    return jnp.mean((losses + multiplier * d) / (1 + multiplier))


def multiplier_loss(multiplier: Array, d: Array, std: Array) -> Array:
    """Its gradient raises the multiplier where the distance is beyond what people differ by, and lowers it elsewhere."""
    return -jnp.mean(multiplier * (d - std.sum(axis=1) - SLACK))


def person_loss(mean: Array, std: Array, shown: Array, theirs: Array) -> Array:
    """Negative log-likelihood of what people did, over the rows that are theirs; 0 if there are none."""
    log_prob = (-0.5 * ((shown - mean) / std) ** 2 - jnp.log(std) - LOG_SQRT_2PI).sum(axis=1)
    return -(log_prob * theirs).sum() / jnp.maximum(theirs.sum(), 1.0)


class Person(eqx.Module):
    """What people do: a Gaussian over actions."""

    trunk: MLP
    mean: Dense
    log_std: Dense

    def __init__(self, key: Array, inputs: int, action_dim: int, hidden: Hidden):
        keys = jax.random.split(key, 3)
        self.trunk = MLP(keys[0], inputs, hidden)
        self.mean, self.log_std = (Dense(k, hidden.units[-1], action_dim) for k in keys[1:])

    def __call__(self, s: Array) -> tuple[Array, Array]:
        """Mean in (-1, 1) and standard deviation, `(batch, action_dim)` each."""
        h, (low, high) = self.trunk(s), np.log(STD_RANGE)
        # bounded smoothly: beyond a clip there is no slope, and a std that was once too large would stay so
        return jnp.tanh(self.mean(h)), jnp.exp(low + (high - low) * jax.nn.sigmoid(self.log_std(h)))


class AnchorState(NamedTuple):
    """What its updates change."""

    person: Person
    multiplier: Regressor
    """Raw number of each state; λ is its softplus."""
    person_optimiser: AdamState
    multiplier_optimiser: AdamState


@dataclass(frozen=True)
class Anchor:
    """Its settings, and the functions that change an `AnchorState`."""

    config: SACConfig
    observation_dim: int
    action_dim: int

    def init(self, key: Array) -> AnchorState:
        config, keys = self.config, jax.random.split(key)
        hidden = Hidden(config.hidden, config.activation, config.actor_layer_norm)
        person, multiplier = (
            Person(keys[0], self.observation_dim, self.action_dim, hidden),
            Regressor(keys[1], self.observation_dim, hidden),
        )
        multiplier = eqx.tree_at(lambda net: net.head.weight, multiplier, jnp.zeros_like(multiplier.head.weight))
        return AnchorState(person, multiplier, self._adam.init(person), self._slow_adam.init(multiplier))

    @property
    def _adam(self) -> Adam:
        return Adam(self.config.learning_rate)

    @property
    def _slow_adam(self) -> Adam:
        return Adam(RATE * self.config.learning_rate)

    def loss(self, state: AnchorState, s: Array, a: Array, losses: Array) -> Array:
        """The actor's, from its loss at each row (`losses`) and its actions `a`."""
        return anchored(losses, distance(state.person(s)[0], a), jax.nn.softplus(state.multiplier(s)))

    def update(
        self, state: AnchorState, s: Array, shown: Array, weights: Array, actor: TanhGaussian, key: Array, moves: Array | bool
    ) -> tuple[AnchorState, Info]:
        """The model of people on the rows that are theirs (`weights` above 0), then the multiplier on all rows while the actor moves."""
        theirs = (weights > 0).astype(s.dtype)

        def unlikeliness(person: Person) -> Array:
            mean, std = person(s)
            return person_loss(mean, std, shown, theirs)

        unlikely, gradient = jax.value_and_grad(unlikeliness)(state.person)
        person, person_optimiser = self._adam.step(state.person, state.person_optimiser, gradient, jnp.isfinite(norm(gradient)))
        mean, std = person(s)
        d = distance(mean, actor.sample(s, key)[0])

        def loss(network: Regressor) -> tuple[Array, Array]:
            multiplier = jax.nn.softplus(network(s))
            return multiplier_loss(multiplier, d, std), multiplier

        (_, multiplier), gradient = jax.value_and_grad(loss, has_aux=True)(state.multiplier)
        accept = jnp.isfinite(norm(gradient)) & moves
        network, optimiser = self._slow_adam.step(state.multiplier, state.multiplier_optimiser, gradient, accept)
        info = {"anchor/person_loss": unlikely, "anchor/distance": d.mean(), "anchor/multiplier": multiplier.mean()}
        return AnchorState(person, network, person_optimiser, optimiser), info

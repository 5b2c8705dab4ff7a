"""Soft Actor-Critic with prior data (RLPD): how a batch changes the parameters.

One learner step is `SAC.update`: `cta_ratio` critic updates, each on a batch of its own, then one update of the actor and of
the temperature. A network that is not updated is one whose method was not called: it and its optimiser keep every bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tandem.agents.adam import Adam, AdamState
from tandem.agents.arrays import from_arrays, to_arrays
from tandem.agents.losses import (
    actor_loss,
    correction_loss,
    critic_loss,
    positive,
    random_subset,
    raw_of_positive,
    td_target,
    temperature_loss,
)
from tandem.errors import ConfigError
from tandem.networks.ensemble import Ensemble
from tandem.networks.mlp import ACTIVATIONS
from tandem.networks.tanh_gaussian import TanhGaussian
from tandem.types import Batch

UNROLLED = 4
"""Up to this many critic updates are compiled one after the other (4 % faster); more of them as a loop (compiles sooner)."""


@dataclass(frozen=True)
class SACConfig:
    """Names and defaults of hil-serl."""

    discount: float = 0.97
    """What a reward is worth one step later."""
    cta_ratio: int = 2
    """Critic updates per actor update."""
    critic_ensemble_size: int = 2
    """Independent critics."""
    critic_subsample_size: int | None = None
    """Critics, drawn anew for each update, of which the target takes the minimum; None: all."""
    backup_entropy: bool = False
    """Value the entropy of future actions in the target. Targets are then not clipped: entropy is not in the task's range of returns."""
    soft_target_update_rate: float = 0.005
    """How far the target critics move towards the critics at each critic update."""
    temperature_init: float = 0.01
    """Weight of the entropy at the start; it is learned."""
    target_entropy: float | None = None
    """Entropy that the temperature aims at, in nats; None: -action_dim / 2."""
    learning_rate: float = 3e-4
    """Of Adam, for actor, critics and temperature."""
    weight_decay: float = 0.0
    """Above 0: AdamW for actor and critics."""
    hidden: tuple[int, ...] = (256, 256)
    """Units of the hidden layers of actor and critics."""
    activation: Literal["tanh", "relu", "swish"] = "tanh"
    """Of every hidden layer."""
    actor_layer_norm: bool = True
    """LayerNorm in the actor."""
    critic_layer_norm: bool = True
    """LayerNorm in the critics; without it values of unseen actions run away."""
    critic_dropout: float = 0.0
    """Share of the critics' hidden units dropped in each update."""
    imitation: float = 0.0
    """Weight, in the actor's loss, of doing as a person did who corrected the policy; 0: corrections are data like any other (ours)."""
    imitation_steps: int = 10_000
    """Actor updates after which that weight has fallen to 0, in a straight line: by then outcomes alone say what is best (ours)."""
    std_min: float = 1e-5
    """Lower bound of the policy's standard deviation, before tanh."""
    std_max: float = 5.0
    """Upper bound of it."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("discount", 0.0, 1.0),
            ("soft_target_update_rate", 0.0, 1.0),
            ("critic_dropout", 0.0, 0.99),
            ("cta_ratio", 1, np.inf),
            ("critic_ensemble_size", 1, np.inf),
            ("critic_subsample_size", 1, self.critic_ensemble_size),
            ("temperature_init", 1e-8, np.inf),
            ("learning_rate", 0.0, np.inf),
            ("weight_decay", 0.0, np.inf),
            ("imitation", 0.0, np.inf),
            ("imitation_steps", 1, np.inf),
            ("std_min", 0.0, self.std_max),
        ):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ConfigError(f"{name} must be from {low:g} to {high:g}, got {value}")
        if not self.hidden or min(self.hidden) < 1:
            raise ConfigError(f"hidden must name the units of at least one layer, got {self.hidden}")
        if self.activation not in ACTIVATIONS:
            raise ConfigError(f"activation must be one of {', '.join(ACTIVATIONS)}, got '{self.activation}'")


RLPD_PUBLISHED = dataclasses.replace(
    SACConfig(),
    discount=0.99,
    cta_ratio=20,
    critic_ensemble_size=10,
    critic_subsample_size=2,
    backup_entropy=True,
    temperature_init=1.0,
    activation="relu",
    actor_layer_norm=False,
    std_min=float(np.exp(-20)),
    std_max=float(np.exp(2)),
)
"""RLPD as published (Ball et al. 2023) for D4RL's locomotion."""


class SACState(NamedTuple):
    """All that learning changes. `update` takes it and gives a new one; the one it took is gone."""

    actor: TanhGaussian
    critic: Ensemble
    target_critic: Ensemble
    temperature: Array
    """α is softplus of it."""
    actor_optimiser: AdamState
    critic_optimiser: AdamState
    temperature_optimiser: AdamState
    key: Array
    """Of all random numbers to come."""
    dropped_updates: Array
    """Updates that were not made because a number in them was not finite, `()` int32."""


Info = dict[str, Array]
"""Metrics of one update, still on the device."""


@dataclass(frozen=True)
class SAC:
    """The agent: its configuration and the functions that change a `SACState`. It holds no numbers of its own."""

    config: SACConfig
    observation_dim: int
    action_dim: int
    return_range: tuple[float, float] | None = None
    """Lowest and highest return possible; targets are clipped to it."""

    @partial(jax.jit, static_argnames="self")
    def init(self, seed: int) -> SACState:
        """Networks before the first update, from the seed alone."""
        config = self.config
        key, actor_key, critic_key = jax.random.split(jax.random.PRNGKey(seed), 3)
        actor = new_actor(config, actor_key, self.observation_dim, self.action_dim)
        critic = Ensemble(
            critic_key,
            config.critic_ensemble_size,
            self.observation_dim + self.action_dim,
            config.hidden,
            activation=config.activation,
            layer_norm=config.critic_layer_norm,
            dropout=config.critic_dropout,
        )
        temperature = raw_of_positive(config.temperature_init)
        return SACState(
            actor,
            critic,
            target_critic=jax.tree.map(jnp.copy, critic),
            temperature=temperature,
            actor_optimiser=self._adam.init(actor),
            critic_optimiser=self._adam.init(critic),
            temperature_optimiser=self._adam.init(temperature),
            key=key,
            dropped_updates=jnp.int32(0),
        )

    @partial(jax.jit, static_argnames=("self", "freeze_actor"), donate_argnames="state")
    def update(self, state: SACState, batch: Batch, freeze_actor: bool = False) -> tuple[SACState, Info]:
        """One learner step on `(cta_ratio, batch_size, ...)` arrays: the critics on every batch, the rest on the last one.

        With `freeze_actor` the critics alone learn (a policy that was cloned waits for a critic worth following).
        Metrics of the critic updates are means over them; everything stays on the device until it is read.
        """
        state, infos = jax.lax.scan(self.update_critic, state, batch, unroll=self.config.cta_ratio <= UNROLLED)
        info = {name: values.max() if name == "critic/q_max" else values.mean() for name, values in infos.items()}
        if not freeze_actor:
            last = jax.tree.map(lambda array: array[-1], batch)
            state, actor_info = self.update_actor(state, last)
            state, temperature_info = self.update_temperature(state, actor_info["actor/entropy"])
            info |= actor_info | temperature_info
        return state, info | {"learner/dropped_updates": state.dropped_updates}

    @partial(jax.jit, static_argnames="self")
    def values(self, state: SACState, batch: Batch) -> Info:
        """How this state values the actions of a batch `(batch_size, ...)`, and its temperature. Nothing is learned; no dropout."""
        qs = state.critic(_pairs(jnp.asarray(batch.observations), jnp.asarray(batch.actions)))
        return {
            "critic/predicted_qs": qs.mean(),
            "critic/q_max": jnp.abs(qs).max(),
            "actor/temperature": positive(state.temperature),
        }

    def update_critic(self, state: SACState, batch: Batch) -> tuple[SACState, Info]:
        """Every critic towards the same target; then the target critics a little towards the critics."""
        config = self.config
        key, action_key, subset_key, target_key, critic_key = jax.random.split(state.key, 5)
        s, a, r, mask, next_s = map(jnp.asarray, batch[:5])
        next_a, next_log_pi = state.actor.sample(next_s, action_key)
        target_critic = state.target_critic
        if config.critic_subsample_size is not None:
            target_critic = target_critic.subset(random_subset(subset_key, config.critic_subsample_size, config.critic_ensemble_size))
        next_qs = target_critic(_pairs(next_s, next_a), target_key)
        if config.backup_entropy:
            y = td_target(r, mask, next_qs, config.discount, alpha=positive(state.temperature), next_log_pi=next_log_pi)
        else:
            y = td_target(r, mask, next_qs, config.discount, return_range=self.return_range)

        def loss(critic: Ensemble) -> tuple[Array, Array]:
            qs = critic(_pairs(s, a), critic_key)
            return critic_loss(qs, y), qs

        (value, qs), gradient = jax.value_and_grad(loss, has_aux=True)(state.critic)
        finite = _finite((gradient, batch))
        critic, optimiser = self._adam.step(state.critic, state.critic_optimiser, gradient, finite)
        rate = jnp.where(finite, config.soft_target_update_rate, 0.0)
        state = state._replace(
            critic=critic,
            critic_optimiser=optimiser,
            target_critic=jax.tree.map(lambda target, new: target + rate * (new - target), state.target_critic, critic),
            key=key,
            dropped_updates=state.dropped_updates + ~finite,
        )
        return state, {
            "critic/critic_loss": value,
            "critic/predicted_qs": qs.mean(),
            "critic/target_qs": y.mean(),
            "critic/q_max": jnp.abs(qs).max(),
            "critic/grad_norm": _norm(gradient),
        }

    def update_actor(self, state: SACState, batch: Batch) -> tuple[SACState, Info]:
        """The policy towards actions that the critics, in their mean, value, and those it was corrected to; not too sure of itself."""
        key, action_key, critic_key = jax.random.split(state.key, 3)
        s, alpha = jnp.asarray(batch.observations), positive(state.temperature)

        def loss(actor: TanhGaussian) -> tuple[Array, Info]:
            a, log_pi = actor.sample(s, action_key)
            qs = state.critic(_pairs(s, a), critic_key)
            value, info = actor_loss(qs, log_pi, alpha), {"actor/entropy": -log_pi.mean()}
            if self.config.imitation:
                distance = correction_loss(a, jnp.asarray(batch.actions), jnp.asarray(batch.corrected))
                value += self._imitation(state) * distance
                info["actor/correction_loss"] = distance
            return value, info

        (value, info), gradient = jax.value_and_grad(loss, has_aux=True)(state.actor)
        finite = _finite((gradient, batch))
        actor, optimiser = self._adam.step(state.actor, state.actor_optimiser, gradient, finite)
        state = state._replace(actor=actor, actor_optimiser=optimiser, key=key, dropped_updates=state.dropped_updates + ~finite)
        return state, {"actor/actor_loss": value, **info, "actor/grad_norm": _norm(gradient)}

    def update_temperature(self, state: SACState, entropy: Array) -> tuple[SACState, Info]:
        """The weight of the entropy, so that the policy is as random as `target_entropy` asks."""
        target = -self.action_dim / 2 if self.config.target_entropy is None else self.config.target_entropy

        def loss(raw: Array) -> Array:
            return temperature_loss(positive(raw), entropy, target)

        value, gradient = jax.value_and_grad(loss)(state.temperature)
        finite = _finite(gradient)
        raw, optimiser = Adam(self.config.learning_rate).step(state.temperature, state.temperature_optimiser, gradient, finite)
        state = state._replace(temperature=raw, temperature_optimiser=optimiser, dropped_updates=state.dropped_updates + ~finite)
        return state, {"temperature/temperature_loss": value, "actor/temperature": positive(raw)}

    def _imitation(self, state: SACState) -> Array:
        """What a correction weighs by now."""
        return self.config.imitation * jnp.maximum(0.0, 1.0 - state.actor_optimiser.steps / self.config.imitation_steps)

    @property
    def _adam(self) -> Adam:
        return Adam(self.config.learning_rate, self.config.weight_decay)

    def policy_parameters(self, state: SACState) -> dict[str, np.ndarray]:
        """What it takes to act (`NumpyPolicy`): the actor's arrays and how they are put together."""
        return policy_parameters(state.actor)

    def with_policy(self, state: SACState, parameters: Mapping[str, np.ndarray]) -> SACState:
        """The same state with this policy, as `policy_parameters` gives it; everything else starts as it is."""
        return state._replace(actor=actor_from(state.actor, parameters))

    def copy(self, state: SACState) -> SACState:
        """A state that survives the donation of the one it was copied from."""
        return jax.tree.map(jnp.copy, state)

    def arrays(self, state: SACState) -> dict[str, np.ndarray]:
        """All of the state, by the path of the leaf."""
        return to_arrays(state)

    def from_arrays(self, template: SACState, arrays: Mapping[str, np.ndarray]) -> SACState:
        """What `arrays` gave, as a state; an error names the leaf that does not fit."""
        return from_arrays(template, arrays)


def new_actor(config: SACConfig, key: Array, observation_dim: int, action_dim: int) -> TanhGaussian:
    """The policy's network before it has learned anything."""
    return TanhGaussian(
        key,
        observation_dim,
        action_dim,
        config.hidden,
        activation=config.activation,
        layer_norm=config.actor_layer_norm,
        std_range=(config.std_min, config.std_max),
    )


def policy_parameters(actor: TanhGaussian) -> dict[str, np.ndarray]:
    """The acting parameters by name."""
    settings = {
        "activation": np.array(list(ACTIVATIONS).index(actor.trunk.activation), np.int32),
        "std_range": np.array(actor.std_range, np.float32),
    }
    return to_arrays(actor) | settings


def actor_from(template: TanhGaussian, parameters: Mapping[str, np.ndarray]) -> TanhGaussian:
    """An actor like the template with these parameters."""
    mine = policy_parameters(template)
    for name in ("activation", "std_range"):
        if name in parameters and not np.array_equal(parameters[name], mine[name]):
            raise ConfigError(
                f"the policy has {name} {parameters[name]}, the configuration {mine[name]}: train both with the same settings"
            )
    return from_arrays(
        template, {name: array for name, array in parameters.items() if name not in ("activation", "std_range")}, "the policy"
    )


def _pairs(s: Array, a: Array) -> Array:
    """What a critic sees: state and action side by side."""
    return jnp.concatenate((s, a), axis=1)


def _norm(tree: Any) -> Array:
    return jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)))


def _finite(tree: Any) -> Array:
    """Whether every number is one. The batch is asked too: XLA's minimum and clip may turn a NaN into a bound."""
    return jnp.isfinite(_norm(tree))

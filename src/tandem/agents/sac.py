"""Soft Actor-Critic with prior data (RLPD): how a batch changes the parameters.

One learner step is `SAC.update`: `cta_ratio` critic updates, each on a batch of its own, then one update of the actor and of
the temperature. A network whose method is not called keeps every bit, and so does its optimiser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tandem.agents.blaming import lost
from tandem.agents.imitating import imitation_loss, own_entropy
from tandem.agents.losses import (
    actor_loss,
    critic_loss,
    positive,
    random_subset,
    raw_of_positive,
    td_target,
    temperature_loss,
)
from tandem.agents.parameters import Adam, AdamState, norm, to_arrays
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_networks import new_networks
from tandem.agents.saved import from_arrays
from tandem.errors import ConfigError
from tandem.networks.mlp import ACTIVATIONS, UNROLLED, Ensemble, TanhGaussian
from tandem.types import Batch, Blamed

if TYPE_CHECKING:  # imported by those that have a gripper, cameras or an anchor
    from tandem.agents.anchoring import Anchor, AnchorState
    from tandem.agents.grasp import GraspCritic, GraspState
    from tandem.networks.heads import Cameras, Seeing


class SACState(NamedTuple):
    """Everything that an update changes. `update` consumes (donates) it and returns a new one."""

    actor: TanhGaussian | Seeing
    """It holds the heads of the cameras that it does not share with its critics."""
    critic: Ensemble | Seeing
    """With cameras it holds their heads, which its loss trains."""
    target_critic: Ensemble
    temperature: Array
    """Raw number; the temperature α is its softplus."""
    actor_optimiser: AdamState
    critic_optimiser: AdamState
    temperature_optimiser: AdamState
    key: Array
    """Random key for the next update."""
    dropped_updates: Array
    """() int32: updates that were skipped because of a NaN or infinite value."""
    average: TanhGaussian | Seeing | None = None
    """Moving average of the actor (with cameras also of the heads), which acts in its place; None without `actor_average`."""
    grasp: GraspState | None = None
    """The grasp critic's; None where an action has no discrete part."""
    anchor: AnchorState | None = None


Info = dict[str, Array]
"""Metrics of one update, still on the device."""


@dataclass(frozen=True)
class SAC:
    """The agent: its configuration and the functions that change a `SACState`. It holds no arrays itself."""

    config: SACConfig
    observation_dim: int
    action_dim: int
    """Axes of the action: its columns without those that are choices."""
    return_range: tuple[float, float] | None = None
    """Lowest and highest return possible; targets are clipped to it."""
    grasp: GraspCritic | None = None
    """Learns the discrete parts of the action, if there are any."""
    cameras: Cameras = ()
    """Name and number of features of each camera; their shape where their places count."""
    privileged: int = 0
    """Numbers of the observation, the last ones, that the critics see in the place of the cameras and the policy never does."""
    replaced: tuple[int, ...] = ()
    """Columns of the observation, of the policy's numbers and of those, that critics do not get (`Entry.in_place_of`)."""
    anchor: Anchor | None = None
    """Imitates people where they are consistent; None: `imitation` decides."""

    def __post_init__(self) -> None:
        if "auto" in (self.config.discount, self.config.n_step):
            raise ConfigError("discount or n_step is 'auto': `off_policy.horizon.settle` puts numbers in the place of it")

    @partial(jax.jit, static_argnames="self")
    def init(self, seed: int) -> SACState:
        """Networks before the first update, from the seed alone."""
        config = self.config
        key, actor_key, critic_key = jax.random.split(jax.random.PRNGKey(seed), 3)
        known = self.observation_dim + self.privileged - len(self.replaced) if self.privileged else 0
        sizes = self.observation_dim, self.action_dim, self.cameras, known, len(self.told)
        actor, critic = new_networks(config, actor_key, critic_key, *sizes)
        temperature = raw_of_positive(config.temperature_init)
        return SACState(
            actor,
            critic,
            target_critic=jax.tree.map(jnp.copy, critic.values),
            temperature=temperature,
            actor_optimiser=self._adam.init(actor),
            critic_optimiser=self._adam.init(critic),
            temperature_optimiser=self._adam.init(temperature),
            key=key,
            dropped_updates=jnp.int32(0),
            average=jax.tree.map(jnp.copy, with_eyes(actor, critic)) if config.actor_average else None,
            grasp=None if self.grasp is None else self.grasp.init(jax.random.fold_in(key, 1)),
            anchor=None if self.anchor is None else self.anchor.init(jax.random.fold_in(key, 3)),
        )

    @partial(jax.jit, static_argnames="self", donate_argnames="state")
    def update(self, state: SACState, batch: Batch, moves_actor: Array | bool = True) -> tuple[SACState, Info]:
        """One learner step on `(cta_ratio, batch_size, ...)` arrays: the critics on every batch, actor and temperature on the last one.

        `moves_actor` False: only the critics learn. It is a value, not a constant, so that nothing is compiled twice.
        Metrics of the critic updates are means over them; everything stays on the device until it is read.
        """
        if self.cameras:
            from tandem.networks.heads import learns_to_see, shifted

            batch = shifted(batch, jax.random.fold_in(state.key, 2)) if learns_to_see(self.cameras) else batch
        state, infos = jax.lax.scan(self.update_critic, state, batch, unroll=self.config.cta_ratio <= UNROLLED)
        info = {name: values.max() if name == "critic/q_max" else values.mean() for name, values in infos.items()}
        last = jax.tree.map(lambda array: array[-1], batch)
        state, actor_info = self.update_actor(state, last, moves_actor)
        state, temperature_info = self.update_temperature(state, actor_info["actor/entropy"], moves_actor)
        return state, info | actor_info | temperature_info | {"learner/dropped_updates": state.dropped_updates}

    @partial(jax.jit, static_argnames="self")
    def values(self, state: SACState, batch: Batch) -> Info:
        """How this state values the actions of a batch `(batch_size, ...)`, and its temperature. Nothing is learned; no dropout."""
        s = self.known_to_critics(batch.observations)
        qs = state.critic(_pairs(state.critic.see(s, batch.raw), self._arm(batch.actions)))
        return {
            "critic/predicted_qs": qs.mean(),
            "critic/q_max": jnp.abs(qs).max(),
            "actor/temperature": positive(state.temperature),
        }

    def update_critic(self, state: SACState, batch: Batch) -> tuple[SACState, Info]:
        """All critics towards the same target; then the target critics a little towards the critics (Polyak averaging)."""
        config, discount = self.config, float(self.config.discount)
        key, action_key, subset_key, target_key, critic_key = jax.random.split(state.key, 5)
        s, a, r, mask, next_s = map(jnp.asarray, batch._replace(actions=self._arm(batch.actions))[:5])
        next_a, next_log_pi = network_of(state.actor).sample(
            self._before_policy(state.actor, state.critic, next_s, batch.next_raw), action_key
        )
        s, next_s = self.known_to_critics(s), state.critic.see(self.known_to_critics(next_s), batch.next_raw)
        target_critic = state.target_critic
        if config.critic_subsample_size is not None:
            target_critic = target_critic.subset(random_subset(subset_key, config.critic_subsample_size, config.critic_ensemble_size))
        next_qs = target_critic(_pairs(next_s, next_a), target_key)
        if config.backup_entropy:
            y = td_target(r, mask, next_qs, discount, alpha=positive(state.temperature), next_log_pi=next_log_pi, bounds=batch.bounds)
        else:
            y = td_target(r, mask, next_qs, discount, return_range=self.return_range, bounds=batch.bounds)
        if batch.blamed is not None:
            y -= self._blamed(state, batch.blamed)

        def loss(critic: Ensemble | Seeing) -> tuple[Array, Array]:
            qs = critic(_pairs(critic.see(s, batch.raw), a), critic_key)
            return critic_loss(qs, y), qs

        (value, qs), gradient = jax.value_and_grad(loss, has_aux=True)(state.critic)
        finite = _finite((gradient, batch[:5]))
        critic, optimiser = self._adam.step(state.critic, state.critic_optimiser, gradient, finite)
        rate = jnp.where(finite, config.soft_target_update_rate, 0.0)
        state = state._replace(
            critic=critic,
            critic_optimiser=optimiser,
            target_critic=jax.tree.map(lambda target, new: target + rate * (new - target), state.target_critic, critic.values),
            key=key,
            dropped_updates=state.dropped_updates + ~finite,
        )
        state, grasp_info = self._update_grasp(state, batch)
        return state, grasp_info | {
            "critic/critic_loss": value,
            "critic/predicted_qs": qs.mean(),
            "critic/target_qs": y.mean(),
            "critic/q_max": jnp.abs(qs).max(),
            "critic/grad_norm": norm(gradient),
            **({} if batch.bounds is None else {"critic/bound_share": (batch.bounds >= y).mean()}),
        }

    def _update_grasp(self, state: SACState, batch: Batch) -> tuple[SACState, Info]:
        """The grasp critic, on the same batch. What acts sees what the policy sees, through heads that it does not train."""
        if self.grasp is None or state.grasp is None:
            return state, {}
        s, next_s = jnp.asarray(batch.observations), jnp.asarray(batch.next_observations)
        seen = self._before_policy(state.actor, state.critic, s, batch.raw)
        if self.privileged:
            now, later = self.known_to_critics(s), self.known_to_critics(next_s)
        else:
            now, later = seen, self._before_policy(state.actor, state.critic, next_s, batch.next_raw)
        batch = batch._replace(observations=now, next_observations=later)
        grasp, info, finite = self.grasp.update(state.grasp, batch, seen)
        return state._replace(grasp=grasp, dropped_updates=state.dropped_updates + ~finite), info

    def _blamed(self, state: SACState, blamed: Blamed) -> Array:
        s = jnp.asarray(blamed.observations)
        before_policy = self._before_policy(state.actor, state.critic, s, blamed.raw)
        own = network_of(state.actor).mode(before_policy)
        of_critics = state.critic.see(self.known_to_critics(s), blamed.raw)
        return lost(self.config, blamed, state.target_critic, of_critics, own, self._arm(blamed.actions))

    @property
    def told(self) -> tuple[int, ...]:
        """Columns that critics know and the policy does not: what its eyes can learn to say."""
        return tuple(sorted({*range(self.observation_dim, self.observation_dim + self.privileged)} - {*self.replaced}))

    def known_to_critics(self, vector: Any) -> Array:
        """The numbers that critics know."""
        vector = jnp.asarray(vector)
        return jnp.delete(vector, np.array(self.replaced), axis=1, assume_unique_indices=True) if self.replaced else vector

    def _before_policy(
        self, actor: TanhGaussian | Seeing, critic: Ensemble | Seeing, vector: Array, features: Mapping[str, Array]
    ) -> Array:
        """What the policy's network gets: through its own heads, or through the critics' where it has none."""
        known = vector[:, : self.observation_dim]
        if not isinstance(actor, TanhGaussian):
            return actor.see(known, features)
        return known if self.privileged else critic.see(known, features)

    def _arm(self, actions: Any) -> Array:
        """The columns of actions that the arm's networks see: all but choices."""
        return jnp.asarray(actions) if self.grasp is None else self.grasp.arm(jnp.asarray(actions))

    def update_actor(self, state: SACState, batch: Batch, moves: Array | bool = True) -> tuple[SACState, Info]:
        """The policy towards actions of high mean value, towards what a person showed, and towards high entropy."""
        key, action_key, critic_key = jax.random.split(state.key, 3)
        vector, alpha = jnp.asarray(batch.observations), positive(state.temperature)
        of_critics = state.critic.see(self.known_to_critics(vector), batch.raw)
        s = self._before_policy(state.actor, state.critic, vector, batch.raw)

        def loss(actor: TanhGaussian | Seeing) -> tuple[Array, Info]:
            seen = self._before_policy(actor, state.critic, vector, batch.raw)
            a, log_pi = network_of(actor).sample(seen, action_key)
            qs = state.critic(_pairs(of_critics, a), critic_key)
            value, info = actor_loss(qs, log_pi, alpha), {"actor/entropy": -log_pi.mean()}
            if self.config.state_loss and not isinstance(actor, TanhGaussian):
                info["actor/state_loss"] = actor.misread(seen, vector[:, np.array(self.told)])
                value += self.config.state_loss * info["actor/state_loss"]
            if batch.imitation is not None:
                if self.config.entropy_of == "own":
                    info["actor/entropy"] = own_entropy(log_pi, jnp.asarray(batch.imitation))
                info["actor/imitation_loss"] = imitation_loss(a, self._arm(batch.actions), jnp.asarray(batch.imitation))
                if self.anchor is not None and state.anchor is not None:
                    return self.anchor.loss(state.anchor, s, a, alpha * log_pi - qs.mean(axis=0)), info
                value += info["actor/imitation_loss"]
            return value, info

        (value, info), gradient = jax.value_and_grad(loss, has_aux=True)(state.actor)
        finite = _finite((gradient, batch[:5]))
        actor, optimiser = self._adam.step(state.actor, state.actor_optimiser, gradient, finite & moves)
        if self.anchor is not None and state.anchor is not None and batch.imitation is not None:
            shown = self._arm(batch.actions), jnp.asarray(batch.imitation)
            anchor, further = self.anchor.update(state.anchor, s, *shown, network_of(actor), action_key, moves)
            state, info = state._replace(anchor=anchor), info | further
        if state.average is not None:
            rate = self.config.actor_average
            newest = with_eyes(actor, state.critic)
            state = state._replace(average=jax.tree.map(lambda mean, new: mean + rate * (new - mean), state.average, newest))
        state = state._replace(actor=actor, actor_optimiser=optimiser, key=key, dropped_updates=state.dropped_updates + ~finite)
        return state, {"actor/actor_loss": value, **info, "actor/grad_norm": norm(gradient)}

    def update_temperature(self, state: SACState, entropy: Array, moves: Array | bool = True) -> tuple[SACState, Info]:
        """The temperature α, so that the policy's entropy approaches `target_entropy`.

        The entropy is that of the actor update, at the observations of the batch (`entropy_of`); hil-serl takes it at the next ones.
        """
        target = -self.action_dim / 2 if self.config.target_entropy is None else self.config.target_entropy

        def loss(raw: Array) -> Array:
            return temperature_loss(positive(raw), entropy, target)

        value, gradient = jax.value_and_grad(loss)(state.temperature)
        finite = _finite(gradient)
        raw, optimiser = Adam(self.config.learning_rate).step(state.temperature, state.temperature_optimiser, gradient, finite & moves)
        state = state._replace(temperature=raw, temperature_optimiser=optimiser, dropped_updates=state.dropped_updates + ~finite)
        return state, {"temperature/temperature_loss": value, "actor/temperature": positive(raw)}

    @property
    def _adam(self) -> Adam:
        return Adam(self.config.learning_rate, self.config.weight_decay)

    def policy_parameters(self, state: SACState) -> dict[str, np.ndarray]:
        """The acting parameters (`NumpyPolicy`): the actor's arrays, its activation function and its bounds of the std."""
        newest = state.average is None
        parameters = policy_parameters(with_eyes(state.actor, state.critic) if state.average is None else state.average)
        return parameters | self._grasp_parameters(state, newest)

    def exploring_parameters(self, state: SACState) -> dict[str, np.ndarray]:
        """The parameters of the newest actor, which explores."""
        return policy_parameters(with_eyes(state.actor, state.critic)) | self._grasp_parameters(state, newest=True)

    def _grasp_parameters(self, state: SACState, newest: bool) -> dict[str, np.ndarray]:
        """The target networks are a moving average of the newest."""
        if self.grasp is None or state.grasp is None:
            return {}
        return self.grasp.parameters(self.grasp.acting(state.grasp, newest))

    def end(self) -> None:
        """Nothing will be learned any more: processes that compute a part of each update may go; here there are none."""

    def copy(self, state: SACState) -> SACState:
        """A copy that survives the donation of the original."""
        return jax.tree.map(jnp.copy, state)

    def arrays(self, state: SACState) -> dict[str, np.ndarray]:
        """The whole state as named arrays."""
        return to_arrays(state)

    def from_arrays(self, template: SACState, arrays: Mapping[str, np.ndarray]) -> SACState:
        """The state that `arrays` saved. An error names the array that does not fit."""
        return from_arrays(template, arrays)


def network_of(actor: TanhGaussian | Seeing) -> TanhGaussian:
    """The policy's network, without the heads that it may have."""
    return actor if isinstance(actor, TanhGaussian) else actor.values


def with_eyes(actor: TanhGaussian | Seeing, critic: Ensemble | Seeing) -> TanhGaussian | Seeing:
    """What acts: the actor, with the critic's heads where it has none of its own."""
    return critic.with_values(actor) if isinstance(actor, TanhGaussian) and not isinstance(critic, Ensemble) else actor


def policy_parameters(acting: TanhGaussian | Seeing) -> dict[str, np.ndarray]:
    """The acting parameters by name."""
    actor = network_of(acting)
    settings = {
        "activation": np.array(list(ACTIVATIONS).index(actor.trunk.activation), np.int32),
        "std_range": np.array(actor.std_range, np.float32),
    }
    heads = {} if isinstance(acting, TanhGaussian) else {f"heads/{name}": array for name, array in to_arrays(acting.heads).items()}
    return to_arrays(actor) | heads | settings


def _pairs(s: Array, a: Array) -> Array:
    """Input of a critic: state and action concatenated."""
    return jnp.concatenate((s, a), axis=1)


def _finite(tree: Any) -> Array:
    """Whether no number is NaN or infinite. The batch is checked too: XLA's minimum and clip may turn a NaN into a bound."""
    return jnp.isfinite(norm(tree))

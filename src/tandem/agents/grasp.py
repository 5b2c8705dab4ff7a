"""The grasp critic: what each choice of the discrete parts is worth, and so which one to take. A part that `SAC` holds.

hil-serl's hybrid agent is SAC for the arm and a DQN for the gripper, which share the data and nothing else:

    g    = argmax over choices of the members' mean Q(s, g) - d · std of Q(s, g) - Q(s, rest)      what it does; d: `grasp_doubt`
    y    = r - p·k + γ · mask · minᵢ Q'ᵢ(s', g'),  g' the choice of the newest networks at s'   double DQN (van Hasselt et al. 2016)
    y    = max(y, G - p·K)                                     where the return G that followed is known (`return_bound`)
    L_Q  = mean over members and batch of (Qᵢ(s, g) - y)²
    L_I  = mean over batch of w · Σ over the other choices of max(0, Qᵢ(s, ·) + margin - Qᵢ(s, g))²     (with `imitation`)

k counts the parts that were told something new, K does so to the end of the episode, and p is `grasp_penalty`. It is not in the arm's
critics: they would learn that approaching a gear, which leads to closing, costs something. Over n steps r, k and mask are sums
and products, as for the arm. Several discrete parts are one table: two grippers with three choices each have nine.

A hand decides at every step, and few decisions matter: one wrong opening in a hundred steps loses what is held. Where the members see
different advantages over rest (the choice that changes nothing), they do not know, and rest is taken. A single member has no doubts.

L_I holds back what was not shown: nobody demonstrates opening the hand on the way, so nothing else says that it is bad before it was
tried. The value of what was shown is not moved by it. The moving average that acts in the place of the newest networks
(`actor_average`) is the target network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tandem.agents.losses import td_target
from tandem.agents.parameters import Adam, AdamState, norm, to_arrays
from tandem.agents.sac_config import SACConfig
from tandem.agents.saved import from_arrays
from tandem.networks.mlp import MLP, Dense, Hidden
from tandem.types import Batch

MARGIN = 0.2
"""By how much a choice that was shown should be better than the others, in units of the range of returns: what a demonstration is worth
where it begins (`off_policy/horizon.py`)."""
PREFIX = "grasp/"
"""How the names of its arrays begin among those of a policy."""
CLONE_RATE, CLONE_BATCH = 1e-3, 256
Info = dict[str, Array]


class Table(eqx.Module):
    """A network with one value for each choice."""

    trunk: MLP
    head: Dense

    def __init__(self, key: Array, inputs: int, choices: int, config: SACConfig):
        trunk_key, head_key = jax.random.split(key)
        self.trunk = MLP(trunk_key, inputs, Hidden(config.hidden, config.activation, config.critic_layer_norm))
        self.head = Dense(head_key, config.hidden[-1], choices)

    def __call__(self, x: Array) -> Array:
        return self.head(self.trunk(x))


class GraspState(NamedTuple):
    """What its updates change. Every array of a network has one more axis in front: (members, ...)."""

    members: Table
    target: Table
    optimiser: AdamState


@dataclass(frozen=True)
class GraspCritic:
    """Its settings, and the functions that change a `GraspState`."""

    config: SACConfig
    observation_dim: int
    columns: tuple[int, ...]
    """Columns of the action that are choices."""
    sizes: tuple[int, ...]
    """How many choices each of them has."""
    rest: int = 0
    """The place in the table where no part changes anything."""
    return_range: tuple[float, float] | None = None

    def init(self, key: Array) -> GraspState:
        keys = jax.random.split(key, self.config.grasp_ensemble_size)
        members = jax.vmap(lambda k: Table(k, self.observation_dim, int(np.prod(self.sizes)), self.config))(keys)
        return GraspState(members, jax.tree.map(jnp.copy, members), self._adam.init(members))

    @property
    def _adam(self) -> Adam:
        return Adam(self.config.learning_rate, self.config.weight_decay)

    def arm(self, actions: Array) -> Array:
        """The columns that are axes, `(batch, axes)`: what the arm's networks see of an action."""
        return jnp.delete(actions, np.array(self.columns), axis=1, assume_unique_indices=True)

    def choice(self, actions: Array) -> Array:
        """The place of an action in the table, `(batch,)` int32: with sizes 3 and 3 the choices (1, 2) are 1 · 3 + 2 = 5."""
        chosen = jnp.rint(actions[:, np.array(self.columns)]).astype(jnp.int32)
        return chosen @ jnp.array([int(np.prod(self.sizes[i + 1 :])) for i in range(len(self.sizes))], jnp.int32)

    def update(self, state: GraspState, batch: Batch) -> tuple[GraspState, Info, Array]:
        """One step towards the target; then the target networks a little towards the newest. Also whether all numbers were finite."""
        config = self.config
        s, actions, next_s = jnp.asarray(batch.observations), jnp.asarray(batch.actions), jnp.asarray(batch.next_observations)
        chosen, y = self.choice(actions), self._target(state, batch, next_s)

        def loss(members: Table) -> tuple[Array, tuple[Array, Array]]:
            qs = _values(members, s)
            taken = _of(qs, chosen)
            value = jnp.mean((taken - y) ** 2)
            if batch.imitation is not None:
                value += jnp.mean(jnp.asarray(batch.imitation) * held_back(qs, chosen, self._margin))
            return value, (taken, qs)

        (value, (taken, qs)), gradient = jax.value_and_grad(loss, has_aux=True)(state.members)
        finite = jnp.isfinite(norm((gradient, batch[:5])))
        members, optimiser = self._adam.step(state.members, state.optimiser, gradient, finite)
        rate = jnp.where(finite, config.soft_target_update_rate, 0.0)
        target = jax.tree.map(lambda old, new: old + rate * (new - old), state.target, members)
        info = {
            "grasp_critic/grasp_critic_loss": value,
            "grasp_critic/predicted_grasp_qs": taken.mean(),
            "grasp_critic/target_grasp_qs": y.mean(),
            "grasp_critic/spread": (qs.max(axis=2) - qs.min(axis=2)).mean(),
        }
        return GraspState(members, target, optimiser), info, finite

    def _target(self, state: GraspState, batch: Batch, next_s: Array) -> Array:
        penalty, discount = self.config.grasp_penalty, float(self.config.discount)
        best = self._worth(_values(state.members, next_s)).argmax(axis=1)
        next_qs = _of(_values(state.target, next_s), best)
        bounds = None if batch.bounds is None else jnp.asarray(batch.bounds) - penalty * jnp.asarray(batch.switches_ahead)
        low, high = self.return_range or (-np.inf, np.inf)
        low -= penalty / (1 - discount) if discount < 1 else np.inf  # the most that opening and closing can cost
        r = jnp.asarray(batch.rewards) - penalty * jnp.asarray(batch.switches)
        return td_target(r, jnp.asarray(batch.masks), next_qs, discount, return_range=(low, high), bounds=bounds)

    def _worth(self, qs: Array) -> Array:
        """What choices are compared by, `(batch, choices)`: the mean of the members, less the doubt about the advantage over rest."""
        if not self.config.grasp_doubt:
            return qs.mean(axis=0)
        return qs.mean(axis=0) - self.config.grasp_doubt * (qs - qs[:, :, self.rest, None]).std(axis=0)

    @property
    def _margin(self) -> float:
        low, high = self.return_range or (0.0, 1.0)
        return MARGIN * (high - low)

    # ---- acting

    def parameters(self, members: Table) -> dict[str, np.ndarray]:
        """What acting needs, by name (`networks/numpy_grasp.py`)."""
        settings = {
            "columns": np.array(self.columns, np.int32),
            "sizes": np.array(self.sizes, np.int32),
            "rest": np.array(self.rest, np.int32),
            "doubt": np.array(self.config.grasp_doubt, np.float32),
            "exploration": np.array([self.config.grasp_epsilon, self.config.grasp_temperature], np.float32),
        }
        return {f"{PREFIX}{name}": array for name, array in (to_arrays(members) | settings).items()}

    def from_parameters(self, state: GraspState, parameters: Mapping[str, np.ndarray]) -> GraspState:
        """The same state with the networks that `parameters` gave away; a policy that has none leaves them as they are."""
        names = [name for name in parameters if name.startswith((f"{PREFIX}trunk/", f"{PREFIX}head/"))]
        if not names:
            return state
        members = from_arrays(state.members, {name.removeprefix(PREFIX): parameters[name] for name in names}, "the policy's grasp critic")
        return state._replace(members=members, target=jax.tree.map(jnp.copy, members))

    # ---- a start from demonstrations

    def cloned(self, demos: Batch, steps: int, seed: int) -> dict[str, np.ndarray]:
        """Parameters that value what demonstrations show by the return that followed, and everything else less: so they do the same."""
        members = self._cloned(jax.tree.map(jnp.asarray, demos._replace(raw={}, next_raw={})), steps, jax.random.PRNGKey(seed))
        return self.parameters(members)

    @partial(jax.jit, static_argnames=("self", "steps"))
    def _cloned(self, demos: Batch, steps: int, key: Array) -> Table:
        key, init_key = jax.random.split(key)
        members, adam, chosen = self.init(init_key).members, Adam(CLONE_RATE), self.choice(demos.actions)
        known = jnp.isfinite(demos.bounds)
        returns = jnp.where(known, demos.bounds - self.config.grasp_penalty * demos.switches_ahead, 0.0)

        def update(carry: tuple[Table, AdamState], rows: Array) -> tuple[tuple[Table, AdamState], None]:
            shown = (demos.observations[rows], chosen[rows], returns[rows], known[rows])
            return adam.step(*carry, jax.grad(self._cloning_loss)(carry[0], *shown)), None

        rows = jax.random.randint(key, (steps, CLONE_BATCH), 0, len(chosen))
        return jax.lax.scan(update, (members, adam.init(members)), rows)[0][0]

    def imitate(self, carry: tuple[Table, AdamState], s: Array, actions: Array, rate: float) -> tuple[Table, AdamState]:
        """One update on a batch of which only the actions count: what was shown is worth 0 everywhere, and everything else less."""
        chosen = self.choice(actions)
        return Adam(rate).step(*carry, jax.grad(self._cloning_loss)(carry[0], s, chosen, jnp.zeros(len(chosen)), True))

    def _cloning_loss(self, members: Table, s: Array, chosen: Array, returns: Array, known: Array | bool) -> Array:
        qs = _values(members, s)
        error = jnp.where(known, _of(qs, chosen) - returns, 0.0)
        return jnp.mean(error**2) + jnp.mean(held_back(qs, chosen, self._margin))


def held_back(qs: Array, chosen: Array, margin: float) -> Array:
    """How far the choices that were not shown exceed the one that was shown, less a margin; squared, `(members, batch)`."""
    shown = jax.lax.stop_gradient(_of(qs, chosen))
    over = jnp.maximum(0.0, qs + margin - shown[:, :, None])
    others = 1.0 - jax.nn.one_hot(chosen, qs.shape[2])
    return (others * over**2).sum(axis=2)


def _values(members: Table, s: Array) -> Array:
    """`(members, batch, choices)`."""
    return jax.vmap(lambda member: member(s))(members)


def _of(qs: Array, chosen: Array) -> Array:
    """The values of one choice for each row, `(members, batch)`."""
    return jnp.take_along_axis(qs, chosen[None, :, None], axis=2)[:, :, 0]

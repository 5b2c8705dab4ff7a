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

Where the critics see the state and the policy sees pictures (`critic_sees`), the members see the state too, and a pupil acts: a table on
what the policy sees, which learns to choose as the members do:

    L_P  = mean over batch of KL(softmax(m(s, ·) / τ), softmax(P(s, ·) / τ))      m: what choices are compared by; τ: near ties (`_near`)

It is taught, and bootstraps from nothing: a table that learned its targets from pictures would take the minimum over members that disagree
about every picture that is new to them. What it is worth apart from the rest was not measured (docs/hybrid.md).
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
TEACHERS = f"{PREFIX}teachers/"
"""The same for the members of a clone where a pupil acts; no other policy carries them."""
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


class Pupil(NamedTuple):
    """A table that acts by what the policy sees, its moving average and its optimiser. As a single member: (1, ...)."""

    table: Table
    average: Table
    optimiser: AdamState


class GraspState(NamedTuple):
    """What its updates change. Every array of a network has one more axis in front: (members, ...)."""

    members: Table
    target: Table
    optimiser: AdamState
    pupil: Pupil | None = None
    """What acts where the members see what no policy does."""


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
    pupil_sees: int = 0
    """How many numbers the policy sees, where the members see others and a pupil acts; 0: the members act."""

    def init(self, key: Array) -> GraspState:
        members = self._tables(key, self.config.grasp_ensemble_size, self.observation_dim)
        state = GraspState(members, jax.tree.map(jnp.copy, members), self._adam.init(members))
        if not self.pupil_sees:
            return state
        pupil = self._tables(jax.random.fold_in(key, 1), 1, self.pupil_sees)
        return state._replace(pupil=Pupil(pupil, jax.tree.map(jnp.copy, pupil), self._adam.init(pupil)))

    def _tables(self, key: Array, count: int, inputs: int) -> Table:
        return jax.vmap(lambda k: Table(k, inputs, int(np.prod(self.sizes)), self.config))(jax.random.split(key, count))

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

    def update(self, state: GraspState, batch: Batch, seen: Array | None = None) -> tuple[GraspState, Info, Array]:
        """One step towards the target; then the target networks a little towards the newest. Also whether all numbers were finite.

        `seen` is what the policy sees, for a pupil to learn from.
        """
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
        pupil = state.pupil
        if pupil is not None and seen is not None:
            pupil, further = self._taught(pupil, seen, self._worth(qs), finite, rate)
            info |= further
        return GraspState(members, target, optimiser, pupil), info, finite

    def _taught(self, pupil: Pupil, seen: Array, worth: Array, finite: Array, rate: Array) -> tuple[Pupil, Info]:
        """One step of the pupil towards the members' choices: how much is at stake matters near a tie, and not where one is far better."""
        wanted = jax.nn.log_softmax(worth / self._near)

        def loss(table: Table) -> tuple[Array, Array]:
            said = jax.nn.log_softmax(_values(table, seen)[0] / self._near)
            return (jnp.exp(wanted) * (wanted - said)).sum(axis=1).mean(), said

        (value, said), gradient = jax.value_and_grad(loss, has_aux=True)(pupil.table)
        table, optimiser = self._adam.step(pupil.table, pupil.optimiser, gradient, finite)
        average = jax.tree.map(lambda old, new: old + rate * (new - old), pupil.average, table)
        agrees = (said.argmax(axis=1) == worth.argmax(axis=1)).mean()
        return Pupil(table, average, optimiser), {"grasp_critic/pupil_loss": value, "grasp_critic/pupil_agrees": agrees}

    @property
    def _near(self) -> float:
        """Choices whose values differ by less are nearly as good as each other."""
        return self.config.grasp_temperature or self._margin / 10

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

    def acting(self, state: GraspState, newest: bool) -> Table:
        """What chooses: the newest table, which explores, or its moving average."""
        if state.pupil is not None:
            return state.pupil.table if newest else state.pupil.average
        return state.members if newest else state.target

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
        acting = _tables_in(parameters, PREFIX)
        if not acting:
            return state
        if state.pupil is None:
            members = from_arrays(state.members, acting, "the policy's grasp critic")
            return state._replace(members=members, target=jax.tree.map(jnp.copy, members))
        table, teachers = from_arrays(state.pupil.table, acting, "the policy's grasp critic"), _tables_in(parameters, TEACHERS)
        members = from_arrays(state.members, teachers, "the clone's grasp critics") if teachers else state.members
        pupil = state.pupil._replace(table=table, average=jax.tree.map(jnp.copy, table))
        return state._replace(members=members, target=jax.tree.map(jnp.copy, members), pupil=pupil)

    # ---- a start from demonstrations

    def cloned(self, demos: Batch, steps: int, seed: int, seen: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Parameters that value what demonstrations show by the return that followed, and everything else less: so they do the same.

        Where a pupil acts, `seen` is what it sees of the demonstrations; its teachers are cloned too, and go along.
        """
        demos, key = jax.tree.map(jnp.asarray, demos._replace(raw={}, next_raw={})), jax.random.PRNGKey(seed)
        members = self._cloned(demos, steps, key, self.config.grasp_ensemble_size)
        if not self.pupil_sees:
            return self.parameters(members)
        teachers = {f"{TEACHERS}{name}": array for name, array in to_arrays(members).items()}
        return teachers | self.parameters(self._cloned(demos._replace(observations=jnp.asarray(seen)), steps, key, 1))

    @partial(jax.jit, static_argnames=("self", "steps", "count"))
    def _cloned(self, demos: Batch, steps: int, key: Array, count: int) -> Table:
        key, init_key = jax.random.split(key)
        members, adam, chosen = self._tables(init_key, count, demos.observations.shape[1]), Adam(CLONE_RATE), self.choice(demos.actions)
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


def _tables_in(parameters: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays of the tables whose names begin so, without it."""
    return {name.removeprefix(prefix): a for name, a in parameters.items() if name.startswith((f"{prefix}trunk/", f"{prefix}head/"))}


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

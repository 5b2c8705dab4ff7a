"""Behaviour cloning: SAC's actor trained to imitate demonstrations. A baseline, and a start for SAC.

It minimises the squared distance between the policy's mode (its mean action) and the demonstrated action. The likelihood would be the more
natural loss, but executed actions are clipped, and at exactly ±1 the density of a tanh-Gaussian is unbounded: the fit is then dominated by
the few clipped actions. The squared distance has no such problem. It does not train the std, so that is set (`std`): small enough that a
sampled action is close to the learned one.

There are two results: the policy with the best validation loss, and the policy after the last step, which has overfitted the
demonstrations. On contact-rich tasks the second often succeeds more often, though its validation loss is worse: say which of them a figure
belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tandem.agents.parameters import Adam, AdamState, to_arrays
from tandem.agents.sac import policy_parameters
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_networks import new_actor
from tandem.agents.saved import from_arrays
from tandem.errors import ConfigError, DataError
from tandem.networks.mlp import TanhGaussian

if TYPE_CHECKING:
    from tandem.agents.grasp import GraspCritic, Table
    from tandem.networks.heads import Seeing

Seen = Any
"""Observations `(N, D)`; with cameras also their features by name, and with eyes that learn to say the state also that."""


@dataclass(frozen=True)
class BCConfig:
    """Settings of behaviour cloning."""

    batch_size: int = 256
    """Transitions per update, drawn with replacement."""
    learning_rate: float = 3e-4
    """Step size of Adam."""
    weight_decay: float = 0.0
    """Weight decay of AdamW; 0 is plain Adam."""
    validation_share: float = 0.1
    """Share of the episodes held out for validation; at least one episode."""
    eval_period: int = 50
    """Updates between two validations."""
    patience: int = 10
    """Validations without improvement after which training stops."""
    min_steps: int = 0
    """Make at least this many updates, even without improvement: `last` is then a policy that was trained long."""
    max_steps: int = 20_000
    """Stop after this many updates in any case."""
    std: float = 0.3
    """Standard deviation of sampled actions, before tanh. It is set, not learned."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "eval_period", "patience", "max_steps"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.validation_share < 1:
            raise ConfigError(f"validation_share must be above 0 and below 1, got {self.validation_share}")
        if self.min_steps > self.max_steps:
            raise ConfigError(f"min_steps ({self.min_steps}) is more than max_steps ({self.max_steps})")


@dataclass(frozen=True)
class Clone:
    """The result: two policies in the form of `SAC.policy_parameters`, and the losses."""

    best: dict[str, np.ndarray]
    """The policy with the best validation loss."""
    last: dict[str, np.ndarray]
    """The policy after the last update."""
    best_step: int
    last_step: int
    validation_losses: tuple[float, ...]
    """One per `eval_period` updates: mean squared error per entry of the action."""
    train_losses: tuple[float, ...]
    """The same on the training batches, mean over the updates in between."""


def clone(
    config: BCConfig,
    network: SACConfig,
    observations: np.ndarray,
    actions: np.ndarray,
    episodes: np.ndarray,
    seed: int = 0,
    features: Mapping[str, np.ndarray] | None = None,
) -> Clone:
    """Learn from observations `(N, D)` and actions `(N, action_dim)`; `episodes` `(N,)` is the episode of each.

    The network is the actor that SAC builds from `network`, so that `sac_start.with_policy` can continue from here. With the `features` of
    cameras, `(N, ...)` each by name, it has heads for them, which are trained with it.
    """
    held_out = validation_episodes(config, episodes, seed)

    def chosen(rows: np.ndarray) -> tuple[Seen, Array]:
        flat = jnp.asarray(observations[rows], jnp.float32)
        seen = (flat, {name: jnp.asarray(values[rows]) for name, values in features.items()}) if features else flat
        return seen, jnp.asarray(actions[rows], jnp.float32)

    train_data, validation_data = chosen(~np.isin(episodes, held_out)), chosen(np.isin(episodes, held_out))
    key, actor_key = jax.random.split(jax.random.PRNGKey(seed))
    actor = _new_clone(config, network, actor_key, observations, actions, features)
    optimiser_state = Adam(config.learning_rate).init(actor)
    best, best_step, train_losses, losses = actor, 0, [], [np.inf]
    step = 0
    while step < config.max_steps and (step < config.min_steps or step - best_step < config.patience * config.eval_period):
        key, batches_key = jax.random.split(key)
        actor, optimiser_state, train_loss, loss = _train(config, actor, optimiser_state, train_data, validation_data, batches_key)
        step += config.eval_period
        train_losses.append(float(train_loss))
        if loss < min(losses):
            best, best_step = actor, step
        losses.append(float(loss))
    return Clone(policy_parameters(best), policy_parameters(actor), best_step, step, tuple(losses[1:]), tuple(train_losses))


def _new_clone(
    config: BCConfig,
    network: SACConfig,
    key: Array,
    observations: np.ndarray,
    actions: np.ndarray,
    features: Mapping[str, np.ndarray] | None,
    state: np.ndarray | None = None,
) -> TanhGaussian | Seeing:
    if not features:
        return with_std(new_actor(network, key, observations.shape[1], actions.shape[1]), config.std)
    from tandem.networks.heads import UNITS, Seeing, head_input, new_heads, new_read_out  # only those with cameras need it

    seen = observations.shape[1] + UNITS * len(features)
    cameras = tuple((name, head_input(features[name].shape[1:], network.camera_head)) for name in sorted(features))
    heads = new_heads(jax.random.fold_in(key, 1), cameras)
    read_out = None if state is None else new_read_out(key, seen, state.shape[1])
    return Seeing(heads, with_std(new_actor(network, key, seen, actions.shape[1]), config.std), read_out)


CLONE_RATE = 1e-3
"""Learning rate of a clone to start from: it should be near in seconds, not exact."""
BLOCK = 50
"""Updates that are compiled as one program."""


def start_as_clone(
    network: SACConfig,
    observations: np.ndarray,
    actions: np.ndarray,
    steps: int,
    seed: int,
    features: Mapping[str, np.ndarray] | None = None,
    state: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """The parameters of an actor after so many updates on all demonstrations, for SAC to start from; nothing is held out.

    With the `state` that a simulation knows, `(N, ...)`, its eyes learn to say that too (`SACConfig.state_loss`).
    """
    config = BCConfig(learning_rate=CLONE_RATE, eval_period=BLOCK)
    key, actor_key = jax.random.split(jax.random.PRNGKey(seed))
    actor = _new_clone(config, network, actor_key, observations, actions, features, state)
    flat = jnp.asarray(observations)
    told = () if state is None else (jnp.asarray(state),)
    seen = (flat, {name: jnp.asarray(values) for name, values in features.items()}, *told) if features else flat
    optimiser_state, data = Adam(config.learning_rate).init(actor), (seen, jnp.asarray(actions))
    for _ in range(0, steps, BLOCK):
        key, batches_key = jax.random.split(key)
        actor, optimiser_state, _, _ = _train(config, actor, optimiser_state, data, data, batches_key)
    return policy_parameters(actor)


def validation_episodes(config: BCConfig, episodes: np.ndarray, seed: int) -> np.ndarray:
    """Whole episodes are held out: steps of one episode are too similar to validate each other."""
    names = np.unique(episodes)
    if len(names) < 2:
        raise DataError(f"cloning needs at least two episodes, one to learn from and one to check with; got {len(names)}")
    count = min(max(1, round(config.validation_share * len(names))), len(names) - 1)
    return np.random.default_rng([seed, 3]).choice(names, count, replace=False)


def with_std(actor: TanhGaussian, std: float) -> TanhGaussian:
    """The same actor with this standard deviation for every observation."""
    head = actor.log_std
    return eqx.tree_at(lambda a: (a.log_std.weight, a.log_std.bias), actor, (head.weight * 0, jnp.full_like(head.bias, np.log(std))))


def _loss(actor: TanhGaussian | Seeing, seen: Seen, actions: Array) -> Array:
    if isinstance(actor, TanhGaussian):
        return cloning_mse(actor.mode(seen), actions)
    vector, features, *state = seen
    numbers = actor.see(vector, features)
    return cloning_mse(actor.values.mode(numbers), actions) + sum(actor.misread(numbers, told) for told in state)


def _log_std(actor: TanhGaussian | Seeing) -> Any:
    return actor.log_std if isinstance(actor, TanhGaussian) else actor.values.log_std


def _updated(config: BCConfig, carry: tuple[Any, AdamState], seen: Seen, actions: Array) -> tuple[tuple[Any, AdamState], Array]:
    """One update. The head of the std is kept as it is: the loss has no gradient for it, but weight decay would move it."""
    actor, optimiser_state = carry
    value, gradient = jax.value_and_grad(_loss)(actor, seen, actions)
    moved, optimiser_state = Adam(config.learning_rate, config.weight_decay).step(actor, optimiser_state, gradient)
    return (eqx.tree_at(_log_std, moved, _log_std(actor)), optimiser_state), value


class Imitating(NamedTuple):
    """What the updates of an `Imitator` change."""

    actor: tuple[Any, AdamState]
    choices: tuple[Table, AdamState] | None
    """The table of the discrete parts, where the action has any."""


@partial(jax.jit, static_argnums=(0, 1))
def _train_on(config: BCConfig, grasp: GraspCritic | None, state: Imitating, seen: Seen, actions: Array) -> tuple[Imitating, Array]:
    """One update for each of these batches; returns the mean loss of the axes."""

    def update(now: Imitating, batch: tuple[Seen, Array]) -> tuple[Imitating, Array]:
        seen, actions = batch
        actor, loss = _updated(config, now.actor, seen, actions if grasp is None else grasp.arm(actions))
        if grasp is None or now.choices is None:
            return Imitating(actor, None), loss
        numbers = seen if isinstance(actor[0], TanhGaussian) else actor[0].see(*seen)  # the axes alone teach the heads to see
        return Imitating(actor, grasp.imitate(now.choices, numbers, actions, config.learning_rate)), loss

    state, losses = jax.lax.scan(update, state, (seen, actions))
    return state, losses.mean()


class Imitator:
    """A clone that goes on learning while its data grow (HG-DAgger)."""

    def __init__(
        self,
        config: BCConfig,
        network: SACConfig,
        observations: np.ndarray,
        actions: np.ndarray,
        seed: int,
        features: Mapping[str, np.ndarray],
        grasp: GraspCritic | None = None,
    ) -> None:
        """The arrays give the sizes of what it sees and does; `grasp` has the discrete parts of the action, where there are any."""
        self._config, self._grasp = config, grasp
        key = jax.random.PRNGKey(seed)
        axes = actions if grasp is None else np.delete(actions, grasp.columns, axis=1)
        actor = _new_clone(config, network, key, observations, axes, features)
        adam, choices = Adam(config.learning_rate), None
        if grasp is not None:
            members = grasp.init(jax.random.fold_in(key, 2)).members
            choices = (members, adam.init(members))
        self._state = Imitating((actor, adam.init(actor)), choices)

    def learn(self, observations: np.ndarray, actions: np.ndarray, features: Mapping[str, np.ndarray]) -> float:
        """`(updates, batch, ...)` each: one update for each batch. Returns the mean loss."""
        flat = jnp.asarray(observations, jnp.float32)
        seen = (flat, {name: jnp.asarray(values) for name, values in features.items()}) if features else flat
        self._state, loss = _train_on(self._config, self._grasp, self._state, seen, jnp.asarray(actions, jnp.float32))
        return float(loss)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        choices = {} if self._grasp is None or self._state.choices is None else self._grasp.parameters(self._state.choices[0])
        return policy_parameters(self._state.actor[0]) | choices

    def arrays(self) -> dict[str, np.ndarray]:
        """Networks and optimisers, for a checkpoint."""
        return to_arrays(self._state)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._state = from_arrays(self._state, arrays, "the clone's state")


@partial(jax.jit, static_argnums=0)
def _train(
    config: BCConfig,
    actor: TanhGaussian | Seeing,
    optimiser_state: AdamState,
    train_data: tuple[Seen, Array],
    validation_data: tuple[Seen, Array],
    key: Array,
) -> tuple[TanhGaussian | Seeing, AdamState, Array, Array]:
    """`eval_period` updates, then a validation. Returns the losses of both."""

    def update(carry: tuple[Any, AdamState], rows: Array) -> tuple[tuple[Any, AdamState], Array]:
        return _updated(config, carry, *jax.tree.map(lambda array: array[rows], train_data))

    rows = jax.random.randint(key, (config.eval_period, config.batch_size), 0, len(train_data[1]))
    (actor, optimiser_state), train_losses = jax.lax.scan(update, (actor, optimiser_state), rows)
    return actor, optimiser_state, train_losses.mean(), _loss(actor, *validation_data)


def cloning_mse(modes: Array, actions: Array) -> Array:
    """Squared distance between the policy's mode and the demonstrated action, mean over batch and entries."""
    assert modes.ndim == 2 and modes.shape == actions.shape, (modes.shape, actions.shape)
    return jnp.mean((modes - actions) ** 2)

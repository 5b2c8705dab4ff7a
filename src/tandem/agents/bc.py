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

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tandem.agents.parameters import Adam, AdamState
from tandem.agents.sac import new_actor, policy_parameters
from tandem.agents.sac_config import SACConfig
from tandem.errors import ConfigError, DataError
from tandem.networks.mlp import TanhGaussian


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
    config: BCConfig, network: SACConfig, observations: np.ndarray, actions: np.ndarray, episodes: np.ndarray, seed: int = 0
) -> Clone:
    """Learn from observations `(N, D)` and actions `(N, action_dim)`; `episodes` `(N,)` is the episode of each.

    The network is the actor that SAC builds from `network`, so that `SAC.with_policy` can continue from here.
    """
    held_out = validation_episodes(config, episodes, seed)
    train, validation = ~np.isin(episodes, held_out), np.isin(episodes, held_out)
    train_data = jnp.asarray(observations[train], jnp.float32), jnp.asarray(actions[train], jnp.float32)
    validation_data = jnp.asarray(observations[validation], jnp.float32), jnp.asarray(actions[validation], jnp.float32)

    key, actor_key = jax.random.split(jax.random.PRNGKey(seed))
    actor = with_std(new_actor(network, actor_key, observations.shape[1], actions.shape[1]), config.std)
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


CLONE_RATE = 1e-3
"""Learning rate of a clone to start from: it should be near in seconds, not exact."""
BLOCK = 50
"""Updates that are compiled as one program."""


def start_as_clone(network: SACConfig, observations: np.ndarray, actions: np.ndarray, steps: int, seed: int) -> dict[str, np.ndarray]:
    """The parameters of an actor after so many updates on all demonstrations, for SAC to start from; nothing is held out."""
    config = BCConfig(learning_rate=CLONE_RATE, eval_period=BLOCK)
    key, actor_key = jax.random.split(jax.random.PRNGKey(seed))
    actor = with_std(new_actor(network, actor_key, observations.shape[1], actions.shape[1]), config.std)
    optimiser_state, data = Adam(config.learning_rate).init(actor), (jnp.asarray(observations), jnp.asarray(actions))
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


@partial(jax.jit, static_argnums=0)
def _train(
    config: BCConfig,
    actor: TanhGaussian,
    optimiser_state: AdamState,
    train_data: tuple[Array, Array],
    validation_data: tuple[Array, Array],
    key: Array,
) -> tuple[TanhGaussian, AdamState, Array, Array]:
    """`eval_period` updates, then a validation. Returns the losses of both.

    The head of the std is kept as it is: the loss has no gradient for it, but weight decay would move it.
    """
    adam = Adam(config.learning_rate, config.weight_decay)

    def loss(actor: TanhGaussian, observations: Array, actions: Array) -> Array:
        return cloning_mse(actor.mode(observations), actions)

    def update(carry: tuple[TanhGaussian, AdamState], rows: Array) -> tuple[tuple[TanhGaussian, AdamState], Array]:
        actor, optimiser_state = carry
        value, gradient = jax.value_and_grad(loss)(actor, train_data[0][rows], train_data[1][rows])
        moved, optimiser_state = adam.step(actor, optimiser_state, gradient)
        return (eqx.tree_at(lambda a: a.log_std, moved, actor.log_std), optimiser_state), value

    rows = jax.random.randint(key, (config.eval_period, config.batch_size), 0, len(train_data[0]))
    (actor, optimiser_state), train_losses = jax.lax.scan(update, (actor, optimiser_state), rows)
    return actor, optimiser_state, train_losses.mean(), loss(actor, *validation_data)


def cloning_mse(modes: Array, actions: Array) -> Array:
    """Squared distance between the policy's mode and the demonstrated action, mean over batch and entries."""
    assert modes.ndim == 2 and modes.shape == actions.shape, (modes.shape, actions.shape)
    return jnp.mean((modes - actions) ** 2)

"""Proximal Policy Optimisation: how a rollout changes the parameters.

One iteration is `evaluate` (what did the policy think of each step, before anything is learned from it), advantages by the caller,
then `update`: `num_learning_epochs` times through all samples, in another order each time, a gradient step for every mini-batch.

The policy that acted is kept as the mean and std of every action, by `evaluate` and not by the calls that chose the actions: those
see another number of rows, and a matrix product may round differently for it. `evaluate` and `update` run the same forward pass on
chunks of the same number of rows, and ratio and KL are computed from differences of mean and std. So before the first gradient
step the ratio is exactly 1 and the KL exactly 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.lax import optimization_barrier

from tandem.agents.adam import Adam, AdamState
from tandem.agents.arrays import from_arrays, to_arrays
from tandem.agents.losses import adapted_learning_rate, clipped_surrogate, clipped_value_loss
from tandem.agents.symmetry import Mirror, with_symmetry
from tandem.errors import ConfigError
from tandem.networks import gaussian
from tandem.networks.ensemble import Regressor
from tandem.networks.gaussian import Gaussian, StdType
from tandem.networks.mlp import ACTIVATIONS, Init
from tandem.networks.recurrent import RNN_TYPES, RNNType

Numbers = Any
"""NumPy's on the host, JAX's inside a jitted function."""
CHUNK = 4096
"""Rows whose gradient is computed at once: their activations stay in the cache, which is worth 15 % of an update of 4096 x 24 steps."""


@dataclass(frozen=True)
class PPOConfig:
    """Names and defaults of rsl_rl."""

    num_learning_epochs: int = 5
    """Times that every sample is learned from."""
    num_mini_batches: int = 4
    """Gradient steps in one epoch; the samples of a rollout must divide by it."""
    clip_param: float = 0.2
    """How far the ratio of new to old probability may go before it is worth nothing more; of values too, with use_clipped_value_loss."""
    gamma: float = 0.99
    """What a reward is worth one step later."""
    lam: float = 0.95
    """How much of an advantage comes from rewards that were seen rather than values that were guessed."""
    value_loss_coef: float = 1.0
    """Weight of the value loss."""
    entropy_coef: float = 0.01
    """Weight of the entropy."""
    learning_rate: float = 1e-3
    """Of Adam, at the start."""
    max_grad_norm: float = 1.0
    """Longest gradient; of policy and values each, unless joint_grad_norm."""
    joint_grad_norm: bool = False
    """Shorten both gradients together by their common length."""
    use_clipped_value_loss: bool = True
    """No gain for moving a value by more than clip_param, in the units of the values: where those are large, normalise or switch it off."""
    schedule: Literal["adaptive", "fixed", "linear"] = "adaptive"
    """Of the learning rate: by the KL, none, or to 0 at max_iterations."""
    desired_kl: float = 0.01
    """KL of old to new policy that the adaptive schedule aims at."""
    kl_high: float = 2.0
    """Above this times desired_kl the learning rate is lowered."""
    kl_low: float = 0.5
    """Below this times desired_kl it is raised."""
    learning_rate_factor: float = 1.5
    """By how much, each time."""
    learning_rate_range: tuple[float, float] = (1e-5, 1e-2)
    """Its bounds."""
    stop_kl: float | None = None
    """Skip the rest of the updates of an iteration once the KL of a mini-batch is above this."""
    normalize_advantage_per_mini_batch: bool = False
    """Normalise advantages over each mini-batch rather than over the whole rollout."""
    normalize_values: bool = False
    """Learn values in units of the returns' running std; what the critic predicts does not jump when that moves."""
    adam_epsilon: float = 1e-8
    """What keeps Adam from dividing by zero."""
    use_data_augmentation: bool = False
    """Learn from every sample in the mirror as well, where the task declares a symmetry."""
    use_mirror_loss: bool = False
    """Draw the policy in the mirror towards the mirrored policy."""
    mirror_loss_coeff: float = 0.0
    """Weight of that."""

    actor_hidden_dims: tuple[int, ...] = (256, 256, 256)
    """Units of the policy's hidden layers."""
    critic_hidden_dims: tuple[int, ...] = (256, 256, 256)
    """Units of the value network's hidden layers."""
    actor_rnn_type: RNNType = "none"
    """Recurrent layers before those of the policy, with which it remembers what it has seen in this episode."""
    actor_rnn_hidden_dim: int = 256
    """Units of each of them."""
    actor_rnn_num_layers: int = 1
    """How many."""
    critic_rnn_type: RNNType = "none"
    """The same for the value network; either may go without."""
    critic_rnn_hidden_dim: int = 256
    """Units of each of them."""
    critic_rnn_num_layers: int = 1
    """How many."""
    activation: Literal["tanh", "relu", "swish", "elu"] = "elu"
    """Of every hidden layer."""
    init: Init = "torch"
    """How weights begin: as PyTorch's, orthogonal (with a policy that begins near 0), or by Xavier's rule."""
    init_std: float = 1.0
    """Spread of the actions at the start."""
    std_type: StdType = "scalar"
    """What of the spread is learned: itself, its logarithm, or its logarithm for each observation."""
    std_range: tuple[float, float] = (0.01, 10.0)
    """Bounds of the spread, which it never quite reaches."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("num_learning_epochs", 1, np.inf),
            ("num_mini_batches", 1, np.inf),
            ("clip_param", 1e-6, np.inf),
            ("gamma", 0.0, 1.0),
            ("lam", 0.0, 1.0),
            ("value_loss_coef", 0.0, np.inf),
            ("learning_rate", 0.0, np.inf),
            ("max_grad_norm", 1e-12, np.inf),
            ("desired_kl", 1e-12, np.inf),
            ("kl_low", 0.0, self.kl_high),
            ("learning_rate_factor", 1.0, np.inf),
            ("stop_kl", 0.0, np.inf),
            ("adam_epsilon", 0.0, np.inf),
            ("mirror_loss_coeff", 0.0, np.inf),
            ("actor_rnn_hidden_dim", 1, np.inf),
            ("actor_rnn_num_layers", 1, np.inf),
            ("critic_rnn_hidden_dim", 1, np.inf),
            ("critic_rnn_num_layers", 1, np.inf),
        ):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ConfigError(f"{name} must be from {low:g} to {high:g}, got {value}")
        for name, known in (
            ("schedule", ("adaptive", "fixed", "linear")),
            ("activation", tuple(ACTIVATIONS)),
            ("init", ("xavier", "orthogonal", "torch")),
            ("std_type", ("scalar", "log", "state")),
            ("actor_rnn_type", ("none", *RNN_TYPES)),
            ("critic_rnn_type", ("none", *RNN_TYPES)),
        ):
            if getattr(self, name) not in known:
                raise ConfigError(f"{name} must be one of {', '.join(known)}, got '{getattr(self, name)}'")
        for name in ("actor_hidden_dims", "critic_hidden_dims"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise ConfigError(f"{name} must name the units of at least one layer, got {getattr(self, name)}")
        for name, inside in (("std_range", self.init_std), ("learning_rate_range", None)):
            low, high = getattr(self, name)
            if not 0 < low < high:
                raise ConfigError(f"{name} must be two rising numbers above 0, got {low} {high}")
            if inside is not None and not low < inside < high:
                raise ConfigError(f"init_std must be between the bounds of std_range ({low:g} and {high:g}), got {inside}")

    @property
    def recurrent(self) -> bool:
        """Whether either network remembers (`RecurrentPPO`)."""
        return self.actor_rnn_type != "none" or self.critic_rnn_type != "none"


class PPOState(NamedTuple):
    """All that an update changes. `update` takes it and gives a new one; the one it took is gone."""

    actor: Any
    """A `Gaussian`, or a `Recurrent` of one."""
    critic: Any
    """A `Regressor`, or a `Recurrent` of one."""
    actor_optimiser: AdamState
    critic_optimiser: AdamState
    learning_rate: Array
    """() float32: the last one used, which the adaptive schedule goes on from."""


class Opinion(NamedTuple):
    """What the networks say of an observation."""

    mean: Numbers
    """(batch, action_dim)"""
    std: Numbers
    """(batch, action_dim)"""
    value: Numbers
    """(batch,)"""


class Samples(NamedTuple):
    """What an update learns from; one row per step of an environment, in any order."""

    observations: Numbers
    """(batch, observation_dim), normalised"""
    actions: Numbers
    """(batch, action_dim) as they were drawn"""
    old: Opinion
    advantages: Numbers
    """(batch,)"""
    returns: Numbers
    """(batch,)"""


class Part(NamedTuple):
    """Samples as the loss gets them: all of them, a mini-batch, or a chunk of one."""

    rows: Array
    """(batch, numbers): a sample each; or (batch, T, numbers): an environment each, with its steps in order"""
    advantages: Array
    """(batch,) or (batch, T); they may be normalised in every mini-batch anew"""
    memories: tuple[Array, ...] = ()
    """(batch, size) each: what networks that remember knew before the first of these steps"""


Info = dict[str, Array]
"""Metrics of one update, still on the device."""
Loss = Callable[[Any, Part], tuple[Array, Info]]
"""Of actor and critic, on a chunk."""


@dataclass(frozen=True)
class PPO:
    """The agent: its configuration and the functions that change a `PPOState`. It holds no numbers of its own."""

    config: PPOConfig
    observation_dim: int
    action_dim: int
    actor_columns: tuple[int, ...] | None = None
    """Which numbers of an observation the policy sees; None: all."""
    critic_columns: tuple[int, ...] | None = None
    """Which the value network sees; it may see more than the policy, for it is not needed to act."""
    mirror: Mirror | None = None
    """The task's symmetry, where it is learned from."""

    @partial(jax.jit, static_argnames="self")
    def init(self, seed: int) -> PPOState:
        """Networks before the first update, from the seed alone."""
        actor_key, critic_key = jax.random.split(jax.random.PRNGKey(seed))
        inputs = _count(self.actor_columns, self.observation_dim), _count(self.critic_columns, self.observation_dim)
        return self.begin(*self.networks(actor_key, critic_key, inputs[0], inputs[1]))

    def networks(self, actor_key: Array, critic_key: Array, actor_inputs: int, critic_inputs: int) -> tuple[Gaussian, Regressor]:
        config = self.config
        actor = Gaussian(
            actor_key,
            actor_inputs,
            self.action_dim,
            config.actor_hidden_dims,
            activation=config.activation,
            init=config.init,
            init_std=config.init_std,
            std_type=config.std_type,
            std_range=config.std_range,
        )
        return actor, Regressor(critic_key, critic_inputs, config.critic_hidden_dims, activation=config.activation, init=config.init)

    def begin(self, actor: Any, critic: Any) -> PPOState:
        """These networks with nothing learned yet."""
        adam = Adam(self.config.learning_rate)
        return PPOState(actor, critic, adam.init(actor), adam.init(critic), jnp.float32(self.config.learning_rate))

    @partial(jax.jit, static_argnames="self")
    def act(self, actor: Gaussian, observations: Array, noise: Array) -> Array:
        """Actions `(rows, action_dim)` as they are drawn while learning, from standard normal noise; not clipped."""
        mean, std = actor(_seen(observations, self.actor_columns))
        return mean + std * noise

    @partial(jax.jit, static_argnames="self")
    def evaluate(self, state: PPOState, observations: Array) -> Opinion:
        """What the networks say of every observation of a rollout, before they learn from it."""
        size = chunk_rows(observations.shape[0] // self.config.num_mini_batches)
        chunks = observations.reshape(-1, size, self.observation_dim)
        _, opinions = jax.lax.scan(lambda _, chunk: (None, self._opinion((state.actor, state.critic), chunk)), None, chunks)
        return jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), opinions)

    @partial(jax.jit, static_argnames="self")
    def values(self, critic: Regressor, observations: Array) -> Array:
        """Of observations for which nobody asks what was done then, `(rows,)`."""
        return critic(_seen(observations, self.critic_columns))

    @partial(jax.jit, static_argnames="self", donate_argnames="state")
    def update(self, state: PPOState, samples: Samples, order: Array, progress: float) -> tuple[PPOState, Info]:
        """All epochs and mini-batches. `order` `(num_learning_epochs, batch)` says in which order each epoch takes the samples.

        `progress`, from 0 to 1, is how much of the training is done (for the linear schedule). Metrics are means over the updates
        that were made.
        """
        return self.learn(state, Part(side_by_side(samples), samples.advantages), self._loss, order, progress)

    def learn(self, state: PPOState, samples: Part, loss: Loss, order: Array, progress: float) -> tuple[PPOState, Info]:
        """`update`, by a loss of any kind; `order` is that of the samples along their first axis."""
        config = self.config
        batch = samples.rows.shape[0]
        assert order.shape == (config.num_learning_epochs, batch), (order.shape, config.num_learning_epochs, batch)
        if config.schedule != "adaptive":
            left = 1 - progress if config.schedule == "linear" else 1.0
            state = state._replace(learning_rate=jnp.float32(config.learning_rate * left))
        flat, shaped = _flattened(state)
        order = order.reshape(-1, batch // config.num_mini_batches)
        advantages = samples.advantages[order]
        if config.normalize_advantage_per_mini_batch:
            advantages = _normalised_each(advantages)
        names: list[str] = []  # of the metrics; known once `one` has been traced

        def one(carry: tuple[PPOState, Array], which: tuple[Array, Array]) -> tuple[tuple[PPOState, Array], Array]:
            (state, stopped), (indices, advantages) = carry, which
            # all of a sample lies side by side, so that it is fetched from memory once
            taken = jax.tree.map(
                lambda rows: jnp.take(rows, indices, axis=0, mode="clip", unique_indices=True), (samples.rows, samples.memories)
            )
            state, info, stopped = self._step(state, shaped, loss, Part(taken[0], advantages, taken[1]), stopped)
            names[:] = sorted(info)
            return (state, stopped), jnp.stack([jnp.float32(info[name]) for name in names])

        (flat, _), measured = jax.lax.scan(one, (flat, jnp.array(False)), (order, advantages))
        state = shaped(flat)
        infos = dict(zip(names, measured.T, strict=True))
        made = infos.pop("made") > 0
        info = {name: jnp.where(made, values, 0).sum() / jnp.maximum(made.sum(), 1) for name, values in infos.items()}
        info["Policy/first_ratio_error"] = infos["Policy/first_ratio_error"][0]
        info["Loss/updates"], info["Loss/dropped_updates"] = made.sum(), infos["Loss/dropped_updates"].sum()
        info["Loss/learning_rate"] = state.learning_rate
        return state, info

    def _step(
        self, state: PPOState, shaped: Callable[[PPOState], PPOState], loss: Loss, mini_batch: Part, stopped: Array
    ) -> tuple[PPOState, Info, Array]:
        """One gradient step, unless the KL says stop or a number is none. `state` is flat, as `_flattened` made it."""
        config, networks = self.config, shaped(state)
        gradient, info = self._gradient((networks.actor, networks.critic), loss, mini_batch)
        gradient = ravel_pytree(gradient[0])[0], ravel_pytree(gradient[1])[0]
        kl, rate = info["Policy/kl"], state.learning_rate
        if config.stop_kl is not None:
            stopped = stopped | (kl > config.stop_kl)
        if config.schedule == "adaptive":
            rate = adapted_learning_rate(
                rate,
                kl,
                config.desired_kl,
                high=config.kl_high,
                low=config.kl_low,
                factor=config.learning_rate_factor,
                bounds=config.learning_rate_range,
            )
        actor_norm, critic_norm = _norm(gradient[0]), _norm(gradient[1])
        joint = jnp.hypot(actor_norm, critic_norm)
        finite = jnp.isfinite(joint)
        accept = finite & ~stopped
        adam = Adam(rate, epsilon=config.adam_epsilon)
        moved = []
        for network, optimiser, g, norm in (
            (state.actor, state.actor_optimiser, gradient[0], actor_norm),
            (state.critic, state.critic_optimiser, gradient[1], critic_norm),
        ):
            shrink = jnp.minimum(1.0, config.max_grad_norm / ((joint if config.joint_grad_norm else norm) + 1e-6))
            moved.append(adam.step(network, optimiser, g * shrink, accept))
        (actor, actor_optimiser), (critic, critic_optimiser) = moved
        rate = jnp.where(accept, rate, state.learning_rate)
        info |= {"Policy/grad_norm": actor_norm, "Value/grad_norm": critic_norm, "Loss/dropped_updates": ~finite & ~stopped, "made": accept}
        return PPOState(actor, critic, actor_optimiser, critic_optimiser, rate), info, stopped

    def _gradient(self, networks: Any, loss: Loss, mini_batch: Part) -> tuple[Any, Info]:
        """Of the loss of a mini-batch, and its metrics; computed chunk by chunk, because a small one stays in the cache."""
        size = chunk_rows(len(mini_batch.rows), steps=mini_batch.advantages[0].size)
        chunks = jax.tree.map(lambda rows: rows.reshape(len(rows) // size, size, *rows.shape[1:]), mini_batch)
        gradient_of = jax.value_and_grad(loss, has_aux=True)

        def add(total: Any, chunk: Part) -> tuple[Any, Info]:
            (_, info), gradient = gradient_of(networks, chunk)
            return jax.tree.map(jnp.add, total, gradient), info

        total, infos = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, networks), chunks)
        info = {name: values.max() if name == "Policy/first_ratio_error" else values.mean() for name, values in infos.items()}
        return jax.tree.map(lambda g: g / len(chunks.rows), total), info

    def _loss(self, networks: tuple[Gaussian, Regressor], chunk: Part) -> tuple[Array, Info]:
        samples = self.apart(chunk.rows, chunk.advantages)
        if self.mirror is not None:
            return with_symmetry(self.config, self.mirror, samples, lambda x: self._opinion(networks, x), self.loss)
        return self.loss(samples, self._opinion(networks, samples.observations))

    def loss(self, samples: Samples, new: Opinion) -> tuple[Array, Info]:
        """Of what the networks say now of these samples, and its metrics."""
        config, old = self.config, samples.old
        log_ratio = gaussian.log_ratio(samples.actions, old.mean, old.std, new.mean, new.std)
        surrogate, ratio = clipped_surrogate(log_ratio, samples.advantages, config.clip_param)
        value = clipped_value_loss(new.value, old.value, samples.returns, config.clip_param if config.use_clipped_value_loss else None)
        entropy = gaussian.entropy(new.std).mean()
        info = {
            "Loss/surrogate": surrogate,
            "Loss/value": value,
            "Loss/entropy": entropy,
            "Policy/kl": gaussian.kl(old.mean, old.std, new.mean, new.std).mean(),
            "Policy/clip_fraction": (jnp.abs(ratio - 1) > config.clip_param).mean(),
            "Policy/first_ratio_error": jnp.abs(ratio - 1).max(),
            "Policy/mean_std": new.std.mean(),
        }
        return surrogate + config.value_loss_coef * value - config.entropy_coef * entropy, info

    def _opinion(self, networks: Any, observations: Array) -> Opinion:
        actor, critic = networks
        mean, std = actor(_seen(observations, self.actor_columns))
        value = critic(_seen(observations, self.critic_columns))
        # Nothing that uses these may be merged into computing them: `evaluate` and `update` use them differently, and must agree on them.
        return Opinion(*optimization_barrier((mean, std, value)))

    @partial(jax.jit, static_argnames="self", donate_argnames="state")
    def rescaled(self, state: PPOState, scale: float, shift: float) -> PPOState:
        """The critic's answer becomes scale · answer + shift, and nothing else: values in new units (van Hasselt et al. 2016)."""
        head = state.critic.head
        critic = eqx.tree_at(lambda c: (c.head.weight, c.head.bias), state.critic, (head.weight * scale, head.bias * scale + shift))
        return state._replace(critic=critic)

    def policy_parameters(self, state: PPOState, mean: np.ndarray, std: np.ndarray, clip: float) -> dict[str, np.ndarray]:
        """What it takes to act (`NumpyGaussian`): the actor's arrays, what it sees, and the normaliser it sees through."""
        columns = np.arange(self.observation_dim) if self.actor_columns is None else np.array(self.actor_columns)
        arrays = to_arrays(state.actor)
        if self.config.std_type != "state":
            raw = arrays.pop("raw_std")
            arrays["std"] = np.array(gaussian.std_of_raw(jnp.asarray(raw), self.config.std_type, self.config.std_range))
        return arrays | {
            "activation": np.array(list(ACTIVATIONS).index(self.config.activation), np.int32),
            "std_range": np.array(self.config.std_range, np.float32),
            "observation_dim": np.array(self.observation_dim, np.int32),
            "columns": columns.astype(np.int32),
            "normaliser/mean": mean[columns],
            "normaliser/std": std[columns],
            "normaliser/clip": np.array(clip, np.float32),
        }

    def arrays(self, state: PPOState) -> dict[str, np.ndarray]:
        """All of the state, by the path of the leaf."""
        return to_arrays(state)

    def from_arrays(self, template: PPOState, arrays: Mapping[str, np.ndarray]) -> PPOState:
        """What `arrays` gave, as a state; an error names the leaf that does not fit."""
        return from_arrays(template, arrays)

    def apart(self, rows: Array, advantages: Array) -> Samples:
        """What `side_by_side` put together, and the advantages, which it left out."""
        a, d = self.action_dim, self.observation_dim
        observations, actions, mean, std, rest = jnp.split(rows, [d, d + a, d + 2 * a, d + 3 * a], axis=1)
        value, returns = rest.T
        return Samples(observations, actions, Opinion(mean, std, value), advantages, returns)


def _normalised_each(advantages: Array) -> Array:
    """Of each mini-batch, `(mini-batches, ...)`, by its own mean and std."""
    axes = tuple(range(1, advantages.ndim))
    spread = advantages.std(axis=axes, keepdims=True, ddof=min(1, advantages[0].size - 1))
    return (advantages - advantages.mean(axis=axes, keepdims=True)) / (spread + 1e-8)


def side_by_side(samples: Samples) -> Array:
    """One row of numbers per sample: all but its advantage."""
    old = samples.old
    assert old.value.shape == samples.advantages.shape == samples.returns.shape, "one number per sample"
    single = jnp.stack([old.value, samples.returns], axis=1)
    return jnp.concatenate([samples.observations, samples.actions, old.mean, old.std, single], axis=1)


def chunk_rows(rows: int, steps: int = 1) -> int:
    """Rows (of so many steps each) to compute at once: the largest part of a mini-batch of at most `CHUNK` steps, all parts being equal."""
    least = min(rows, max(1, -(-rows * steps // CHUNK)))
    parts = next(parts for parts in range(least, rows + 1) if rows % parts == 0)
    return rows // parts if rows // parts * steps >= CHUNK // 4 else rows  # a size without divisors is taken whole


def _seen(observations: Array, columns: tuple[int, ...] | None) -> Array:
    return observations if columns is None else observations[:, np.array(columns)]


def _count(columns: tuple[int, ...] | None, all_of_them: int) -> int:
    return all_of_them if columns is None else len(columns)


def _norm(vector: Array) -> Array:
    return jnp.sqrt(jnp.vdot(vector, vector))


def _flattened(state: PPOState) -> tuple[PPOState, Callable[[PPOState], PPOState]]:
    """Each network, and each of its moments, as one vector, and the way back.

    With mini-batches of 64 an update is a hundred and sixty small computations, and what they compute takes less time than starting
    them. Adam and the length of the gradient are then three of them for a network, not three for each of its arrays.
    """
    (actor, shaped_actor), (critic, shaped_critic) = ravel_pytree(state.actor), ravel_pytree(state.critic)

    def flat(moments: AdamState) -> AdamState:
        return moments._replace(mean=ravel_pytree(moments.mean)[0], square=ravel_pytree(moments.square)[0])

    def shaped_moments(moments: AdamState, shape: Callable[[Any], Any]) -> AdamState:
        return moments._replace(mean=shape(moments.mean), square=shape(moments.square))

    def shaped(flat: PPOState) -> PPOState:
        return PPOState(
            shaped_actor(flat.actor),
            shaped_critic(flat.critic),
            shaped_moments(flat.actor_optimiser, shaped_actor),
            shaped_moments(flat.critic_optimiser, shaped_critic),
            flat.learning_rate,
        )

    moments = {"actor_optimiser": flat(state.actor_optimiser), "critic_optimiser": flat(state.critic_optimiser)}
    return state._replace(actor=actor, critic=critic, **moments), shaped

"""Proximal Policy Optimisation (Schulman et al. 2017): how a rollout changes the parameters.

One iteration is `evaluate` (outputs of the networks for each step, before anything is learned from it), advantages by the caller, then
`update`: `num_learning_epochs` passes over all samples, each in a new random order, with one gradient step per mini-batch.

The old policy is kept as mean and std of every action. They come from `evaluate`, not from the calls that chose the actions: those run on
another number of rows, for which a matrix product may round differently. `evaluate` and `update` run the same forward pass on chunks of
the same number of rows, and ratio and KL are computed from differences of mean and std. So before the first gradient step the ratio is
exactly 1 and the KL exactly 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.lax import optimization_barrier

from tandem.agents.packing import (
    Info,
    MiniBatch,
    PolicyOutputs,
    PPOState,
    Samples,
    Sequences,
    Widths,
    chunk_rows,
    chunked_gradient,
    flatten_state,
    pack_samples,
    unpack_samples,
)
from tandem.agents.parameters import Adam, norm, to_arrays
from tandem.agents.ppo_config import PPOConfig
from tandem.agents.ppo_losses import adapted_learning_rate, clipped_surrogate, clipped_value_loss
from tandem.agents.saved import from_arrays
from tandem.agents.symmetry import Mirror, with_symmetry
from tandem.networks import categorical, gaussian
from tandem.networks.choices import NONE, Choices
from tandem.networks.gaussian import Gaussian
from tandem.networks.mlp import ACTIVATIONS, Hidden, Regressor
from tandem.networks.numpy_gaussian import NumpyGaussian

Act = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""(normalised observations (N, D), standard normal noise (N, action_dim), hidden state (N, size)) -> (actions as drawn, not clipped, a
choice by its number; new hidden state). Without recurrent layers the hidden state has size 0."""


@dataclass(frozen=True)
class PPO:
    """The agent: its configuration and the functions that change a `PPOState`. It holds no arrays itself.

    `RecurrentPPO` offers the same methods. Memory (hidden states) and `Sequences` are arguments of both, and empty here.
    """

    config: PPOConfig
    observation_dim: int
    action_dim: int
    actor_columns: tuple[int, ...] | None = None
    """Columns of the observation vector that the policy sees. None: all."""
    critic_columns: tuple[int, ...] | None = None
    """Columns that the value network sees. It may see more than the policy: acting does not need it."""
    mirror: Mirror | None = None
    """The task's symmetry, if it is used."""
    choices: Choices = NONE
    """The discrete parts of the action: columns of it that hold the number of a choice."""

    @property
    def axes(self) -> int:
        """Columns of the action that are not choices."""
        return self.action_dim - len(self.choices.columns)

    @property
    def widths(self) -> Widths:
        return Widths(self.observation_dim, self.action_dim, self.axes, sum(self.choices.sizes))

    @property
    def memory_sizes(self) -> tuple[int, int]:
        """Sizes of the hidden states of policy and value network, per environment."""
        return 0, 0

    def shuffled_rows(self, num_steps: int, num_envs: int) -> int:
        """How many rows an epoch shuffles: single steps."""
        return num_steps * num_envs

    @partial(jax.jit, static_argnames="self")
    def init(self, seed: int) -> PPOState:
        """Networks before the first update, from the seed alone."""
        actor_key, critic_key = jax.random.split(jax.random.PRNGKey(seed))
        return self.initial_state(*self.networks(actor_key, critic_key, *self.inputs))

    @property
    def inputs(self) -> tuple[int, int]:
        """How many numbers of an observation policy and value network see."""
        columns = self.actor_columns, self.critic_columns
        actor, critic = (self.observation_dim if of is None else len(of) for of in columns)
        return actor, critic

    def networks(self, actor_key: Array, critic_key: Array, actor_inputs: int, critic_inputs: int) -> tuple[Gaussian, Regressor]:
        config = self.config
        actor_hidden, critic_hidden = (
            Hidden(units, config.activation, layer_norm=False, init=config.init)
            for units in (config.actor_hidden_dims, config.critic_hidden_dims)
        )
        actor = Gaussian(
            actor_key,
            actor_inputs,
            self.axes,
            actor_hidden,
            init_std=config.init_std,
            std_type=config.std_type,
            std_range=config.std_range,
            choices=sum(self.choices.sizes),
        )
        return actor, Regressor(critic_key, critic_inputs, critic_hidden)

    def initial_state(self, actor: Any, critic: Any) -> PPOState:
        adam = Adam(self.config.learning_rate)
        return PPOState(actor, critic, adam.init(actor), adam.init(critic), jnp.float32(self.config.learning_rate))

    # ---- acting

    @partial(jax.jit, static_argnames="self")
    def act(self, actor: Any, observations: Array, noise: Array, memory: Array) -> tuple[Array, Array]:
        """Actions `(rows, action_dim)` as drawn during training, not clipped, and the new hidden state."""
        return self.drawn(actor.outputs(self.policy_inputs(observations)), noise), memory

    def drawn(self, outputs: tuple[Array, Array, Array | None], noise: Array) -> Array:
        """Actions of these means, stds and logits. A choice is drawn by where its noise lies in the normal distribution."""
        mean, std, logits = outputs
        if logits is None:
            return mean + std * noise
        chosen = categorical.drawn(self.choices, logits, jax.scipy.special.ndtr(noise[:, np.array(self.choices.columns)]))
        both = jnp.concatenate([mean + std * noise[:, self.choices.axes(self.action_dim)], chosen], axis=1)
        return both[:, self.choices.order(self.action_dim)]

    def make_act(self, state: PPOState, with_numpy: bool) -> Act:
        """The current policy as a function, for the collector."""
        if with_numpy:
            return self._numpy_act(state)

        def act(x: np.ndarray, noise: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            actions, memory_after = self.act(state.actor, x, noise, memory)
            return np.asarray(actions), np.asarray(memory_after)

        return act

    def _numpy_act(self, state: PPOState) -> Act:
        policy = NumpyGaussian(self.policy_parameters(state, *self.no_normaliser))

        def act(x: np.ndarray, noise: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return policy.drawn(policy.outputs(x), noise), memory

        return act

    def policy_inputs(self, observations: Array) -> Array:
        return observations if self.actor_columns is None else observations[..., np.array(self.actor_columns)]

    def value_inputs(self, observations: Array) -> Array:
        return observations if self.critic_columns is None else observations[..., np.array(self.critic_columns)]

    # ---- before an update

    @partial(jax.jit, static_argnames="self")
    def evaluate(self, state: PPOState, observations: Array, sequences: Sequences) -> tuple[PolicyOutputs, Array]:
        """Outputs for all observations `(T, N, D)` of a rollout, `(T * N, ...)`; and the critic's hidden state after each step."""
        steps, envs = sequences.ended.shape
        size = chunk_rows(steps * envs // self.config.num_mini_batches)
        chunks = observations.reshape(-1, size, self.observation_dim)
        _, outputs = jax.lax.scan(lambda _, chunk: (None, self._forward((state.actor, state.critic), chunk)), None, chunks)
        return jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), outputs), jnp.zeros((steps, envs, 0))

    @partial(jax.jit, static_argnames="self")
    def values(self, critic: Any, observations: Array, memory: Array) -> Array:
        """Values of single observations, seen with this hidden state, `(rows,)`."""
        del memory
        return critic(self.value_inputs(observations))

    @partial(jax.jit, static_argnames="self", donate_argnames="state")
    def rescaled(self, state: PPOState, scale: float, shift: float) -> PPOState:
        """The value network predicts scale · V + shift instead of V: values in new units (PopArt, van Hasselt et al. 2016)."""
        head = state.critic.head
        critic = eqx.tree_at(lambda c: (c.head.weight, c.head.bias), state.critic, (head.weight * scale, head.bias * scale + shift))
        return state._replace(critic=critic)

    # ---- the update

    @partial(jax.jit, static_argnames="self", donate_argnames="state")
    def update(self, state: PPOState, samples: Samples, sequences: Sequences, order: Array, progress: float) -> tuple[PPOState, Info]:
        """All epochs and mini-batches. `order` `(num_learning_epochs, batch)` is the order of the samples in each epoch.

        `progress`, from 0 to 1, is the share of the training that is done (for the linear schedule). Metrics are means over the updates
        that were made.
        """
        del sequences
        return self._learn(state, MiniBatch(pack_samples(samples), samples.advantages), order, progress)

    def _learn(self, state: PPOState, samples: MiniBatch, order: Array, progress: float) -> tuple[PPOState, Info]:
        """`update` of packed samples; `order` is that of their first axis."""
        config, batch = self.config, samples.rows.shape[0]
        assert order.shape == (config.num_learning_epochs, batch), (order.shape, config.num_learning_epochs, batch)
        if config.schedule != "adaptive":
            remaining = 1 - progress if config.schedule == "linear" else 1.0
            state = state._replace(learning_rate=jnp.float32(config.learning_rate * remaining))
        flat, unflatten = flatten_state(state)
        order = order.reshape(-1, batch // config.num_mini_batches)
        advantages = samples.advantages[order]
        if config.normalize_advantage_per_mini_batch:
            advantages = _normalised_per_mini_batch(advantages)
        names: list[str] = []  # of the metrics; known once `one` has been traced

        def one(carry: tuple[PPOState, Array], which: tuple[Array, Array]) -> tuple[tuple[PPOState, Array], Array]:
            (state, stopped), (indices, advantages) = carry, which
            rows, memories = jax.tree.map(
                lambda rows: jnp.take(rows, indices, axis=0, mode="clip", unique_indices=True), (samples.rows, samples.memories)
            )
            state, info, stopped = self._step(state, unflatten, MiniBatch(rows, advantages, memories), stopped)
            names[:] = sorted(info)
            return (state, stopped), jnp.stack([jnp.float32(info[name]) for name in names])

        (flat, _), measured = jax.lax.scan(one, (flat, jnp.array(False)), (order, advantages))
        state = unflatten(flat)
        return state, _means(dict(zip(names, measured.T, strict=True)), state.learning_rate)

    def _step(
        self, state: PPOState, unflatten: Callable[[PPOState], PPOState], mini_batch: MiniBatch, stopped: Array
    ) -> tuple[PPOState, Info, Array]:
        """One gradient step, unless the KL is too large or a value is NaN or infinite. `state` is flat, as `flatten_state` made it."""
        config, networks = self.config, unflatten(state)
        gradient, info = chunked_gradient(self._loss, (networks.actor, networks.critic), mini_batch)
        gradient = ravel_pytree(gradient[0])[0], ravel_pytree(gradient[1])[0]
        if config.stop_kl is not None:
            stopped = stopped | (info["Policy/kl"] > config.stop_kl)
        rate = self._learning_rate(state.learning_rate, info["Policy/kl"])
        actor_norm, critic_norm = norm(gradient[0]), norm(gradient[1])
        joint_norm = jnp.hypot(actor_norm, critic_norm)
        finite = jnp.isfinite(joint_norm)
        accept = finite & ~stopped
        adam = Adam(rate, epsilon=config.adam_epsilon)
        moved = []
        for network, optimiser, g, own_norm in (
            (state.actor, state.actor_optimiser, gradient[0], actor_norm),
            (state.critic, state.critic_optimiser, gradient[1], critic_norm),
        ):
            shrink = jnp.minimum(1.0, config.max_grad_norm / ((joint_norm if config.joint_grad_norm else own_norm) + 1e-6))
            moved.append(adam.step(network, optimiser, g * shrink, accept))
        (actor, actor_optimiser), (critic, critic_optimiser) = moved
        rate = jnp.where(accept, rate, state.learning_rate)
        info |= {"Policy/grad_norm": actor_norm, "Value/grad_norm": critic_norm, "Loss/dropped_updates": ~finite & ~stopped, "made": accept}
        return PPOState(actor, critic, actor_optimiser, critic_optimiser, rate), info, stopped

    def _learning_rate(self, rate: Array, kl: Array) -> Array:
        config = self.config
        if config.schedule != "adaptive":
            return rate
        high, low, factor, bounds = config.kl_high, config.kl_low, config.learning_rate_factor, config.learning_rate_range
        return adapted_learning_rate(rate, kl, config.desired_kl, high=high, low=low, factor=factor, bounds=bounds)

    def _loss(self, networks: Any, chunk: MiniBatch) -> tuple[Array, Info]:
        samples = unpack_samples(chunk.rows, chunk.advantages, self.widths)
        if self.mirror is not None:
            return with_symmetry(self.config, self.mirror, samples, lambda x: self._forward(networks, x), self.loss)
        return self.loss(samples, self._forward(networks, samples.observations))

    def loss(self, samples: Samples, new: PolicyOutputs) -> tuple[Array, Info]:
        """PPO's loss for the networks' new outputs on these samples, and its metrics."""
        config, old = self.config, samples.old
        log_ratio, entropy, kl = self._compared(samples.actions, old, new)
        surrogate, ratio = clipped_surrogate(log_ratio, samples.advantages, config.clip_param)
        value = clipped_value_loss(new.value, old.value, samples.returns, config.clip_param if config.use_clipped_value_loss else None)
        info = {
            "Loss/surrogate": surrogate,
            "Loss/value": value,
            "Loss/entropy": entropy,
            "Policy/kl": kl,
            "Policy/clip_fraction": (jnp.abs(ratio - 1) > config.clip_param).mean(),
            "Policy/first_ratio_error": jnp.abs(ratio - 1).max(),
            **({"Policy/mean_std": new.std.mean()} if self.axes else {}),
        }
        return surrogate + config.value_loss_coef * value - config.entropy_coef * entropy, info

    def _compared(self, actions: Array, old: PolicyOutputs, new: PolicyOutputs) -> tuple[Array, Array, Array]:
        """log of new over old density of the actions `(batch,)`, mean entropy of the new policy, and mean KL between them.

        Axes and choices are independent given the observation, so all three are sums over both.
        """
        choices = self.choices
        moved = actions[:, choices.axes(self.action_dim)] if choices.columns else actions
        log_ratio = gaussian.log_ratio(moved, old.mean, old.std, new.mean, new.std)
        entropy, kl = gaussian.entropy(new.std).mean(), gaussian.kl(old.mean, old.std, new.mean, new.std).mean()
        if old.logits is None or new.logits is None:
            return log_ratio, entropy, kl
        log_ratio += categorical.log_ratio(choices, actions[:, np.array(choices.columns)], old.logits, new.logits)
        entropy += categorical.entropy(choices, new.logits).mean()
        return log_ratio, entropy, kl + categorical.kl(choices, old.logits, new.logits).mean()

    def _forward(self, networks: Any, observations: Array) -> PolicyOutputs:
        actor, critic = networks
        mean, std, logits = actor.outputs(self.policy_inputs(observations))
        value = critic(self.value_inputs(observations))
        # The barrier keeps XLA from fusing what uses the outputs into their computation: `evaluate` and `update` use them differently, and
        # must get the same bits.
        return PolicyOutputs(*optimization_barrier((mean, std, value, logits)))

    # ---- as arrays

    @property
    def no_normaliser(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean, std and clip of a normaliser that changes nothing: for observations that are normalised already."""
        return np.zeros(self.observation_dim, np.float32), np.ones(self.observation_dim, np.float32), np.inf

    def policy_parameters(self, state: PPOState, mean: np.ndarray, std: np.ndarray, clip: float) -> dict[str, np.ndarray]:
        """The acting parameters (`NumpyGaussian`): the actor's arrays, its columns, and mean, std and clip of its normaliser."""
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
            **self.choices.arrays(),
        }

    def arrays(self, state: PPOState) -> dict[str, np.ndarray]:
        """The whole state as named arrays."""
        return to_arrays(state)

    def from_arrays(self, template: PPOState, arrays: Mapping[str, np.ndarray]) -> PPOState:
        """The state that `arrays` saved. An error names the array that does not fit."""
        return from_arrays(template, arrays)


def _normalised_per_mini_batch(advantages: Array) -> Array:
    """`(mini-batches, ...)`: each to mean 0 and std 1."""
    axes = tuple(range(1, advantages.ndim))
    spread = advantages.std(axis=axes, keepdims=True, ddof=min(1, advantages[0].size - 1))
    return (advantages - advantages.mean(axis=axes, keepdims=True)) / (spread + 1e-8)


def _means(infos: Info, learning_rate: Array) -> Info:
    """Metrics of an iteration from those of its updates: means over the updates that were made."""
    made = infos.pop("made") > 0
    info = {name: jnp.where(made, values, 0).sum() / jnp.maximum(made.sum(), 1) for name, values in infos.items()}
    info["Policy/first_ratio_error"] = infos["Policy/first_ratio_error"][0]
    info["Loss/updates"], info["Loss/dropped_updates"] = made.sum(), infos["Loss/dropped_updates"].sum()
    info["Loss/learning_rate"] = learning_rate
    return info

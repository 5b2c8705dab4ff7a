"""PPO's records, and how they are laid out in memory for speed.

The algorithm (`ppo.py`) speaks of samples and networks. Three things here make it fast, and change no result:

    pack_samples     all numbers of a sample in one row: shuffling fetches a sample from memory once
    chunked_gradient a gradient is summed over chunks whose activations stay in the cache (15 % of an update of 4096 x 24 steps)
    flatten_state    each network as one vector: with mini-batches of 64, starting Adam's many small computations takes longer than
                     computing them, so there are three for a network instead of three for each of its arrays
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from tandem.agents.parameters import AdamState

Numbers = Any
"""A NumPy array on the host, a JAX array inside a jitted function."""
CHUNK = 4096
"""Steps whose gradient is computed at once."""


Info = dict[str, Array]
"""Metrics of one update, still on the device."""


class PPOState(NamedTuple):
    """Everything that an update changes. `update` consumes (donates) it and returns a new one."""

    actor: Any
    """A `Gaussian`, or a `Recurrent` of one."""
    critic: Any
    """A `Regressor`, or a `Recurrent` of one."""
    actor_optimiser: AdamState
    critic_optimiser: AdamState
    learning_rate: Array
    """() float32: the last one used; the adaptive schedule continues from it."""


class PolicyOutputs(NamedTuple):
    """Outputs of policy and value network for a batch of observations."""

    mean: Numbers
    """(batch, axes)"""
    std: Numbers
    """(batch, axes)"""
    value: Numbers
    """(batch,)"""
    logits: Numbers | None = None
    """(batch, choices of all discrete parts); None for an action of axes alone"""


class Widths(NamedTuple):
    """How many numbers of a sample are what."""

    observation: int
    action: int
    axes: int
    choices: int


class Samples(NamedTuple):
    """A rollout to learn from, one row per environment step. Row t * N + n is step t of environment n."""

    observations: Numbers
    """(batch, observation_dim), normalised"""
    actions: Numbers
    """(batch, action_dim) as they were drawn, before clipping; a choice by its number"""
    old: PolicyOutputs
    """Outputs of the networks before this update."""
    advantages: Numbers
    """(batch,)"""
    returns: Numbers
    """(batch,)"""


class Sequences(NamedTuple):
    """What recurrent networks need to run through a rollout of T steps in N environments."""

    ended: Numbers
    """(T, N) bool: an episode ended with this step, for any reason"""
    actor_memory: Numbers
    """(N, size): the policy's hidden state before the first step; size 0 without recurrent layers"""
    critic_memory: Numbers
    """(N, size): the same of the value network"""


class MiniBatch(NamedTuple):
    """Packed samples as the loss gets them: a whole rollout, a mini-batch, or a chunk of one."""

    rows: Array
    """(batch, numbers): a sample each; or (batch, T, numbers): an environment each, with its steps in order"""
    advantages: Array
    """(batch,) or (batch, T); apart from the rows, because each mini-batch may normalise them"""
    memories: tuple[Array, ...] = ()
    """(batch, size) each: hidden states of policy and value network before the first step"""


Loss = Callable[[Any, MiniBatch], tuple[Array, Info]]
"""Loss of actor and critic on a chunk, and its metrics."""


def pack_samples(samples: Samples) -> Array:
    """One row of numbers per sample, without its advantage."""
    old = samples.old
    assert old.value.shape == samples.advantages.shape == samples.returns.shape, "one number per sample"
    single = jnp.stack([old.value, samples.returns], axis=1)
    logits = () if old.logits is None else (old.logits,)
    return jnp.concatenate([samples.observations, samples.actions, old.mean, old.std, *logits, single], axis=1)


def unpack_samples(rows: Array, advantages: Array, widths: Widths) -> Samples:
    """The samples that `pack_samples` packed, with their advantages."""
    ends = list(accumulate((widths.observation, widths.action, widths.axes, widths.axes, widths.choices)))
    observations, actions, mean, std, logits, rest = jnp.split(rows, ends, axis=1)
    value, returns = rest.T
    return Samples(observations, actions, PolicyOutputs(mean, std, value, logits if widths.choices else None), advantages, returns)


def chunk_rows(rows: int, steps: int = 1) -> int:
    """Rows (of `steps` steps each) per chunk: the largest divisor of `rows` with at most `CHUNK` steps. All chunks are equal."""
    fewest = min(rows, max(1, -(-rows * steps // CHUNK)))
    chunks = next(chunks for chunks in range(fewest, rows + 1) if rows % chunks == 0)
    return rows // chunks if rows // chunks * steps >= CHUNK // 4 else rows  # a number without suitable divisors stays whole


def chunked_gradient(loss: Loss, networks: Any, mini_batch: MiniBatch) -> tuple[Any, Info]:
    """Gradient of the loss of a mini-batch, and its metrics; chunk by chunk."""
    size = chunk_rows(len(mini_batch.rows), steps=mini_batch.advantages[0].size)
    chunks = jax.tree.map(lambda rows: rows.reshape(len(rows) // size, size, *rows.shape[1:]), mini_batch)
    gradient_of = jax.value_and_grad(loss, has_aux=True)

    def add(total: Any, chunk: MiniBatch) -> tuple[Any, Info]:
        (_, info), gradient = gradient_of(networks, chunk)
        return jax.tree.map(jnp.add, total, gradient), info

    total, infos = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, networks), chunks)
    info = {name: values.max() if name == "Policy/first_ratio_error" else values.mean() for name, values in infos.items()}
    return jax.tree.map(lambda g: g / len(chunks.rows), total), info


def flatten_state(state: PPOState) -> tuple[PPOState, Callable[[PPOState], PPOState]]:
    """The state with each network, and each of its moments, as one vector; and the way back."""
    (actor, shape_actor), (critic, shape_critic) = ravel_pytree(state.actor), ravel_pytree(state.critic)

    def flat(moments: AdamState) -> AdamState:
        return moments._replace(mean=ravel_pytree(moments.mean)[0], square=ravel_pytree(moments.square)[0])

    def shaped(moments: AdamState, shape: Callable[[Any], Any]) -> AdamState:
        return moments._replace(mean=shape(moments.mean), square=shape(moments.square))

    def unflatten(flat: PPOState) -> PPOState:
        return PPOState(
            shape_actor(flat.actor),
            shape_critic(flat.critic),
            shaped(flat.actor_optimiser, shape_actor),
            shaped(flat.critic_optimiser, shape_critic),
            flat.learning_rate,
        )

    return PPOState(actor, critic, flat(state.actor_optimiser), flat(state.critic_optimiser), state.learning_rate), unflatten

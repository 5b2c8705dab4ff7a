"""PPO for networks that remember: what is learned from is whole sequences, not single steps.

A mini-batch is a set of environments, each with all T steps of the rollout in order. The networks are led through them from what they
remembered when the rollout began, and forget where an episode ends, exactly as they did while acting: so nothing is padded, no step is
left out, and gradients reach back to the beginning of the rollout or of the episode, whichever is later.

Loss, schedule, clipping and Adam are those of the `PPO` that it holds. As there, `evaluate` and `update` run the same forward pass on
chunks of the same number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import optimization_barrier

from tandem.agents.arrays import to_arrays
from tandem.agents.ppo import PPO, Info, Numbers, Opinion, Part, PPOConfig, PPOState, Samples, chunk_rows, side_by_side
from tandem.networks.gaussian import Gaussian
from tandem.networks.recurrent import RNN_TYPES, Recurrent, layers

Networks = tuple[Recurrent, Recurrent]


class Memories(NamedTuple):
    """What the networks remember of each environment; `(N, size)`, with a size of 0 for one that does not."""

    actor: Numbers
    critic: Numbers


@dataclass(frozen=True)
class RecurrentPPO:
    """The agent whose policy, or value network, or both, have recurrent layers. It holds no numbers of its own."""

    ppo: PPO

    @property
    def config(self) -> PPOConfig:
        return self.ppo.config

    @property
    def memory_sizes(self) -> tuple[int, int]:
        """Numbers that policy and value network remember of an environment."""
        actor, critic = jax.eval_shape(lambda: self._rnn(0))
        return sum(layer.size for layer in actor), sum(layer.size for layer in critic)

    def init(self, seed: int) -> PPOState:
        """Networks before the first update, from the seed alone."""
        return self._begin(seed, self._rnn(seed))

    def _rnn(self, seed: int) -> tuple[Any, Any]:
        """The recurrent layers of both networks."""
        config, ppo, random = self.config, self.ppo, np.random.default_rng([seed, 7])
        of_actor = config.actor_rnn_type, _count(ppo.actor_columns, ppo), config.actor_rnn_hidden_dim, config.actor_rnn_num_layers
        of_critic = config.critic_rnn_type, _count(ppo.critic_columns, ppo), config.critic_rnn_hidden_dim, config.critic_rnn_num_layers
        return layers(random, *of_actor), layers(random, *of_critic)

    @partial(jax.jit, static_argnames="self")
    def _begin(self, seed: int, rnn: tuple[Any, Any]) -> PPOState:
        ppo, keys = self.ppo, jax.random.split(jax.random.PRNGKey(seed))
        columns = ppo.actor_columns, ppo.critic_columns
        heard = [of[-1].units if of else _count(seen, ppo) for of, seen in zip(rnn, columns, strict=True)]
        actor, critic = ppo.networks(keys[0], keys[1], heard[0], heard[1])
        return ppo.begin(Recurrent(rnn[0], actor), Recurrent(rnn[1], critic))

    @partial(jax.jit, static_argnames="self")
    def act(self, actor: Recurrent[Gaussian], observations: Array, noise: Array, memory: Array) -> tuple[Array, Array]:
        """Actions as they are drawn while learning, not clipped, and what is remembered after them."""
        heard, memory = actor.step(_seen(observations, self.ppo.actor_columns), memory)
        mean, std = actor.network(heard)
        return mean + std * noise, memory

    @partial(jax.jit, static_argnames="self")
    def values(self, critic: Recurrent, observations: Array, memory: Array) -> Array:
        """Of observations seen with this memory, `(rows,)`. Nothing is remembered of having been asked."""
        return critic.network(critic.step(_seen(observations, self.ppo.critic_columns), memory)[0])

    @partial(jax.jit, static_argnames="self")
    def evaluate(self, state: PPOState, observations: Array, ended: Array, memories: Memories) -> tuple[Opinion, Array]:
        """What the networks say of every step of a rollout, `(T * N, ...)` in the order of `observations` `(T, N, D)`.

        Also what the value network remembers after each of them, `(T, N, size)`, before it forgets what has ended.
        """
        steps, count = ended.shape
        size = chunk_rows(count // self.config.num_mini_batches, steps)
        chunks = observations.swapaxes(0, 1), ended.T, memories
        chunks = jax.tree.map(lambda array: array.reshape(count // size, size, *array.shape[1:]), chunks)

        def one(_: None, chunk: tuple[Array, Array, Memories]) -> tuple[None, tuple[Opinion, Array]]:
            observations, ended, memories = chunk
            opinion, remembered = self._opinion((state.actor, state.critic), observations.swapaxes(0, 1), ended.T, memories)
            return None, (jax.tree.map(lambda array: array.reshape(steps, size, *array.shape[1:]), opinion), remembered)

        _, answers = jax.lax.scan(one, None, chunks)
        opinion, remembered = jax.tree.map(lambda array: array.swapaxes(0, 1).reshape(steps, count, *array.shape[3:]), answers)
        return jax.tree.map(lambda array: array.reshape(steps * count, *array.shape[2:]), opinion), remembered

    @partial(jax.jit, static_argnames="self", donate_argnames="state")
    def update(
        self, state: PPOState, samples: Samples, ended: Array, memories: Memories, order: Array, progress: float
    ) -> tuple[PPOState, Info]:
        """All epochs and mini-batches. `order` `(num_learning_epochs, N)` says in which order each epoch takes the environments.

        Samples are in the order of `evaluate`; `ended` `(T, N)` and `memories` are what it was given too.
        """
        steps, count = ended.shape
        rows = jnp.concatenate([ended.reshape(-1, 1).astype(jnp.float32), side_by_side(samples)], axis=1)
        rows = rows.reshape(steps, count, -1).swapaxes(0, 1)  # all of an environment lies side by side
        advantages = samples.advantages.reshape(steps, count).T
        return self.ppo.learn(state, Part(rows, advantages, tuple(memories)), self._loss, order, progress)

    def _loss(self, networks: Networks, chunk: Part) -> tuple[Array, Info]:
        rows = chunk.rows.swapaxes(0, 1)
        ended, samples = rows[..., 0] > 0, self.ppo.apart(rows[..., 1:].reshape(-1, rows.shape[2] - 1), chunk.advantages.T.ravel())
        observations = samples.observations.reshape(*ended.shape, -1)
        return self.ppo.loss(samples, self._opinion(networks, observations, ended, Memories(*chunk.memories))[0])

    def _opinion(self, networks: Any, observations: Array, ended: Array, memories: Memories) -> tuple[Opinion, Array]:
        """Of sequences `(T, rows, D)`; opinions are `(T * rows, ...)`. The second is what the value network remembers after each step."""
        actor, critic = networks
        heard, _ = actor.sequence(_seen(observations, self.ppo.actor_columns), ended, memories.actor)
        mean, std = actor.network(heard.reshape(ended.size, -1))
        heard, remembered = critic.sequence(_seen(observations, self.ppo.critic_columns), ended, memories.critic)
        value = critic.network(heard.reshape(ended.size, -1))
        # as in `PPO`: nothing that uses these may be merged into computing them
        return Opinion(*optimization_barrier((mean, std, value))), remembered

    def rescaled(self, state: PPOState, scale: float, shift: float) -> PPOState:
        """The critic's answer becomes scale · answer + shift, and nothing else."""
        return self.ppo.rescaled(state, scale, shift)

    def policy_parameters(self, state: PPOState, mean: np.ndarray, std: np.ndarray, clip: float) -> dict[str, np.ndarray]:
        """What it takes to act (`NumpyRecurrent`): those of `PPO.policy_parameters`, and of every recurrent layer `rnn/0/input_weight` ...

        `rnn_type` is the place of its kind in `RNN_TYPES`. Without recurrent layers they are PPO's alone.
        """
        actor = state.actor
        assert isinstance(actor, Recurrent)
        parameters = self.ppo.policy_parameters(state._replace(actor=actor.network), mean, std, clip)
        if not actor.rnn:
            return parameters
        kind = np.array(list(RNN_TYPES).index(self.config.actor_rnn_type), np.int32)
        return parameters | {"rnn_type": kind} | {f"rnn/{name}": array for name, array in to_arrays(actor.rnn).items()}

    def arrays(self, state: PPOState) -> dict[str, np.ndarray]:
        """All of the state, by the path of the leaf."""
        return self.ppo.arrays(state)

    def from_arrays(self, template: PPOState, arrays: Mapping[str, np.ndarray]) -> PPOState:
        """What `arrays` gave, as a state; an error names the leaf that does not fit."""
        return self.ppo.from_arrays(template, arrays)


def _seen(observations: Array, columns: tuple[int, ...] | None) -> Array:
    return observations if columns is None else observations[..., np.array(columns)]


def _count(columns: tuple[int, ...] | None, ppo: PPO) -> int:
    return ppo.observation_dim if columns is None else len(columns)

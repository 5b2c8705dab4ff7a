"""PPO for recurrent networks: mini-batches are made of whole sequences instead of single steps.

A mini-batch is a set of environments, each with all T steps of the rollout in order. The networks run through them from their hidden
state at the start of the rollout, and the state is reset where an episode ends, exactly as during acting. So nothing is padded, no step is
left out, and gradients reach back to the start of the rollout or of the episode, whichever is later.

Loss, schedule, clipping and Adam are those of `PPO`. As there, `evaluate` and `update` run the same forward pass on chunks of the same
number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import optimization_barrier

from tandem.agents.packing import Info, MiniBatch, PolicyOutputs, PPOState, Samples, Sequences, chunk_rows, pack_samples, unpack_samples
from tandem.agents.parameters import to_arrays
from tandem.agents.ppo import PPO, Act
from tandem.networks.numpy_recurrent import NumpyRecurrent
from tandem.networks.recurrent import RNN_TYPES, Recurrent, layers


@dataclass(frozen=True)
class RecurrentPPO(PPO):
    """The agent whose policy, value network, or both have recurrent layers. It holds no arrays itself."""

    @property
    def memory_sizes(self) -> tuple[int, int]:
        """Sizes of the hidden states of policy and value network, per environment."""
        actor, critic = jax.eval_shape(lambda: self._rnn(0))
        return sum(layer.size for layer in actor), sum(layer.size for layer in critic)

    def shuffled_rows(self, num_steps: int, num_envs: int) -> int:
        """How many rows an epoch shuffles: environments with all their steps."""
        del num_steps
        return num_envs

    def init(self, seed: int) -> PPOState:
        """Networks before the first update, from the seed alone."""
        return self._init(seed, self._rnn(seed))

    def _rnn(self, seed: int) -> tuple[Any, Any]:
        """The recurrent layers of both networks."""
        config, random, (actor_inputs, critic_inputs) = self.config, np.random.default_rng([seed, 7]), self.inputs
        actor = layers(random, config.actor_rnn_type, actor_inputs, config.actor_rnn_hidden_dim, config.actor_rnn_num_layers)
        critic = layers(random, config.critic_rnn_type, critic_inputs, config.critic_rnn_hidden_dim, config.critic_rnn_num_layers)
        return actor, critic

    @partial(jax.jit, static_argnames="self")
    def _init(self, seed: int, rnn: tuple[Any, Any]) -> PPOState:
        keys = jax.random.split(jax.random.PRNGKey(seed))
        sizes = [rnn_layers[-1].units if rnn_layers else inputs for rnn_layers, inputs in zip(rnn, self.inputs, strict=True)]
        actor, critic = self.networks(keys[0], keys[1], sizes[0], sizes[1])
        return self.initial_state(Recurrent(rnn[0], actor), Recurrent(rnn[1], critic))

    @partial(jax.jit, static_argnames="self")
    def act(self, actor: Any, observations: Array, noise: Array, memory: Array) -> tuple[Array, Array]:
        """Actions `(rows, action_dim)` as drawn during training, not clipped, and the new hidden state."""
        features, memory = actor.step(self.policy_inputs(observations), memory)
        return self.drawn(actor.network.outputs(features), noise), memory

    def make_act(self, state: PPOState, with_numpy: bool) -> Act:
        """The current policy as a function, for the collector."""
        return super().make_act(state, with_numpy and self.config.actor_rnn_type != "none")

    def _numpy_act(self, state: PPOState) -> Act:
        policy = NumpyRecurrent(self.policy_parameters(state, *self.no_normaliser))

        def act(x: np.ndarray, noise: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            outputs, memory = policy.outputs(x, memory)
            return policy.drawn(outputs, noise), memory

        return act

    @partial(jax.jit, static_argnames="self")
    def values(self, critic: Any, observations: Array, memory: Array) -> Array:
        """Values of single observations, seen with this hidden state, `(rows,)`. The state does not change by this."""
        return critic.network(critic.step(self.value_inputs(observations), memory)[0])

    @partial(jax.jit, static_argnames="self")
    def evaluate(self, state: PPOState, observations: Array, sequences: Sequences) -> tuple[PolicyOutputs, Array]:
        """Outputs for all observations `(T, N, D)` of a rollout, `(T * N, ...)`.

        Also the critic's hidden state after each step, `(T, N, size)`, before it is reset where an episode ended.
        """
        steps, count = sequences.ended.shape
        size = chunk_rows(count // self.config.num_mini_batches, steps)
        chunks = observations.swapaxes(0, 1), sequences.ended.T, sequences.actor_memory, sequences.critic_memory
        chunks = jax.tree.map(lambda array: array.reshape(count // size, size, *array.shape[1:]), chunks)

        def one(_: None, chunk: tuple[Array, ...]) -> tuple[None, tuple[PolicyOutputs, Array]]:
            observations, ended, *memories = chunk
            outputs, memory_after = self._sequence((state.actor, state.critic), observations.swapaxes(0, 1), ended.T, *memories)
            return None, (jax.tree.map(lambda array: array.reshape(steps, size, *array.shape[1:]), outputs), memory_after)

        _, answers = jax.lax.scan(one, None, chunks)
        outputs, memory_after = jax.tree.map(lambda array: array.swapaxes(0, 1).reshape(steps, count, *array.shape[3:]), answers)
        return jax.tree.map(lambda array: array.reshape(steps * count, *array.shape[2:]), outputs), memory_after

    @partial(jax.jit, static_argnames="self", donate_argnames="state")
    def update(self, state: PPOState, samples: Samples, sequences: Sequences, order: Array, progress: float) -> tuple[PPOState, Info]:
        """All epochs and mini-batches. `order` `(num_learning_epochs, N)` is the order of the environments in each epoch.

        `sequences` are those that `evaluate` was given. `progress` and metrics: see `PPO.update`.
        """
        steps, count = sequences.ended.shape
        rows = jnp.concatenate([sequences.ended.reshape(-1, 1).astype(jnp.float32), pack_samples(samples)], axis=1)
        rows = rows.reshape(steps, count, -1).swapaxes(0, 1)  # all steps of an environment in one row
        advantages = samples.advantages.reshape(steps, count).T
        return self._learn(state, MiniBatch(rows, advantages, (sequences.actor_memory, sequences.critic_memory)), order, progress)

    def _loss(self, networks: Any, chunk: MiniBatch) -> tuple[Array, Info]:
        rows = chunk.rows.swapaxes(0, 1)
        ended, packed = rows[..., 0] > 0, rows[..., 1:].reshape(-1, rows.shape[2] - 1)
        samples = unpack_samples(packed, chunk.advantages.T.ravel(), self.widths)
        observations = samples.observations.reshape(*ended.shape, -1)
        return self.loss(samples, self._sequence(networks, observations, ended, *chunk.memories)[0])

    def _sequence(
        self, networks: Any, observations: Array, ended: Array, actor_memory: Array, critic_memory: Array
    ) -> tuple[PolicyOutputs, Array]:
        """Outputs for sequences `(T, rows, D)`, `(T * rows, ...)`, and the critic's hidden state after each step."""
        actor, critic = networks
        features, _ = actor.sequence(self.policy_inputs(observations), ended, actor_memory)
        mean, std, logits = actor.network.outputs(features.reshape(ended.size, -1))
        features, memory_after = critic.sequence(self.value_inputs(observations), ended, critic_memory)
        value = critic.network(features.reshape(ended.size, -1))
        # the barrier is explained in `PPO._forward`
        return PolicyOutputs(*optimization_barrier((mean, std, value, logits))), memory_after

    def policy_parameters(self, state: PPOState, mean: np.ndarray, std: np.ndarray, clip: float) -> dict[str, np.ndarray]:
        """The acting parameters (`NumpyRecurrent`): those of `PPO`, and `rnn/0/input_weight` ... of every recurrent layer.

        `rnn_type` is the index in `RNN_TYPES`. Without recurrent layers in the policy they are those of `PPO` alone.
        """
        actor = state.actor
        assert isinstance(actor, Recurrent)
        parameters = super().policy_parameters(state._replace(actor=actor.network), mean, std, clip)
        if not actor.rnn:
            return parameters
        kind = np.array(list(RNN_TYPES).index(self.config.actor_rnn_type), np.int32)
        return parameters | {"rnn_type": kind} | {f"rnn/{name}": array for name, array in to_arrays(actor.rnn).items()}

"""How networks without memory, and with it, act, are asked about a rollout, and learn from it.

Without memory every step stands for itself: a rollout is T x N samples, taken in any order. With memory it is N sequences of T steps,
each from what the networks remembered when it began. All else of a run is the same for both.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from tandem.agents.ppo import PPO, Info, Opinion, PPOState, Samples
from tandem.agents.recurrent_ppo import Memories, RecurrentPPO
from tandem.data.rollout import Rollout
from tandem.networks.numpy_policy import NumpyGaussian, NumpyRecurrent
from tandem.on_policy.collector import Act, forgotten


class LookBack(NamedTuple):
    """What the networks say of a rollout."""

    opinion: Opinion
    """Of every step, (T * N, ...)."""
    at_the_end: np.ndarray
    """(N, size): what the value network remembers when it sees what came after the last step."""
    at_cuts: np.ndarray
    """(cuts, size): what it remembered when time ran out, in the order of `Rollout.cuts`."""


class Reading(Protocol):
    """What varies with memory."""

    actor_memory_dim: int
    """Numbers that the policy remembers of an environment; 0: it does not."""
    critic_memory_dim: int
    critic_memory: np.ndarray
    """(N, critic_memory_dim): what the value network remembers at the beginning of the next rollout."""

    @property
    def agent(self) -> PPO | RecurrentPPO: ...

    def acting(self, state: PPOState, by_numpy: bool) -> Act: ...

    def look_back(self, state: PPOState, rollout: Rollout) -> LookBack: ...

    def values(self, critic: Any, observations: np.ndarray, memory: np.ndarray) -> Any: ...

    def update(self, state: PPOState, samples: Samples, order: np.ndarray, progress: float) -> tuple[PPOState, Info]: ...


def reading_of(agent: PPO | RecurrentPPO, num_envs: int) -> Reading:
    return StepByStep(agent, num_envs) if isinstance(agent, PPO) else InSequence(agent, num_envs)


class StepByStep:
    """For networks that know what they see and nothing else."""

    actor_memory_dim = critic_memory_dim = 0

    def __init__(self, agent: PPO, num_envs: int) -> None:
        self.agent = agent
        self.critic_memory = np.zeros((num_envs, 0), np.float32)

    def acting(self, state: PPOState, by_numpy: bool) -> Act:
        if not by_numpy:
            return lambda x, noise, memory: (np.asarray(self.agent.act(state.actor, x, noise)), memory)
        policy = NumpyGaussian(self.agent.policy_parameters(state, *_as_it_is(self.agent)))

        def act(x: np.ndarray, noise: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean, std = policy.gaussian(x)
            return mean + std * noise, memory

        return act

    def look_back(self, state: PPOState, rollout: Rollout) -> LookBack:
        opinion = self.agent.evaluate(state, rollout.observations.reshape(rollout.rewards.size, -1))
        return LookBack(opinion, self.critic_memory, np.zeros((len(rollout.cuts().rows), 0), np.float32))

    def values(self, critic: Any, observations: np.ndarray, memory: np.ndarray) -> Any:
        del memory
        return self.agent.values(critic, observations)

    def update(self, state: PPOState, samples: Samples, order: np.ndarray, progress: float) -> tuple[PPOState, Info]:
        return self.agent.update(state, samples, order, progress)


class InSequence:
    """For networks that remember. The policy's memory is the collector's, who acts; the value network's is kept here.

    It is led through a rollout once, when the rollout is full. What it is asked beyond that, of observations that were cut and of those
    that the next rollout begins with, it is asked with what it remembers then, and does not remember having been asked.
    """

    def __init__(self, agent: RecurrentPPO, num_envs: int) -> None:
        self.agent = agent
        self.actor_memory_dim, self.critic_memory_dim = agent.memory_sizes
        self.critic_memory = np.zeros((num_envs, self.critic_memory_dim), np.float32)
        self._ended = np.zeros((0, num_envs), bool)
        self._began_with = Memories(np.zeros((num_envs, self.actor_memory_dim), np.float32), self.critic_memory)

    def acting(self, state: PPOState, by_numpy: bool) -> Act:
        if not (by_numpy and self.actor_memory_dim):
            return self._acting_by_jax(state)
        policy = NumpyRecurrent(self.agent.policy_parameters(state, *_as_it_is(self.agent.ppo)))

        def act(x: np.ndarray, noise: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean, std, memory = policy.gaussian(x, memory)
            return mean + std * noise, memory

        return act

    def _acting_by_jax(self, state: PPOState) -> Act:
        def act(x: np.ndarray, noise: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            actions, memory = self.agent.act(state.actor, x, noise, memory)
            return np.asarray(actions), np.asarray(memory)

        return act

    def look_back(self, state: PPOState, rollout: Rollout) -> LookBack:
        self._ended, self._began_with = rollout.ended, Memories(rollout.memory.copy(), self.critic_memory)
        opinion, remembered = self.agent.evaluate(state, rollout.observations, self._ended, self._began_with)
        remembered = np.asarray(remembered)
        cuts = rollout.cuts()
        self.critic_memory = np.array(forgotten(remembered[-1], self._ended[-1]))
        return LookBack(opinion, self.critic_memory, remembered[cuts.steps, cuts.rows])

    def values(self, critic: Any, observations: np.ndarray, memory: np.ndarray) -> Any:
        return self.agent.values(critic, observations, memory)

    def update(self, state: PPOState, samples: Samples, order: np.ndarray, progress: float) -> tuple[PPOState, Info]:
        """From the samples of the rollout that was last looked back on."""
        return self.agent.update(state, samples, self._ended, self._began_with, order, progress)


def _as_it_is(agent: PPO) -> tuple[np.ndarray, np.ndarray, float]:
    """The normaliser of a policy that gets what is normalised already."""
    return np.zeros(agent.observation_dim, np.float32), np.ones(agent.observation_dim, np.float32), np.inf

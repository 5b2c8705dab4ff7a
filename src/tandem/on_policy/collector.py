"""Collects rollouts for PPO: `[T, N]` steps of N environments, with a check for NaN and infinite values at every step."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from tandem.agents.ppo import Act
from tandem.agents.symmetry import Mirror
from tandem.envs.task_env import RolloutEnv
from tandem.errors import ConfigError, InvalidTransition, NotFinite
from tandem.layouts import ActionLayout, Layout
from tandem.networks.normaliser import Moments, Normaliser
from tandem.on_policy.config import OnPolicyConfig
from tandem.runs.episodes import BatchEpisodes
from tandem.seeding import episode_seeds
from tandem.types import Metrics, Observation


class Cuts(NamedTuple):
    """Time-outs: when, in which environment, and the last observation before the reset."""

    steps: np.ndarray
    """(cuts,)"""
    rows: np.ndarray
    """(cuts,)"""
    observations: np.ndarray
    """(cuts, D)"""


@dataclass(frozen=True)
class Shape:
    """How much a rollout holds."""

    num_steps: int
    num_envs: int
    observation_dim: int
    action_dim: int
    memory_dim: int = 0
    """Size of the policy's hidden state per environment."""


class Rollout:
    """Storage for `num_steps` steps of `num_envs` environments, used again for every rollout. Everything put in is copied."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        lead = shape.num_steps, shape.num_envs
        self.observations = np.empty((*lead, shape.observation_dim), np.float32)
        self.actions = np.empty((*lead, shape.action_dim), np.float32)
        self.rewards = np.empty(lead, np.float32)
        self.terminated, self.truncated = np.empty(lead, bool), np.empty(lead, bool)
        self.memory = np.zeros((shape.num_envs, shape.memory_dim), np.float32)
        """The policy's hidden state before the first step."""
        self.clear()

    def clear(self) -> None:
        self.steps = 0
        self._cuts: list[Cuts] = []

    @property
    def full(self) -> bool:
        return self.steps == self.shape.num_steps

    def add(
        self,
        observations: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        final_observations: np.ndarray | None,
    ) -> None:
        """One step of all environments. `final_observations` `(cuts, D)` are those of the rows that were truncated, in order."""
        self.check(rewards, terminated, truncated)
        t = self.steps
        self.observations[t], self.actions[t], self.rewards[t] = observations, actions, rewards
        self.terminated[t], self.truncated[t] = terminated, truncated
        if final_observations is not None and len(final_observations):
            rows = np.flatnonzero(truncated)
            self._cuts.append(Cuts(np.full(len(rows), t), rows, final_observations))
        self.steps += 1

    def check(self, rewards: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Reward, terminated and truncated must have one entry per environment."""
        n = self.shape.num_envs
        for name, array in (("reward", rewards), ("terminated", terminated), ("truncated", truncated)):
            if np.shape(array) != (n,):
                raise InvalidTransition(
                    f"'{name}' has shape {np.shape(array)}, expected ({n},): one number per environment. A wrapper may have added or "
                    f"dropped an axis; broadcast against the values it would silently make {n} x {n} numbers of them."
                )
            if name != "reward" and np.asarray(array).dtype != bool:
                raise InvalidTransition(f"'{name}' is {np.asarray(array).dtype}, expected bool")

    @property
    def ended(self) -> np.ndarray:
        return self.terminated | self.truncated

    def cuts(self) -> Cuts:
        """All time-outs so far."""
        if not self._cuts:
            return Cuts(np.zeros(0, int), np.zeros(0, int), np.zeros((0, self.shape.observation_dim), np.float32))
        return Cuts(*(np.concatenate(parts) for parts in zip(*self._cuts, strict=True)))

    def next_values(self, values: np.ndarray, last_values: np.ndarray, cut_values: np.ndarray) -> np.ndarray:
        """Value of the state after each step; at a time-out that of the last state before the reset.

        `values` `(T, N)` of the observations, `last_values` `(N,)` of those after the last step, `cut_values` in the order of `cuts`.
        """
        following = np.concatenate([values[1:], last_values[None]])
        steps, rows, _ = self.cuts()
        following[steps, rows] = cut_values
        return following


class Collector:
    """Holds the environments, the observation normaliser, and the rollout."""

    def __init__(self, config: OnPolicyConfig, env: RolloutEnv, memory_dim: int = 0, mirror: Mirror | None = None) -> None:
        self.env, self._config, self._mirror = env, config, mirror
        self.spec = env.task_spec
        self._layout, self._actions = Layout(self.spec), ActionLayout.of(self.spec)
        mode = (env.metadata or {}).get("autoreset_mode", AutoresetMode.SAME_STEP)
        if mode != AutoresetMode.SAME_STEP:
            raise ConfigError(
                f"environment '{self.spec.task}' resets by {mode}: PPO needs SAME_STEP, with the last observation in info['final_obs']. "
                f"With another mode a step that only resets would be learned from as if the policy had acted in it."
            )
        self.rollout = Rollout(Shape(config.num_steps_per_env, config.num_envs, self._layout.size, self.spec.action_dim, memory_dim))
        self.normaliser = Normaliser(Moments.of(self._layout.size), np.inf if config.obs_clip is None else config.obs_clip)
        self.episodes = BatchEpisodes(config.num_envs)
        self._random = np.random.default_rng([config.seed, 1])
        self._raw = np.zeros((config.num_envs, self._layout.size), np.float32)
        self._memory = np.zeros_like(self.rollout.memory)
        self.reached = np.zeros_like(self.rollout.observations) if config.rnd.wanted else None
        """(T, N, D): observations after each step, not normalised; at the end of an episode its last one. Only with RND."""
        self.steps = 0
        """Environment steps so far, all environments together."""
        self.terms: Metrics = {}
        """Mean per step of each reward term in the last rollout, if the task names its terms."""
        self.before: dict[str, Any] | None = None
        """State of the simulations at the start of the rollout, if they can be saved. With `acted` the rollout can be replayed."""
        self.acted: list[np.ndarray] = []
        """Clipped actions of the rollout, (N, action_dim) each."""
        self.scaled: list[np.ndarray] = []
        """Observations at each step of the last rollout, (N, D) each: scaled, but not normalised."""

    def begin(self, start: int = 0) -> None:
        """New episodes in all environments. `start` counts the starts of this run: each has seeds of its own."""
        seeds = episode_seeds(self._config.seed, "training", self._config.num_envs, start)
        observation, _ = self.env.reset(seed=seeds)
        self._raw = self._flatten(observation, "the first observation")
        self._memory = np.zeros_like(self._memory)
        if self._config.init_at_random_ep_len:
            self._set_random_ages(start)

    def _set_random_ages(self, start: int) -> None:
        random = np.random.default_rng([self._config.seed, 3, *([start] if start else [])])
        self.env.set_elapsed(random.integers(0, self.spec.max_episode_steps, self._config.num_envs))
        self.episodes.skip_open()

    @property
    def observations(self) -> np.ndarray:
        """Current observations, normalised, `(N, D)`."""
        return self.normaliser(self._raw)

    def collect(self, act: Act) -> Rollout:
        """One rollout. Actions are stored as they were drawn; the environment gets its axes clipped to [-1, 1]."""
        self.rollout.clear()
        self.rollout.memory[:] = self._memory
        self.before = self.env.state() if self.env.saves else None
        self.acted = []
        terms: dict[str, list[np.ndarray]] = {}
        shape = self.rollout.actions.shape[1:]
        self.scaled = scaled = []
        while not self.rollout.full:
            x = self.observations
            actions, memory = act(x, self._random.standard_normal(shape, dtype=np.float32), self._memory)
            self.acted.append(self._actions.clip(actions))
            observation, reward, terminated, truncated, info = self.env.step(self.acted[-1])
            self.rollout.check(reward, terminated, truncated)
            self._check_reward(reward)
            cut = None
            if truncated.any():
                last = {name: values[truncated] for name, values in info["final_obs"].items()}
                cut = self.normaliser(self._flatten(last, "the last observation of an episode", np.flatnonzero(truncated)))
            self.rollout.add(x, actions, reward, terminated, truncated, cut)
            scaled.append(self._raw)
            self._raw = self._flatten(observation, "the observation")
            if self.reached is not None:
                self.reached[self.rollout.steps - 1] = self._reached(terminated | truncated, info)
            self._memory = reset_memory(memory, terminated | truncated)
            self.episodes.add(reward, terminated | truncated, info["success"], info.get("success_known", True))
            for name, values in info.get("reward_terms", {}).items():
                terms.setdefault(name, []).append(values)
            self.steps += shape[0]
        if self._config.obs_normalization:
            self.normaliser.record(np.stack(scaled))
            if self._mirror is not None:  # statistics that are symmetric too: normalising and mirroring then commute
                self.normaliser.record(self._mirror.observations(np.stack(scaled)))
        self.terms = {f"Episode/{name}": float(np.mean(values)) for name, values in (terms | self.env.figures()).items()}
        return self.rollout

    def _reached(self, ended: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        if not ended.any():
            return self._raw
        last = {name: values[ended] for name, values in info["final_obs"].items()}
        reached = self._raw.copy()
        reached[ended] = self._flatten(last, "the last observation of an episode", np.flatnonzero(ended))
        return reached

    def _flatten(self, observation: Observation, which: str, rows: np.ndarray | None = None) -> np.ndarray:
        flat = self._layout.flatten(observation, np.inf)
        if np.isfinite(flat).all():
            return flat
        for name, values in observation.items():
            if not np.isfinite(values).all():
                place = np.argwhere(~np.isfinite(values))[0]
                row = int(place[0]) if rows is None else int(rows[place[0]])
                raise self._broken(f"{which}, entry '{name}', has {values[tuple(place)]} at {place[1:].tolist()}", row)
        raise self._broken(f"{which} divided by its scale is not finite", int(np.argwhere(~np.isfinite(flat))[0][0]))

    def _check_reward(self, reward: np.ndarray) -> None:
        if not np.isfinite(reward).all():
            row = int(np.flatnonzero(~np.isfinite(reward))[0])
            raise self._broken(f"the reward is {reward[row]}", row)

    def _broken(self, what: str, row: int) -> NotFinite:
        n = self._config.num_envs
        return NotFinite(
            f"task '{self.spec.task}', environment {row} (of {n}, from 0) at its step {self.steps // n}: {what}. Nothing was learned "
            f"from it. Likely cause: the simulation left its range, or a division by zero in the environment's own code."
        )

    def state(self) -> dict[str, Any]:
        """Everything that decides what comes next. Simulations that cannot be saved are left out; they start new episodes."""
        return {"env": self.env.state() if self.env.saves else None, "memory": np.array(self._memory), **self.without_simulations()}

    def without_simulations(self) -> dict[str, Any]:
        """The same without the simulations and the policy's hidden state."""
        return {
            "steps": self.steps,
            "random": json.dumps(self._random.bit_generator.state),
            "normaliser": self.normaliser.moments.state(),
            "episodes": self.episodes.state(),
        }

    def restore(self, state: dict[str, Any], start: int) -> None:
        """Continue exactly; or with new episodes, seeded for this start of the run, if there are no simulations in the state."""
        self.steps = state["steps"]
        self._random.bit_generator.state = json.loads(state["random"])
        self.normaliser = Normaliser(Moments.from_state(state["normaliser"]), self.normaliser.clip)
        exact = state.get("env") is not None
        self.episodes.restore(state["episodes"], open_too=exact)
        if exact:
            self._raw = self._flatten(self.env.restore(state["env"]), "the saved observation")
            self._memory = np.array(state["memory"])
        else:
            self.begin(start)


def reset_memory(memory: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """The hidden state after a step: zero where the episode ended, by the task or by time."""
    return np.where(ended[:, None], np.float32(0), memory) if memory.size and ended.any() else memory

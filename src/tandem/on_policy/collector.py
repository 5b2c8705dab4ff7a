"""Experience for PPO: N environments lived in for T steps, every number looked at before anything is learned from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from tandem.agents.symmetry import Mirror
from tandem.data.rollout import Rollout, Shape
from tandem.envs.batch import BatchEnv
from tandem.errors import ConfigError, NotFinite
from tandem.networks.normaliser import Moments, Normaliser
from tandem.observations import Layout
from tandem.on_policy.config import OnPolicyConfig
from tandem.runs.checkpoint import storable_simulation, stored_simulation
from tandem.runs.episodes import BatchEpisodes
from tandem.types import Metrics, Observation, Spec

Act = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Normalised observations (N, D), standard normal noise (N, action_dim) and what is remembered (N, size) -> actions as they are drawn, not
clipped, and what is remembered after them. Most policies remember nothing: a size of 0."""


class Collector:
    """Holds the environments, the normaliser they are seen through, and the rollout they fill."""

    def __init__(self, config: OnPolicyConfig, env: VectorEnv, memory_dim: int = 0, mirror: Mirror | None = None) -> None:
        self.env, self._config, self._mirror = env, config, mirror
        self.spec: Spec = env.task_spec  # pyright: ignore[reportAttributeAccessIssue]
        self._layout = Layout(self.spec)
        mode = (env.metadata or {}).get("autoreset_mode", AutoresetMode.SAME_STEP)
        if mode != AutoresetMode.SAME_STEP:
            raise ConfigError(
                f"environment '{self.spec.task}' resets by {mode}: PPO needs SAME_STEP, with what was seen last in info['final_obs']. "
                f"A step that only resets would be learned from as if the policy had acted in it."
            )
        if not self._layout.size:
            raise ConfigError(f"task '{self.spec.task}' shows no float32 entry, and PPO learns from nothing else yet")
        self.rollout = Rollout(Shape(config.num_steps_per_env, config.num_envs, self._layout.size, self.spec.action_dim, memory_dim))
        self.normaliser = Normaliser(Moments.of(self._layout.size), np.inf if config.obs_clip is None else config.obs_clip)
        self.episodes = BatchEpisodes(config.num_envs)
        self._random = np.random.default_rng([config.seed, 1])
        self._raw = np.zeros((config.num_envs, self._layout.size), np.float32)
        self._memory = np.zeros_like(self.rollout.memory)
        self.reached = np.zeros_like(self.rollout.observations) if config.rnd.wanted else None
        """(T, N, D): what each step led to, not normalised; at the end of an episode its last observation. Only for who asks for it."""
        self.steps = 0
        """Of the environments, all rows together."""
        self.terms: Metrics = {}
        """Mean per step of each part of the reward in the last rollout, where the task names them."""
        self.before: dict[str, Any] | None = None
        """The simulations when the rollout began, where they can be saved: with `acted` they can be lived again."""
        self.acted: list[np.ndarray] = []
        self.lived: list[np.ndarray] = []
        """What was seen at each step of the last rollout, (N, D) each: scaled, but not normalised."""

    def begin(self) -> None:
        """First episodes everywhere."""
        observation, _ = self.env.reset(seed=10_000 * self._config.seed)
        self._raw = self._seen(observation, "the first observation")
        self._memory = np.zeros_like(self._memory)
        if self._config.init_at_random_ep_len:
            self._age()

    def _age(self) -> None:
        if not hasattr(self.env, "set_elapsed"):
            raise ConfigError(
                f"init_at_random_ep_len: environment '{self.spec.task}' counts its own steps and cannot be told to begin elsewhere"
            )
        ages = np.random.default_rng([self._config.seed, 3]).integers(0, self.spec.max_episode_steps, self._config.num_envs)
        self.env.set_elapsed(ages)  # pyright: ignore[reportAttributeAccessIssue]
        self.episodes.skip_open()

    @property
    def observations(self) -> np.ndarray:
        """What the next actions will answer, `(N, D)`."""
        return self.normaliser(self._raw)

    def collect(self, act: Act) -> Rollout:
        """One rollout. An action is stored as it was drawn; the environment gets it clipped."""
        self.rollout.clear()
        self.rollout.memory[:] = self._memory
        self.before = self.env.state() if hasattr(self.env, "state") else None  # pyright: ignore[reportAttributeAccessIssue]
        self.acted = []
        terms: dict[str, list[np.ndarray]] = {}
        shape = self._config.num_envs, self.spec.action_dim
        self.lived = seen = []
        while not self.rollout.full:
            x = self.observations
            actions, memory = act(x, self._random.standard_normal(shape, dtype=np.float32), self._memory)
            self.acted.append(np.minimum(np.maximum(actions, -1), 1))
            observation, reward, terminated, truncated, info = self.env.step(self.acted[-1])
            self.rollout.check(reward, terminated, truncated)
            self._check_reward(reward)
            cut = None
            if truncated.any():
                last = {name: values[truncated] for name, values in info["final_obs"].items()}
                cut = self.normaliser(self._seen(last, "the last observation of an episode", np.flatnonzero(truncated)))
            self.rollout.add(x, actions, reward, terminated, truncated, cut)
            seen.append(self._raw)
            self._raw = self._seen(observation, "the observation")
            if self.reached is not None:
                self.reached[self.rollout.steps - 1] = self._reached(terminated | truncated, info)
            self._memory = forgotten(memory, terminated | truncated)
            self.episodes.add(reward, terminated | truncated, info["success"])
            for name, values in info.get("reward_terms", {}).items():
                terms.setdefault(name, []).append(values)
            self.steps += shape[0]
        if self._config.obs_normalization:
            self.normaliser.take_down(np.stack(seen))
            if self._mirror is not None:  # so that what is normalised and then mirrored is what is mirrored and then normalised
                self.normaliser.take_down(self._mirror.observations(np.stack(seen)))
        figures = self.env.task.figures() if isinstance(self.env, BatchEnv) else {}
        self.terms = {f"Episode/{name}": float(np.mean(values)) for name, values in (terms | figures).items()}
        return self.rollout

    def _reached(self, ended: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        if not ended.any():
            return self._raw
        last = {name: values[ended] for name, values in info["final_obs"].items()}
        reached = self._raw.copy()
        reached[ended] = self._seen(last, "the last observation of an episode", np.flatnonzero(ended))
        return reached

    def _seen(self, observation: Observation, which: str, rows: np.ndarray | None = None) -> np.ndarray:
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
        """All that decides what comes next; simulations that cannot be saved are left out and begin new episodes."""
        env_state = self.env.state() if hasattr(self.env, "state") else None  # pyright: ignore[reportAttributeAccessIssue]
        if env_state is not None:
            env_state = storable_simulation(env_state)
        return {"env": env_state, "memory": np.array(self._memory), **self.without_simulations()}

    def without_simulations(self) -> dict[str, Any]:
        """The same without the simulations, and what the policy remembers of them."""
        return {
            "steps": self.steps,
            "random": json.dumps(self._random.bit_generator.state),
            "normaliser": self.normaliser.moments.state(),
            "episodes": self.episodes.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on as if nothing had happened."""
        self.steps = state["steps"]
        self._random.bit_generator.state = json.loads(state["random"])
        self.normaliser = Normaliser(Moments.from_state(state["normaliser"]), self.normaliser.clip)
        exact = state.get("env") is not None
        self.episodes.restore(state["episodes"], open_too=exact)
        if exact:
            observation = self.env.restore(stored_simulation(state["env"]))  # pyright: ignore[reportAttributeAccessIssue]
            self._raw = self._seen(observation, "the saved observation")
            self._memory = np.array(state["memory"])
        else:
            self.begin()


def forgotten(memory: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """What is still remembered after a step: nothing of an episode that is over, whether the task or the time ended."""
    return np.where(ended[:, None], np.float32(0), memory) if memory.size and ended.any() else memory

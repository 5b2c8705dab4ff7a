"""PPO with cameras: the features of a frozen encoder are numbers of the observation like any others.

    pictures of N rows ─► encoder ─► features, (N, 2048) for a picture of 128 x 128 ─► beside the other numbers ─► PPO's networks

PPO has no demonstrations, so the projection is fitted on what the cameras show while the robots move at random, before training begins.
The first layers of policy and value network do what the heads of RLPD do. Each picture is encoded once, when it is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tandem.acting.eyes import Eyes
from tandem.data.frames import pictures_of
from tandem.envs.task_env import RolloutEnv
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout
from tandem.networks.encoders import END_TO_END
from tandem.networks.encoders.encoder import Encoder, fit_encoder, require_picture
from tandem.off_policy.eyes import free_memory, network_for
from tandem.on_policy.config import OnPolicyConfig
from tandem.seeding import episode_seeds
from tandem.types import Observation, Spec, Symmetry

FIT_PICTURES = 2000
"""Pictures of each camera that the projection is fitted on, at most; at least those of 20 steps."""
_COPIES = 3
"""Times that PPO holds the observations of a rollout: as collected, as scaled, as samples."""


class EncodedBatch:
    """N environments whose observations hold features in the place of pictures, and nothing that is for teachers alone."""

    def __init__(self, env: RolloutEnv, encoder: Encoder) -> None:
        self._env, self.encoder = env, encoder
        self.task_spec: Spec = encoder.spec(env.task_spec, flat=True)
        self._eyes, self._last = Eyes(encoder, flat=True), Eyes(encoder, flat=True)

    @property
    def num_envs(self) -> int:
        return self._env.num_envs

    @property
    def metadata(self) -> dict[str, Any]:
        return self._env.metadata

    @property
    def saves(self) -> bool:
        return self._env.saves

    @property
    def symmetry(self) -> Symmetry | None:
        return None  # nobody knows the mirror image of a feature

    def reset(self, *, seed: int | Sequence[int | None] | None = None) -> tuple[Observation, dict[str, Any]]:
        observation, info = self._env.reset(seed=seed)
        return self._seen(observation), info

    def step(self, actions: np.ndarray, /) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._env.step(actions)
        seen, ended = self._seen(observation), terminated | truncated
        if ended.any():  # what an episode ended with was drawn before its row was reset
            final = {name: values.copy() for name, values in seen.items()}
            last = {name: info["final_obs"][name][ended] for name in self.task_spec.observation}
            for name, values in self._last(last).items():
                final[name][ended] = values
            info = {**info, "final_obs": final}
        return seen, reward, terminated, truncated, info

    def _seen(self, observation: Observation) -> Observation:
        return self._eyes({name: observation[name] for name in self.task_spec.observation})

    def set_elapsed(self, steps: np.ndarray) -> None:
        self._env.set_elapsed(steps)

    def halt(self, reason: str) -> None:
        self._env.halt(reason)

    def figures(self) -> dict[str, float]:
        return self._env.figures()

    def state(self) -> dict[str, Any]:
        return self._env.state()

    def restore(self, state: dict[str, Any]) -> Observation:
        return self._seen(self._env.restore(state))

    def close(self) -> None:
        self._env.close()


def with_eyes(env: RolloutEnv, config: OnPolicyConfig, known: Path | None, say: Callable[[str], None]) -> EncodedBatch:
    """The environments seen through an encoder: that of the file `known`, which a run left, or one that is fitted now."""
    for name, entry in pictures_of(env.task_spec).items():
        require_picture(name, entry)
    if known is not None:
        return EncodedBatch(env, Encoder.read(known))
    network = network_for(config.encoder)
    if network.name == END_TO_END:
        raise ConfigError(f"PPO has no network of convolutions: --encoder {END_TO_END} is RLPD's and cloning's. Leave --encoder out.")
    say(f"fitting the encoder ({network.name}) on pictures of random motion")
    seen = EncodedBatch(env, fit_encoder(_looks(env, config.seed), network))
    _require_memory(seen.task_spec, config, say)
    return seen


def _looks(env: RolloutEnv, seed: int) -> Iterator[np.ndarray]:
    """Pictures while the robots move at random."""
    layout, random = ActionLayout.of(env.task_spec), np.random.default_rng([seed, 5])
    observation, _ = env.reset(seed=episode_seeds(seed, "training", env.num_envs, 0))
    rows = slice(0, max(1, FIT_PICTURES // 20))
    for _ in range(max(20, FIT_PICTURES // max(1, env.num_envs))):
        for name in pictures_of(env.task_spec):
            yield observation[name][rows]
        observation = env.step(layout.random(random, env.num_envs))[0]


def _require_memory(spec: Spec, config: OnPolicyConfig, say: Callable[[str], None]) -> None:
    numbers = sum(entry.size for entry in spec.observation.values())
    needed, there = _COPIES * 4 * numbers * config.num_envs * config.num_steps_per_env, free_memory()
    say(f"rollouts of {numbers:,} numbers a step: {needed / 2**30:.2f} GiB; {there / 2**30:.1f} GiB of memory are free")
    if needed > there:
        raise ConfigError(
            f"the rollouts of '{spec.task}' take {needed / 2**30:.1f} GiB ({config.num_envs:,} simulations of {config.num_steps_per_env} "
            f"steps of {numbers:,} numbers), and {there / 2**30:.1f} GiB of memory are free: lower --num-envs or --num-steps-per-env"
        )

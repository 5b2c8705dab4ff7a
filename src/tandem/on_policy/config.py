"""Settings of a PPO run. Names and defaults are those of rsl_rl; settings that rsl_rl does not have are marked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import tyro

from tandem.acting.judge import check_share
from tandem.agents.ppo_config import PPOConfig
from tandem.agents.rnd import RNDConfig
from tandem.envs.task import Practice
from tandem.errors import ConfigError


@dataclass(frozen=True)
class OnPolicyConfig:
    """PPO on many simulations at once."""

    task: tyro.conf.Suppress[str] = ""
    agent: PPOConfig = field(default_factory=PPOConfig)
    rnd: RNDConfig = field(default_factory=RNDConfig)

    seed: int = 0
    """Random seed for networks, noise, sample order and simulations."""
    num_envs: int = 4096
    """Number of simulations stepped together."""
    num_steps_per_env: int = 24
    """Steps of each simulation in one iteration."""
    max_iterations: int = 1500
    """Stop after this many iterations."""
    save_interval: int = 50
    """Iterations between two checkpoints."""
    init_at_random_ep_len: bool = False
    """Start the first episodes at a random step count, so that they do not all end together."""
    reward: Literal["sparse", "dense"] | None = None
    """Reward of a task that has both. Default: dense for training; evaluation is always by success (not in rsl_rl)."""
    practice: Practice = field(default_factory=Practice)
    encoder: str = "efficientnet-lite0"
    """Frozen network that turns pictures into features, for tasks with cameras: efficientnet-lite0, random-lite0 or resnet10:FILE
    (not in rsl_rl)."""
    obs_normalization: bool = False
    """Normalise observations to mean 0 and variance 1. The statistics change only between iterations."""
    obs_clip: float | None = None
    """Clip observations to this bound, after normalisation."""
    reward_normalization: bool = False
    """Divide rewards by the running std of their discounted sum."""
    reward_clip: float | None = None
    """Clip rewards to this bound, after normalisation."""
    actor_entries: tuple[str, ...] = ()
    """Observation entries that the policy sees. Default: all."""
    critic_entries: tuple[str, ...] = ()
    """Observation entries that the value network sees. They may be more than the policy sees. Default: all."""

    eval_period: int = 50
    """Iterations between two evaluations. 0: no evaluation (not in rsl_rl)."""
    eval_episodes: int = 20
    """Episodes of an evaluation during training (not in rsl_rl)."""
    eval_share: float = 0.2
    """Largest share of the training time for evaluations of an environment that is not Tandem's own, and so is stepped alone: they get
    fewer episodes and become rarer. 0: no bound (not in rsl_rl)."""
    final_episodes: int = 100
    """Episodes of the final evaluation, on seeds that were not used to choose the policy (not in rsl_rl)."""
    stop_success: float | None = None
    """Stop when the success rate is at least this in `stop_evaluations` evaluations in a row (not in rsl_rl)."""
    stop_evaluations: int = 2
    """Number of evaluations in a row for `stop_success`: a single one may be luck (not in rsl_rl)."""
    max_minutes: float | None = None
    """Stop after this many minutes (not in rsl_rl)."""
    wandb: str | None = None
    """Also log to this project of Weights & Biases."""

    def __post_init__(self) -> None:
        for name in ("num_envs", "num_steps_per_env", "max_iterations", "save_interval", "stop_evaluations"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        check_share(self.eval_share)
        for name in ("obs_clip", "reward_clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} must be above 0, got {value}")
        if self.eval_period and self.eval_episodes < 1:
            raise ConfigError(f"eval_episodes must be at least 1, got {self.eval_episodes}; to switch evaluation off, set eval_period to 0")
        if self.agent.recurrent:
            self._check_sequences()
        if self.samples % self.agent.num_mini_batches:
            raise ConfigError(
                f"num_envs x num_steps_per_env = {self.num_envs} x {self.num_steps_per_env} = {self.samples} samples do not divide into "
                f"num_mini_batches = {self.agent.num_mini_batches} equal parts: {self.samples % self.agent.num_mini_batches} would never "
                f"be learned from. Change one of the three (parts that fit: {_divisors_near(self.samples, self.agent.num_mini_batches)})."
            )

    def _check_sequences(self) -> None:
        """Recurrent networks learn from whole sequences: a mini-batch is a set of environments."""
        parts = self.agent.num_mini_batches
        if self.num_envs % parts:
            left = f"{self.num_envs % parts} of them would never be learned from" if self.num_envs > parts else "some would be empty"
            raise ConfigError(
                f"num_envs = {self.num_envs} environments do not divide into num_mini_batches = {parts} equal parts: {left}. With "
                f"recurrent layers (actor_rnn_type {self.agent.actor_rnn_type}, critic_rnn_type {self.agent.critic_rnn_type}) a mini-batch "
                f"is made of environments with all their steps. Change one of the two (parts that fit: "
                f"{_divisors_near(self.num_envs, parts)})."
            )

    @property
    def samples(self) -> int:
        """Samples of one iteration."""
        return self.num_envs * self.num_steps_per_env


def _divisors_near(number: int, wanted: int) -> str:
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    return ", ".join(str(d) for d in sorted(sorted(divisors, key=lambda d: abs(d - wanted))[:3]))

"""What a run is asked to do. Names and defaults are those that hil-serl's users know; ours are marked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from tandem.acting.operators import check_operator
from tandem.actions import require_continuous
from tandem.agents.sac import SACConfig
from tandem.errors import ConfigError
from tandem.observations import require_roles
from tandem.types import Spec


@dataclass(frozen=True)
class TrainConfig:
    """RLPD: SAC on half demonstrations, half what the robot lives through."""

    task: tyro.conf.Suppress[str] = ""
    agent: SACConfig = field(default_factory=SACConfig)

    seed: int = 0
    """Of the networks, the sampling, the exploration and the simulations."""
    demos: tuple[Path, ...] = ()
    """Files of demonstrations (`tandem record`, or hil-serl pickles). None: learn from the robot's own steps alone."""
    max_steps: int = 1_000_000
    """Learner steps after which training ends."""
    batch_size: int = 256
    """Transitions per update; half of them demonstrations."""
    training_starts: int = 100
    """Actor steps in the replay buffer before the first update."""
    random_steps: int = 0
    """Actor steps with uniform random actions before the policy is asked."""
    pretrain_steps: int = 0
    """Learner steps on the demonstrations alone before the robot moves."""
    steps_per_update: int = 50
    """Learner steps between two publications of the policy."""
    replay_buffer_capacity: int = 200_000
    """Transitions kept, of demonstrations and of online data each."""
    log_period: int = 10
    """Learner steps between two rows of metrics."""
    checkpoint_period: int = 5000
    """Learner steps between two checkpoints."""

    num_envs: int = 1
    """Simulations an actor lives in at once (ours)."""
    pace: Literal["fast", "realtime"] = "fast"
    """Of the actors that are started with the run: as fast as the learner keeps up, or at the task's control rate (ours)."""
    operator: str = "browser"
    """Beside the robots of the actors that are started with the run: browser (a page may take over), none, person:scripted (a stand-in
    that corrects with the task's expert), spacemouse or gamepad (ours)."""
    reward_source: Literal["simulation", "person"] = "simulation"
    """Who says what an episode was worth: the environment, or a person by success and failure labels (ours)."""
    updates_per_actor_step: float = 1.0
    """Learner steps for each step of an environment, at most; actors at a fast pace wait so that it is kept (ours)."""
    eval_period: int = 1000
    """Learner steps between two evaluations; 0: none (ours)."""
    eval_episodes: int = 50
    """Episodes of an evaluation during training (ours)."""
    eval_stochastic: bool = False
    """Evaluate during training with actions as they are drawn, not with the most likely ones (ours)."""
    final_episodes: int = 100
    """Episodes of the last evaluation, on seeds that nothing was chosen by (ours)."""
    stop_success: float | None = None
    """Stop when `stop_evaluations` evaluations in a row succeed this often (ours)."""
    stop_evaluations: int = 2
    """How many of them: one alone may be luck (ours)."""
    max_minutes: float | None = None
    """Stop after this time (ours)."""
    wandb: str | None = None
    """Project of Weights & Biases to log to as well."""

    def __post_init__(self) -> None:
        for name in (
            "max_steps",
            "batch_size",
            "steps_per_update",
            "log_period",
            "checkpoint_period",
            "num_envs",
            "replay_buffer_capacity",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.updates_per_actor_step <= 0:
            raise ConfigError(f"updates_per_actor_step must be above 0, got {self.updates_per_actor_step}: the learner would never train")
        if self.training_starts > self.replay_buffer_capacity:
            raise ConfigError(
                f"training_starts ({self.training_starts}) is more than the replay buffer holds ({self.replay_buffer_capacity}): "
                f"training would never start"
            )
        check_operator(self.operator)
        if self.pretrain_steps and not self.demos:
            raise ConfigError(f"pretrain_steps is {self.pretrain_steps}, but there are no demonstrations to train on: give --demos FILE")


def require_learnable(spec: Spec) -> None:
    """Refuse a task that RLPD cannot learn, before anything is written."""
    require_continuous(spec, "RLPD")
    require_roles(spec, "RLPD")

"""The command lines of the programs, typed; the sentence under a field is its help text."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from tandem.off_policy.config import TrainConfig
from tandem.on_policy.config import OnPolicyConfig
from tandem.programs.actor import DEFAULT_PORT


@dataclass(frozen=True)
class RunArgs:
    """What `tandem train` and `tandem learner` have in common."""

    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """A task (see `tandem tasks`), a Gymnasium id, or module:Id."""
    config: tyro.conf.OmitArgPrefixes[TrainConfig] = field(default_factory=TrainConfig)
    resume: Path | None = None
    """Go on with this run from its newest checkpoint; its own settings stand unless given anew."""
    run: Path | None = None
    """Folder of the run. Default: runs/TASK_TIME."""
    init_from: Path | None = None
    """Start with the policy of this run, or of this file."""
    scripted_demos: int = 0
    """First record this many demonstrations by the task's scripted operator."""
    recipe: str | None = None
    """Settings to start from: the recipe named after the task, else `default`."""
    port: int = 0
    """Port for actors and the API; 0: any free one."""
    quiet: bool = False
    """Only the summary."""
    json: bool = False
    """One JSON object per line."""
    verbose: bool = False
    """Every line of both loops."""


@dataclass(frozen=True)
class TrainArgs(RunArgs):
    """Learn a task with RLPD: hub, trainer and actors on this machine."""

    actors: int = 1
    """Actor processes, each with `num_envs` simulations."""
    sync: bool = False
    """Actor and learner in one thread, in turns: reproducible to the last bit, no processes and no port."""


@dataclass(frozen=True)
class LearnerArgs(RunArgs):
    """The learner's half of RLPD: hub and trainer. Actors join with `tandem actor TASK --learner HOST:PORT`."""

    port: int = DEFAULT_PORT
    """Port for actors and the API; 0: any free one."""
    host: str = "127.0.0.1"
    """Address to listen on. 0.0.0.0 lets other machines in: give a certificate too."""
    certificate: Path | None = None
    """TLS certificate (PEM) to speak with; actors give it as --ca if it is your own."""
    key: Path | None = None
    """Private key of the certificate."""
    timeout: float = 10.0
    """Seconds without a word from an actor after which it counts as gone."""


@dataclass(frozen=True)
class PPOArgs:
    """Learn a task with PPO, on many simulations at once."""

    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """A task (see `tandem tasks`), a Gymnasium id, or module:Id."""
    config: tyro.conf.OmitArgPrefixes[OnPolicyConfig] = field(default_factory=OnPolicyConfig)
    resume: Path | None = None
    """Go on with this run from its newest checkpoint; its own settings stand unless given anew."""
    run: Path | None = None
    """Folder of the run. Default: runs/TASK_ppo_TIME."""
    preset: str | None = None
    """Settings to start from: the preset named after the task, else `gym_mujoco` for Gymnasium's, else `rsl_rl`."""
    rsl_rl_config: Path | None = None
    """Settings to start from: a runner configuration of rsl_rl 4.x or 5.x, as YAML or JSON."""
    quiet: bool = False
    """Only the summary."""
    json: bool = False
    """One JSON object per line."""
    verbose: bool = False
    """Every iteration."""

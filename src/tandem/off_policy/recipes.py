"""Recipes: short differences from the defaults, each with its reason. `tandem train TASK` takes the recipe named after the task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tandem.agents.sac import RLPD_PUBLISHED, SACConfig
from tandem.errors import ConfigError
from tandem.off_policy.config import TrainConfig
from tandem.runs.folder import RunFolder


def default() -> TrainConfig:
    """hil-serl's settings."""
    return TrainConfig()


def rlpd() -> TrainConfig:
    """RLPD as published: 20 critic updates per environment step, and targets from 2 random critics of 10."""
    return TrainConfig(agent=RLPD_PUBLISHED, training_starts=5000, random_steps=5000, steps_per_update=1)


def reach() -> TrainConfig:
    """Learns in seconds: small networks with a large learning rate, 8 simulations, and a low discount that rewards speed."""
    agent = SACConfig(hidden=(64, 64), learning_rate=1e-3, discount=0.9)
    return TrainConfig(agent=agent, num_envs=8, updates_per_actor_step=0.125, eval_period=200, max_steps=4000, stop_success=0.95)


def gear_assembly() -> TrainConfig:
    """Found by experiment; docs/gear_learning.md shows the effect of each difference.

    Eight simulations are cheap data. A larger learning rate, faster targets and a shorter horizon learn the same skill in half the
    learner steps. Where a person corrects, the actor's loss also imitates the correction (docs/person-in-the-loop.md). It stops
    when two evaluations of 100 episodes in a row fail at most once each.
    """
    agent = SACConfig(learning_rate=1e-3, soft_target_update_rate=0.01, discount=0.95, imitation=3.0)
    return TrainConfig(
        agent=agent,
        num_envs=8,
        updates_per_actor_step=0.125,
        eval_period=500,
        eval_episodes=100,
        stop_success=0.99,
        max_minutes=9,
        max_steps=40_000,
        checkpoint_period=2000,
    )


RECIPES: dict[str, Callable[[], TrainConfig]] = {"default": default, "rlpd": rlpd, "reach": reach, "gear_assembly": gear_assembly}


def starting_config(task: str | None, recipe: str | None = None, resume: Path | None = None) -> TrainConfig:
    """The configuration that typed settings change: of the run to resume, of the named recipe, or of the recipe named after the task."""
    if resume is not None:
        if recipe is not None:
            raise ConfigError(f"--resume {resume} and --recipe {recipe} both say which settings to start from; give one of the two")
        return config_of(RunFolder.open(resume))
    chosen = recipe or (task if task in RECIPES else "default")
    if chosen not in RECIPES:
        raise ConfigError(f"no recipe '{chosen}'; there are {', '.join(RECIPES)}")
    return RECIPES[chosen]()


def config_of(run: RunFolder) -> TrainConfig:
    """The configuration a run was started with."""
    saved = run.config["config"]
    if "num_steps_per_env" in saved:
        raise ConfigError(f"run {run.path} was trained with PPO; go on with it by `tandem ppo --resume {run.path}`")
    unknown = set(saved) - {field.name for field in dataclasses.fields(TrainConfig)}
    if unknown:
        raise ConfigError(f"run {run.path} was configured by another version of Tandem: unknown settings {', '.join(sorted(unknown))}")
    return config_from(saved)


def config_from(saved: Mapping[str, Any]) -> TrainConfig:
    """The configuration that `plain` turned into JSON."""
    agent: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in saved["agent"].items()}
    return TrainConfig(**{**saved, "agent": SACConfig(**agent), "demos": tuple(Path(demo) for demo in saved["demos"])})

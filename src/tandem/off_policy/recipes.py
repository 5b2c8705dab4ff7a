"""Recipes: short differences from the defaults, each with its reason. `tandem train TASK` takes the recipe named after the task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import pairwise
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
    """RLPD as published: 20 critic updates for every step of the environment, 10 critics of which 2 are drawn."""
    return TrainConfig(agent=RLPD_PUBLISHED, training_starts=5000, random_steps=5000, steps_per_update=1)


def reach() -> TrainConfig:
    """Seconds, not minutes: small networks that learn fast, many places of the ball, and a discount that makes haste worth it."""
    agent = SACConfig(hidden=(64, 64), learning_rate=1e-3, discount=0.9)
    return TrainConfig(agent=agent, num_envs=8, updates_per_actor_step=0.125, eval_period=200, max_steps=4000, stop_success=0.95)


def gear_assembly() -> TrainConfig:
    """Found by experiment; docs/gear_learning.md has what each difference is worth.

    Eight simulations beside the learner are cheap data. A larger step, faster targets and a shorter horizon learn the same skill
    in half the learner steps. Where a person corrects, doing as they did counts beside the critics' word
    (docs/person-in-the-loop.md). It stops when two evaluations of 100 episodes in a row fail at most once.
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


def defaults_for(args: list[str]) -> TrainConfig:
    """What a command line starts from: the run it resumes, the recipe it names, the one named after its task, or the defaults."""
    after = dict(pairwise(args))
    if "--resume" in after:
        return config_of(RunFolder.open(Path(after["--resume"])))
    chosen = after.get("--recipe") or next((arg for arg in args if arg in RECIPES), "default")
    if chosen not in RECIPES:
        raise ConfigError(f"no recipe '{chosen}'; there are {', '.join(RECIPES)}")
    return RECIPES[chosen]()


def config_of(run: RunFolder) -> TrainConfig:
    """The configuration a run was started with."""
    saved = run.settings_of("rlpd")
    unknown = set(saved) - {field.name for field in dataclasses.fields(TrainConfig)}
    if unknown:
        raise ConfigError(f"run {run.path} was configured by another version of Tandem: unknown settings {', '.join(sorted(unknown))}")
    return config_from(saved)


def config_from(saved: Mapping[str, Any]) -> TrainConfig:
    """What `run.plain` made of a configuration."""
    agent: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in saved["agent"].items()}
    return TrainConfig(**{**saved, "agent": SACConfig(**agent), "demos": tuple(Path(demo) for demo in saved["demos"])})

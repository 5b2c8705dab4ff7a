"""PPO's presets: short differences from the defaults, each with its reason. `tandem ppo TASK` uses the preset named after the task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium

from tandem.agents.ppo_config import PPOConfig
from tandem.agents.rnd import RNDConfig
from tandem.envs.registry import registered
from tandem.envs.task import Practice
from tandem.errors import ConfigError
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.rsl_rl_config import read_rsl_rl_config
from tandem.runs.folder import RunFolder


def rsl_rl() -> OnPolicyConfig:
    """rsl_rl's settings, for thousands of simulations."""
    return OnPolicyConfig()


def gym_mujoco() -> OnPolicyConfig:
    """The settings behind the scores published for Gymnasium's MuJoCo tasks ("37 details"), on 16 simulations instead of one.

    A rollout is still 2048 samples and a mini-batch still 64.
    """
    agent = PPOConfig(
        num_learning_epochs=10,
        num_mini_batches=32,
        entropy_coef=0.0,
        value_loss_coef=0.25,  # half of theirs, because their loss has a factor of 1/2
        learning_rate=3e-4,
        schedule="linear",
        max_grad_norm=0.5,
        joint_grad_norm=True,
        normalize_advantage_per_mini_batch=True,
        adam_epsilon=1e-5,
        actor_hidden_dims=(64, 64),
        critic_hidden_dims=(64, 64),
        activation="tanh",
        init="orthogonal",
        std_type="log",
    )
    return OnPolicyConfig(
        agent=agent,
        num_envs=16,
        num_steps_per_env=128,
        max_iterations=488,
        obs_normalization=True,
        obs_clip=10.0,
        reward_normalization=True,
        reward_clip=10.0,
        eval_period=0,
        final_episodes=10,
        save_interval=100,
    )


def cartpole() -> OnPolicyConfig:
    """Solved in seconds: a small network and 64 simulations.

    Returns go up to 100. Clipped to changes of 0.2 in such units, values would hardly learn, so they are normalised.
    """
    agent = PPOConfig(actor_hidden_dims=(32, 32), critic_hidden_dims=(32, 32), entropy_coef=0.005, normalize_values=True)
    return OnPolicyConfig(agent=agent, num_envs=64, num_steps_per_env=32, max_iterations=40, eval_period=20, final_episodes=50)


def reach() -> OnPolicyConfig:
    """Solved in seconds: a small network, a discount for short episodes, and an evaluation every few iterations to stop early."""
    agent = PPOConfig(
        actor_hidden_dims=(64, 64), critic_hidden_dims=(64, 64), entropy_coef=0.0, init_std=0.5, gamma=0.95, normalize_values=True
    )
    return OnPolicyConfig(
        agent=agent, num_envs=64, num_steps_per_env=16, max_iterations=100, eval_period=5, eval_episodes=50, stop_success=0.98
    )


def gear_assembly() -> OnPolicyConfig:
    """The gears from scratch: a dense reward, and a curriculum of starts.

    An action takes 0.1 s and an episode 10 s, so rewards more than a few seconds away hardly count. Physics takes most of the time, so
    every sample is used in several epochs.
    """
    agent = PPOConfig(
        gamma=0.97,
        entropy_coef=0.0,
        init_std=0.4,
        actor_hidden_dims=(256, 256),
        critic_hidden_dims=(256, 256),
        normalize_values=True,
    )
    return OnPolicyConfig(
        agent=agent,
        num_envs=128,
        num_steps_per_env=32,
        max_iterations=800,
        practice=Practice(curriculum=True),
        obs_normalization=True,  # an impact is a hundred times the force at rest
        obs_clip=5.0,
        eval_period=20,
        eval_episodes=50,
        stop_success=0.95,
    )


def gear_lift() -> OnPolicyConfig:
    """The gear assembly's settings for a task without easier starts: the dense reward alone leads to the gear, to a grasp and up.

    That is a long way from where it begins, so an iteration may change the policy more than usual (`desired_kl`), and its noise is larger.
    A choice that is drawn at every step opens the hand again and again; so the entropy of a policy is not rewarded here either.
    """
    config = gear_assembly()
    return dataclasses.replace(config, agent=dataclasses.replace(config.agent, desired_kl=0.03, init_std=0.6), practice=Practice())


def recall() -> OnPolicyConfig:
    """Solved in seconds with an LSTM in both networks. Rollouts are longer than the wait, because gradients do not reach further back."""
    agent = PPOConfig(
        actor_rnn_type="lstm",
        critic_rnn_type="lstm",
        actor_rnn_hidden_dim=32,
        critic_rnn_hidden_dim=32,
        actor_hidden_dims=(32,),
        critic_hidden_dims=(32,),
        entropy_coef=0.0,
        init_std=0.7,
    )
    return OnPolicyConfig(
        agent=agent, num_envs=64, num_steps_per_env=48, max_iterations=60, eval_period=5, eval_episodes=100, stop_success=0.98
    )


PRESETS: dict[str, Callable[[], OnPolicyConfig]] = {
    "rsl_rl": rsl_rl,
    "gym_mujoco": gym_mujoco,
    "cartpole": cartpole,
    "reach": reach,
    "gear_assembly": gear_assembly,
    **{f"gear_lift{mode}": gear_lift for mode in ("", "_delta", "_threeway")},
    "recall": recall,
}


def ppo_starting_config(
    task: str | None,
    preset: str | None = None,
    resume: Path | None = None,
    rsl_rl_config: Path | None = None,
    num_envs: int | None = None,
) -> OnPolicyConfig:
    """The configuration that typed settings change: of the run to resume, of the rsl_rl file, of the named preset, or the task's preset.

    `num_envs` is the typed number of environments, if any: whether the mini-batches of an rsl_rl file fit depends on it.
    """
    given = {"--rsl-rl-config": rsl_rl_config, "--resume": resume, "--preset": preset}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise ConfigError(f"{' and '.join(named)} all say which settings to start from; give one of them")
    if rsl_rl_config is not None:
        return read_rsl_rl_config(rsl_rl_config, num_envs).config
    if resume is not None:
        return ppo_config_of(RunFolder.open(resume))
    chosen = preset or (preset_for(task) if task else "rsl_rl")
    if chosen not in PRESETS:
        raise ConfigError(f"no preset '{chosen}'; there are {', '.join(PRESETS)}")
    return PRESETS[chosen]()


def preset_for(task: str) -> str:
    """The preset named after the task; else `rsl_rl` for a task that is stepped in a batch, and `gym_mujoco` for any other environment.

    An environment that is stepped alone is never made 4096 times.
    """
    if task in PRESETS:
        return task
    return "rsl_rl" if registered(task) is not None and task not in gymnasium.registry else "gym_mujoco"


def ppo_config_of(run: RunFolder) -> OnPolicyConfig:
    """The configuration a run was started with."""
    with run.using_settings():
        return _config_from({"rnd": {}} | run.settings_of("ppo"), run)  # older runs have no `rnd`


def _config_from(saved: dict[str, Any], run: RunFolder) -> OnPolicyConfig:
    for part, kind in ((saved, OnPolicyConfig), (saved["agent"], PPOConfig), (saved["rnd"], RNDConfig)):
        unknown = set(part) - {field.name for field in dataclasses.fields(kind)}
        if unknown:
            raise ConfigError(f"run {run.path} was configured by another version of Tandem: unknown settings {', '.join(sorted(unknown))}")
    settings: dict[str, Any] = _tuples(saved) | {
        "agent": PPOConfig(**_tuples(saved["agent"])),
        "rnd": RNDConfig(**_tuples(saved["rnd"])),
        "practice": Practice(**saved.get("practice", {})),
    }
    return OnPolicyConfig(**settings)


def _tuples(settings: dict[str, Any]) -> dict[str, Any]:
    """JSON has no tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}

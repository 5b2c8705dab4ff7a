"""A small PPO run, for the tests of all that belongs to one."""

from pathlib import Path

from tandem.agents.ppo import PPOConfig
from tandem.envs.registry import make_batch
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.run import OnPolicyRun
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder

NETWORK = PPOConfig(actor_hidden_dims=(16, 16), critic_hidden_dims=(16, 16), num_learning_epochs=2, num_mini_batches=2)
SMALL = OnPolicyConfig(task="cartpole", agent=NETWORK, num_envs=8, num_steps_per_env=8, max_iterations=4, eval_period=0, final_episodes=0)


def quiet() -> Display:
    return Display("quiet")


def parts_of(config: OnPolicyConfig, path: Path) -> OnPolicyRun:
    env = make_batch(config.task, config.num_envs)
    run = RunFolder.create(path, "ppo", config, env.task_spec)  # pyright: ignore[reportAttributeAccessIssue]
    parts = OnPolicyRun(config, run, env, quiet())
    parts.collector.begin()
    return parts

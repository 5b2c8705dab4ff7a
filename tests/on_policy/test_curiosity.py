"""Random network distillation: the reward it gives, how it is learned away, and a task that is not solved without it."""

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.agents.ppo_config import PPOConfig
from tandem.agents.rnd import RND, RNDConfig
from tandem.errors import ConfigError
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.presets import ppo_config_of
from tandem.on_policy.run import train_ppo
from tandem.runs.checkpoint import newest_checkpoint, read_checkpoint
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tests.on_policy.ppo_samples import parts_of

X = np.random.default_rng(0).standard_normal((32, 3)).astype(np.float32)


class Corridor(gymnasium.Env):
    """A corridor of 4 m with a reward at its end and nowhere else; a step is at most 0.1 m, an episode 60 steps.

    Who steps at random, with a std of 1 clipped to [-1, 1], gets 0.1 x 0.72 x sqrt(60) = 0.56 m far: 4 m are seven standard deviations.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.steps = 0.0, 0
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.place, self.steps = self.place + 0.1 * float(action[0]), self.steps + 1
        there = self.place >= 4.0
        return np.array([self.place], np.float32), float(there), there, not there and self.steps >= 60, {}


gymnasium.register("Corridor-v0", Corridor, disable_env_checker=True)  # pyright: ignore[reportArgumentType]
CORRIDOR = OnPolicyConfig(
    task="Corridor-v0",
    agent=PPOConfig(actor_hidden_dims=(16, 16), critic_hidden_dims=(16, 16), gamma=0.98, entropy_coef=0.001, normalize_values=True),
    num_envs=8,
    num_steps_per_env=60,
    max_iterations=30,
    eval_period=0,
    final_episodes=5,
)
CURIOUS = RNDConfig(
    rnd_weight=1.0,
    rnd_num_outputs=4,
    rnd_predictor_hidden_dims=(16, 16),
    rnd_target_hidden_dims=(16, 16),
    rnd_reward_normalization=True,
)


def test_the_reward_is_the_distance_of_two_networks_and_the_loss_its_mean_square() -> None:
    rnd = RND(RNDConfig(rnd_num_outputs=5, rnd_predictor_hidden_dims=(7,), rnd_target_hidden_dims=(4, 6)), 3)
    state = rnd.init(0)

    def by_hand(network: Any) -> np.ndarray:
        h = np.asarray(X, np.float64)
        for layer in network.trunk.layers:
            h = h @ np.asarray(layer.weight) + np.asarray(layer.bias)
            h = np.where(h > 0, h, np.expm1(h))  # elu
        return h @ np.asarray(network.head.weight) + np.asarray(network.head.bias)

    apart = by_hand(state.predictor) - by_hand(state.target)
    np.testing.assert_allclose(rnd.novelty(state, X), np.sqrt((apart**2).sum(1)), rtol=1e-5)
    _, loss = rnd.update(jax.tree.map(jnp.copy, state), X, np.arange(32).reshape(1, 32))
    assert float(loss) == pytest.approx((apart**2).mean(), rel=1e-5)


def test_the_reward_of_frequent_states_falls_and_the_target_network_never_changes() -> None:
    rnd = RND(CURIOUS, 3)
    state = rnd.init(0)
    far = X + 10.0
    before, target = np.asarray(rnd.novelty(state, X)).mean(), [np.array(leaf) for leaf in jax.tree.leaves(state.target)]
    order = np.stack([np.random.default_rng(i).permutation(32) for i in range(300)])
    state, _ = rnd.update(state, X, order)
    assert np.asarray(rnd.novelty(state, X)).mean() < 0.2 * before
    assert np.asarray(rnd.novelty(state, far)).mean() > 3 * np.asarray(rnd.novelty(state, X)).mean()
    assert all(np.array_equal(a, b) for a, b in zip(target, jax.tree.leaves(state.target), strict=True))


def test_the_weight_follows_its_schedule() -> None:
    steps = np.array([0, 99, 100, 150, 200, 500])
    constant = RNDConfig(rnd_weight=2.0)
    assert constant.weights(steps).tolist() == [2.0] * 6
    step = RNDConfig(rnd_weight=2.0, rnd_weight_schedule="step", rnd_final_step=100, rnd_final_value=0.5)
    assert step.weights(steps).tolist() == [2.0, 2.0, 0.5, 0.5, 0.5, 0.5]
    linear = RNDConfig(rnd_weight=2.0, rnd_weight_schedule="linear", rnd_initial_step=100, rnd_final_step=200, rnd_final_value=1.0)
    assert linear.weights(steps).tolist() == [2.0, 2.0, 2.0, 1.5, 1.0, 1.0]  # half of the way at 150
    with pytest.raises(ConfigError, match="to a later rnd_final_step"):
        dataclasses.replace(linear, rnd_final_step=100)
    assert not RNDConfig().wanted and constant.wanted


def test_the_intrinsic_reward_is_that_of_the_state_after_the_step_also_at_the_end_of_an_episode(tmp_path: Path) -> None:
    config = dataclasses.replace(CORRIDOR, num_envs=4, num_steps_per_env=70, rnd=CURIOUS, obs_normalization=True)
    parts = parts_of(dataclasses.replace(config, agent=dataclasses.replace(config.agent, num_mini_batches=2)), tmp_path / "run")
    rollout = parts.collector.collect(parts.act())
    reached = parts.collector.reached
    assert reached is not None
    # a step goes 0.1 m times the action as it was given to the environment; time is up after the 60th
    moved = 0.1 * np.clip(rollout.actions[..., 0], -1, 1)
    np.testing.assert_allclose(reached[:60, :, 0], np.cumsum(moved[:60], axis=0), atol=1e-5)
    np.testing.assert_allclose(reached[60:, :, 0], np.cumsum(moved[60:], axis=0), atol=1e-5)
    assert np.abs(reached[59]).max() > 0.1, "not the start of the next episode"
    before = rollout.rewards.copy()
    metrics = parts._reward_novelty(rollout)
    added = rollout.rewards - before
    assert (added > 0).all() and metrics["Rnd/mean_intrinsic_reward"] == pytest.approx(float(added.mean()), rel=1e-5)
    assert metrics["Rnd/mean_extrinsic_reward"] == 0.0 and metrics["Rnd/weight"] == 1.0 and metrics["Loss/rnd"] > 0


def test_a_run_with_rnd_is_resumed_to_the_last_bit(tmp_path: Path) -> None:
    small = dataclasses.replace(CORRIDOR, task="cartpole", num_steps_per_env=8, max_iterations=4, final_episodes=0)
    weight = dataclasses.replace(CURIOUS, rnd_weight_schedule="linear", rnd_final_step=32, rnd_state_normalization=True)
    small, quiet = dataclasses.replace(small, rnd=weight), Display("quiet")
    train_ppo(small, tmp_path / "whole", quiet)
    train_ppo(dataclasses.replace(small, max_iterations=2), tmp_path / "parts", quiet)
    saved = ppo_config_of(RunFolder.open(tmp_path / "parts"))
    assert saved.rnd == weight
    train_ppo(dataclasses.replace(saved, max_iterations=4), tmp_path / "parts", quiet, resume=True)
    one, other = (read_checkpoint(newest_checkpoint(tmp_path / name / "checkpoints")) for name in ("whole", "parts"))
    assert all(np.array_equal(one.agent[name], other.agent[name]) for name in one.agent)
    mine, theirs = one.loops["curiosity"]["networks"], other.loops["curiosity"]["networks"]
    assert mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)
    assert RunFolder.open(tmp_path / "parts").metrics()[-1]["Rnd/weight"] == pytest.approx(1 - 31 / 32), "the last of 32 steps"


# ---- a task where it helps

DIGITS = 20
CODE = 2 * np.random.default_rng(7).integers(0, 2, DIGITS) - 1


class Lock(gymnasium.Env):
    """Opens after 20 right choices in a row, of two each; the first wrong one ends the episode, and only opening it pays.

    Who tries at random opens it once in 2^20 = 1,048,576 episodes; 60 iterations have 61,440 steps.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (DIGITS + 1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place = 0
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        right = float(action[0]) * CODE[self.place] > 0
        self.place += int(right)
        is_open = self.place == DIGITS
        return self._seen(), float(is_open), bool(is_open or not right), False, {}

    def _seen(self) -> np.ndarray:
        return np.eye(DIGITS + 1, dtype=np.float32)[self.place]


gymnasium.register("Lock-v0", Lock, disable_env_checker=True)  # pyright: ignore[reportArgumentType]


def test_rnd_opens_a_lock_that_chance_never_opens(tmp_path: Path) -> None:
    agent = PPOConfig(actor_hidden_dims=(32, 32), critic_hidden_dims=(32, 32), gamma=0.98, normalize_values=True)
    plain = dataclasses.replace(CORRIDOR, task="Lock-v0", agent=agent, num_envs=16, num_steps_per_env=64, max_iterations=60)
    rnd = dataclasses.replace(
        CURIOUS, rnd_weight=0.5, rnd_num_outputs=8, rnd_predictor_hidden_dims=(32, 32), rnd_target_hidden_dims=(32, 32)
    )
    curious = train_ppo(dataclasses.replace(plain, rnd=rnd), tmp_path / "curious", Display("quiet"))
    assert curious["deterministic"]["return"] == 1.0 and curious["deterministic"]["length"] == DIGITS
    assert train_ppo(plain, tmp_path / "plain", Display("quiet"))["deterministic"]["return"] == 0.0

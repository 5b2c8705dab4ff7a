"""Stable-Baselines3's PPO for `benchmarks.worlds_ppo`: a process in `.venv-peers`, without Tandem, that trains on request.

Reads one JSON request per line, answers with one line: `{"env": "Ant-v4", "seed": 0, "iterations": 488, "num_envs": 16}` ->
the mean return of the last 100 training episodes, the curve (steps, mean return of the last 100), and seconds.
"""

import json
import sys
import time
from collections import deque

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

ROLLOUT, MINI_BATCH = 2048, 64


class LastReturns(BaseCallback):
    """Returns of the training episodes, as the environment gave them (before they are normalised)."""

    def __init__(self):
        super().__init__()
        self.last, self.steps, self.means = deque(maxlen=100), [], []

    def _on_step(self):
        self.last.extend(info["episode"]["r"] for info in self.locals["infos"] if "episode" in info)
        return True

    def _on_rollout_end(self):
        if self.last:
            self.steps.append(self.num_timesteps)
            self.means.append(float(np.mean(self.last)))


def train(env, seed, iterations, num_envs):
    """The settings of Tandem's preset gym_mujoco; value loss without its factor 1/2, so its coefficient is 0.25."""
    torch.set_num_threads(1)
    made = VecMonitor(DummyVecEnv([lambda: gymnasium.make(env)] * num_envs))
    made = VecNormalize(made, clip_obs=10.0, clip_reward=10.0, gamma=0.99)
    made.seed(seed)
    agent = PPO(
        "MlpPolicy",
        made,
        learning_rate=lambda left: 3e-4 * left,
        n_steps=ROLLOUT // num_envs,
        batch_size=MINI_BATCH,
        n_epochs=10,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        clip_range_vf=0.2,
        ent_coef=0.0,
        vf_coef=0.25,
        max_grad_norm=0.5,
        seed=seed,
        device="cpu",
        policy_kwargs={
            "net_arch": [64, 64],
            "activation_fn": torch.nn.Tanh,
            "ortho_init": True,
            "optimizer_kwargs": {"eps": 1e-5},
        },
    )
    seen, began = LastReturns(), time.perf_counter()
    agent.learn(iterations * ROLLOUT, callback=seen)
    return {"score": seen.means[-1], "steps": seen.steps, "returns": seen.means, "seconds": time.perf_counter() - began}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(train(**json.loads(line))), flush=True)

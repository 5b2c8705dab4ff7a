"""The other libraries of `benchmarks.ppo_speed`: a process in `.venv-peers`, without Tandem, that measures on request.

Reads one JSON request per line, answers with one line:
`{"rsl_rl": {sizes}, "iterations": 1}` -> seconds of an iteration, of its learning part;
`{"sb3": {sizes}, "iterations": 2}` -> steps per second, and the setting that was found to be the fastest;
`{"products": [["nn", 4096, 128, 128], ...], "seconds": 0.01}` -> seconds of each, computed by torch.
"""

import contextlib
import json
import os
import sys
import time

import gymnasium
import torch
from learner_peers import product_seconds
from tensordict import TensorDict

THREADS = os.cpu_count() or 1
SB3_SETTINGS = [("dummy", 1), ("dummy", 8), ("dummy", 64), ("subproc", 2), ("subproc", 8)]
"""Kind and number of its vector environments; the fastest of these, with one PyTorch thread or all, is used for the measurement."""


def still_environment(sizes):
    """An environment that takes no time: it returns arrays that were drawn in advance."""
    from rsl_rl.env import VecEnv

    class Still(VecEnv):
        def __init__(self):
            self.num_envs, self.num_actions, self.max_episode_length = sizes["num_envs"], sizes["action_dim"], 1000
            self.device, self.cfg, self.turn = "cpu", {}, 0
            self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
            draws = [torch.randn(self.num_envs, sizes["observation_dim"]) for _ in range(8)]
            self.seen = [TensorDict({"policy": draw}, batch_size=[self.num_envs]) for draw in draws]
            self.rewards = [torch.randn(self.num_envs) for _ in range(8)]
            self.ends = [torch.rand(self.num_envs) < 0.001 for _ in range(8)]

        def get_observations(self):
            return self.seen[self.turn]

        def step(self, actions):
            self.turn = (self.turn + 1) % 8
            return self.seen[self.turn], self.rewards[self.turn], self.ends[self.turn], {"time_outs": self.ends[self.turn]}

    return Still()


class RslRl:
    """rsl_rl's runner with its defaults, without log files."""

    def __init__(self, sizes):
        from rsl_rl.runners import OnPolicyRunner

        torch.set_num_threads(THREADS)
        network = {"class_name": "MLPModel", "hidden_dims": sizes["hidden"], "activation": "elu"}
        config = {
            "num_steps_per_env": sizes["num_steps"],
            "save_interval": 10**9,
            "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
            "algorithm": {"class_name": "PPO"},
            "actor": network | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
            "critic": dict(network),
        }
        self.runner = OnPolicyRunner(still_environment(sizes), config, log_dir=None, device="cpu")
        self.times = []
        self.runner.logger.log = lambda **row: self.times.append((row["collect_time"], row["learn_time"]))
        self.seconds(1)

    def seconds(self, iterations):
        self.times.clear()
        self.runner.learn(iterations)
        collecting, learning = (sum(column) / iterations for column in zip(*self.times, strict=True))
        return collecting + learning, learning


def cheetah():
    return gymnasium.make("HalfCheetah-v4")


class Sb3:
    """Stable-Baselines3's PPO with the settings of the preset `gym_mujoco`, and the fastest environments and threads on this machine."""

    def __init__(self, sizes):
        self.sizes = sizes
        rates = {}
        for kind, count in SB3_SETTINGS:
            rates[kind, count, 1] = self.trial((kind, count, 1))
        kind, count, _ = max(rates, key=rates.get)
        rates[kind, count, THREADS] = self.trial((kind, count, THREADS))
        self.setting = max(rates, key=rates.get)
        self.model = self.make(self.setting)
        self.rate(self.model, self.setting, 1)

    def trial(self, setting):
        model = self.make(setting)
        self.rate(model, setting, 1)
        rate = self.rate(model, setting, 1)
        model.env.close()
        return rate

    def make(self, setting):
        from stable_baselines3 import PPO
        from stable_baselines3.common.env_util import make_vec_env
        from stable_baselines3.common.logger import Logger
        from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

        kind, count, _ = setting
        env = VecNormalize(make_vec_env(cheetah, count, vec_env_cls=DummyVecEnv if kind == "dummy" else SubprocVecEnv))
        model = PPO(
            "MlpPolicy", env, n_steps=self.sizes["samples"] // count, batch_size=self.sizes["mini_batch"],
            n_epochs=self.sizes["epochs"], ent_coef=0.0, policy_kwargs={"net_arch": self.sizes["hidden"]}, device="cpu",
        )  # fmt: skip
        model.set_logger(Logger(None, []))
        return model

    def rate(self, model, setting, iterations):
        torch.set_num_threads(setting[2])
        steps, start = iterations * self.sizes["samples"], time.perf_counter()
        model.learn(steps, reset_num_timesteps=False)
        return steps / (time.perf_counter() - start)


def answer(request, made):
    if "products" in request:
        torch.set_num_threads(THREADS)
        return [product_seconds(*product, request["seconds"]) for product in request["products"]]
    if "rsl_rl" in request:
        torch.set_num_threads(THREADS)
        made["rsl_rl"] = rsl_rl = made.get("rsl_rl") or RslRl(request["rsl_rl"])
        return rsl_rl.seconds(request["iterations"])
    made["sb3"] = sb3 = made.get("sb3") or Sb3(request["sb3"])
    return sb3.rate(sb3.model, sb3.setting, request["iterations"]), sb3.setting


def main():
    made = {}
    for line in sys.stdin:
        with contextlib.redirect_stdout(sys.stderr):  # they print; stdout is for the replies alone
            reply = answer(json.loads(line), made)
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()

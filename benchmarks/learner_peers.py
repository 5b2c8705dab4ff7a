"""The other libraries of `benchmarks.learner`: a process in `.venv-peers`, without Tandem, that measures on request.

Reads one JSON request per line, answers with one line: `{"train": "sbx", "updates": 200}` -> seconds of an update, updates in one call;
`{"products": [["nn", 256, 256, 256], ...], "seconds": 0.01}` -> seconds of each, computed by torch.
"""

import json
import os
import sys
import time

import gymnasium
import numpy as np

THREADS = os.cpu_count() or 1
CALLS = {"sbx": (2, 64), "sb3": (2, 64)}
"""Gradient steps in one call of `train`: few or many, whichever is faster on this machine."""


class Still(gymnasium.Env):
    """A dummy environment with the right sizes."""

    def __init__(self, observation_dim: int, action_dim: int):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (observation_dim,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (action_dim,), np.float32)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def make(peer: str, sizes: dict):
    """Their SAC with the same sizes and a filled replay buffer."""
    from stable_baselines3.common.logger import Logger

    env = Still(sizes["observation_dim"], sizes["action_dim"])
    shared = {"batch_size": sizes["batch_size"], "buffer_size": sizes["transitions"], "seed": 0}
    hidden = list(sizes["hidden"])
    if peer == "sbx":
        from sbx import SAC

        model = SAC("MlpPolicy", env, policy_delay=2, policy_kwargs={"net_arch": hidden, "layer_norm": True}, **shared)
    else:
        import torch
        from stable_baselines3 import SAC

        torch.set_num_threads(THREADS)
        model = SAC("MlpPolicy", env, policy_kwargs={"net_arch": hidden}, device="cpu", **shared)
    model.set_logger(Logger(None, []))
    random = np.random.default_rng(0)
    for _ in range(sizes["transitions"]):
        observations = random.standard_normal((2, 1, sizes["observation_dim"]), dtype=np.float32)
        action = random.uniform(-1, 1, (1, sizes["action_dim"]))
        model.replay_buffer.add(*observations, action, np.zeros(1), np.zeros(1), [{}])
    return model


def train(model, updates: int, in_one_call: int) -> float:
    start = time.perf_counter()
    for _ in range(max(1, updates // in_one_call)):
        model.train(gradient_steps=in_one_call, batch_size=model.batch_size)
    return (time.perf_counter() - start) / (max(1, updates // in_one_call) * in_one_call)


def product_seconds(kind: str, batch: int, inputs: int, outputs: int, seconds: float) -> float:
    """One matrix product of a learner step; see `benchmarks.learner`."""
    import torch

    torch.set_num_threads(THREADS)
    x = torch.randn(batch, inputs)
    y = torch.randn({"nn": (inputs, outputs), "nt": (outputs, inputs), "tn": (batch, outputs)}[kind])
    x, y = x.T if kind == "tn" else x, y.T if kind == "nt" else y
    out = torch.empty(x.shape[0], y.shape[1])
    torch.matmul(x, y, out=out)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for _ in range(10):
            torch.matmul(x, y, out=out)
        count += 10
    return (time.perf_counter() - start) / count


def main() -> None:
    sizes, models, best_call = json.loads(sys.argv[1]), {}, {}
    for line in sys.stdin:
        request = json.loads(line)
        if "products" in request:
            answer = [product_seconds(*product, request["seconds"]) for product in request["products"]]
        else:
            peer = request["train"]
            if peer not in models:
                model = models[peer] = make(peer, sizes)
                for in_one_call in CALLS[peer]:
                    train(model, in_one_call, in_one_call)  # compiles
                best_call[peer] = min(CALLS[peer], key=lambda n: min(train(model, 128, n) for _ in range(3)))
            answer = train(models[peer], request["updates"], best_call[peer]), best_call[peer]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

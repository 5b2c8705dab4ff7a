"""SBX's SAC on a task of `benchmarks.worlds`: a process in `.venv-peers`, without Tandem, that trains on request.

The task itself runs in the Python of its package and is stepped over pipes (`worlds_tasks.py`). The demonstrations are put into the
replay buffer before the first step and stay there; observations are standardised by their mean and deviation. All else is SBX's default.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np

LEARNING_STARTS = 100
"""Steps with random actions, as many as Tandem's recipe waits before its first update."""
CHECK_PERIOD = 5000
"""Steps between two questions whether the task is solved: SBX may stop early, as RLPD does."""


class Piped(gymnasium.Env):
    """A task in another Python; actions in [-1, 1], observations flat and standardised."""

    def __init__(self, python: str, task: str, entries: list[str], mean: np.ndarray, deviation: np.ndarray):
        command = [python, str(Path(__file__).with_name("worlds_tasks.py")), task]
        surroundings = {"MUJOCO_GL": "egl", **os.environ}  # gym-hil opens a renderer even where nobody looks
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings)
        self._entries, self._mean, self._deviation = entries, mean, deviation
        limits = self._answer()
        self._low, self._high = np.array(limits["low"]), np.array(limits["high"])
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, self._low.shape, np.float32)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, mean.shape, np.float32)

    def _ask(self, **request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the environment's process ended with code {self._process.wait()}")
        return json.loads(line)

    def _seen(self, answer) -> np.ndarray:
        flat = np.concatenate([answer["observation"][name] for name in self._entries])
        return ((flat - self._mean) / self._deviation).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        return self._seen(self._ask(reset=seed)), {}

    def step(self, action):
        raw = self._low + (np.clip(action, -1, 1) + 1) / 2 * (self._high - self._low)
        told = self._ask(step=raw.tolist())
        return self._seen(told), told["reward"], told["terminated"], told["truncated"], {"success": told["success"]}

    def close(self):
        self._process.stdin.close()
        self._process.wait(10)


def fill(model, demos, mean: np.ndarray, deviation: np.ndarray) -> None:
    """The demonstrations as steps of the replay buffer."""

    def standard(values):
        return ((values - mean) / deviation).astype(np.float32)

    now, then = standard(demos["observation"]), standard(demos["next_observation"])
    for i in range(len(now)):
        row = slice(i, i + 1)
        model.replay_buffer.add(now[row], then[row], demos["action"][row], demos["reward"][row], demos["terminated"][row], [{}])


def train(
    python: str, task: str, demos_file: str, steps: int | None, minutes: float | None, seed: int, check_seeds: list, final_seeds: list
) -> dict:
    """Until so many steps or minutes, whichever is given, or until two checks in a row succeed in every episode."""
    from sbx import SAC
    from stable_baselines3.common.callbacks import BaseCallback

    demos = np.load(demos_file)
    entries = [str(name) for name in demos["entries"]]
    mean, deviation = demos["observation"].mean(0), demos["observation"].std(0)
    deviation = np.where(deviation < 1e-6, 1.0, deviation)  # an entry that never changes
    env, checked = (Piped(python, task, entries, mean, deviation) for _ in range(2))

    class UntilItIsOver(BaseCallback):
        solved = 0

        def _on_step(self) -> bool:
            if self.num_timesteps % CHECK_PERIOD == 0:
                self.solved = self.solved + 1 if solves(self.model, checked, check_seeds) else 0
            return self.solved < 2 and time.monotonic() < until

    model = SAC("MlpPolicy", env, seed=seed, learning_starts=LEARNING_STARTS, buffer_size=500_000)
    fill(model, demos, mean, deviation)
    until = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    model.learn(10**9 if steps is None else steps, callback=UntilItIsOver())
    successes = sum(succeeds(model, checked, each) for each in final_seeds)
    env.close()
    checked.close()
    return {"successes": successes, "episodes": len(final_seeds), "steps": int(model.num_timesteps)}


def solves(model, env: Piped, seeds: list) -> bool:
    """Every one of these episodes; the first that fails ends the question."""
    return all(succeeds(model, env, seed) for seed in seeds)


def succeeds(model, env: Piped, seed: int) -> bool:
    observation, _ = env.reset(seed=seed)
    ended = False
    while not ended:
        action, _ = model.predict(observation, deterministic=True)
        observation, _, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
    return bool(info["success"])


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(train(**json.loads(line))), flush=True)

"""Train an environment of your own: any Gymnasium environment with continuous actions.

    python examples/own_environment.py                     about 1 minute on 2 cores

Here a point on a line moves to a mark. What matters: observations and actions are flat `Box`es, `terminated` means that the task ended,
and `info["success"]` says whether it ended well. Register it with an episode length; train it by its id.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import tandem

STEP = 0.1
"""Distance that an action of 1 moves (m)."""
NEAR = 0.05
"""Distance from the mark that counts as success (m)."""


class Line(gymnasium.Env):
    """Move a point to a mark between -1 and 1."""

    observation_space = gymnasium.spaces.Box(-2.0, 2.0, (2,), np.float32)  # place of the point, distance to the mark
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.mark = self.np_random.uniform(-1, 1, 2)
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.place = float(np.clip(self.place + STEP * action[0], -1, 1))
        success = abs(self.mark - self.place) < NEAR
        return self._observation(), float(success), success, False, {"success": success}

    def _observation(self) -> np.ndarray:
        return np.array([self.place, self.mark - self.place], np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max_steps", type=int, default=1500, help="learner steps")
    parser.add_argument("--run", type=Path, default=Path("runs/line"), help="folder of the run")
    flags = parser.parse_args()
    gymnasium.register("Line-v0", entry_point=Line, max_episode_steps=50)
    result = tandem.train(
        "Line-v0",
        run=flags.run,
        max_steps=flags.max_steps,
        hidden=(32, 32),
        learning_rate=1e-3,
        discount=0.9,
        num_envs=8,
        updates_per_actor_step=0.25,
        eval_period=500,
        final_episodes=50,
    )
    print(f"success {result.success:.0%} after {result.summary['learner_step']} learner steps, run {result.run}")
    policy = result.policy()
    action = policy.act({"state": np.array([0.0, 0.5], np.float32)})  # a plain Box is the entry "state"
    print(f"half a metre left of the mark it moves by {STEP * action[0]:+.3f} m")


if __name__ == "__main__":
    main()

"""Record demonstrations of your own environment with a script of your own, and train from them.

    python examples/record_demos.py                        about 1 minute on 2 cores

The same from the command line, with the environment and the class in modules:

    PYTHONPATH=examples tandem record record_demos:Line-v0 --operator record_demos:Push --demos 10
    PYTHONPATH=examples tandem train record_demos:Line-v0 --demos demos/FILE.db
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium
import numpy as np
from own_environment import Line

import tandem

gymnasium.register("Line-v0", entry_point=Line, max_episode_steps=50)


class Push:
    """Goes towards the mark, at most half as fast as it could."""

    name = "push"

    def reset(self) -> None:
        """An episode begins; this script has nothing to forget."""

    def decide(self, observation: dict[str, np.ndarray], proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        """The action, in [-1, 1], and whether a person chose it."""
        _, distance = observation["state"]
        return np.clip([5.0 * distance], -0.5, 0.5), False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max_steps", type=int, default=500, help="learner steps")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder of the demonstrations and of the run")
    flags = parser.parse_args()
    file = tandem.record("Line-v0", Push(), demos=10, out=flags.out / "line_demos")
    result = tandem.train(
        "Line-v0",
        demos=[file],
        run=flags.out / "line",
        max_steps=flags.max_steps,
        hidden=(32, 32),
        learning_rate=1e-3,
        discount=0.9,
        num_envs=8,
        updates_per_actor_step=0.25,
        eval_period=0,
        final_episodes=50,
    )
    print(f"success {result.success:.0%} with 10 demonstrations after {result.summary['learner_step']} learner steps, run {result.run}")


if __name__ == "__main__":
    main()

"""Load a learned policy and act with it, without JAX.

tandem train reach --sync --run runs/reach              any run folder, policy file or exported ONNX file will do
python examples/load_and_act.py runs/reach
"""

from __future__ import annotations

import argparse

import numpy as np

import tandem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", help="a run folder, a policy file or an ONNX file")
    parser.add_argument("--episodes", type=int, default=3)
    flags = parser.parse_args()
    policy = tandem.load_policy(flags.policy)
    print(f"task {policy.spec.task}, policy version {policy.version}, {policy.spec.control_hz:g} actions a second")
    env = tandem.make(policy.spec.task)
    for seed in range(flags.episodes):
        observation, info = env.reset(seed=seed)
        policy.reset()  # an episode begins; policies with memory, and those that decide every few steps, need it
        steps, ended = 0, False
        while not ended:
            observation, _, terminated, truncated, info = env.step(policy.act(observation))
            steps, ended = steps + 1, terminated or truncated
        print(f"seed {seed}: {'success' if info['success'] else 'no success'} after {steps} steps")
    batch = {name: np.stack([values, values]) for name, values in observation.items()}
    print(f"two observations at once give actions of shape {policy.act(batch).shape}")


if __name__ == "__main__":
    main()

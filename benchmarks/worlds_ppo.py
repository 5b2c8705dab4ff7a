"""Is our PPO as good as Stable-Baselines3's on tasks of Gymnasium's that nobody tuned it for?

    python -m benchmarks.worlds_ppo [--envs Ant-v4 Ant-v5 Swimmer-v4] [--seeds 0 1 2] [--iterations 488] [--json]

`tandem ppo NAME --preset gym_mujoco` and SB3's PPO with the same settings, one after the other in the same call: 16 environments, rollouts
of 2048 samples, a million steps, normalised observations and rewards. The score of a run is the mean return of its last 100 training
episodes; the figure is the ratio of the means over the seeds. Swimmer-v5 gives the same digits as Swimmer-v4, so it is left out.
Finished runs are stored in a file, so an interrupted benchmark continues.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import Peers
from benchmarks.ppo_scores import run_one
from benchmarks.report import Report
from tandem.files import write_atomically
from tandem.on_policy.presets import PRESETS

TARGETS: dict[str, tuple[str, float]] = {"ppo_over_sb3_ant": (">=", 0.9), "ppo_over_sb3_swimmer": (">=", 0.9)}
Results = dict[str, dict[str, Any]]


def run_all(args: argparse.Namespace, results: Results) -> None:
    peers = Peers("worlds_sb3.py")
    for env in args.envs:
        for seed in args.seeds:
            config = replace(PRESETS["gym_mujoco"](), task=env, seed=seed, max_iterations=args.iterations, eval_period=0, final_episodes=0)
            sizes = {"env": env, "seed": seed, "iterations": args.iterations, "num_envs": config.num_envs}
            for who, run in (("tandem", lambda c=config: run_one(c, args.folder)), ("sb3", lambda s=sizes: peers.ask(**s))):
                key = f"{who} {env} {seed} {args.iterations}"
                if key not in results:
                    results[key] = run()
                    write_atomically(args.folder / "results.json", json.dumps(results).encode())
                print(f"{key}: {results[key]['score']:.1f}", flush=True)
    peers.close()


def ratio(args: argparse.Namespace, results: Results, env: str) -> float:
    ours, theirs = (
        np.mean([results[f"{who} {env} {seed} {args.iterations}"]["score"] for seed in args.seeds]) for who in ("tandem", "sb3")
    )
    return float(ours / theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=["Ant-v4", "Ant-v5", "Swimmer-v4"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--iterations", type=int, default=488)
    parser.add_argument("--folder", type=Path, default=Path("runs/worlds_ppo"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    stored = args.folder / "results.json"
    results: Results = json.loads(stored.read_text()) if stored.exists() else {}
    run_all(args, results)
    report = Report("worlds_ppo", ("environment, seed", "Tandem", "SB3"), TARGETS)
    for env in args.envs:
        for seed in args.seeds:
            scores = [f"{results[f'{who} {env} {seed} {args.iterations}']['score']:.0f}" for who in ("tandem", "sb3")]
            report.row(f"{env}, {seed}", *scores)
    for name in ("ant", "swimmer"):
        of_family = [env for env in args.envs if env.lower().startswith(name)]
        if of_family:
            report.figures[f"ppo_over_sb3_{name}"] = float(np.mean([ratio(args, results, env) for env in of_family]))
    report.show(args.json)


if __name__ == "__main__":
    main()

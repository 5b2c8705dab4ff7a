"""hil-serl's two command lines, as they stand, on Tandem.

    python examples/train_rlpd.py --exp_name=gear_assembly --learner --demo_path=DEMOS.pkl --checkpoint_path=./checkpoints/run --seed=42
    python examples/train_rlpd.py --exp_name=gear_assembly --actor --use_sim --ip=localhost --checkpoint_path=./checkpoints/run --seed=42 \\
        --isaac_server_url=http://HOST:5001/

`tandem learner` and `tandem actor` do the same and more; this is for existing scripts. The run folder is `--checkpoint_path`;
one that exists is resumed, as in hil-serl. With `--isaac_server_url` the actor moves the robot of that Isaac Sim server; without it,
Tandem's own simulation. The learner needs neither: it sees by the demonstrations which of the two they are from.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from tandem.errors import ConfigError, TandemError

PROFILES = {"gear_assembly": "gear_assembly", "gear_assembly_pretrain": "gear_lift_10mm"}
"""Experiments that run on the Isaac Sim server, and the profile of its version (docs/your-robot.md)."""
ISAAC_ENTRIES = {"state", "wrist_1", "wrist_2"}
"""What the observations of its demonstrations hold."""

SCHEDULE = ("pretrain_steps", "initial_demo_ratio", "final_demo_ratio", "demo_ratio_anneal_steps")
"""How much is learned from the demonstrations, and when."""


def main(pretrain_steps: int = 0, initial_demo_ratio: float = 0.5) -> int:
    flags = parser(pretrain_steps, initial_demo_ratio).parse_args()
    try:
        if flags.learner == flags.actor:
            raise ConfigError("give one of --learner and --actor: they are two processes")
        if flags.eval_checkpoint_step:
            return evaluate(flags)
        return learn(flags) if flags.learner else act(flags)
    except TandemError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2


def parser(pretrain_steps: int, initial_demo_ratio: float) -> argparse.ArgumentParser:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--exp_name", required=True, help="the task: gear_assembly, reach, a Gymnasium id or module:Id")
    flags.add_argument("--learner", action="store_true", help="be the learner")
    flags.add_argument("--actor", action="store_true", help="be the actor")
    flags.add_argument("--ip", default="localhost", help="actor: where the learner is, HOST or HOST:PORT")
    flags.add_argument(
        "--demo_path", action="append", default=[], type=Path, help="learner: demonstrations, .pkl of hil-serl or .db; may be repeated"
    )
    flags.add_argument("--checkpoint_path", required=True, type=Path, help="the run folder; one that exists is resumed")
    flags.add_argument("--seed", type=int, default=42, help="random seed for networks, sampling, exploration and simulations")
    flags.add_argument("--use_sim", action="store_true", help="actor: a simulation: Tandem's own, or the one of --isaac_server_url")
    flags.add_argument("--isaac_server_url", help="actor: the Isaac Sim server, http://HOST:5001/")
    flags.add_argument("--profile", help="which version of the Isaac Sim server: a name or a file. Default: by the experiment and the run")
    flags.add_argument(
        "--pretrain_steps", type=int, default=pretrain_steps, help="learner: steps on the demonstrations before those of the robot count"
    )
    flags.add_argument(
        "--initial_demo_ratio", type=float, default=initial_demo_ratio, help="learner: share of a batch from demonstrations at first"
    )
    flags.add_argument("--final_demo_ratio", type=float, default=0.5, help="learner: the same after --demo_ratio_anneal_steps")
    flags.add_argument("--demo_ratio_anneal_steps", type=int, default=20_000, help="learner: steps from the one share to the other")
    flags.add_argument("--max_steps", type=int, help="learner: learner steps after which it ends")
    flags.add_argument("--eval_checkpoint_step", type=int, default=0, help="above 0: evaluate the run's best policy instead of training")
    flags.add_argument("--eval_n_trajs", type=int, default=100, help="episodes of the evaluation")
    flags.add_argument("--save_video", action="store_true", help="evaluation: film it as well")
    flags.add_argument("--debug", action="store_true", help="accepted for compatibility: nothing is sent to Weights & Biases anyway")
    return flags


def learn(flags: argparse.Namespace) -> int:
    options = [f"--seed={flags.seed}"]
    if flags.demo_path:
        options += ["--demos", *map(str, flags.demo_path)]
    if flags.max_steps:
        options.append(f"--max-steps={flags.max_steps}")
    run = flags.checkpoint_path
    if (run / "config.json").exists():
        print(f"{run} exists: continuing it")
        return tandem("learner", "--resume", str(run), *options)
    if not flags.demo_path:
        raise ConfigError("the learner needs demonstrations: --demo_path FILE (record some with `tandem record TASK`)")
    options += [f"--{name.replace('_', '-')}={getattr(flags, name)}" for name in SCHEDULE]
    return tandem("learner", learner_task(flags), "--run", str(run), *options)


def learner_task(flags: argparse.Namespace) -> str:
    """The task of the demonstrations: the experiment on the Isaac Sim server, or the one of Tandem that has the same name."""
    if flags.exp_name not in PROFILES:
        return flags.exp_name
    from tandem.data.demos import read_demos

    spec = read_demos(flags.demo_path[0]).spec
    if spec.task.startswith("isaac:"):
        return f"isaac:{flags.profile}" if flags.profile else spec.task
    return f"isaac:{flags.profile or PROFILES[flags.exp_name]}" if set(spec.observation) >= ISAAC_ENTRIES else flags.exp_name


def act(flags: argparse.Namespace) -> int:
    token = [] if os.environ.get("TANDEM_TOKEN") else ["--token-file", str(wait_for(flags.checkpoint_path / "token"))]
    if flags.isaac_server_url:
        task, pace = f"isaac+{flags.isaac_server_url}?profile={profile_of(flags)}", "realtime"
    else:
        task, pace = flags.exp_name, "fast" if flags.use_sim else "realtime"
    return tandem("actor", task, "--learner", flags.ip, "--pace", pace, *token)


def profile_of(flags: argparse.Namespace) -> str:
    """The one that was typed, else that of a run on this machine, else that of the experiment."""
    config = flags.checkpoint_path / "config.json"
    task = json.loads(config.read_text())["task"] if config.exists() else ""
    found = flags.profile or (task.removeprefix("isaac:") if task.startswith("isaac:") else PROFILES.get(flags.exp_name))
    if found is None:
        known = ", ".join(PROFILES)
        raise ConfigError(f"--exp_name={flags.exp_name} has no profile of the Isaac Sim server (there are {known}): give --profile NAME")
    return found


def wait_for(path: Path, seconds: float = 60.0) -> Path:
    """The two are often started at the same moment."""
    began = time.monotonic()
    while not path.exists() and time.monotonic() - began < seconds:
        if int(10 * (time.monotonic() - began)) == 10:
            print(f"waiting for the learner to make {path}")
        time.sleep(0.1)
    return path


def evaluate(flags: argparse.Namespace) -> int:
    if flags.save_video:
        tandem("play", str(flags.checkpoint_path), "--film", "--out", str(flags.checkpoint_path / "videos"))
    return tandem("eval", str(flags.checkpoint_path), "--episodes", str(flags.eval_n_trajs))


def tandem(*arguments: str) -> int:
    from tandem.cli import main as command_line

    sys.argv = ["tandem", *arguments]
    try:
        command_line()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())

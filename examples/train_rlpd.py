"""hil-serl's two command lines, as they stand, on Tandem.

    python examples/train_rlpd.py --exp_name=gear_assembly --learner --demo_path=DEMOS.pkl --checkpoint_path=./checkpoints/run --seed=42
    python examples/train_rlpd.py --exp_name=gear_assembly --actor --use_sim --ip=localhost --checkpoint_path=./checkpoints/run --seed=42

`tandem learner` and `tandem actor` do the same and more; this is for existing scripts. The run folder is `--checkpoint_path`;
one that exists is resumed, as in hil-serl.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tandem.errors import ConfigError, TandemError


def main() -> int:
    flags = parser().parse_args()
    try:
        if flags.learner == flags.actor:
            raise ConfigError("give one of --learner and --actor: they are two processes")
        if flags.eval_checkpoint_step:
            return evaluate(flags)
        return learn(flags) if flags.learner else act(flags)
    except TandemError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
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
    flags.add_argument("--use_sim", action="store_true", help="actor: the built-in simulation")
    flags.add_argument("--isaac_server_url", help="actor: a served simulator (not supported yet; with --use_sim the built-in one is used)")
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
    return tandem("learner", flags.exp_name, "--run", str(run), *options)


def act(flags: argparse.Namespace) -> int:
    if flags.isaac_server_url and not flags.use_sim:
        raise ConfigError(
            f"--isaac_server_url={flags.isaac_server_url}: served simulators are not supported yet. Add --use_sim for the built-in "
            f"simulation of '{flags.exp_name}', or give your own Gymnasium environment as --exp_name=module:Id."
        )
    if flags.isaac_server_url:
        print(f"--isaac_server_url={flags.isaac_server_url} is not used: served simulators are not supported yet; --use_sim is built in")
    arguments = [flags.exp_name, "--learner", flags.ip, "--pace", "fast" if flags.use_sim else "realtime"]
    if not os.environ.get("TANDEM_TOKEN"):  # else the learner's folder is on the same machine, and has the token
        arguments += ["--token-file", str(wait_for(flags.checkpoint_path / "token"))]
    return tandem("actor", *arguments)


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

"""`tandem dagger TASK`: a clone of demonstrations acts, a person corrects it, and it learns the corrections (HG-DAgger)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tandem.agents.sac_config import SACConfig
from tandem.allowed import allow, code_of
from tandem.doctor.demo_files import start_lines
from tandem.errors import ConfigError
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.recipes import config_of, fitted
from tandem.programs.arguments import TrainArgs, typed_options
from tandem.programs.launch import train_here
from tandem.programs.record import scripted_demos
from tandem.programs.resuming import WHICH_TASK, require_allowed_code
from tandem.programs.terminal import make_display, new_run, show_summary
from tandem.runs.folder import RunFolder


@dataclass(frozen=True)
class DaggerArgs:
    """Clone demonstrations, then learn from a person's corrections while the clone acts (HG-DAgger).

    The robot, the page and the corrections are those of `tandem train`. What is imitated are demonstrations and corrections; rewards are
    not learned from. Steps that the policy chose itself are kept in the journal, and not imitated.
    """

    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """A task (see `tandem tasks`), a Gymnasium id, or module:Id."""
    demos: tuple[Path, ...] = ()
    """Files of demonstrations to begin with."""
    scripted_demos: int = 0
    """First record this many demonstrations with the task's scripted expert."""
    first_updates: int = 3000
    """Updates on the demonstrations before the robot moves."""
    updates_per_correction: float = 20.0
    """Updates that each step by a person earns."""
    max_updates: int = 200_000
    """Updates after which it ends."""
    max_minutes: float | None = None
    """Stop after this many minutes."""
    stop_success: float | None = None
    """Stop when two evaluations in a row have at least this success rate."""
    eval_period: int = 2000
    """Updates between two evaluations; 0: none. A robot is not evaluated while it is corrected."""
    eval_episodes: int = 50
    """Episodes of an evaluation."""
    final_episodes: int = 100
    """Episodes of the evaluation at the end, on seeds of their own."""
    learning_rate: float = 1e-3
    """Step size of Adam."""
    batch_size: int = 256
    """Steps per update, drawn from demonstrations and corrections alike."""
    hidden: tuple[int, ...] = SACConfig.hidden
    """Units of the hidden layers; the same as in a run of `tandem train` that will start from it (--init-from)."""
    encoder: Literal["efficientnet-lite0", "random-lite0"] = "efficientnet-lite0"
    """Frozen network that turns pictures into features, for tasks with cameras."""
    operator: str = "browser"
    """Who corrects: browser (a person on the page), person:scripted (a script with the task's expert), spacemouse, gamepad, or
    module:Class (your own)."""
    reward_source: str = "simulation"
    """What decides whether an episode was a success: simulation, person, classifier:FILE or conditions:FILE."""
    pace: Literal["fast", "realtime"] = "fast"
    """Speed of the actor: as fast as it can, or the task's control rate. A robot needs `realtime`."""
    num_envs: int = 1
    """Simulations that the actor steps at once; a person steers the first."""
    limits: Path | None = None
    """File of speed, force and workspace limits (docs/limits.md); a robot needs one."""
    no_limits: bool = False
    """Move a robot without any limits."""
    port: int = 0
    """Port of the page; 0: any free port."""
    seed: int = 0
    """Random seed for the network, the batches and the simulations."""
    run: Path | None = None
    """Folder of the run. Default: runs/TASK_dagger_TIME."""
    resume: Path | None = None
    """Continue this run from its newest checkpoint, with its own settings except those that are given."""
    quiet: bool = False
    """Print only the summary."""
    json: bool = False
    """Print one JSON object per line."""


def dagger(args: list[str]) -> None:
    """Clone demonstrations, then learn from a person's corrections while the clone acts (HG-DAgger)."""
    asked = read_args(args)
    display = make_display(asked.quiet, asked.json)
    if asked.operator == "none":
        raise ConfigError("--operator none: nobody could correct the clone. `tandem bc` clones demonstrations without corrections.")
    if asked.resume is not None:
        path, demos = asked.resume, asked.demos
        task = config_of(RunFolder.open(path), "dagger").task
        require_allowed_code(path, asked.task, task, asked.operator)
    elif asked.task is None:
        raise ConfigError(WHICH_TASK)
    else:
        task, path = asked.task, asked.run or new_run(f"{asked.task}_dagger")
        demos = _demos(asked, task, path)
        for line in start_lines(demos, None):
            display.say(line)
    allow(code_of(task))
    summary = train_here(_as_training(asked, task, path), run_config(asked, task, demos), path, display, kind="dagger")
    show_summary(summary, path, asked.json)


def _demos(asked: DaggerArgs, task: str, path: Path) -> tuple[Path, ...]:
    demos = asked.demos
    if asked.scripted_demos:
        demos = (*demos, scripted_demos(task, asked.scripted_demos, path, asked.seed, asked.quiet or asked.json))
    if not demos:
        raise ConfigError("nothing to begin with: give --demos FILE, or --scripted-demos 10 for a task with a scripted expert")
    return demos


SAME = ("seed", "demos", "batch_size", "encoder", "operator", "reward_source", "pace", "num_envs")
SAME += ("eval_period", "eval_episodes", "final_episodes", "stop_success", "max_minutes")
"""Settings that are called the same here and in `TrainConfig`, which hub, actors and run folder know."""
OTHER = {"max_updates": "max_steps", "first_updates": "clone_steps", "updates_per_correction": "updates_per_actor_step"}
"""Names here, and those of `TrainConfig`."""


def read_args(args: list[str]) -> DaggerArgs:
    """The command line; a run that is continued gives the defaults of what is not typed."""
    resume = typed_options(DaggerArgs, args).resume
    if resume is None:
        return tyro.cli(DaggerArgs, args=args, prog="tandem dagger")
    config = config_of(RunFolder.open(resume), "dagger")
    own = {name: getattr(config, name) for name in SAME} | {name: getattr(config, theirs) for name, theirs in OTHER.items()}
    own |= {"hidden": config.agent.hidden, "learning_rate": config.agent.learning_rate}
    return tyro.cli(DaggerArgs, args=args, default=DaggerArgs(**own), prog="tandem dagger")


def run_config(asked: DaggerArgs, task: str, demos: tuple[Path, ...]) -> TrainConfig:
    """The settings in the words of `TrainConfig`."""
    settings = {name: getattr(asked, name) for name in SAME} | {theirs: getattr(asked, name) for name, theirs in OTHER.items()}
    members = fitted().agent.grasp_ensemble_size  # of discrete parts: as many as in the run of RLPD that may start from it
    agent = SACConfig(hidden=asked.hidden, learning_rate=asked.learning_rate, grasp_ensemble_size=members)
    return TrainConfig(**{**settings, "task": task, "agent": agent, "demos": demos})


def _as_training(asked: DaggerArgs, task: str, path: Path) -> TrainArgs:
    return TrainArgs(
        task=task,
        run=path,
        resume=asked.resume,
        port=asked.port,
        limits=asked.limits,
        no_limits=asked.no_limits,
        quiet=asked.quiet,
    )

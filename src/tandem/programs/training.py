"""The commands that learn: `tandem train`, `learner`, `ppo`, `bc` and `distill`."""

from __future__ import annotations

import tempfile
from dataclasses import fields, replace
from pathlib import Path

import tyro

from tandem.acting.asking import AskingConfig
from tandem.allowed import allow, code_of
from tandem.doctor.demo_files import start_lines
from tandem.doctor.watch import watch_trainer
from tandem.envs.registry import make_batch
from tandem.errors import ConfigError
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.sync import train as train_in_turns
from tandem.on_policy.distill import DistillArgs
from tandem.on_policy.distill import distill as run_distillation
from tandem.on_policy.presets import preset_for
from tandem.on_policy.rsl_rl_config import read_rsl_rl_config
from tandem.on_policy.run import train_ppo
from tandem.programs.arguments import LearnerArgs, RunArgs, TrainArgs, read_ppo_args, read_run_args
from tandem.programs.cluster import WITHOUT_RAY, ClusterArgs, simulations_on
from tandem.programs.launch import learn_here, require_learners, train_here
from tandem.programs.launcher import LocalLauncher
from tandem.programs.parts import film_part
from tandem.programs.record import scripted_demos
from tandem.programs.resuming import WHICH_TASK, require_allowed_code
from tandem.programs.terminal import console, make_display, new_run, say, show_summary
from tandem.runs.display import Display

FILM_S = 60.0
"""Seconds of filming; what was drawn by then is the film."""
FILM_ENDS_S = 60.0
"""For starting the process, and for one step that hangs."""


def train(args: list[str]) -> None:
    """Learn a task with RLPD: hub, trainer and actors on this machine."""
    asked = read_run_args(TrainArgs, args, "tandem train")
    _require_notice(asked)
    require_learners(asked, "a run with --sync" if asked.sync else "")
    config, path = _run_of(asked)
    allow(code_of(config.task))  # for the film, which reads the task from the run
    display = make_display(asked.quiet, asked.json, asked.verbose)
    _look_at_demos(asked, config, display)
    if asked.sync:
        if asked.launcher != "local":
            raise ConfigError(f"--sync and --launcher {asked.launcher}: synchronous training is one thread on this machine; leave one out")
        rest = {"watch": watch_trainer(path), "for_cameras": asked.for_cameras}
        summary = train_in_turns(config, path, display, resume=asked.resume is not None, init_from=asked.init_from, **rest)
    else:
        summary = train_here(asked, config, path, display)
    shown = asked.film and not (asked.quiet or asked.json or asked.resume is not None)
    show_summary(summary, path, asked.json, film=_film(path) if shown and summary.get("deterministic") else None)


def _require_notice(asked: TrainArgs) -> None:
    """Options of asking do nothing in a run that does not notice: better say so than let a person wait for a call."""
    given = [field.name for field in fields(AskingConfig) if getattr(asked.asking, field.name) != field.default]
    if given and (asked.sync or not asked.config.notice):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        missing = "no person can be asked with --sync" if asked.sync else "this run does not notice that a robot is stuck: add --notice"
        raise ConfigError(f"{options}: {missing}")


def learner(args: list[str]) -> None:
    """The learner's half of RLPD: hub and trainer, for actors that join over the network."""
    asked = read_run_args(LearnerArgs, args, "tandem learner")
    config, path = _run_of(asked)
    display = make_display(asked.quiet, asked.json, asked.verbose)
    _look_at_demos(asked, config, display)
    summary = learn_here(asked, config, path, display)
    show_summary(summary, path, asked.json, command="learner")


def ppo(args: list[str]) -> None:
    """Learn a task with PPO, on many simulations at once."""
    asked = read_ppo_args(args, "tandem ppo")
    if asked.task is None and asked.resume is None:
        raise ConfigError(WHICH_TASK)
    if asked.resume is not None:
        require_allowed_code(asked.resume, asked.task, asked.config.task)
    path = asked.resume or asked.run or new_run(f"{asked.task}_ppo")
    config = asked.config if asked.task is None else replace(asked.config, task=asked.task)
    display, watch = make_display(asked.quiet, asked.json, asked.verbose), watch_trainer(path)
    if asked.rsl_rl_config is not None:
        for line in read_rsl_rl_config(asked.rsl_rl_config, config.num_envs).ignored:
            display.say(f"{asked.rsl_rl_config}, not used: {line}")
    if asked.resume is None and asked.preset is None and asked.rsl_rl_config is None:
        display.say(f"preset {preset_for(config.task)} for '{config.task}'; --preset names another")
    display.say(f"making {config.num_envs:,} environments of '{config.task}'")
    if asked.launcher == "local" and asked.cluster != ClusterArgs():
        raise ConfigError(WITHOUT_RAY)
    make = make_batch if asked.launcher == "local" else simulations_on(asked.cluster, asked.collectors)
    summary = train_ppo(config, path, display, resume=asked.resume is not None, watch=watch, make=make)
    show_summary(summary, path, asked.json)


def bc(args: list[str]) -> None:
    """Clone demonstrations: a baseline, and a start for `tandem train --init-from RUN`."""
    asked = tyro.cli(CloneArgs, args=args, prog="tandem bc")
    path = asked.run or new_run(f"{asked.task}_bc")
    show_summary(clone_demos(asked, path, make_display(asked.quiet, asked.json)), path, asked.json)


def distill(args: list[str]) -> None:
    """Train a policy that sees less, with one that sees more as its teacher."""
    asked = tyro.cli(DistillArgs, args=args, prog="tandem distill")
    path = asked.run or new_run(f"{asked.task}_distill")
    show_summary(run_distillation(asked, path, make_display(asked.quiet, asked.json)), path, asked.json)


def _run_of(asked: RunArgs) -> tuple[TrainConfig, Path]:
    """The configuration and the folder of the run; demonstrations are recorded first if the command line asks for them."""
    if asked.resume is not None:
        require_allowed_code(asked.resume, asked.task, asked.config.task, asked.config.operator)
        return asked.config, asked.resume
    if asked.task is None:
        raise ConfigError(WHICH_TASK)
    path = asked.run or new_run(asked.task)
    config = replace(asked.config, task=asked.task)
    if asked.scripted_demos:
        recorded = scripted_demos(config.task, asked.scripted_demos, path, config.seed, asked.quiet or asked.json)
        config = replace(config, demos=(*config.demos, recorded))
    return config, path


def _look_at_demos(asked: RunArgs, config: TrainConfig, display: Display) -> None:
    """Say what the doctor finds in the demonstrations, in a line each. It stops nothing: what cannot be used is refused later."""
    if asked.resume is not None or not config.demos:
        return
    discount = config.agent.discount
    for line in start_lines(config.demos, discount if isinstance(discount, float) else None, config.reward_source):
        display.say(line)


def _film(run: Path) -> str:
    """A film of the learned policy in the run folder. It is drawn by a process of its own, whose failure does no harm."""
    say(f"filming the learned policy, for at most {FILM_S:.0f} s (--no-film leaves it out)")
    videos = run / "videos"
    with console.status("filming the learned policy"), tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "film.log"
        LocalLauncher(output=log).start(film_part(run, videos, FILM_S)).wait(FILM_S + FILM_ENDS_S)
        said = log.read_text(errors="replace").strip().splitlines() or ["the film process printed nothing in time"]
    films = sorted(film for film in videos.glob("*.mp4") if not film.name.startswith("."))  # a hidden one is unfinished
    return str(films[0]) if films else f"none: {said[-1]}"

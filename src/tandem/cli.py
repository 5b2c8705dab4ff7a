"""The command line: a table of functions. JAX is imported only by the commands that train."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from tandem.errors import ConfigError, TandemError

console = Console()
errors = Console(stderr=True)
TaskName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
FileName = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]


def tasks() -> None:
    """List the tasks that come with Tandem."""
    from tandem.envs.registry import TASKS

    for name, entry in TASKS.items():
        console.print(f"[bold]{name:16}[/] {entry.summary}")
    console.print("Also any Gymnasium id with continuous actions, or module:Id for your own environment.")


def record(
    task: TaskName,
    operator: str = "scripted",
    demos: int = 25,
    out: Path = Path("demos"),
    seed: int = 0,
    quiet: bool = False,
    port: int = 0,
    reward_source: Literal["simulation", "person"] = "simulation",
    mapping: Path | None = None,
) -> None:
    """Record demonstrations: successful episodes only, to one file.

    Args:
        task: A task (see `tandem tasks`).
        operator: Who demonstrates: `scripted`, `policy:RUN` (what a run has learned, or a FILE.onnx), or a person with a `browser`,
            `spacemouse` or `gamepad`.
        demos: How many successful episodes to keep.
        out: Folder of the new file.
        seed: Start of the first attempt; attempt i uses seed + i.
        quiet: No progress bar and no report.
        port: Of the page by which a person records; 0: any free one.
        reward_source: Who says that a person's episode was a success: the simulation, or the person.
        mapping: File that says what sticks and buttons do.
    """
    from tandem.data.report import format_report, inspect
    from tandem.envs.registry import make_env, make_expert
    from tandem.programs.record import record_demos

    if demos < 1:
        raise ConfigError(f"--demos must be at least 1, got {demos}")
    if operator in ("browser", "spacemouse", "gamepad"):
        path = _taught(task, operator, demos, out, seed, port, reward_source, mapping)
        if not quiet:
            _say(console, format_report(inspect(path)))
        _say(console, f"wrote {path}")
        return
    env = make_env(task)
    if operator.startswith("policy:"):
        from tandem.acting.policy import PolicyOperator, load_any_policy

        person = PolicyOperator(load_any_policy(Path(operator.removeprefix("policy:")), spec=env.spec)[0], env.spec)
    elif operator == "scripted":
        person = make_expert(task, seed)
    else:
        raise ConfigError(f"no operator '{operator}'; there are scripted, policy:RUN, browser, spacemouse and gamepad")
    with _recording_bar(task, demos, quiet) as update:
        path = record_demos(env, person, demos, out, seed, on_episode=update)
    if not quiet:
        _say(console, format_report(inspect(path)))
    _say(console, f"wrote {path}")


def _taught(task: str, operator: str, demos: int, out: Path, seed: int, port: int, reward_source: Any, mapping: Path | None) -> Path:
    from tandem.acting.operators import open_hand
    from tandem.dashboard.mount import mount_on_hub
    from tandem.programs.teaching import teach

    say = lambda line: _say(console, line)  # noqa: E731 (shorter than a function of its own)
    return teach(
        task,
        demos,
        out,
        seed,
        hand=lambda spec: open_hand(operator, spec, mapping),
        reward_source=reward_source,
        port=port,
        mount=lambda hub: mount_on_hub(hub, say, mapping),
        say=say,
    )


def teleop(
    action: Annotated[Literal["test"], tyro.conf.Positional],
    device: Literal["browser", "spacemouse", "gamepad"] = "browser",
    seconds: float = 20.0,
    axes: int = 6,
    mapping: Path | None = None,
) -> int:
    """Try the device that a person steers with: what it reads, and what that would do to the robot.

    Args:
        action: `test` prints every motion and button that arrives.
        device: Which one.
        seconds: For how long.
        axes: Of the action; 3 for a task that only moves, 6 for one that turns too.
        mapping: File that says what sticks and buttons do. Default: the one that comes with Tandem.
    """
    from tandem.actions import axis_names
    from tandem.teleop.devices import Gamepad, SpaceMouse, watch_device
    from tandem.teleop.mapping import Mapping

    table = Mapping.load(axis_names(axes), mapping)
    if device == "browser":
        _say(console, "Keys and gamepads in a browser are read by the page: start `tandem train TASK`, open the address it prints, and")
        _say(console, "press a key under 'Take control'; the page shows what it reads before it steers. It reads these:")
        for row in table.table():
            if row["device"] != "spacemouse" and row["device"] != "spacemouse button":
                _say(console, f"  {row['device']:16} {row['input']:12} {row['does']}")
        return 0
    hand = SpaceMouse(table) if device == "spacemouse" else Gamepad(table)
    try:
        _say(console, f"reading the {device} for {seconds:g} s: move every axis, press every button")
        seen = watch_device(hand, lambda line: _say(console, line), seconds, table.axes)
    finally:
        hand.close()
    _say(console, f"{seen} readings with motion or a button" if seen else f"nothing arrived: the {device} is there, but says nothing")
    return 0 if seen else 1


def demos(action: Annotated[Literal["inspect", "validate"], tyro.conf.Positional], file: FileName, task: str | None = None) -> int:
    """Look at a file of demonstrations (or an online journal, or a hil-serl pickle).

    Args:
        action: `inspect` prints its figures; `validate` checks it and exits with 1 if it must not be trained on.
        file: The file.
        task: Check against this task's spec as well as the file's own; a pickle carries none.
    """
    from tandem.data.report import format_report, inspect, validate

    spec = None
    if task is not None:
        from tandem.envs.registry import spec_for

        spec = spec_for(task)
    if action == "inspect":
        _say(console, format_report(inspect(file, spec)))
        return 0
    problems = validate(file, spec)
    for problem in problems:
        if problem.severity == "error":
            _say(errors, f": {problem.message}", "error", "bold red")
        else:
            _say(console, f": {problem.message}", "warning", "yellow")
    if not problems:
        _say(console, f": {file}", "ok", "green")
    return int(any(problem.severity == "error" for problem in problems))


def play(
    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK|RUN")],
    operator: Literal["scripted", "random", "zero"] = "scripted",
    policy: Path | None = None,
    episodes: int = 3,
    seed: int = 0,
    out: Path = Path("videos"),
    size: tuple[int, int] = (640, 480),
    film: bool = False,
) -> None:
    """Watch a task being done, or what a run has learned: in a window, or as an MP4 and a strip of pictures without a screen.

    Args:
        what: A task (see `tandem tasks`), or a run folder, policy file or exported ONNX file.
        operator: Who does a task; a run is played by its policy.
        policy: Play the task with this policy: a run folder, a policy file or an ONNX file.
        episodes: How many to film.
        seed: Start of the first episode; episode i uses seed + i.
        out: Folder of the film and the pictures.
        size: Width and height of the film in pixels.
        film: Film even where there is a screen.
    """
    screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if not screen and sys.platform == "linux":
        os.environ.setdefault("MUJOCO_GL", "egl")  # read when mujoco is imported, so before that
    from tandem.actions import ActionLayout
    from tandem.envs.registry import make_env, make_expert, registered
    from tandem.programs.play import film_episodes, show_live
    from tandem.teleop.operator import RandomActions, Still

    if policy is not None or (registered(what) is None and Path(what).exists()):
        chosen, spec = _policy_for(what, policy)
        from tandem.acting.policy import PolicyOperator

        task, person = spec.task, PolicyOperator(chosen, spec)
        env = make_env(task, render=True, size=size)
    else:
        task = what
        env = make_env(task, render=True, size=size)
        layout = ActionLayout.of(env.spec)
        idle = {"zero": lambda: Still(layout), "random": lambda: RandomActions(layout, seed)}
        person = idle[operator]() if operator in idle else make_expert(task, seed)
    physics = env.physics() if screen and not film else None
    if physics is not None:
        show_live(env, physics, person, seed)
        return
    with console.status(f"filming {episodes} episodes of {task} ({person.name})"):
        name = f"{task.replace(':', '_').replace('/', '_')}_{person.name}"
        movie, strip, outcomes = film_episodes(env, person, episodes, seed, out, name)
    env.close()
    for line in (*outcomes, f"film {movie}", f"pictures {strip}"):
        _say(console, line)


def _compile_once() -> None:
    """What XLA compiles is kept for the next start, which is then seconds sooner. Read when jax is imported, so before that."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path.home() / ".cache" / "tandem" / "xla"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")


def train(args: list[str]) -> None:
    """Learn a task with RLPD: hub, trainer and actors on this machine."""
    _compile_once()
    from tandem.off_policy.recipes import defaults_for
    from tandem.off_policy.sync import train as train_in_turns
    from tandem.programs.arguments import TrainArgs
    from tandem.programs.launch import train_here

    # which recipe or which earlier run the arguments name decides the defaults of all the others
    asked = tyro.cli(TrainArgs, args=args, default=TrainArgs(config=defaults_for(args)), prog="tandem train")
    config, path = _run_of(asked)
    display = _display(asked.quiet, asked.json, asked.verbose)
    if asked.sync:
        from tandem.doctor.watch import watch_trainer

        watch = watch_trainer(path)
        summary = train_in_turns(config, path, display, resume=asked.resume is not None, init_from=asked.init_from, watch=watch)
    else:
        summary = train_here(asked, config, path, display)
    shown = not (asked.quiet or asked.json or asked.resume is not None)
    _show_summary(summary, path, asked.json, film=_film(path) if shown and summary.get("deterministic") else None)


def learner(args: list[str]) -> None:
    """The learner's half of RLPD: hub and trainer, for actors that join over the network."""
    _compile_once()
    from tandem.off_policy.recipes import defaults_for
    from tandem.programs.arguments import LearnerArgs
    from tandem.programs.launch import learn_here

    asked = tyro.cli(LearnerArgs, args=args, default=LearnerArgs(config=defaults_for(args)), prog="tandem learner")
    config, path = _run_of(asked)
    summary = learn_here(asked, config, path, _display(asked.quiet, asked.json, asked.verbose))
    _show_summary(summary, path, asked.json, command="learner")


def actor(args: list[str]) -> None:
    """Act in an environment for a learner elsewhere: steps go there, policies come back."""
    from tandem.doctor.watch import watch_actor
    from tandem.programs.actor import ActorArgs, act_here

    act_here(tyro.cli(ActorArgs, args=args, prog="tandem actor"), lambda line: _say(console, line), watch_actor())


def doctor(args: list[str]) -> int:
    """Why is my robot still moving at random? What is wrong with a run, and what to type next."""
    from tandem.doctor.command import doctor as run_doctor

    return run_doctor(args, lambda line: _say(console, line))


def dashboard(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
) -> None:
    """The page of a run: the hub's while it trains, and from its folder when it is over.

    Args:
        run: A run folder.
        host: Where to listen, for a run that is over; others than this machine need 0.0.0.0.
        port: Port to listen on; 0: any free one.
        browser: Open it in a browser, where there is a screen.
    """
    from tandem.dashboard.standalone import show_run

    show_run(run, lambda line: _say(console, line), host=host, port=port, browser=browser)


def _run_of(asked: Any) -> tuple[Any, Path]:
    """The configuration and the folder that a command line means; demonstrations are recorded first if it asks for them."""
    if asked.resume is not None:
        return asked.config, asked.resume
    if asked.task is None:
        raise ConfigError("which task? `tandem tasks` lists them; `--resume RUN` goes on with a run")
    path = asked.run or _new_run(asked.task)
    config = replace(asked.config, task=asked.task)
    if asked.scripted_demos:
        recorded = _scripted_demos(config.task, asked.scripted_demos, path, config.seed, asked.quiet or asked.json)
        config = replace(config, demos=(*config.demos, recorded))
    return config, path


def ppo(args: list[str]) -> None:
    """Learn a task with PPO, on many simulations at once."""
    _compile_once()
    from tandem.doctor.watch import watch_trainer
    from tandem.on_policy.presets import ppo_defaults_for
    from tandem.on_policy.rsl_rl_config import read_rsl_rl_config
    from tandem.on_policy.run import train_ppo
    from tandem.programs.arguments import PPOArgs

    asked = tyro.cli(PPOArgs, args=args, default=PPOArgs(config=ppo_defaults_for(args)), prog="tandem ppo")
    if asked.task is None and asked.resume is None:
        raise ConfigError("which task? `tandem tasks` lists them; `--resume RUN` goes on with a run")
    path = asked.resume or asked.run or _new_run(f"{asked.task}_ppo")
    config = asked.config if asked.task is None else replace(asked.config, task=asked.task)
    display, watch = _display(asked.quiet, asked.json, asked.verbose), watch_trainer(path)
    if asked.rsl_rl_config is not None:
        for line in read_rsl_rl_config(asked.rsl_rl_config, config.num_envs).ignored:
            display.say(f"{asked.rsl_rl_config}, not used: {line}")
    summary = train_ppo(config, path, display, resume=asked.resume is not None, watch=watch)
    _show_summary(summary, path, asked.json)


def bc(args: list[str]) -> None:
    """Clone demonstrations: a baseline, and a start for `tandem train --init-from RUN`."""
    _compile_once()
    from tandem.off_policy.cloning import CloneArgs, clone_demos

    asked = tyro.cli(CloneArgs, args=args, prog="tandem bc")
    path = asked.run or _new_run(f"{asked.task}_bc")
    _show_summary(clone_demos(asked, path, _display(asked.quiet, asked.json, False)), path, asked.json)


def distill(args: list[str]) -> None:
    """Teach a policy that sees less, by one that sees more."""
    _compile_once()
    from tandem.on_policy.distill import DistillArgs
    from tandem.on_policy.distill import distill as teach

    asked = tyro.cli(DistillArgs, args=args, prog="tandem distill")
    path = asked.run or _new_run(f"{asked.task}_distill")
    _show_summary(teach(asked, path, _display(asked.quiet, asked.json, False)), path, asked.json)


def _new_run(name: str) -> Path:
    return Path("runs") / f"{name.replace(':', '_').replace('/', '_')}_{time.strftime('%Y-%m-%d_%H-%M-%S')}"


def _policy_for(what: str, policy: Path | None, which: str = "best") -> tuple[Any, Any]:
    """A policy and its spec: of the run or file `what`, or `policy` for the task `what`, whose spec it must fit."""
    from tandem.acting.policy import load_any_policy

    if policy is None:
        return load_any_policy(Path(what), which)
    from tandem.envs.registry import spec_for

    spec = spec_for(what)
    return load_any_policy(policy, which, spec)[0], spec


def export(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    to: Path | None = None,
    which: Literal["best", "latest"] = "best",
    json: bool = False,
) -> None:
    """Write a learned policy as one ONNX file, which ONNX Runtime runs anywhere; checked against the policy before it is kept.

    Args:
        run: A run folder, or a policy file.
        to: The file to write. Default: RUN/policy.onnx.
        which: The best policy by evaluation, or the last one.
        json: One JSON object instead of text.
    """
    import json as json_module

    from tandem.programs.export import export as write_export
    from tandem.runs.folder import plain

    done = write_export(run, to, which)
    if json:
        print(json_module.dumps(plain(done)))
        return
    _say(console, f"wrote {done.path} ({done.bytes:,} bytes, learned by {done.kind}); inputs {', '.join(done.inputs)}; output action")
    found = f"{done.observations} observations in ONNX Runtime, largest difference between actions {done.largest_difference:.1g}"
    _say(console, f": the same as the live policy on {found}", "checked", "green")


def evaluate(
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|TASK")],
    policy: Path | None = None,
    episodes: int = 100,
    stochastic: bool = False,
    seed: int | None = None,
    which: Literal["best", "latest"] = "best",
    json: bool = False,
) -> None:
    """Judge a learned policy by itself, on seeds that nothing was chosen by.

    Args:
        run: A run folder, a policy file or an exported ONNX file; with --policy, the task to judge it on.
        policy: Judge this policy (a run folder, a policy file or an ONNX file) on the task RUN|TASK, whose spec it must fit.
        episodes: How many.
        stochastic: Draw actions as in training; otherwise the most likely one.
        seed: Of the first episode.
        which: The best policy by evaluation, or the last one.
        json: One JSON object instead of text.
    """
    import json as json_module

    from tandem.acting.evaluate import FINAL_SEEDS
    from tandem.acting.evaluate import evaluate as run_evaluation
    from tandem.acting.policy import act_with, describe

    snapshot, spec = _policy_for(run, policy, which)
    first = FINAL_SEEDS if seed is None else seed
    with console.status(f"{episodes} episodes of {spec.task}"):
        result = run_evaluation(spec.task, act_with(snapshot, spec, 0 if stochastic else None), range(first, first + episodes))
    figures = describe(result, spec) | {"policy_version": snapshot.version, "learner_step": snapshot.learner_step, "hash": snapshot.hash}
    if json:
        print(json_module.dumps(figures))
        return
    manner = "stochastic" if stochastic else "deterministic"
    console.print(f"{spec.task}, policy version {snapshot.version} (learner step {snapshot.learner_step:,}, {snapshot.hash}), {manner}")
    console.print(f"success {result.rate} of {episodes}, return {figures['return']:.2f}, {figures['length']:.1f} actions", highlight=False)


def _scripted_demos(task: str, demos: int, run: Path, seed: int, quiet: bool) -> Path:
    from tandem.envs.registry import make_env, make_expert
    from tandem.programs.record import record_demos

    with _recording_bar(task, demos, quiet) as update:
        return record_demos(make_env(task), make_expert(task, seed), demos, run.parent / f"{run.name}_demos", seed, on_episode=update)


@contextlib.contextmanager
def _recording_bar(task: str, demos: int, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=quiet) as progress:
        bar = progress.add_task(f"recording {task}", total=demos, note="")
        yield lambda kept, failed: progress.update(bar, completed=kept, note=f"{failed} failed" if failed else "")


def _display(quiet: bool, json: bool, verbose: bool) -> Any:
    from tandem.runs.display import Display

    mode = "json" if json else "quiet" if quiet else "live" if console.is_terminal else "lines"
    return Display(mode, console, verbose)


def _film(run: Path) -> str:
    """What was learned, as a film in the run folder; drawn by a process of its own, which may fail without harm."""
    with console.status("filming what was learned"):
        command = [sys.executable, "-m", "tandem.cli", "play", str(run), "--film", "--out", str(run / "videos")]
        done = subprocess.run(command, capture_output=True, text=True)
    films = sorted((run / "videos").glob("*.mp4"))
    return str(films[0]) if films else f"none: {(done.stderr.strip().splitlines() or ['the player said nothing'])[-1]}"


def _show_summary(summary: dict[str, Any], path: Path, as_json: bool, film: str | None = None, command: str = "train") -> None:
    if as_json:
        import json

        print(json.dumps({"summary": summary, "run": str(path)}), flush=True)
        return
    from tandem.runs.display import summary_table

    console.print(summary_table(summary, path, film, command))


COMMANDS: dict[str, Callable[..., Any]] = {
    "train": train,
    "learner": learner,
    "actor": actor,
    "ppo": ppo,
    "bc": bc,
    "distill": distill,
    "doctor": doctor,
    "dashboard": dashboard,
    "record": record,
    "teleop": teleop,
    "demos": demos,
    "eval": evaluate,
    "export": export,
    "play": play,
    "tasks": tasks,
}
TAKE_ARGUMENTS = ("train", "learner", "actor", "ppo", "bc", "distill", "doctor")
"""Commands that read their own command line."""


def _help() -> None:
    console.print("usage: tandem COMMAND [-h] ...\n\nTeach robots contact-rich skills.\n")
    for name, command in COMMANDS.items():
        console.print(f"  [bold]{name:10}[/] {(command.__doc__ or '').splitlines()[0]}", highlight=False)
    console.print("\n`tandem COMMAND --help` says more.")


def _say(where: Console, text: str, word: str = "", style: str = "") -> None:
    """A coloured word and a text as it is: what a person named with [brackets] or :colons: is not markup."""
    where.print(Text.assemble((word, style), text), soft_wrap=True)


def main() -> None:
    args = sys.argv[1:]
    try:
        if args and args[0] in COMMANDS:
            name, rest = args[0], args[1:]
            sys.exit(COMMANDS[name](rest) if name in TAKE_ARGUMENTS else tyro.cli(COMMANDS[name], args=rest, prog=f"tandem {name}"))
        if args and args[0] not in ("-h", "--help"):
            raise ConfigError(f"no command '{args[0]}'; there are {', '.join(COMMANDS)}")
        _help()
    except TandemError as problem:
        _say(errors, f": {problem}", "error", "bold red")
        sys.exit(2)
    except KeyboardInterrupt as stop:
        _say(errors, f"stopped. {stop}".strip())
        sys.exit(130)


if __name__ == "__main__":
    main()

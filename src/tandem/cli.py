"""The command line: a table of functions. A command imports what it needs when it is called; only those that learn import JAX."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from tandem.allowed import take_option
from tandem.errors import ConfigError, TandemError, extras_named
from tandem.programs.terminal import console, errors, say


@dataclass(frozen=True)
class Command:
    """A line of the table."""

    place: str
    """Module and name of the function."""
    summary: str
    """The first line of its docstring, without importing it."""
    own_parser: bool = False
    """It reads its own command line; otherwise its parameters are the options."""

    def function(self) -> Callable[..., Any]:
        module, name = self.place.split(":")
        return getattr(importlib.import_module(f"tandem.{module}"), name)


COMMANDS = {
    "train": Command("programs.training:train", "Learn a task with RLPD: hub, trainer and actors on this machine.", True),
    "learner": Command(
        "programs.training:learner", "The learner's half of RLPD: hub and trainer, for actors that join over the network.", True
    ),
    "learner-part": Command(
        "programs.learner_part:learner_part", "Compute a part of each update of a learner, on this machine's devices, until it ends."
    ),
    "actor": Command("programs.actor:actor", "Act in an environment for a learner elsewhere: steps go there, policies come back.", True),
    "latch": Command("programs.latch:latch", "Which robots of this machine stand still until somebody says resume, and why."),
    "ppo": Command("programs.training:ppo", "Learn a task with PPO, on many simulations at once.", True),
    "bc": Command("programs.training:bc", "Clone demonstrations: a baseline, and a start for `tandem train --init-from RUN`.", True),
    "sweep": Command("programs.sweep:sweep", "Make many runs, seeds x settings, and compare them in one table."),
    "dagger": Command(
        "programs.dagger:dagger", "Clone demonstrations, then learn from a person's corrections while the clone acts (HG-DAgger).", True
    ),
    "distill": Command("programs.training:distill", "Train a policy that sees less, with one that sees more as its teacher.", True),
    "doctor": Command("programs.diagnose:diagnose", "What is wrong with a run, how that is known, and what to type next.", True),
    "dashboard": Command("programs.page:dashboard", "Open the page of a run: live while it trains, from its folder afterwards."),
    "access": Command("programs.access:access", "Make, list and revoke credentials: who may send steps, see, steer, or end a run."),
    "record": Command("programs.record:record", "Record demonstrations: successful episodes only, to one file."),
    "teleop": Command(
        "programs.teleop:teleop", "Try the device that a person steers with: what it reads, and what that would do to the robot."
    ),
    "limits": Command("programs.limits:limits", "Say in words what a file of limits means, or write a first file for a task."),
    "demos": Command("programs.demos:demos", "Check, edit, convert, show and replay files of demonstrations.", True),
    "reward": Command("programs.reward:reward", "Compute rewards anew, label frames, train a reward classifier.", True),
    "eval": Command("programs.evaluate:evaluate", "Evaluate a learned policy alone, on seeds that were never used to choose it."),
    "export": Command(
        "programs.export:export_command", "Write a learned policy as one ONNX file, compared with the policy before it is kept."
    ),
    "play": Command("programs.viewing:play", "Watch a task or a learned policy: in a window, or as a film where there is no screen."),
    "serve": Command("programs.serve:serve", "Serve an environment to other machines, where it is then called `ws://HOST:PORT`."),
    "serve-like": Command(
        "programs.serve_like:serve_like",
        "Serve a simulation with another server's protocol: a stand-in for Isaac Sim's gear server, or for hil-serl's Franka server.",
    ),
    "robot": Command(
        "programs.robot:robot",
        "Check a robot's server before anything is learned: what it reports, what its cameras show, and how it moves.",
    ),
    "env": Command("programs.describe:env", "Look at an environment and write a first file of what it may declare."),
    "tasks": Command("programs.tasks:tasks", "List the tasks that come with Tandem."),
}


def run(name: str, args: list[str]) -> Any:
    """Run a command; returns what it returns."""
    command = COMMANDS[name]
    with extras_named(f"`tandem {name}`"):
        function = command.function()
        return function(args) if command.own_parser else tyro.cli(function, args=args, prog=f"tandem {name}")


def show_help() -> None:
    console.print("usage: tandem COMMAND [-h] ...\n\nTeach robots contact-rich skills.\n")
    for name, command in COMMANDS.items():
        console.print(f"  [bold]{name:10}[/] {command.summary}", highlight=False)
    console.print("\n`tandem COMMAND --help` says more. With every command: `--allow-module NAME` lets a run folder or a policy file")
    console.print("that names an environment of your own (module:Id) import that module. Otherwise no file decides what code runs.")


def keep_compiled_programs() -> None:
    """What XLA compiles is kept for the next start, which is then seconds faster. Read when jax is imported, so before that."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path.home() / ".cache" / "tandem" / "xla"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")


def main() -> None:
    keep_compiled_programs()
    args = sys.argv[1:]
    try:
        if not args or args[0] in ("-h", "--help"):
            show_help()
            return
        if args[0] not in COMMANDS:
            raise ConfigError(f"no command '{args[0]}'; there are {', '.join(COMMANDS)}")
        sys.exit(run(args[0], take_option(args[1:])))
    except TandemError as problem:
        say(f": {problem}", "error", "bold red", where=errors)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        say(f"stopped. {stop}".strip(), where=errors)
        sys.exit(130)


if __name__ == "__main__":
    main()

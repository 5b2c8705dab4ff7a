"""`tandem demos ACTION`: everything that is done with files of demonstrations."""

from __future__ import annotations

import contextlib
import importlib
import json as json_format
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from tandem.data.report import format_report
from tandem.data.report import inspect as inspect_file
from tandem.data.report import validate as validate_file
from tandem.errors import ConfigError
from tandem.programs.terminal import console, errors, say
from tandem.types import Spec

File = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
Files = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE...")]


def _spec(task: str | None) -> Spec | None:
    from tandem.envs.registry import spec_for  # brings MuJoCo along

    return None if task is None else spec_for(task)


def check(
    files: Files,
    task: str | None = None,
    discount: float | None = None,
    run: Path | None = None,
    lang: Literal["en", "zh"] = "en",
    json: bool = False,
) -> int:
    """Look at every step of demonstrations, before anything is learned from them: what is wrong, how that is known, and what repairs it.

    Exit status: 0 nothing, or notes only; 1 a warning; 2 a problem.

    Args:
        files: Files of demonstrations, online journals or hil-serl pickles. Several are also compared with each other.
        task: Check against this task's spec as well as the file's own.
        discount: The discount that training will use, to be compared with the lengths.
        run: A run that learned from them: its discount is compared, and what its critics say along them (`tandem demos show` draws it).
        lang: Language of the output: English or Chinese.
        json: Print one JSON object instead of text.
    """
    from tandem.doctor.demo_files import check as check_files
    from tandem.doctor.demo_files import lines, look_at
    from tandem.doctor.findings import EXIT_STATUS
    from tandem.doctor.records import load_run

    if not files:
        raise ConfigError("which file? `tandem demos check FILE...`")
    spec, learned = _spec(task), None if run is None else load_run(run)
    if learned is not None and discount is None and isinstance(learned.setting("discount"), float):
        discount = learned.setting("discount")
    with console.status("looking at every step") if console.is_terminal and not json else contextlib.nullcontext():
        diagnoses = check_files([look_at(file, spec) for file in files], spec, lang, discount, learned)
    if json:
        print(json_format.dumps(diagnoses, ensure_ascii=False))
    else:
        for diagnosis in diagnoses:
            for line in lines(diagnosis, lang):
                say(line)
    return max(EXIT_STATUS.get(diagnosis["severity"] or "note", 0) for diagnosis in diagnoses)


def inspect(file: File, task: str | None = None) -> int:
    """Print the figures of a file of demonstrations.

    Args:
        file: A file of demonstrations, an online journal or a hil-serl pickle.
        task: Refuse a file that does not fit this task; a pickle has no spec of its own.
    """
    say(format_report(inspect_file(file, _spec(task))))
    return 0


def validate(file: File, task: str | None = None) -> int:
    """Check the form of a file: exits with 1 if it must not be trained on. `check` looks at its content too.

    Args:
        file: A file of demonstrations, an online journal or a hil-serl pickle.
        task: Check against this task's spec as well as the file's own; a pickle has no spec of its own.
    """
    problems = validate_file(file, _spec(task))
    for problem in problems:
        if problem.severity == "error":
            say(f": {problem.message}", "error", "bold red", where=errors)
        else:
            say(f": {problem.message}", "warning", "yellow")
    if not problems:
        say(f": {file}", "ok", "green")
    return int(any(problem.severity == "error" for problem in problems))


ACTIONS: dict[str, tuple[str, str]] = {
    "check": ("programs.demos:check", "Look at every step: what is wrong, how that is known, and what repairs it."),
    "edit": ("programs.edit_demos:edit", "Repair, trim, split, merge, rescale, relabel: always to a new file, with its history inside."),
    "show": ("programs.show_demos:show", "Write a page: episodes, films of their cameras, a curve of every number."),
    "replay": ("programs.show_demos:replay", "Execute a recorded episode again, and say where the robot departs from it."),
    "import": ("programs.edit_demos:import_demos", "Make a file from one of hil-serl, LeRobot (v2.1, v3), robomimic or Minari."),
    "export": ("programs.edit_demos:export_demos", "Write demonstrations for LeRobot (v3), robomimic or Minari."),
    "inspect": ("programs.demos:inspect", "Print the figures of a file."),
    "validate": ("programs.demos:validate", "Check the form of a file; exits with 1 if it must not be trained on."),
}
"""Where the function of each action is, and the first line of its help."""


def action(name: str) -> Callable[..., Any]:
    module, function = ACTIONS[name][0].split(":")
    return getattr(importlib.import_module(f"tandem.{module}"), function)


def demos(args: list[str]) -> int:
    """Check, edit, convert, show and replay files of demonstrations."""
    if not args or args[0] in ("-h", "--help"):
        console.print("usage: tandem demos ACTION FILE ... [-h]\n\nCheck, edit, convert, show and replay files of demonstrations.\n")
        for name, (_, summary) in ACTIONS.items():
            console.print(f"  [bold]{name:10}[/] {summary}", highlight=False)
        console.print("\n`tandem demos ACTION --help` says more.")
        return 0
    if args[0] not in ACTIONS:
        raise ConfigError(f"no action '{args[0]}'; there are {', '.join(ACTIONS)}")
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and sys.platform == "linux":
        os.environ.setdefault("MUJOCO_GL", "egl")  # for replay; read when mujoco is imported, so before that
    return tyro.cli(action(args[0]), args=args[1:], prog=f"tandem demos {args[0]}") or 0

"""`tandem demos`: look at a file of demonstrations, or check it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from tandem.data.report import format_report, inspect, validate
from tandem.envs.registry import spec_for
from tandem.programs.terminal import errors, say


def demos(
    action: Annotated[Literal["inspect", "validate"], tyro.conf.Positional],
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    task: str | None = None,
) -> int:
    """Look at a file of demonstrations (or an online journal, or a hil-serl pickle).

    Args:
        action: `inspect` prints its figures; `validate` checks it and exits with 1 if it must not be trained on.
        file: The file.
        task: Check against this task's spec as well as the file's own; a pickle has no spec of its own.
    """
    spec = None if task is None else spec_for(task)
    if action == "inspect":
        say(format_report(inspect(file, spec)))
        return 0
    problems = validate(file, spec)
    for problem in problems:
        if problem.severity == "error":
            say(f": {problem.message}", "error", "bold red", where=errors)
        else:
            say(f": {problem.message}", "warning", "yellow")
    if not problems:
        say(f": {file}", "ok", "green")
    return int(any(problem.severity == "error" for problem in problems))

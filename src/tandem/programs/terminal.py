"""What commands print: plain lines, a bar while demonstrations are recorded, and the summary of a run."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from tandem.files import name_for_files
from tandem.runs.display import Display, summary_table
from tandem.runs.printable import printable

console = Console()
errors = Console(stderr=True)


def say(text: str, word: str = "", style: str = "", *, where: Console = console) -> None:
    """A coloured word and a text, printed literally: [brackets] and :colons: in a name are not markup, and control characters are shown
    as replaced ones."""
    where.print(Text.assemble((word, style), printable(text, lines=True)), soft_wrap=True)


@contextlib.contextmanager
def recording_bar(task: str, demos: int, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar; the function it gives takes the numbers of kept and failed episodes."""
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


def make_display(quiet: bool, json: bool, verbose: bool = False) -> Display:
    """The display of a run that the options --quiet, --json and --verbose ask for."""
    return Display("json" if json else "quiet" if quiet else "live" if console.is_terminal else "lines", console, verbose)


def new_run(name: str) -> Path:
    """A new run folder, named after the task and the time."""
    return Path("runs") / f"{name_for_files(name)}_{time.strftime('%Y-%m-%d_%H-%M-%S')}"


def show_summary(summary: dict[str, Any], path: Path, as_json: bool, film: str | None = None, command: str = "train") -> None:
    """The last words of a command that trains."""
    if as_json:
        print(json.dumps({"summary": summary, "run": str(path)}), flush=True)
    else:
        console.print(summary_table(summary, path, film, command))

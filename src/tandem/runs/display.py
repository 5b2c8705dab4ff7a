"""The terminal output of a run: progress, metrics and the closing table; for people, log files or programs (`--json`).

A terminal that is gone or a log file on a full disk never ends a run: lines are then missing.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tandem.allowed import code_of
from tandem.runs.clocks import Clocks
from tandem.runs.isolation import Lines
from tandem.runs.printable import printable
from tandem.types import Metrics

Mode = Literal["live", "lines", "quiet", "json"]
LINE_EVERY_S = 10.0
REFRESH_S = 0.25


class Display:
    """`live`: a table that updates in place; `lines`: a line every 10 s; `json`: one object per line; `quiet`: only the closing table."""

    def __init__(self, mode: Mode, console: Console | None = None, verbose: bool = False) -> None:
        self.mode, self.verbose = mode, verbose
        self.console = console or Console()
        self._live: Live | None = None
        self._shown = 0.0
        self._began: tuple[float, int, int] | None = None
        self._write = Lines(self._print)

    def __enter__(self) -> Display:
        self._began = None
        if self.mode == "live":
            self._live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        if self._live is not None:
            with contextlib.suppress(OSError, SystemExit):
                self._live.__exit__(*details)
            self._live = None

    def say(self, line: str, **fields: Any) -> None:
        """Print a line."""
        if self.mode == "json":
            self._write(json.dumps({"event": line, **fields}))
        elif self.mode != "quiet":
            self._write(line)

    def _print(self, line: str) -> None:
        if self.mode == "json":
            print(line, flush=True)
        else:
            self.console.print(printable(line, lines=True), highlight=False, markup=False, soft_wrap=True)

    def waiting(self, what: str, have: int, want: int) -> None:
        """Progress of something that is waited for."""
        if self._due():
            self._show(f"{what} {have}/{want}")

    def training(self, clocks: Clocks, max_steps: int, outcome: tuple[str, str], metrics: Metrics, seconds_left: float | None) -> None:
        """Called at every learner step; prints now and then. `outcome`: name and value of what the last episodes came to."""
        now = time.monotonic()
        if self._began is None:
            self._began = (now, clocks.learner_step, clocks.actor_step)
        if not self._due():
            return
        elapsed = max(now - self._began[0], 1e-6)
        rate, actor_rate = (clocks.learner_step - self._began[1]) / elapsed, (clocks.actor_step - self._began[2]) / elapsed
        if self.mode == "json":
            return  # every row of metrics is printed as it is logged
        by_steps = (max_steps - clocks.learner_step) / rate if rate > 0 else None
        left = min((t for t in (by_steps, seconds_left) if t is not None), default=None)
        facts = {
            "learner": f"{clocks.learner_step:,} steps, {rate:.0f}/s",
            "actor": f"{clocks.actor_step:,} steps, {actor_rate:.0f}/s",
            "policy": f"version {clocks.policy_version}",
            outcome[0]: outcome[1],
            "critic loss": f"{metrics['critic/critic_loss']:.4f}" if "critic/critic_loss" in metrics else "-",
            "left": "-" if left is None else f"at most {_duration(left)}",
        }
        if self.mode == "live" and self._live is not None:
            table = Table.grid(padding=(0, 2))
            for name, value in facts.items():
                table.add_row(f"[bold]{name}[/]", value)
            self._update_live(table)
        else:
            self._show(" | ".join(f"{name} {value}" for name, value in facts.items()))

    def block(self, text: Callable[[], str]) -> None:
        """Many lines about one iteration; every 10 s, or always with `verbose`. They are composed only if they are shown."""
        if self.mode in ("live", "lines") and (self.verbose or self._due()):
            self._show(text())

    def metrics_row(self, clocks: Clocks, metrics: Metrics) -> None:
        if self.mode == "json":
            row = {"learner_step": clocks.learner_step, "actor_step": clocks.actor_step, "policy_version": clocks.policy_version}
            self._write(json.dumps(row | metrics))

    def _due(self) -> bool:
        now = time.monotonic()
        if now - self._shown < (REFRESH_S if self.mode == "live" else LINE_EVERY_S):
            return False
        self._shown = now
        return True

    def _update_live(self, shown: Table | str) -> None:
        assert self._live is not None
        with contextlib.suppress(OSError, SystemExit):  # the terminal is gone
            self._live.update(shown)

    def _show(self, text: str) -> None:
        if self.mode == "live" and self._live is not None:
            self._update_live(text)
        elif self.mode == "lines":
            self._write(text)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def summary_table(summary: dict[str, Any], path: Path, film: str | None = None, command: str = "train") -> Table:
    """The closing table of a run."""
    table = Table("", "", title=printable(f"{summary['task']}: {summary['stopped']}"), show_header=False)
    table.columns[1].overflow = "fold"  # a path that is cut cannot be copied
    judged = {"deterministic": "deterministic", "stochastic": "stochastic", "trained_long": "trained long", "teacher": "the teacher"}
    for key, manner in judged.items():
        if key not in summary:
            continue
        result = summary[key]
        if not result.get("success_known", result["success_seconds"] is not None):  # older summaries do not say it
            table.add_row(f"mean return, {manner}", f"{result['return']:.2f} ({result['episodes']} episodes)")
            continue
        interval = f"{100 * result['success_low']:.1f} to {100 * result['success_high']:.1f} %"
        table.add_row(f"success, {manner}", f"{result['successes']} of {result['episodes']} ({interval})")
        if result["success_seconds"] is None:
            continue
        seconds = f"{result['success_seconds']:.1f} s"
        if summary.get("demo_seconds"):
            seconds += f"; the demonstrations took {summary['demo_seconds']:.1f} s"
        table.add_row("mean time of a success", seconds)
    table.add_row("learner steps", f"{summary['learner_step']:,}")
    table.add_row("actor steps", f"{summary['actor_step']:,}")
    table.add_row("policy versions", f"{summary['policy_version']:,}")
    table.add_row("minutes", f"{summary['minutes']:.1f}")
    table.add_row("run", str(path))
    if film is not None:
        table.add_row("film", film)
    code = code_of(summary["task"])  # a run folder that names a module does not have it imported by itself
    table.add_row("watch it", f"tandem play {path}" + (f" --allow-module {code}" if code else ""))
    if summary["stopped"] == "interrupted" and summary.get("command") != "distill":  # which cannot be resumed
        task = f"{summary['task']} " if code else ""
        table.add_row("go on with it", f"tandem {summary.get('command', command)} {task}--resume {path}")
    return table

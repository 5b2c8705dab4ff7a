"""`tandem sweep FILE`: many runs, seeds x settings, with one table at the end.

    sweeps/NAME/runs/SETTING/seed_0     the runs, each an ordinary run folder       settings.json   the options that they were made with
    sweeps/NAME/best                    link to the best one                        results.json    all figures
    sweeps/NAME/logs/                   what the runs printed                       report.html, plots/   the same for people

Each run is a process of its own, so one that fails ends no other. A sweep that is started again leaves finished runs as they are, goes
on with unfinished ones from their newest checkpoint, and makes those that are missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json as json_format
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from tandem.errors import ConfigError
from tandem.files import private_files, write_atomically
from tandem.programs.curves import table, write_page
from tandem.programs.launcher import Handle, LocalLauncher
from tandem.programs.parts import command_part
from tandem.programs.supervisor import asked_to_stop
from tandem.programs.sweep_plan import Options, Plan, PlannedRun, read_plan
from tandem.programs.sweep_plots import plot
from tandem.programs.sweep_results import Found, Results, is_finished, look_at
from tandem.programs.terminal import console, say
from tandem.runs.folder import PRIVATE_FOLDER, RESUMED_BY, RunFolder, read_json

_LOOK_S = 0.05
_STOP_S = 150.0
"""For a run that is asked to stop: it saves first."""
Say = Callable[[str], None]
Start = Callable[[PlannedRun], Handle]


def sweep(
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    out: Path | None = None,
    at_once: int = 0,
    report: bool = False,
    json: bool = False,
) -> int:
    """Make many runs, seeds x settings, and compare them in one table.

    Start it again to continue a sweep that was interrupted. Exit status: 0 all runs are finished, 1 some are not.

    Args:
        file: TOML file with the command, the task, the seeds and the settings (docs/sweeps.md).
        out: Folder of the sweep. Default: sweeps/NAME of the file.
        at_once: Runs at the same time; 0: one for every two cores. Times are only comparable with 1.
        report: Start nothing: the table of what is finished.
        json: Print one JSON object instead of lines and a table.
    """
    if at_once < 0:
        raise ConfigError(f"--at-once must be at least 1 (0: one for every two cores), got {at_once}")
    plan = read_plan(file)
    at_once = at_once or max(1, (os.cpu_count() or 1) // 2)
    folder = SweepFolder(out or Path("sweeps") / file.stem)
    with folder.held(), private_files():
        errors: dict[PlannedRun, str] = {}
        if not report:
            tell: Say = (lambda line: None) if json else say
            errors = _run_all(plan, folder, at_once, tell)
        results = folder.write_results(plan, errors)
    if json:
        print(json_format.dumps(results.to_json()), flush=True)
    else:
        _show(plan, folder, results)
    return int(any(found.error for found in results.found))


class SweepFolder:
    """The files of a sweep."""

    def __init__(self, path: Path) -> None:
        self.path, self.settings_file, self.results_file = path, path / "settings.json", path / "results.json"
        self.best, self.report, self.plots, self.logs = path / "best", path / "report.html", path / "plots", path / "logs"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """By one process at a time: two would make the same runs."""
        try:
            self.path.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            lock = (self.path / "lock").open("w")
        except OSError as problem:
            raise ConfigError(f"cannot make the folder {self.path}: {problem.strerror}. Give another place with --out.") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"another process makes the runs of {self.path} already; wait for it, or stop it first") from None
            yield

    def run(self, run: PlannedRun) -> Path:
        return self.path / run.place

    def log(self, run: PlannedRun) -> Path:
        return self.logs / f"{run.place.parent.name}_{run.place.name}.txt"

    def remember(self, plan: Plan) -> None:
        """Write down what the runs are made with. Runs of one setting with different options cannot be compared: refused."""
        known: dict[str, Options] = read_json(self.settings_file) or {}
        for name, options in plan.settings.items():
            before, now = known.get(name), {"command": plan.command, "task": plan.task, **options}
            if before is not None and before != now and (self.path / PlannedRun(name, 0).place.parent).exists():
                changed = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
                raise ConfigError(
                    f"{plan.file}, setting '{name}': {', '.join(changed)} changed since its runs in {self.path} were made, so old and new "
                    f"ones cannot be compared. Give the setting another name, another folder with --out, or remove its runs."
                )
            known[name] = now
        write_atomically(self.settings_file, json_format.dumps(known, indent=2).encode())

    def write_results(self, plan: Plan, errors: dict[PlannedRun, str]) -> Results:
        """Figures, plots, the page, and the link to the best run."""
        found = [
            look_at(run, self.run(run), plan.metrics)
            if is_finished(self.run(run))
            else Found(run, self.run(run), {}, error=errors.get(run, "not finished"))
            for run in plan.runs
        ]
        results = Results(plan, found)
        write_atomically(self.results_file, json_format.dumps(results.to_json(), indent=2).encode())
        drawings = {metric: plot(results, metric) for metric in plan.metrics}
        self.plots.mkdir(PRIVATE_FOLDER, exist_ok=True)
        for metric, drawing in drawings.items():
            write_atomically(self.plots / f"{metric.replace('/', '_')}.svg", drawing.encode())
        failed = [f"{each.run}: {each.error}" for each in found if each.error]
        lists = [table([[line] for line in failed], ["not finished"])] if failed else []
        write_page(self.report, f"{plan.file.stem}: {plan.task}", [table(results.rows(), results.heads()), *drawings.values(), *lists])
        self._link(results.best())
        return results

    def _link(self, best: Found | None) -> None:
        self.best.unlink(missing_ok=True)
        if best is not None:
            self.best.symlink_to(best.run.place)

    def keep_only(self, best: Found | None, plan: Plan) -> None:
        """Remove what takes room from every other finished run: journal, checkpoints, films. Its figures stay."""
        for run in plan.runs:
            folder = RunFolder(self.run(run))
            if best is None or run == best.run or not is_finished(folder.path):
                continue
            for large in (folder.checkpoints, folder.videos, folder.spool):
                shutil.rmtree(large, ignore_errors=True)
            for file in folder.path.glob(f"{folder.journal.name}*"):
                file.unlink()


@dataclass
class Pool:
    """Runs some processes at a time. `ended` is told of each one that ends, with its exit code."""

    start: Start
    ended: Callable[[PlannedRun, Handle], None]
    at_once: int

    def make(self, runs: Sequence[PlannedRun], asked: Callable[[], bool]) -> None:
        """All of them, until a stop is asked for; those that are under way then are asked to stop, and save."""
        waiting, running = list(runs), {}
        try:
            while (waiting or running) and not asked():
                while waiting and len(running) < self.at_once:
                    run = waiting.pop(0)
                    running[run] = self.start(run)
                for run in [run for run, handle in running.items() if handle.code is not None]:
                    handle = running.pop(run)
                    handle.wait(0.0)
                    self.ended(run, handle)
                time.sleep(_LOOK_S)
        finally:
            for handle in running.values():
                handle.ask_to_stop()
            for run, handle in running.items():
                handle.stop(_STOP_S)
                self.ended(run, handle)


def _run_all(plan: Plan, folder: SweepFolder, at_once: int, tell: Say) -> dict[PlannedRun, str]:
    """Make the runs that are not finished; returns what went wrong with those that failed."""
    folder.remember(plan)
    folder.logs.mkdir(PRIVATE_FOLDER, exist_ok=True)
    missing = [run for run in plan.runs if not is_finished(folder.run(run))]
    if len(missing) < len(plan.runs):
        tell(f"{len(plan.runs) - len(missing)} of {len(plan.runs)} runs are finished already")
    errors: dict[PlannedRun, str] = {}
    began, done = time.monotonic(), 0

    def start(run: PlannedRun) -> Handle:
        path = folder.run(run)
        goes_on = _can_go_on(plan, path)
        if path.exists() and not goes_on:
            shutil.rmtree(path)  # it ended before its first checkpoint
        tell(f"{run}: {'goes on' if goes_on else 'starts'}; log {folder.log(run)}")
        arguments = plan.arguments(run, path, resume=goes_on)
        return LocalLauncher(output=folder.log(run)).start(command_part(str(run), plan.command, arguments))

    def ended(run: PlannedRun, handle: Handle) -> None:
        nonlocal done
        done += 1
        if is_finished(folder.run(run)):
            left = (time.monotonic() - began) / done * (len(missing) - done)
            tell(f"{run}: done. {len(missing) - done} runs left, about {left / 60:.0f} minutes")
        else:
            errors[run] = why_not_finished(handle.code or 0, folder.log(run))
            tell(f"{run}: {errors[run]}")
        if plan.keep_only_best:
            finished = [look_at(each, folder.run(each), plan.metrics) for each in plan.runs if is_finished(folder.run(each))]
            folder.keep_only(Results(plan, finished).best(), plan)

    with asked_to_stop() as asked:
        Pool(start, ended, at_once).make(missing, asked)
        if asked():
            tell(f"stopped. The same command continues it: tandem sweep {plan.file} --out {folder.path}")
    return errors


def _can_go_on(plan: Plan, path: Path) -> bool:
    """Runs of cloning take minutes and are made again."""
    return plan.command in RESUMED_BY.values() and RunFolder(path).config_file.exists() and RunFolder(path).has_checkpoint()


def why_not_finished(code: int, log: Path) -> str:
    """What became of a run that ended with this code, in words."""
    if code < 0:
        how = signal.Signals(-code).name
        return f"ended by {how}{' (out of memory?)' if how == 'SIGKILL' else ''}; start the sweep again to make it"
    if code == 0:
        return "interrupted; start the sweep again to continue it"
    with contextlib.suppress(OSError):
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        return f"failed (code {code}): {lines[-1].strip() if lines else 'it printed nothing'} (log {log})"
    return f"failed (code {code}); log {log}"


def _show(plan: Plan, folder: SweepFolder, results: Results) -> None:
    shown = Table(*results.heads(), title=f"{plan.file.stem}: {plan.task}")
    for row in results.rows():
        shown.add_row(*row)
    console.print(shown)
    for line in results.unknown_metrics():
        say(line)
    for found in results.found:
        if found.error:
            say(f"{found.run}: {found.error}")
    say(f"plots and table: {folder.report}")
    if (best := results.best()) is not None:
        say(f"best ({plan.best_is} {plan.best_by}): {best.run}. Watch it: tandem play {folder.best}")

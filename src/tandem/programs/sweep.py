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
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.table import Table

from tandem.errors import ConfigError
from tandem.files import private_files, write_atomically
from tandem.programs.cluster import ClusterArgs, RayLauncher
from tandem.programs.curves import table, write_page
from tandem.programs.launcher import Handle, LocalLauncher, Part
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
Launch = Callable[[Part, Path], Handle]
NO_CLUSTER = ClusterArgs()


def sweep(
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    out: Path | None = None,
    at_once: int = 0,
    report: bool = False,
    json: bool = False,
    launcher: Literal["local", "ray"] = "local",
    cluster: ClusterArgs = NO_CLUSTER,
) -> int:
    """Make many runs, seeds x settings, and compare them in one table.

    Start it again to continue a sweep that was interrupted. Exit status: 0 all runs are finished, 1 some are not.

    Args:
        file: TOML file with the command, the task, the seeds and the settings (docs/sweeps.md).
        out: Folder of the sweep. Default: sweeps/NAME of the file.
        at_once: Runs at the same time; 0: one for every two cores, or as many as the cluster has room for. Times are only comparable
            with 1.
        report: Start nothing: the table of what is finished.
        json: Print one JSON object instead of lines and a table.
        launcher: What starts the runs: this machine, or a Ray cluster whose machines share the folder (docs/scale.md).
        cluster: Where `--launcher ray` starts runs, and what each of them needs.
    """
    if at_once < 0:
        raise ConfigError(f"--at-once must be at least 1 (0: one for every two cores), got {at_once}")
    plan = read_plan(file)
    tell: Say = (lambda line: None) if json else say
    launch = _launch_here if launcher == "local" else partial(_launch_by_ray, cluster, plan.task, tell)
    if not at_once and not report:
        at_once = (
            max(1, (os.cpu_count() or 1) // 2) if launcher == "local" else RayLauncher(cluster, tell, task=plan.task, joins=False).places
        )
    folder = SweepFolder(out or Path("sweeps") / file.stem)
    with folder.held(), private_files():
        made = Made() if report else _make_runs(plan, folder, at_once, tell, launch)
        results = folder.write_results(plan, made)
    if json:
        print(json_format.dumps(results.to_json()), flush=True)
    else:
        _show(plan, folder, results)
    return int(any(found.error for found in results.found))


@dataclass
class Made:
    """What became of the runs that this process started."""

    errors: dict[PlannedRun, str] = field(default_factory=dict)
    """Why a run is not finished."""
    seconds: dict[PlannedRun, float] = field(default_factory=dict)


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

    def write_results(self, plan: Plan, made: Made) -> Results:
        """Figures, plots, the page, and the link to the best run."""
        found = [replace(self._found(run, plan, made), process_s=made.seconds.get(run)) for run in plan.runs]
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

    def _found(self, run: PlannedRun, plan: Plan, made: Made) -> Found:
        if is_finished(self.run(run)):
            return look_at(run, self.run(run), plan.metrics)
        return Found(run, self.run(run), {}, error=made.errors.get(run, "not finished"))

    def _link(self, best: Found | None) -> None:
        self.best.unlink(missing_ok=True)
        if best is not None:
            self.best.symlink_to(best.run.place)

    def keep_only_best(self, plan: Plan) -> None:
        """Remove what takes room from every other finished run: journal, checkpoints, films. Its figures stay."""
        finished = [run for run in plan.runs if is_finished(self.run(run))]
        best = Results(plan, [look_at(run, self.run(run), plan.metrics) for run in finished]).best()
        for run in finished:
            if best is None or run == best.run:
                continue
            folder = RunFolder(self.run(run))
            for large in (folder.checkpoints, folder.videos, folder.spool):
                shutil.rmtree(large, ignore_errors=True)
            for file in folder.path.glob(f"{folder.journal.name}*"):
                file.unlink()


@dataclass
class Pool:
    """Runs some processes at a time. `ended` is called with each one that ends and its exit code."""

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


def _launch_here(part: Part, log: Path) -> Handle:
    return LocalLauncher(output=log).start(part)


def _launch_by_ray(cluster: ClusterArgs, task: str, tell: Say, part: Part, log: Path) -> Handle:
    return RayLauncher(cluster, tell, task=task, output=log, joins=False).start(part)


def _make_runs(plan: Plan, folder: SweepFolder, at_once: int, tell: Say, launch: Launch) -> Made:
    """Make the runs that are not finished."""
    folder.remember(plan)
    folder.logs.mkdir(PRIVATE_FOLDER, exist_ok=True)
    missing = [run for run in plan.runs if not is_finished(folder.run(run))]
    if len(missing) < len(plan.runs):
        tell(f"{len(plan.runs) - len(missing)} of {len(plan.runs)} runs are finished already")
    made, began, starts = Made(), time.monotonic(), {}

    def start(run: PlannedRun) -> Handle:
        starts[run] = time.monotonic()
        part = _next_part(plan, folder, run, tell)
        return launch(part, folder.log(run))

    def ended(run: PlannedRun, handle: Handle) -> None:
        now = time.monotonic()
        made.seconds[run] = now - starts[run]
        left = len(missing) - len(made.seconds)
        if is_finished(folder.run(run)):
            minutes = (now - began) / len(made.seconds) * left / 60
            tell(f"{run}: done in {made.seconds[run] / 60:.1f} minutes; {left} left, about {minutes:.0f} minutes")
        else:
            made.errors[run] = why_not_finished(handle.code or 0, folder.log(run))
            tell(f"{run}: {made.errors[run]}")
        if plan.keep_only_best:
            folder.keep_only_best(plan)

    with asked_to_stop() as asked:
        Pool(start, ended, at_once).make(missing, asked)
        if asked():
            tell(f"stopped. The same command continues it: tandem sweep {plan.file} --out {folder.path}")
    return made


def _next_part(plan: Plan, folder: SweepFolder, run: PlannedRun, tell: Say) -> Part:
    """The run from its start, or from its newest checkpoint."""
    path = folder.run(run)
    goes_on = _can_go_on(plan, path)
    if path.exists() and not goes_on:
        shutil.rmtree(path)  # it ended before its first checkpoint
    tell(f"{run}: {'goes on' if goes_on else 'starts'}; log {folder.log(run)}")
    return command_part(str(run), plan.command, plan.arguments(run, path, resume=goes_on))


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

"""Seeds x settings of a benchmark as a `tandem sweep`: a process for each run, and what is finished is not made again."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tandem.programs.sweep import sweep
from tandem.programs.sweep_plan import PlannedRun

Options = Mapping[str, Any]


def make_runs(
    folder: Path,
    task: str,
    seeds: Sequence[int],
    settings: Mapping[str, Options],
    every: Options,
    *,
    metrics: Sequence[str],
    best: str,
    at_once: int = 1,
    quiet: bool = False,
) -> None:
    """Make the runs that are missing in `folder`, which then has the table and the plots of the sweep too (docs/sweeps.md)."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "asked.toml"
    file.write_text(plan_text(task, seeds, settings, every, metrics, best))
    with contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext():
        unfinished = sweep(file, folder, at_once=at_once, json=quiet)
    if unfinished:
        raise SystemExit(f"some runs are not finished; {folder / 'report.html'} says which and why, --go-on {folder} makes them")


def run_of(folder: Path, setting: str, seed: int) -> Path:
    """Where that run is."""
    return folder / PlannedRun(setting, seed).place


def plan_text(task: str, seeds: Sequence[int], settings: Mapping[str, Options], every: Options, metrics: Sequence[str], best: str) -> str:
    """The file of the sweep. JSON writes texts, numbers, flags and lists as TOML does."""
    heads = {"command": "train", "task": task, "seeds": list(seeds), "metrics": list(metrics), "best": best}
    lines = [*_lines(heads), "[every]", *_lines(every)]
    for name, options in settings.items():
        lines += [f"[settings.{json.dumps(name)}]", *_lines(options)]
    return "\n".join(lines) + "\n"


def _lines(options: Options) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in options.items()]

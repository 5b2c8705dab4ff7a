"""The run folder: what a run was asked to do, what it measured, what happened, and what it learned.

    config.json      the resolved configuration            metrics.jsonl   one row per log, all three clocks in each
    journal.db       every step of the environment         tensorboard/    the same for TensorBoard
    checkpoints/     state to resume from, best policy     events.jsonl    what happened and when
    policy_version   publications so far                   train.log       the lines of both loops
    incarnation      restarts of the trainer so far        summary.json    how it ended
    broken/          where a run left the finite numbers: states and batches for `tandem doctor replay`

Nothing here can stop a run but a full disk under the journal or a checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from tandem import __version__
from tandem.errors import ConfigError, FileMissing
from tandem.files import write_atomically
from tandem.runs.clocks import Clocks
from tandem.runs.loggers import Isolated
from tandem.types import Metrics, Spec


class RunFolder:
    """Paths, and the files that only grow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.journal = path / "journal.db"
        self._began = time.monotonic()
        self.loggers = Isolated(lambda name, problem: self.event("logger_failed", logger=name, problem=problem))
        self.incarnation = 0
        """Which start of the trainer this is; 0 the first time."""
        self.wall_before = 0.0
        """Seconds of training before this start."""

    @classmethod
    def create(cls, path: Path, config: Any, spec: Spec) -> RunFolder:
        """A new run; a folder that exists is never written over."""
        if path.exists():
            raise ConfigError(
                f"run folder {path} exists. Go on with it (`--resume {path}`), give another name with --run, or remove it yourself."
            )
        path.mkdir(parents=True)
        run = cls(path)
        run.checkpoints.mkdir()
        described = {"task": spec.task, "spec": spec.to_json(), "spec_hash": spec.hash, "config": plain(config)}
        write_atomically(path / "config.json", json.dumps(described, indent=2).encode())
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        if not (path / "config.json").exists():
            raise FileMissing(f"{path} is not a run folder: it has no config.json (looked in {path.absolute()})")
        return cls(path)

    @property
    def config(self) -> dict[str, Any]:
        return json.loads((self.path / "config.json").read_text())

    @property
    def spec(self) -> Spec:
        return Spec.from_json(self.config["spec"])

    def next_incarnation(self) -> None:
        """Another start; its number is on the disk before anything is logged under it."""
        self.incarnation = self._next("incarnation")

    @property
    def wall_s(self) -> float:
        """Seconds of training, over all starts."""
        return self.wall_before + time.monotonic() - self._began

    def next_version(self) -> int:
        """The number of the next publication, on the disk before anyone sees it: after any crash it is not used again."""
        return self._next("policy_version")

    def _next(self, name: str) -> int:
        path = self.path / name
        number = (int(path.read_text()) if path.exists() else 0) + 1
        write_atomically(path, str(number).encode())
        return number

    def log_metrics(self, clocks: Clocks, metrics: Metrics, wall_s: float | None = None) -> dict[str, Any]:
        """One row, which it returns. Every row says where all the clocks stood; `wall_s` is that of now unless given."""
        wall_s = self.wall_s if wall_s is None else wall_s
        row = {**dataclasses.asdict(clocks), "wall_s": round(wall_s, 3), "incarnation": self.incarnation, **metrics}
        self._append("metrics.jsonl", json.dumps(row))
        self.loggers.log(clocks.learner_step, metrics)
        return row

    def event(self, kind: str, **details: Any) -> None:
        """Something that happened: started, resumed, published first, rolled back, evaluated, stopped."""
        self._append("events.jsonl", json.dumps({"time": time.time(), "wall_s": round(self.wall_s, 3), "kind": kind, **details}))

    def log_line(self, line: str) -> None:
        self._append("train.log", f"{time.strftime('%H:%M:%S')} {line}")

    def summarise(self, summary: dict[str, Any]) -> None:
        write_atomically(self.path / "summary.json", json.dumps(summary, indent=2).encode())

    def metrics(self) -> list[dict[str, Any]]:
        """All rows; a row that was cut by a crash is left out."""
        rows = []
        path = self.path / "metrics.jsonl"
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return rows

    def _append(self, name: str, line: str) -> None:
        with (self.path / name).open("a") as file:
            file.write(line + "\n")

    def close(self) -> None:
        self.loggers.close()


def seed_of(path: Path) -> int:
    """The seed of the run that a run folder, or a policy file in one, belongs to; 0 for a file from elsewhere."""
    for folder in (path, path.parent, path.parent.parent):
        if (folder / "config.json").exists():
            config = RunFolder(folder).config["config"]
            return int(config.get("seed", config.get("config", {}).get("seed", 0)))
    return 0


def this_machine() -> dict[str, Any]:
    """Where and by what a run was started: figures of another machine are not to be judged by this one's."""
    return {"host": socket.gethostname(), "cores": os.cpu_count(), "tandem": __version__}


def plain(value: Any) -> Any:
    """Dataclasses, paths and tuples as JSON knows them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value

"""The run folder: what a run was asked to do, what it measured, what happened, and what it learned.

    config.json      kind, task, spec and configuration    metrics.jsonl   one row per log, all three clocks in each
    journal.db       every step of the environments        events.jsonl    what happened and when (`events.py`)
    checkpoints/     states to resume from, and policies   train.log       the same for people, in sentences
    summary.json     how it ended                          tensorboard/    the metrics for TensorBoard
    policy_version   publications so far                   broken/         what is left of a numerical failure (`broken.py`)
    incarnation      starts of the trainer so far          videos/         films of the policy

of a run with hub, trainer and actors in processes of their own also

    policy.bin       the newest policy, as actors get it   commands.jsonl  commands to the trainer, one line each
    board            counters that hub and trainer share   episodes.jsonl  how each episode ended, by the actor's word
    live.json        the hub's view of 2 seconds ago       hub.json        where the hub listens; hub.lock: held by it
    run_id           globally unique name of the run       token           who has it may talk to the hub (mode 0600)
    spool/           steps that actors have not sent yet   mapping.toml    keys and gamepad of this run, if a person put it there
    errors/          what ended a part, in its own words   access.json     credentials for roles (`link/access.py`), mode 0600
    audit.jsonl      who gave which command, from where     sessions.json   pages that are logged in, mode 0600
    sources.jsonl    which credential brought which source
    encoder.safetensors    of a run with cameras: how its pictures become features (`off_policy/eyes.py`)
    reward.rule      the classifier or the conditions that give its rewards, where the environment does not

`RunFolder` has the paths: no other module spells these names. On a full disk lines of metrics, events and the log are missing;
checkpoints and policies are tried again later (`Campaign.storing`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import secrets
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tandem import __version__
from tandem.errors import ConfigError, FileMissing, FileUnreadable
from tandem.files import make_once, sync, write_atomically
from tandem.runs.clocks import Clocks
from tandem.runs.lines import append_lines, append_rows, read_rows
from tandem.runs.loggers import Isolated, TensorBoard, WandB
from tandem.runs.printable import printable
from tandem.types import Metrics, Spec

PRIVATE_FOLDER = 0o700
"""Run folders hold the token, the settings and pictures: they are their owner's alone. Demonstrations are data that people share."""
_DIGITS = 20
Kind = Literal["rlpd", "ppo", "distill", "bc", "dagger", "recording"]
"""Which program made a run. `recording`: nothing is trained, a person records demonstrations."""
TRAINED_BY: Mapping[Kind, str] = {"rlpd": "RLPD", "ppo": "PPO", "distill": "distillation", "bc": "behaviour cloning", "dagger": "HG-DAgger"}
RESUMED_BY: Mapping[Kind, str] = {"rlpd": "train", "ppo": "ppo", "dagger": "dagger"}
"""The command that continues a run; the other kinds take minutes and are started again."""


@dataclass(frozen=True)
class RunInfo:
    """What `config.json` says about a run."""

    kind: Kind
    task: str
    spec: Spec
    settings: Mapping[str, Any]
    """The configuration it was started with, as `plain` made it."""


class RunFolder:
    """The paths of a run, what its configuration says, and the files that only grow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.json"
        self.metrics_file, self.events_file = path / "metrics.jsonl", path / "events.jsonl"
        self.log_file, self.summary_file = path / "train.log", path / "summary.json"
        self.version_file, self.incarnation_file = path / "policy_version", path / "incarnation"
        self.journal, self.encoder_file, self.rule_file = path / "journal.db", path / "encoder.safetensors", path / "reward.rule"
        self.checkpoints = path / "checkpoints"
        self.best_policy, self.latest_policy = self.checkpoints / "best.safetensors", self.checkpoints / "latest.safetensors"
        self.published_policy, self.board_file = path / "policy.bin", path / "board"
        self.commands_file, self.episodes_file = path / "commands.jsonl", path / "episodes.jsonl"
        self.live_file, self.hub_file, self.hub_lock = path / "live.json", path / "hub.json", path / "hub.lock"
        self.run_id_file, self.token_file, self.actors_token_file = path / "run_id", path / "token", path / "actors_token"
        self.access_file, self.sessions_file = path / "access.json", path / "sessions.json"
        self.audit_file, self.sources_file = path / "audit.jsonl", path / "sources.jsonl"
        self.mapping_file, self.page_storage = path / "mapping.toml", path / ".page"
        self.spool, self.broken, self.tensorboard, self.videos = (path / name for name in ("spool", "broken", "tensorboard", "videos"))
        self._began = time.monotonic()
        self.loggers = Isolated(lambda name, problem: self.event("logger_failed", logger=name, problem=problem))
        self.incarnation = 0
        """Which start of the trainer this is; 0 the first time."""
        self.wall_before = 0.0
        """Seconds of training before this start."""

    @classmethod
    def create(cls, path: Path, kind: Kind, config: Any, spec: Spec) -> RunFolder:
        """A new run; a folder that exists is never written over."""
        if path.exists():
            raise ConfigError(
                f"run folder {path} exists. Go on with it (`--resume {path}`), give another name with --run, or remove it yourself."
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(PRIVATE_FOLDER)
            run = cls(path)
            run.checkpoints.mkdir(PRIVATE_FOLDER)
        except OSError as problem:
            raise ConfigError(f"cannot make the run folder {path}: {problem.strerror}. Give another place with --run.") from None
        described = {"kind": kind, "task": spec.task, "spec": spec.to_json(), "spec_hash": spec.hash, "config": plain(config)}
        write_atomically(run.config_file, json.dumps(described, indent=2).encode())
        sync(path.parent)  # the folder's own name
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        run = cls(path)
        if not run.config_file.exists():
            raise FileMissing(f"{path} is not a run folder: it has no {run.config_file.name} (looked in {path.absolute()})")
        return run

    @classmethod
    def resume(cls, path: Path) -> RunFolder:
        """A run to go on with: its folder must be writable. One that others can read, from an earlier version, is made private."""
        run = cls.open(path)
        try:
            path.chmod(PRIVATE_FOLDER)
            probe = path / f".{os.getpid()}.probe"  # a folder on a disk that is mounted read-only may still have the right mode
            probe.touch()
            probe.unlink()
        except OSError as problem:
            raise ConfigError(
                f"run {path} cannot be continued: its folder cannot be written ({problem.strerror}). Make it writable for you "
                f"(`chmod -R u+rwX {path}`), or copy it to a place where it is and resume the copy."
            ) from None
        return run

    # ---- what kind of run it is

    @functools.cached_property
    def info(self) -> RunInfo:
        try:
            described = json.loads(self.config_file.read_text())
            settings = described.get("config") or {}
            kind = described.get("kind") or _kind_of_old(settings)
            if kind not in get_args(Kind):
                raise ValueError(f"kind '{kind}'; this version knows {', '.join(get_args(Kind))}")
            return RunInfo(kind, described["task"], Spec.from_json(described["spec"]), settings)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
            raise FileUnreadable(f"{self.config_file} is damaged ({type(problem).__name__}: {problem}). Restore it from a copy.") from None

    @property
    def kind(self) -> Kind:
        return self.info.kind

    @property
    def spec(self) -> Spec:
        return self.info.spec

    def settings_of(self, kind: Kind) -> dict[str, Any]:
        """The configuration of a run that is to be continued as this kind; any other kind is refused with the command that fits."""
        own = self.info.kind
        if own != kind:
            command = RESUMED_BY.get(own)
            way = f"go on with it by `tandem {command} --resume {self.path}`" if command else "such a run cannot be resumed: start it again"
            raise ConfigError(f"run {self.path} was not trained with {TRAINED_BY[kind]} but with {TRAINED_BY.get(own, own)}; {way}")
        return dict(self.info.settings)

    @contextlib.contextmanager
    def using_settings(self) -> Iterator[None]:
        """Settings that are missing or of another type, where they are put to use, are an error in words."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise ConfigError(
                f"the settings in {self.config_file} are damaged ({type(problem).__name__}: {problem}). Restore it from a copy; a new run "
                f"with the same command line has the same settings."
            ) from problem

    def add_loggers(self, wandb: str | None = None) -> None:
        """TensorBoard, and Weights & Biases if a project is named."""
        self.loggers.start("tensorboard", lambda: TensorBoard(self.tensorboard))
        if wandb:
            self.loggers.add(WandB(wandb, self.path, dict(self.info.settings)))

    # ---- names and numbers

    @property
    def run_id(self) -> str:
        """A globally unique name, made by the first process that asks."""
        return make_once(self.run_id_file, lambda path: path.write_text(uuid.uuid4().hex)).read_text().strip()

    @property
    def token(self) -> str:
        """The run's own token, made by the first process that asks, readable by its owner alone."""

        def make(path: Path) -> None:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32))

        return make_once(self.token_file, make).read_text().strip()

    def next_incarnation(self) -> None:
        """Another start; its number is on the disk before anything is logged under it."""
        self.incarnation = _next_number(self.incarnation_file)

    def next_version(self) -> int:
        """The number of the next policy, on the disk before anyone sees it: after any crash it is not used again."""
        return _next_number(self.version_file)

    @property
    def wall_s(self) -> float:
        """Seconds of training, over all starts."""
        return self.wall_before + time.monotonic() - self._began

    # ---- what is written down

    def log_metrics(self, clocks: Clocks, metrics: Metrics, wall_s: float | None = None) -> dict[str, Any]:
        """Append one row and return it. Every row has all the clocks; `wall_s` is the present one unless given."""
        wall_s = self.wall_s if wall_s is None else wall_s
        row = {**dataclasses.asdict(clocks), "wall_s": round(wall_s, 3), "incarnation": self.incarnation, **metrics}
        with contextlib.suppress(OSError, ValueError):
            append_rows(self.metrics_file, [row])
        self.loggers.log(clocks.learner_step, metrics)
        return row

    def event(self, kind: str, **details: Any) -> None:
        """Something that happened; the kinds are listed in `events.py`."""
        with contextlib.suppress(OSError, ValueError):
            append_rows(self.events_file, [{"time": time.time(), "wall_s": round(self.wall_s, 3), "kind": kind, **details}])

    def log_line(self, line: str) -> None:
        """A sentence for people. Further lines of it are indented: what somebody else wrote never looks like a line of its own."""
        safe = printable(line, lines=True).replace("\n", "\n         ")
        with contextlib.suppress(OSError, ValueError):  # a full disk, or half of a character
            append_lines(self.log_file, [f"{time.strftime('%H:%M:%S')} {safe}"])

    def summarise(self, summary: dict[str, Any]) -> None:
        write_atomically(self.summary_file, json.dumps(summary, indent=2).encode())

    # ---- what can be read again

    def metrics(self) -> list[dict[str, Any]]:
        """All rows so far."""
        return list(read_rows(self.metrics_file))

    def events(self) -> list[dict[str, Any]]:
        """All events so far, of the trainer, the hub and the supervisor."""
        return list(read_rows(self.events_file))

    def summary(self) -> dict[str, Any] | None:
        """How it ended; None while it has not."""
        return read_json(self.summary_file)

    def hub(self) -> dict[str, Any] | None:
        """Where its hub listens (`address`, `pid`, `tls`, `run`); None where none does. One that was killed leaves its entry behind."""
        return read_json(self.hub_file)

    def policy(self, which: str = "best") -> Path:
        """The file of its best policy, or of the latest where none was evaluated."""
        return self.best_policy if which == "best" and self.best_policy.exists() else self.latest_policy

    def rule(self) -> bytes:
        """The file of the rule that gives its rewards; empty where the environment or a person does."""
        return self.rule_file.read_bytes() if self.rule_file.exists() else b""

    def last_words(self, part: str) -> Path:
        """Where a part of the run leaves the error that ended it."""
        return self.path / "errors" / f"{part.replace(' ', '_')}.json"

    def has_checkpoint(self) -> bool:
        return any(True for _ in self.checkpoint_folders())

    def checkpoint_folders(self) -> Iterator[Path]:
        """Complete checkpoints, the oldest first."""
        yield from sorted(path for path in self.checkpoints.glob("[0-9]*") if path.name.isdigit())

    def written_at(self) -> float | None:
        """When a file that grows with the run last changed (seconds since 1970)."""
        log = self.journal.with_name(self.journal.name + "-wal")
        files = (self.metrics_file, self.events_file, self.log_file, self.journal, log, self.config_file)
        return max((file.stat().st_mtime for file in files if file.exists()), default=None)

    def close(self) -> None:
        self.loggers.close()


def _kind_of_old(settings: Mapping[str, Any]) -> Kind:
    """The kind of an older folder, which does not say it: each kind has settings that no other has."""
    known: dict[str, Kind] = {"steps_per_update": "rlpd", "num_steps_per_env": "ppo", "teacher": "distill", "hidden": "bc"}
    for setting, kind in known.items():
        if setting in settings:
            return kind
    if settings:
        raise ValueError(f"no `kind`, and settings of no known kind of run: {', '.join(sorted(settings))}")
    return "recording"


def _next_number(path: Path) -> int:
    try:
        number = (int(path.read_bytes()[:_DIGITS]) if path.exists() else 0) + 1
    except (OSError, ValueError) as problem:
        raise FileUnreadable(
            f"{path} is damaged ({problem}): it holds a number that must never be used twice. Write the largest {path.name} that "
            f"metrics.jsonl and events.jsonl name, or a larger one, into it."
        ) from None
    write_atomically(path, str(number).encode())
    return number


def read_json(path: Path) -> Any:
    """None where there is no file, or not a whole one."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None


def seed_of(path: Path) -> int:
    """The seed of the run that a run folder, or a policy file in one, belongs to; 0 for a file from elsewhere."""
    for folder in (path, path.parent, path.parent.parent):
        run = RunFolder(folder)
        if run.config_file.exists():
            config = run.info.settings
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

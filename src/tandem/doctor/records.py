"""What is known of a run, loaded once: a folder, a hub's live view, or a single row. The checks only read it.

A part that is not known is None or empty, and the checks that need it say nothing. Large files are sampled: of the journal
the newest rows and blocks spread over the rest, of the metrics every k-th row and the newest ones.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tandem.data.demos import PARTIAL_SUFFIX, Recording, read_demos
from tandem.data.figures import Figures
from tandem.data.journal import Journal
from tandem.data.journal_questions import Source
from tandem.data.report import Report, report_on
from tandem.data.validation import Validator
from tandem.doctor import limits
from tandem.doctor.machine import Machine, look_at_machine
from tandem.doctor.probe import Probe
from tandem.doctor.values import DemoValues, values_of_run
from tandem.errors import FileMissing, TandemError
from tandem.rewards.classifier import Classifier, parse_classifier
from tandem.rewards.labels import Label, labels_of_run
from tandem.runs.checkpoint import AGENT_FILE
from tandem.runs.clocks import Clocks, ClockSample, Rates, rates
from tandem.runs.folder import Kind, RunFolder
from tandem.runs.lines import parse_rows, whole_lines
from tandem.runs.live import LiveView, read_live
from tandem.types import Spec, Transition

TAIL, PICTURES = 1000, 8
BLOCKS, BLOCK = 30, 40
SAMPLE_BYTES = 20 * 2**20
"""At most this much of the journal is read: steps with images are large."""
MAX_ROWS = 10_000
NEWEST_ROWS = 2000
DEMO_ROWS = 5000
PUBLICATIONS = 100
"""The newest of these events; a long run has very many."""

State = Literal["running", "finished", "dead"]
_SUCCESS = ("environment/episode/success", "Train/mean_success")
_RETURN = ("environment/episode/r", "Train/mean_reward")


@dataclass(frozen=True)
class JournalFigures:
    """The journal in counts and samples."""

    accepted: int
    rejected: int
    reasons: Sequence[tuple[str, int]]
    """Why steps were rejected, the most frequent first."""
    sources: Sequence[Source]
    bytes: int
    tail: Sequence[Transition]
    """The newest steps."""
    blocks: Sequence[Sequence[Transition]]
    """Runs of consecutive rows, spread over the whole."""
    rejected_sources: Sequence[tuple[str, int]] = ()
    """Sources of the rejected steps, the most frequent first."""
    pictures: Mapping[str, Sequence[np.ndarray]] = field(default_factory=dict)
    """Some of the newest pictures of each camera, where the run keeps them."""

    @functools.cached_property
    def sample(self) -> list[Transition]:
        """All steps that were looked at, each once, in their order."""
        steps = {(step.source, step.seq): step for block in (*self.blocks, self.tail) for step in block}
        return list(steps.values())

    @functools.cached_property
    def ends(self) -> list[Transition]:
        return [step for step in self.sample if step.last]


@dataclass(frozen=True)
class DemoFile:
    """One file of demonstrations that the run was given."""

    path: Path
    problem: str = ""
    """Why it cannot be read; empty if it can."""
    missing: bool = False
    spec: Spec | None = None
    steps: int = 0
    unusable: Sequence[str] = ()
    """Reasons, with their places."""
    report: Report | None = None
    rewarded: bool = False
    starts: Sequence[Transition] = ()
    """First steps of episodes."""
    foreign: str = ""
    """How it differs from the task, said by its import; for a file that has no spec of its own."""
    figures: Figures | None = None
    """Every step in numbers, where somebody looked at all of them (`tandem demos check`)."""


@dataclass(frozen=True)
class Records:
    """Everything the checks may look at."""

    now: float
    task: str
    spec: Spec
    config: Mapping[str, Any] = field(default_factory=dict)
    kind: Kind | None = None
    """Which program made the run; None where nobody says (an actor looks at itself)."""
    path: Path | None = None
    rows: Sequence[Mapping[str, Any]] = ()
    events: Sequence[Mapping[str, Any]] = ()
    summary: Mapping[str, Any] | None = None
    written_at: float | None = None
    """When a file of the run last changed."""
    journal: JournalFigures | None = None
    journal_problem: str = ""
    demos: Sequence[DemoFile] | None = None
    encoder: str = ""
    """Name and hash of the encoder in the run folder; empty in a run without cameras."""
    classifier: Classifier | None = None
    """What gives the rewards of the run, where a classifier does."""
    reward_labels: Sequence[Label] = ()
    """What people said of its episodes."""
    critics_differ: float | None = None
    """Largest relative difference between the first critic and another, in the newest checkpoint."""
    values: Sequence[DemoValues] = ()
    """What the critics of the newest checkpoint say along demonstrations."""
    broken: Sequence[Path] = ()
    """What was left when it broke, newest last."""
    address: str | None = None
    """Where the hub listens, or listened."""
    live: LiveView | None = None
    probe: Probe | None = None
    machine: Machine | None = None
    own_actions: np.ndarray | None = None
    """Newest actions that were the policy's, `(n, action_dim)`."""
    success_reported: bool = True
    """False: an actor that looks at itself has never heard of success from its environment."""

    # ---- what it is

    def setting(self, name: str, default: Any = None) -> Any:
        """A setting of the run, or of its agent."""
        agent = self.config.get("agent") or {}
        return self.config.get(name, agent.get(name, default))

    @property
    def sparse(self) -> bool:
        return self.spec.return_range is not None

    @property
    def label(self) -> str:
        """How to name the run in a command."""
        return str(self.path) if self.path is not None else "RUN"

    # ---- when it is

    @property
    def hub_fresh(self) -> bool:
        return self.live is not None and not self.live.closed and self.now - self.live.time < limits.FRESH_S

    @functools.cached_property
    def state(self) -> State:
        if self.hub_fresh:
            return "running"
        recently = self.written_at is not None and self.now - self.written_at < limits.ASLEEP_S
        if self.summary is not None:
            return "finished"
        told = self.events_of("broken", "part_failed", "launched", "started", "resumed")
        if told and told[-1]["kind"] in ("broken", "part_failed"):
            return "dead"  # it has said so itself
        return "running" if recently or self.path is None else "dead"

    @property
    def running(self) -> bool:
        return self.state == "running"

    @functools.cached_property
    def clocks(self) -> Clocks:
        """The newest word on each of the three."""
        live = self.live.clocks.to_json() if self.live is not None else None
        known: list[Mapping[str, Any]] = [row for row in (*self.rows[-1:], self.summary, live) if row]
        newest = {
            name: max((int(row.get(name, 0)) for row in known), default=0) for name in ("learner_step", "actor_step", "policy_version")
        }
        if self.journal is not None:
            newest["actor_step"] = max(newest["actor_step"], self.journal.accepted)
        for event in self.published[-1:]:
            newest["policy_version"] = max(newest["policy_version"], event["version"])
        return Clocks(**newest)

    @functools.cached_property
    def samples(self) -> list[ClockSample]:
        return [
            ClockSample(Clocks(row["learner_step"], row["actor_step"], row["policy_version"]), row["wall_s"])
            for row in self.rows
            if "wall_s" in row
        ]

    @functools.cached_property
    def pace(self) -> Rates:
        """By the hub where there is one that sees something move, else over the newest rows."""
        if self.hub_fresh and self.live is not None:
            seen = self.live.clocks.rates
            if seen.learner or seen.actor:
                return seen
        return rates(self.samples[-max(20, len(self.samples) // 5) :])

    @property
    def started_at(self) -> float | None:
        """When the run was last started."""
        return next((event["time"] for event in reversed(self.events) if event.get("kind") in ("started", "resumed")), None)

    @functools.cached_property
    def host(self) -> str | None:
        return next((event["host"] for event in reversed(self.events) if "host" in event), None)

    @property
    def here(self) -> bool:
        """Was it started on this machine?"""
        return self.machine is not None and self.host == self.machine.host

    # ---- numbers over time

    def series(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Learner steps and values of one metric, finite or not."""
        found = [(row["learner_step"], row[name]) for row in self.rows if isinstance(row.get(name), (int, float))]
        steps, values = zip(*found, strict=True) if found else ((), ())
        return np.asarray(steps, float), np.asarray(values, float)

    def newest(self, name: str, count: int = 0) -> np.ndarray:
        """The last fifth of a metric, at least `count` values; empty where there are fewer."""
        _, values = self.series(name)
        wanted = max(count, len(values) // 5, 1)
        return values[-wanted:] if len(values) >= max(count, 1) else np.zeros(0)

    @functools.cached_property
    def success(self) -> float | None:
        """Success of the newest training episodes."""
        for name in _SUCCESS:
            values = self.newest(name)
            if len(values):
                return float(values[-1])
        return None

    @functools.cached_property
    def reports_success(self) -> bool:
        """False where episodes have ended and nothing was ever said of their success: the environment does not report it."""
        ended = any(len(self.series(name)[1]) for name in _RETURN)
        return self.success_reported and (not ended or any(len(self.series(name)[1]) for name in _SUCCESS))

    def success_at(self, learner_step: int) -> float | None:
        """Success of the training episodes, as last logged up to this learner step; None before that step or before the first end."""
        return self._at(learner_step, _SUCCESS)

    def return_at(self, learner_step: int) -> float | None:
        """The mean return in the same way."""
        return self._at(learner_step, _RETURN)

    def _at(self, learner_step: int, names: tuple[str, ...]) -> float | None:
        if self.clocks.learner_step < learner_step:
            return None
        found = [self.series(name) for name in names]
        return next((float(values[steps <= learner_step][-1]) for steps, values in found if (steps <= learner_step).any()), None)

    @functools.cached_property
    def episodes(self) -> int | None:
        """How many have ended, estimated from steps and their mean length where nobody counted."""
        lengths = [*self.series("environment/episode/l")[1], *self.series("Train/mean_episode_length")[1]]
        return int(self.clocks.actor_step / max(1.0, float(np.mean(lengths)))) if lengths else None

    @functools.cached_property
    def published(self) -> list[Mapping[str, Any]]:
        """The newest publications with `version` and `hash`; empty for runs from before they were events."""
        return self.events_of("published")

    @functools.cached_property
    def demo_transitions(self) -> int | None:
        """Transitions in the demonstration buffer at the newest start; None for runs from before it was part of that event."""
        counts = [event.get("demo_transitions") for event in self.events_of("started", "resumed")]
        return counts[-1] if counts else None

    def events_of(self, *kinds: str) -> list[Mapping[str, Any]]:
        return [event for event in self.events if event.get("kind") in kinds]


# ---- loading


def load_run(path: Path, live: LiveView | None = None, now: float | None = None) -> Records:
    """All that the folder of a run says; `live` from the hub itself, else as the hub last wrote it."""
    now = time.time() if now is None else now
    run = RunFolder.open(path)
    info, events = run.info, _events(run.events_file)
    config = next((event["config"] for event in reversed(events) if event.get("kind") == "resumed" and "config" in event), None)
    config = config or info.settings
    journal, journal_problem = _journal(run.journal)
    demos = [_demo_path(path, name) for name in config.get("demos") or ()]
    return Records(
        now=now,
        task=info.task,
        spec=info.spec,
        config=config,
        kind=info.kind,
        path=path,
        rows=_metrics(run.metrics_file),
        events=events,
        summary=_summary(run),
        written_at=run.written_at(),
        journal=journal,
        journal_problem=journal_problem,
        demos=[_demo_file(file) for file in demos],
        values=values_of_run(run, info.spec, config, demos),
        encoder=_encoder(run),
        classifier=_classifier(run),
        reward_labels=list(labels_of_run(run).values()),
        critics_differ=_critics_differ(run),
        broken=sorted(run.broken.glob("*.msgpack"), key=lambda file: file.stat().st_mtime),
        address=(run.hub() or {}).get("address"),
        live=live or read_live(run.live_file),
        machine=look_at_machine(path),
        own_actions=_own_actions(journal),
    )


def _events(path: Path) -> list[dict[str, Any]]:
    """All of them, but of the publications only the newest."""
    lines = whole_lines(path)
    publications = [number for number, line in enumerate(lines) if b'"kind": "published"' in line]
    older = set(publications[:-PUBLICATIONS])
    return list(parse_rows(line for number, line in enumerate(lines) if number not in older))


def _metrics(path: Path) -> list[dict[str, Any]]:
    lines = whole_lines(path)
    if len(lines) > MAX_ROWS:
        every = -(-len(lines) // (MAX_ROWS - NEWEST_ROWS))
        older, newest = lines[:-NEWEST_ROWS], lines[-NEWEST_ROWS:]
        lines = [line for number, line in enumerate(older) if number % every == 0 or b'"eval/' in line] + newest
    return [row for row in parse_rows(lines) if "learner_step" in row]


def _summary(run: RunFolder) -> dict[str, Any] | None:
    """The summary of the last end, unless the run has gone on since."""
    ended, logged = run.summary_file, run.metrics_file
    if ended.exists() and logged.exists() and logged.stat().st_mtime > ended.stat().st_mtime + 5:
        return None
    return run.summary()


def _journal(path: Path) -> tuple[JournalFigures | None, str]:
    if not path.exists():
        return None, ""
    try:
        with Journal.open(path) as journal:
            accepted, rejected = journal.counts()
            size = sum(file.stat().st_size for file in path.parent.glob(path.name + "*"))
            fits = max(1, int(SAMPLE_BYTES * max(1, accepted + rejected) / max(1, size)))
            tail = [step for _, step in journal.read(journal.start_of_last(min(TAIL, fits)))]
            starts = np.linspace(0, max(0, journal.last_ord() - BLOCK), min(BLOCKS, 1 + fits // BLOCK)).astype(int)
            blocks = [[step for _, step in journal.read(int(start), BLOCK)] for start in dict.fromkeys(starts)]
            reasons, senders = (journal.reasons(), journal.rejected_sources()) if rejected else ([], [])
            places = np.linspace(journal.start_of_last(TAIL), max(0, journal.last_ord() - 1), PICTURES).astype(int)
            pictures = journal.pictures(places.tolist())
            return JournalFigures(accepted, rejected, reasons, journal.sources(), size, tail, blocks, senders, pictures), ""
    except TandemError as problem:
        return None, str(problem)


def _own_actions(journal: JournalFigures | None) -> np.ndarray | None:
    own = [step.action.reshape(-1) for step in journal.tail if not step.intervened] if journal is not None else []
    return np.stack(own) if own else None


def _demo_path(run: Path, name: str) -> Path:
    """As it was given; a relative one may have been meant from where the run was started, so beside the run too."""
    path = Path(name)
    if path.exists() or path.is_absolute():
        return path
    beside = [parent / path for parent in run.absolute().parents]
    return next((found for found in beside if found.exists()), path)


def _demo_file(path: Path) -> DemoFile:
    try:
        recording, count = _recording(path)
    except FileMissing as problem:
        return DemoFile(path, str(problem), missing=True)
    except (TandemError, OSError) as problem:
        return DemoFile(path, str(problem))
    validator = Validator(recording.spec)
    reasons = [(step.episode, step.step, validator.reason(step)) for step in recording.transitions]
    bad = [f"episode {row.episode}, step {row.step}: {row.reason}" for row in recording.rejected]
    bad += [f"episode {episode}, step {step}: {reason}" for episode, step, reason in reasons if reason]
    steps = recording.transitions
    return DemoFile(
        path,
        spec=recording.spec,
        steps=count,
        unusable=bad,
        report=report_on(recording) if steps and not bad else None,
        rewarded=any(step.reward for step in steps),
        starts=[step for step in steps if step.step == 0],
    )


def _recording(path: Path) -> tuple[Recording, int]:
    """A file of demonstrations, of a large one the beginning, and how many steps it has."""
    if path.suffix in (".db", PARTIAL_SUFFIX) and path.is_file():
        with Journal.open(path) as journal:
            accepted, _ = journal.counts()
            if accepted > DEMO_ROWS:
                steps = [step for _, step in journal.read(0, DEMO_ROWS)]
                recording = Recording(path, "journal", journal.spec, steps, journal.rejected(), journal.created, journal.attributes)
                return recording, accepted
    recording = read_demos(path)
    return recording, len(recording.transitions)


def _encoder(run: RunFolder) -> str:
    if not run.encoder_file.exists():
        return ""
    from tandem.networks.encoders.encoder import Encoder  # only runs with cameras need it

    try:
        encoder = Encoder.read(run.encoder_file)
    except TandemError as problem:
        return f"none that can be read ({problem})"
    return f"{encoder.trunk}:{encoder.hash}"


def _classifier(run: RunFolder) -> Classifier | None:
    if not run.rule_file.exists() or not str(run.spec.reward).startswith("classifier:"):
        return None
    try:
        return parse_classifier(run.rule(), str(run.rule_file))
    except TandemError:
        return None  # the actors say it when they start


def _critics_differ(run: RunFolder) -> float | None:
    """Critics that share a start, or became one, say the same: an ensemble of one."""
    from safetensors import SafetensorError, safe_open  # late: a run that has no checkpoint yet does not need it

    found = list(run.checkpoint_folders())
    if not found:
        return None
    differences = []
    try:
        with safe_open(found[-1] / AGENT_FILE, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118  not a dict
                if name.startswith("critic/") and "members/" in name and name.endswith("weight"):
                    weights = np.asarray(file.get_tensor(name), np.float64)
                    if len(weights) < 2:
                        return None
                    norm = float(np.linalg.norm(weights[0])) or 1.0
                    differences.append(max(float(np.linalg.norm(other - weights[0])) for other in weights[1:]) / norm)
    except (OSError, SafetensorError, ValueError):
        return None  # being replaced just now
    return max(differences, default=None)

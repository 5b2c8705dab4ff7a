"""What every learner does around its own steps: report metrics, evaluate, keep the best policy, know when to stop, sum up.

    report      a row of metrics, and what the watch says about it
    evaluate    score a policy; the best one so far is kept in the run folder; `stop_success` may be reached
    check       the limits on steps and time
    finish      judge the best policy on seeds that nothing was chosen by, and write the summary

A learner holds one `Campaign` and gives it two functions that evaluate, so nothing here knows an environment or a network.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tandem.errors import EnvironmentFailed, EnvironmentTaken, SpecMismatch, StorageFull
from tandem.runs.checkpoint import Checkpoint, read_policy, resume_from, write_policy
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.runs.isolation import Apart
from tandem.runs.stopping import INTERRUPTED
from tandem.types import Metrics, PolicySnapshot, Spec

Watch = Callable[[dict[str, Any]], Iterable[str]]
"""Looks at every row of metrics and returns sentences about what is wrong, each once."""


@dataclass(frozen=True)
class Score:
    """How a policy did in an evaluation; means over its episodes."""

    success: float
    returns: float
    length: float
    value: float
    """What policies are compared by: success, or the return of a task that has no success."""
    outcome: str
    """The same for people: `success 92.0 % [85.0, 95.9]`, or `return 12.3`."""
    success_known: bool = True
    """Whether the environment reports success at all; otherwise policies are compared by their return."""


@dataclass(frozen=True)
class StopRules:
    """When a run ends by itself."""

    max_steps: int
    max_minutes: float | None = None
    stop_success: float | None = None
    stop_evaluations: int = 1
    """Scheduled evaluations in a row at or above `stop_success`. One that a person asked for neither counts nor breaks the row."""
    steps_setting: str = "max_steps"
    """The name of the setting behind `max_steps`, as it is given as the reason."""


@dataclass
class Progress:
    """What the choice of the best policy and the end of the run depend on; saved in every checkpoint."""

    credit: float = 0.0
    """Learner steps that the environments' steps allow and that were not made yet (RLPD)."""
    best: float = -math.inf
    best_step: int = -1
    reached: int = 0
    """Evaluations in a row at or above `stop_success`."""


class Examiner(Protocol):
    """Evaluates in a process of its own, one policy at a time."""

    @property
    def busy(self) -> bool: ...

    def begin(self, snapshot: PolicySnapshot) -> None: ...

    def take(self) -> Score | None:
        """None until it is there."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Asked:
    """An evaluation, and when the policy was what it is."""

    snapshot: PolicySnapshot
    clocks: Clocks
    at: str
    """The same for people."""
    wall_s: float
    scheduled: bool


class Campaign:
    """Evaluations, the best policy and the end of one run."""

    def __init__(
        self,
        run: RunFolder,
        spec: Spec,
        display: Display,
        rules: StopRules,
        *,
        evaluate: Callable[[PolicySnapshot], Score],
        judge: Callable[[PolicySnapshot], Mapping[str, Any]],
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.run, self.spec, self.display, self.rules = run, spec, display, rules
        self._evaluate, self._judge, self._say = evaluate, judge, say or display.say
        self.progress = Progress()
        self.best: PolicySnapshot | None = None
        self.stop_reason: str | None = None
        self.watch: Watch = lambda row: ()
        self.storing = Apart(self._say, only=StorageFull)
        """Around what is written while the run goes on: a full disk is said and does not end it. What was there before is intact."""
        self._apart = Apart(self._say)
        self._said_no_success = False
        self.examiner: Examiner | None = None
        """Evaluates in a process of its own; None: `evaluate` does it, and the learner waits."""
        self._examined: Asked | None = None
        self._said_busy = self._taken = False

    def report(self, clocks: Clocks, metrics: Metrics, wall_s: float | None = None) -> None:
        """A row of metrics, in the run folder and (`--json`) on the screen; `wall_s` is the present one unless given."""
        row = self.run.log_metrics(clocks, metrics, wall_s)
        self.display.metrics_row(clocks, metrics)
        with self._apart("the check of the metrics"):
            for warning in self.watch(row):
                self.run.event("warned", learner_step=clocks.learner_step, warning=warning)
                self._say(warning)

    # ---- evaluating

    def evaluate(self, snapshot: PolicySnapshot, clocks: Clocks, at: str, *, scheduled: bool = True) -> Score | None:
        """Score a policy and keep it if none was better. `scheduled=False`: a person asked for it, and it does not count for stopping.

        None where it cannot be evaluated while the run trains, which is said; and with an examiner, whose score `collect` takes later.
        """
        if self.examiner is not None:
            self._ask(self.examiner, Asked(snapshot, clocks, at, self.run.wall_s, scheduled))
            return None
        try:
            score = self._evaluate(snapshot)
        except EnvironmentTaken as taken:
            self._say(str(taken))
            return None
        self._scored(score, Asked(snapshot, clocks, at, self.run.wall_s, scheduled))
        return score

    def _ask(self, examiner: Examiner, asked: Asked) -> None:
        if self._taken:
            return
        if not examiner.busy:
            self._examined = asked
            examiner.begin(asked.snapshot)
        elif not asked.scheduled or not self._said_busy:
            self._said_busy |= asked.scheduled
            self._say(
                f"no evaluation at {asked.at}: the one before is not done yet"
                + (" (said once: evaluations take longer than eval_period)" if asked.scheduled else "; ask again when it is")
            )

    def collect(self) -> bool:
        """Take the score of the examiner, if it is there; returns whether one is still awaited."""
        if self.examiner is None or self._examined is None:
            return False
        asked = self._examined
        try:
            score = self.examiner.take()
        except EnvironmentTaken as taken:
            self._say(str(taken))
            self._taken, self._examined = True, None
            return False
        except EnvironmentFailed as failed:
            self._say(str(failed))
            self._examined = None
            return False
        if score is None:
            return True
        self._examined = None
        with self.storing("the evaluation"):
            self._scored(score, asked)
        return False

    def _scored(self, score: Score, asked: Asked) -> None:
        snapshot, clocks = asked.snapshot, asked.clocks
        success = {"eval/success": score.success} if score.success_known else {}
        self.report(clocks, {**success, "eval/return": score.returns, "eval/length": score.length}, asked.wall_s)
        self.display.say(f"evaluation at {asked.at}: {score.outcome}, {score.length:.1f} actions")
        progress = self.progress
        if score.value >= progress.best:
            progress.best, progress.best_step, self.best = score.value, clocks.learner_step, snapshot
            write_policy(self.run.best_policy, snapshot, self.spec, score=score.value, learned_by=self.run.kind)
        if not score.success_known:
            self._say_no_success()
        elif asked.scheduled and self.rules.stop_success is not None:
            progress.reached = progress.reached + 1 if score.success >= self.rules.stop_success else 0
            if progress.reached >= self.rules.stop_evaluations:
                self.stop(f"stop_success ({self.rules.stop_success:g}) reached in {progress.reached} evaluations in a row")

    def _say_no_success(self) -> None:
        """Once: a limit that can never be reached is worse than none."""
        if self.rules.stop_success is not None and not self._said_no_success:
            self._said_no_success = True
            self._say(
                f"stop_success ({self.rules.stop_success:g}) cannot be reached: environment '{self.spec.task}' never reported success. "
                f"Declare the key of its `info` that does (`success_key`; `tandem env describe {self.spec.task}` lists what it reports)."
            )

    def keep_latest(self, snapshot: PolicySnapshot) -> None:
        """The newest policy, good or not, beside the best one."""
        write_policy(self.run.latest_policy, snapshot, self.spec, learned_by=self.run.kind)

    # ---- stopping

    def stop(self, reason: str) -> None:
        self.stop_reason = reason

    def check_limits(self, steps: int) -> None:
        rules = self.rules
        if steps >= rules.max_steps:
            self.stop(f"{rules.steps_setting} ({rules.max_steps:,}) reached")
        if self.seconds_left is not None and self.seconds_left <= 0:
            self.stop(f"max_minutes ({rules.max_minutes:g}) reached")

    @property
    def seconds_left(self) -> float | None:
        """Until `max_minutes`; None without that limit."""
        return None if self.rules.max_minutes is None else self.rules.max_minutes * 60 - self.run.wall_s

    # ---- resuming

    def newest_checkpoint(self) -> Checkpoint:
        """To resume from: the newest that is whole. One of another spec is refused."""
        checkpoint = resume_from(self.run.checkpoints, self._warn)
        if checkpoint.meta["spec_hash"] != self.spec.hash:
            raise SpecMismatch(f"run {self.run.path} was trained on another spec: {'; '.join(self.spec.difference(self.run.spec))}")
        return checkpoint

    def _warn(self, problem: str) -> None:
        self._say(problem)
        self.run.event("checkpoint_damaged", problem=problem)

    def state(self) -> dict[str, Any]:
        return dataclasses.asdict(self.progress)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue where a checkpoint was: its clock, the next incarnation, the best policy so far."""
        self.run.wall_before = checkpoint.meta["wall_s"]
        self.run.next_incarnation()
        saved = checkpoint.loops["progress"]
        self.progress = Progress(**{field.name: saved[field.name] for field in dataclasses.fields(Progress) if field.name in saved})
        if self.progress.best_step >= 0 and self.run.best_policy.exists():
            self.best = read_policy(self.run.best_policy, self.spec)[0]

    # ---- the end

    def finish(self, reason: str, clocks: Clocks, latest: PolicySnapshot, **facts: Any) -> dict[str, Any]:
        """Judge the best policy (the latest where none was evaluated) unless the run was interrupted, and write the summary.

        `minutes` is the time until the end, with all evaluations.
        """
        chosen = self.best or latest
        summary: dict[str, Any] = {"task": self.spec.task, "stopped": reason, **dataclasses.asdict(clocks), **facts}
        summary["best_learner_step"] = chosen.learner_step
        if reason != INTERRUPTED:
            summary |= self._judge(chosen)
        summary["minutes"] = self.run.wall_s / 60
        self.run.summarise(summary)
        self.run.event("stopped", reason=reason, **dataclasses.asdict(clocks))
        return summary

"""The trainer: a learner with a run folder. It logs, evaluates, keeps the best policy, saves, restores and knows when to stop.

It is the same whether the actor lives in the same thread (`train.py`) or in other processes (`loop` below, on the folder's end of the
link). It never touches a socket.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tandem.acting.evaluate import FINAL_SEEDS, SELECTION_SEEDS, evaluate, has_success
from tandem.acting.policy import act_with, describe
from tandem.agents.sac import SAC
from tandem.data.journal import Journal
from tandem.errors import SpecMismatch
from tandem.observations import Layout
from tandem.off_policy.config import TrainConfig, require_learnable
from tandem.off_policy.learner import Learner, LearnerLink
from tandem.runs.checkpoint import Checkpoint, newest_checkpoint, read_checkpoint, read_policy, write_checkpoint, write_policy
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder, plain, this_machine
from tandem.runs.stopping import INTERRUPTED
from tandem.types import Metrics, PolicySnapshot, Spec, Transition

Watch = Callable[[dict[str, Any]], Iterable[str]]
"""Is shown every row of metrics; what it finds wrong it says once, in words."""


class TrainerLink(LearnerLink, Protocol):
    """A learner's end that knows how far it has read."""

    ord: int


@dataclass
class Progress:
    """What the choice of the best policy and the end of the run depend on."""

    credit: float = 0.0
    """Learner steps that the steps of the environments have earned and that were not made yet."""
    best: float = -math.inf
    best_step: int = -1
    reached: int = 0
    """Evaluations in a row at or above `stop_success`."""


class Trainer:
    """The learner and everything that is done around its steps."""

    def __init__(
        self, config: TrainConfig, run: RunFolder, spec: Spec, demos: Sequence[Transition], display: Display, link: TrainerLink
    ) -> None:
        require_learnable(spec)
        self.config, self.run, self.spec, self.display, self.link = config, run, spec, display, link
        agent = SAC(config.agent, Layout(spec).size, spec.action_dim, spec.return_range)
        self.learner = Learner(config, spec, agent, link, run, demos, self.log)
        ends = sum(step.last for step in demos)
        self._demo_seconds = len(demos) / ends / spec.control_hz if ends else None
        self.progress = Progress()
        self.best: PolicySnapshot | None = None
        self.stop_reason: str | None = None
        self.evaluating: Callable[[], None] = lambda: None
        """Called at every step of an evaluation, for whoever must know that learning pauses for it and that this is alive."""
        self.watch: Watch = lambda row: ()
        self._busy_s = 0.0
        self._said: set[str] = set()
        self.log(f"demo buffer size: {len(self.learner.demos)}")

    def log(self, line: str) -> None:
        """Every line goes to train.log; the first of its kind to the terminal too."""
        self.run.log_line(line)
        kind = line.split(" at step")[0].split(" (")[0]
        if self.display.verbose or kind not in self._said:
            self._said.add(kind)
            self.display.say(line)

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.learner.steps, self.learner.received, self.learner.version)

    def begin(self, start: PolicySnapshot | None) -> None:
        """A new run, from random parameters or from a policy that exists; the actors get it before they move."""
        self.run.event("started", seed=self.config.seed, init_from=None if start is None else start.hash, **this_machine())
        self.log(f"online buffer size: {len(self.learner.online)}")
        if start is not None:
            self.learner.start_from(start)
        while self.learner.steps < self.config.pretrain_steps:
            self.learner.step()
            self.display.waiting("training on demonstrations alone", self.learner.steps, self.config.pretrain_steps)
        self.learner.publish()
        self.log("sent initial network to actor")

    def take_in(self) -> int:
        """What the environments lived through; each step earns `updates_per_actor_step` learner steps once training may start."""
        new = self.learner.take_in()
        if self.learner.ready:
            self.progress.credit += self.config.updates_per_actor_step * new
        else:
            self.display.waiting("Filling up replay buffer", len(self.learner.online), self.config.training_starts)
            self.check_limits()
        return new

    def step(self) -> None:
        """One learner step, paid for, and what follows from it."""
        self.progress.credit -= 1
        began = time.perf_counter()
        self.learner.step()
        self._busy_s += time.perf_counter() - began
        config, step = self.config, self.learner.steps
        if step % config.log_period == 0:
            self.report(self.learner.latest | self.learner.policy_metrics | self.learner.episodes.metrics() | self._clock_metrics())
        self.display.training(self.clocks, config.max_steps, self.learner.episodes.in_words, self.learner.latest, self._seconds_left())
        if config.eval_period and step % config.eval_period == 0 and self._worth_evaluating():
            self.evaluate()
        self.check_limits()

    def stop(self, reason: str) -> None:
        self.stop_reason = reason

    @property
    def checkpoint_due(self) -> bool:
        return self.learner.steps % self.config.checkpoint_period == 0

    def report(self, metrics: Metrics) -> None:
        row = self.run.log_metrics(self.clocks, metrics)
        self.display.metrics_row(self.clocks, metrics)
        for warning in self.watch(row):
            self.run.event("warned", learner_step=self.learner.steps, warning=warning)
            self.log(warning)

    def _worth_evaluating(self) -> bool:
        """A policy that fails takes the longest to evaluate and is not the one to stop with: it waits until half of what is wanted.

        By what it does without a person, who is not there when it is evaluated.
        """
        if self.config.stop_success is None:
            return True
        return (self.learner.episodes.without_help or 0.0) >= self.config.stop_success / 2

    def check_limits(self) -> None:
        if self.learner.steps >= self.config.max_steps:
            self.stop(f"max_steps ({self.config.max_steps:,}) reached")
        left = self._seconds_left()
        if left is not None and left <= 0:
            self.stop(f"max_minutes ({self.config.max_minutes:g}) reached")

    def _seconds_left(self) -> float | None:
        return None if self.config.max_minutes is None else self.config.max_minutes * 60 - self.run.wall_s

    def _clock_metrics(self) -> Metrics:
        busy_s, self._busy_s = self._busy_s, 0.0
        return {
            # while the learner is what everyone waits for, this is what a step takes; otherwise less, because it ends in the background
            "clock/learner_step_ms": 1e3 * busy_s / self.config.log_period,
            "clock/policy_lag": float(self.learner.version - self.learner.acted_with),
            "clock/online_transitions": float(len(self.learner.online)),
        }

    def evaluate(self) -> None:
        """On seeds of its own; keeps the best policy, and stops when it is good enough often enough in a row."""
        snapshot = self.learner.current_policy()
        act = act_with(snapshot, self.spec, self.config.seed if self.config.eval_stochastic else None)
        result = evaluate(self.config.task, act, range(SELECTION_SEEDS, SELECTION_SEEDS + self.config.eval_episodes), self.evaluating)
        score = float(result.rate.value) if has_success(self.spec) else float(result.returns.mean())
        self.report(
            {
                "eval/success": float(result.rate.value),
                "eval/return": float(result.returns.mean()),
                "eval/length": float(result.length.mean()),
            }
        )
        clock = f"{self.run.wall_s / 60:.1f} min, learner step {self.learner.steps:,}, actor step {self.learner.received:,}"
        outcome = f"success {result.rate}" if has_success(self.spec) else f"return {result.returns.mean():.1f}"
        self.display.say(f"evaluation at {clock}: {outcome}, {result.length.mean():.1f} actions")
        if score >= self.progress.best:
            self.progress.best, self.progress.best_step, self.best = score, self.learner.steps, snapshot
            write_policy(self.run.checkpoints / "best.safetensors", snapshot, self.spec, score=score)
        if self.config.stop_success is not None:
            self.progress.reached = self.progress.reached + 1 if result.rate.value >= self.config.stop_success else 0
            if self.progress.reached >= self.config.stop_evaluations:
                self.stop(f"stop_success ({self.config.stop_success:g}) reached in {self.progress.reached} evaluations in a row")

    def save(self, actor: dict[str, Any] | None = None) -> Path:
        """A checkpoint; `actor` is what an actor in the same thread needs to go on as if nothing had happened."""
        arrays, learner = self.learner.checkpoint()
        meta = {
            "actor_step": self.learner.received,
            "ord": self.link.ord,
            "policy_version": self.learner.version,
            "wall_s": self.run.wall_s,
            "spec_hash": self.spec.hash,
        }
        loops = {"learner": learner, "actor": actor, "progress": dataclasses.asdict(self.progress)}
        return write_checkpoint(self.run.checkpoints, self.learner.steps, arrays, loops, meta)

    def newest_checkpoint(self) -> Checkpoint:
        """To be restored from; one of another spec is refused."""
        checkpoint = read_checkpoint(newest_checkpoint(self.run.checkpoints))
        if checkpoint.meta["spec_hash"] != self.spec.hash:
            raise SpecMismatch(f"run {self.run.path} was trained on another spec: {'; '.join(self.spec.difference(self.run.spec))}")
        return checkpoint

    def restore(self, checkpoint: Checkpoint, journal: Journal) -> None:
        """The state at the checkpoint, with the data that it had then; what came later is read again, in the same order."""
        meta = checkpoint.meta
        self.run.wall_before = meta["wall_s"]
        self.run.next_incarnation()
        start = journal.start_of_last(self.config.replay_buffer_capacity, up_to_ord=meta["ord"])
        # corrections stay among the demonstrations however long ago they were, so they are looked for before that too
        self.learner.demos.extend(step for _, step in journal.read(up_to_ord=start) if step.intervened)
        self.learner.remember([step for _, step in journal.read(start, up_to_ord=meta["ord"])])
        self.link.ord = meta["ord"]
        self.learner.restore(dict(checkpoint.agent), checkpoint.loops["learner"])
        self.progress = Progress(**checkpoint.loops["progress"])
        best = self.run.checkpoints / "best.safetensors"
        if self.progress.best_step >= 0 and best.exists():
            self.best = read_policy(best, self.spec)[0]
        actor = checkpoint.loops["actor"]
        exact = actor is not None and actor["env"] is not None
        self.run.event("resumed", learner_step=self.learner.steps, exact=exact, config=plain(self.config), **this_machine())
        self.display.say(f"resumed {self.run.path} at learner step {self.learner.steps:,}, actor step {self.learner.received:,}")

    def finish(self, reason: str) -> dict[str, Any]:
        """Judge the best policy on seeds that nothing was chosen by, and sum up."""
        snapshot = self.learner.current_policy()
        write_policy(self.run.checkpoints / "latest.safetensors", snapshot, self.spec)
        summary: dict[str, Any] = {
            "task": self.config.task,
            "stopped": reason,
            **dataclasses.asdict(self.clocks),
            "minutes": self.run.wall_s / 60,
            "trail": self.learner.trail,
            "demo_transitions": len(self.learner.demos),
            "demo_seconds": self._demo_seconds,
            "rolled_back": self.learner.rolled_back,
            "best_learner_step": self.best.learner_step if self.best else self.learner.steps,
        }
        if reason != INTERRUPTED and self.config.final_episodes:
            chosen = self.best or snapshot
            seeds = range(FINAL_SEEDS, FINAL_SEEDS + self.config.final_episodes)
            for name, stochastic_seed in (("deterministic", None), ("stochastic", self.config.seed)):
                summary[name] = describe(evaluate(self.config.task, act_with(chosen, self.spec, stochastic_seed), seeds), self.spec)
            summary["minutes"] = self.run.wall_s / 60
        self.run.summarise(summary)
        self.run.event("stopped", reason=reason, **dataclasses.asdict(self.clocks))
        return summary

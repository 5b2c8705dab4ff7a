"""The trainer: a learner with a run folder. It logs, evaluates, keeps the best policy, saves, restores and knows when to stop.

Two loops drive it: `sync.py`, with the actor in the same thread, and `trainer_process.py`, with actors in other processes that meet
it in the run folder. It never touches a socket.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tandem.agents.devices import learning_agent, memory_in_words
from tandem.data.journal import Journal
from tandem.off_policy.campaigns import campaign_for
from tandem.off_policy.cloning import clone_to_start_from
from tandem.off_policy.config import TrainConfig, require_learnable
from tandem.off_policy.learner import Learner, LearnerLink
from tandem.runs.campaign import Progress
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder, this_machine
from tandem.types import Metrics, PolicySnapshot, Spec, Transition

PICTURES_PERIOD = 500
"""Learner steps between two pictures of each camera beside the metrics."""


class TrainerLink(LearnerLink, Protocol):
    """A learner's end of a link over a journal."""

    ord: int
    """The last row of the journal that was received."""


@dataclass(frozen=True)
class Row:
    """A row of metrics whose numbers are still being computed."""

    clocks: Clocks
    wall_s: float
    update: Mapping[str, Any]
    """Metrics of the learner step in `clocks`, on the device."""
    known: Metrics
    """The other metrics, as they were at that step."""


class Trainer:
    """A learner, and everything that is done around its steps."""

    def __init__(
        self, config: TrainConfig, run: RunFolder, spec: Spec, demos: Sequence[Transition], display: Display, link: TrainerLink
    ) -> None:
        require_learnable(spec, config.agent.critics_know_more)
        self.config, self.run, self.spec, self.display, self.link = config, run, spec, display, link
        agent = learning_agent(config.agent, spec, config.batch_size)
        memory = memory_in_words(agent, spec, config.batch_size)  # before anything is put there
        self.learner = Learner(config, spec, agent, link, run, demos, self.log)
        if agent.cameras:
            from tandem.networks.encoders.encoder import Encoder  # only runs with cameras need it

            self.learner.carried = {**self.learner.carried, **Encoder.read(run.encoder_file).arrays()}
        ends = sum(step.last for step in demos)
        self._demo_seconds = len(demos) / ends / spec.control_hz if ends else None
        self.judge, self.campaign = campaign_for(config, run, spec, display, self.log)
        self._busy_s = 0.0
        self._row: Row | None = None
        self._logged: Metrics = {}
        """Metrics of the update in the row that was written last."""
        self._said: set[str] = set()
        self.log(memory)
        self.log(f"demo buffer size: {len(self.learner.demos)}")

    def log(self, line: str) -> None:
        """Write a line to train.log; the first of its kind also goes to the terminal."""
        self.run.log_line(line)
        kind = line.split(" at step")[0].split(" (")[0]
        if self.display.verbose or kind not in self._said:
            self._said.add(kind)
            self.display.say(line)

    @property
    def progress(self) -> Progress:
        return self.campaign.progress

    @property
    def stop_reason(self) -> str | None:
        return self.campaign.stop_reason

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.learner.steps, self.learner.received, self.learner.version)

    def begin(self, start: PolicySnapshot | None) -> None:
        """Start a new run from random parameters or from an existing policy. The actors get the first policy after pretraining."""
        if start is None and self.config.clone_steps:
            self.display.waiting("cloning the demonstrations", 0, self.config.clone_steps)
            start = clone_to_start_from(self.config, self.learner.agent, self.learner.demos)
        init_from, demos = None if start is None else start.hash, len(self.learner.demos)
        self.run.event("started", seed=self.config.seed, init_from=init_from, demo_transitions=demos, **this_machine())
        self.log(f"online buffer size: {len(self.learner.online)}")
        if start is not None:
            self.learner.start_from(start)
        while self.learner.pretraining:
            self._update()
            self.display.waiting("training on demonstrations alone", self.learner.steps, self.config.pretrain_steps)
        self.learner.publish()
        self.log("sent initial network to actor")

    def receive(self) -> int:
        """Store what arrived from the actors; each step earns `updates_per_actor_step` learner steps once training may start."""
        new = self.learner.receive()
        if self.learner.ready:
            self.progress.credit += self.config.updates_per_actor_step * new
        else:
            self.display.waiting("Filling up replay buffer", len(self.learner.online), self.config.training_starts)
            self.check_limits()
        return new

    def step(self) -> None:
        """One learner step that actor steps have earned; then log, evaluate and look at the limits."""
        self.progress.credit -= 1
        self._update()
        config, step = self.config, self.learner.steps
        self.display.training(self.clocks, config.max_steps, self.learner.episodes.in_words, self._logged, self.campaign.seconds_left)
        if step % PICTURES_PERIOD == 0 and self.learner.agent.cameras:
            self._show_pictures()
        if config.eval_period and step % config.eval_period == 0 and self._worth_evaluating() and self.judge.affordable():
            self.evaluate()
        self.check_limits()

    def _update(self) -> None:
        """One learner step. Every `log_period` steps it makes a row of metrics, and writes the row before.

        The update is still being computed on the device when this returns; a row is written one period later, when its numbers are
        there, so that reading them delays nothing.
        """
        began = time.perf_counter()
        self.learner.update()
        self._busy_s += time.perf_counter() - began
        if self.learner.steps % self.config.log_period == 0:
            self.write_row()
            known = self.learner.policy_metrics | self.learner.episodes.metrics() | self._clock_metrics()
            self._row = Row(self.clocks, self.run.wall_s, self.learner.metrics, known)

    def write_row(self) -> None:
        """Write the row that waits for its numbers, if there is one: before anything later is written, and before a checkpoint."""
        if self._row is None:
            return
        row, self._row = self._row, None
        self._logged = {name: float(value) for name, value in row.update.items()}
        self.report(self._logged | row.known, row.clocks, row.wall_s)

    def _show_pictures(self) -> None:
        """What the cameras saw in the newest step; nothing where a run keeps no pictures."""
        with Journal.open(self.run.journal, self.spec) as journal:
            seen = journal.pictures([journal.last_ord() - 1])
        if seen:
            self.run.loggers.show(self.learner.steps, {name: pictures[-1] for name, pictures in seen.items()})

    def stop(self, reason: str) -> None:
        self.campaign.stop(reason)

    @property
    def checkpoint_due(self) -> bool:
        return self.learner.steps % self.config.checkpoint_period == 0

    def report(self, metrics: Metrics, clocks: Clocks, wall_s: float) -> None:
        """Log a row of metrics under its own clocks, and show it to the doctor."""
        self.campaign.report(clocks, metrics, wall_s)

    def _worth_evaluating(self) -> bool:
        """With `stop_success`, whether training episodes without help succeed at least half as often, where that is known.

        A policy that fails takes the longest to evaluate, and the run would not stop with it.
        """
        if self.config.stop_success is None or not self.learner.episodes.success_known:
            return True
        return (self.learner.episodes.without_help or 0.0) >= self.config.stop_success / 2

    def check_limits(self) -> None:
        self.campaign.check_limits(self.learner.steps)

    def _clock_metrics(self) -> Metrics:
        busy_s, self._busy_s = self._busy_s, 0.0
        return {
            # the time of a step while the learner is the bottleneck; less otherwise, because an update ends in the background
            "clock/learner_step_ms": 1e3 * busy_s / self.config.log_period,
            "clock/policy_lag": float(self.learner.version - self.learner.acted_with),
            "clock/online_transitions": float(len(self.learner.online)),
            "clock/demo_transitions": float(len(self.learner.demos)),
            "clock/demo_ratio": self.learner.demo_share,
        }

    def evaluate(self, *, scheduled: bool = True) -> None:
        """On the selection seeds; `scheduled=False` where a person asked for it."""
        self.write_row()
        at = f"{self.run.wall_s / 60:.1f} min, learner step {self.learner.steps:,}, actor step {self.learner.received:,}"
        with self.campaign.storing("the evaluation"):
            self.campaign.evaluate(self.learner.current_policy(), self.clocks, at, scheduled=scheduled)

    def finish(self, reason: str) -> dict[str, Any]:
        """Keep the latest policy, judge the best one, and sum up."""
        latest = self.learner.current_policy()
        self.campaign.keep_latest(latest)
        return self.campaign.finish(
            reason,
            self.clocks,
            latest,
            received_digest=self.learner.received_digest,
            demo_transitions=len(self.learner.demos),
            demo_seconds=self._demo_seconds,
            rolled_back=self.learner.rolled_back,
        )

"""The trainer as a process of its own: it reads the journal, learns, and leaves policies in the run folder.

Hub and actors are other processes. The trainer opens no socket and blocks nobody: the hub keeps running when the trainer stops, and
the trainer keeps running when the hub stops. What it learns is in the `Training` that the loop holds: RLPD's here, HG-DAgger's in
`dagger.py`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from tandem.acting.judge import Judge
from tandem.data.demos import load_demos
from tandem.link.messages import Command
from tandem.link.trainer_end import TrainerEnd, open_journal
from tandem.off_policy.campaigns import examiner_for
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.saving import restore, save
from tandem.off_policy.trainer import Trainer
from tandem.off_policy.transfer import starting_policy
from tandem.runs.campaign import Campaign, Watch
from tandem.runs.checkpoint import restoring
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.runs.stopping import INTERRUPTED, interruptible
from tandem.types import Transition

_IDLE_S = 0.002
"""Pause of the loop while there is nothing to learn from."""


class Training(Protocol):
    """What the loop drives: data in, steps of learning, checkpoints."""

    @property
    def run(self) -> RunFolder: ...

    @property
    def judge(self) -> Judge: ...

    @property
    def campaign(self) -> Campaign: ...

    @property
    def clocks(self) -> Clocks: ...

    @property
    def phase(self) -> str:
        """`filling` while there is too little data, else `training`: what the board shows."""
        ...

    @property
    def pace(self) -> tuple[int, float]:
        """Steps that the actors may make before any learner step, and learner steps per step from there on."""
        ...

    def begin(self) -> None:
        """Start from the beginning, and publish the first policy."""
        ...

    def restore(self) -> None:
        """Continue from the newest checkpoint. Its policy is published under a new version, above all that were published before."""
        ...

    def receive(self) -> int:
        """Take in what the actors did; returns how many steps."""
        ...

    @property
    def may_step(self) -> bool: ...

    def step(self) -> None:
        """Learn, evaluate where that is due, and look at the limits."""
        ...

    @property
    def checkpoint_due(self) -> bool: ...

    def save(self) -> Path: ...

    def evaluate(self, *, scheduled: bool = True) -> None: ...

    def flush(self) -> None:
        """Write what waits to be written."""
        ...

    def finish(self, reason: str) -> dict[str, Any]: ...


def run_training(
    config: TrainConfig,
    path: Path,
    display: Display,
    make: Callable[[RunFolder, Sequence[Transition], TrainerEnd], Training],
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Start a run whose folder exists, or continue it from its newest checkpoint; returns the summary."""
    run = RunFolder.open(path)
    demos = [step for file in config.demos for step in load_demos(file, run.spec)]
    run.add_loggers(config.wandb)
    link = TrainerEnd(path, run.spec)
    with display:
        training = make(run, demos, link)
        training.campaign.watch = watch or training.campaign.watch
        training.campaign.examiner = examiner_for(config, run)
        loop = TrainerLoop(training, link, display.say)
        if run.has_checkpoint():
            with restoring(run.checkpoints):
                training.restore()
        else:
            if run.version_file.exists():  # it died before its first checkpoint: what is in the journal is read again
                run.next_incarnation()
            training.begin()
        with interruptible(training.campaign):
            try:
                reason = loop.run()
            finally:
                training.flush()
        loop.beat("stopped")
        training.save()
        loop.await_evaluation(reason)
        summary = training.finish(reason)
    link.close()
    run.close()
    return summary


def run_trainer(
    config: TrainConfig, path: Path, display: Display, init_from: Path | None = None, watch: Watch | None = None
) -> dict[str, Any]:
    """RLPD."""

    def make(run: RunFolder, demos: Sequence[Transition], link: TrainerEnd) -> Training:
        return RlpdTraining(Trainer(config, run, run.spec, demos, display, link), init_from)

    return run_training(config, path, display, make, watch)


class RlpdTraining:
    """RLPD's trainer, whose actors are other processes."""

    def __init__(self, trainer: Trainer, init_from: Path | None = None) -> None:
        self.trainer, self._init_from = trainer, init_from
        self.run, self.judge, self.campaign = trainer.run, trainer.judge, trainer.campaign
        self.receive, self.step, self.evaluate = trainer.receive, trainer.step, trainer.evaluate
        self.flush = trainer.write_row

    def begin(self) -> None:
        trainer, start = self.trainer, None
        if self._init_from is not None:
            start = starting_policy(self._init_from, trainer.spec, trainer.config.agent, trainer.config.seed, trainer.display.say)
        trainer.begin(start)

    def restore(self) -> None:
        trainer = self.trainer
        checkpoint = trainer.campaign.newest_checkpoint()
        with open_journal(trainer.run.path, trainer.spec, read_only=True) as journal:
            restore(trainer, checkpoint, journal)
        trainer.learner.publish()

    def save(self) -> Path:
        return save(self.trainer)

    def finish(self, reason: str) -> dict[str, Any]:
        self.trainer.learner.agent.end()
        return self.trainer.finish(reason)

    @property
    def clocks(self) -> Clocks:
        return self.trainer.clocks

    @property
    def phase(self) -> str:
        return "training" if self.trainer.learner.ready else "filling"

    @property
    def may_step(self) -> bool:
        return self.trainer.learner.ready and self.trainer.progress.credit >= 1

    @property
    def checkpoint_due(self) -> bool:
        return self.trainer.checkpoint_due

    @property
    def pace(self) -> tuple[int, float]:
        """Not simply `training_starts`: a run may have been resumed with another ratio, or have trained on demonstrations alone first."""
        learner, ratio = self.trainer.learner, self.trainer.config.updates_per_actor_step
        return math.ceil(learner.received - (learner.steps + self.trainer.progress.credit) / ratio), ratio


class TrainerLoop:
    """The loop of a trainer whose actors are other processes."""

    def __init__(self, training: Training, link: TrainerEnd, say: Callable[[str], None] = lambda line: None) -> None:
        self.training, self._link, self._say = training, link, say
        self.paused = False
        training.judge.each_step = lambda: self.beat("evaluating")

    def run(self) -> str:
        """Train until a limit, a command or a signal stops it; returns the reason."""
        training, campaign = self.training, self.training.campaign
        campaign.check_limits(training.clocks.learner_step)
        while campaign.stop_reason is None:
            for command in self._link.commands():
                self.handle_command(command)
            new = training.receive()
            campaign.collect()
            self.beat("paused" if self.paused else training.phase)
            if self.paused:
                time.sleep(_IDLE_S)
            elif training.may_step:
                training.step()
                if training.checkpoint_due:
                    self._save()
            else:
                campaign.check_limits(training.clocks.learner_step)
                if not new:
                    time.sleep(_IDLE_S)
        return campaign.stop_reason

    def await_evaluation(self, reason: str) -> None:
        """What is being evaluated may be the best policy of the run. A person who interrupts it does not wait."""
        campaign = self.training.campaign
        while reason != INTERRUPTED and campaign.collect():
            self.beat("evaluating")
            time.sleep(10 * _IDLE_S)
        if campaign.examiner is not None:
            campaign.examiner.close()

    def _save(self) -> None:
        with self.training.campaign.storing("the checkpoint"):
            self.training.save()

    def beat(self, phase: str) -> None:
        """Tell the hub how far training is, and that the trainer is alive."""
        before, ratio = self.training.pace
        step = self.training.clocks.learner_step
        self._link.beat(learner_step=step, phase=phase, steps_before=before, updates_per_actor_step=ratio)

    def handle_command(self, command: Command) -> None:
        """Do what a person asked the trainer to do."""
        training, what, step = self.training, command.command, self.training.clocks.learner_step
        training.run.event("command", command=what, learner_step=step)
        self._say(f"asked to {what} at learner step {step:,}")
        if what in ("pause", "resume"):
            self.paused = what == "pause"
        elif what == "checkpoint":
            self._save()
        elif what == "evaluate":
            training.evaluate(scheduled=False)
        elif what == "stop":
            training.campaign.stop("stopped by a command")

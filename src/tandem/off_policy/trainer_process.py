"""The trainer as a process of its own: it reads the journal, learns, and leaves policies in the run folder.

Hub and actors are other processes. The trainer opens no socket and blocks nobody: the hub keeps running when the trainer stops, and
the trainer keeps running when the hub stops.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from tandem.data.demos import load_demos
from tandem.link.messages import Command
from tandem.link.trainer_end import TrainerEnd, open_journal
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.saving import restore, save
from tandem.off_policy.trainer import Trainer
from tandem.off_policy.transfer import starting_policy
from tandem.runs.campaign import Watch
from tandem.runs.checkpoint import restoring
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.runs.stopping import interruptible

_IDLE_S = 0.002
"""Pause of the loop while there is nothing to learn from."""


def run_trainer(
    config: TrainConfig, path: Path, display: Display, init_from: Path | None = None, watch: Watch | None = None
) -> dict[str, Any]:
    """Start a run whose folder exists, or continue it from its newest checkpoint; returns the summary."""
    run = RunFolder.open(path)
    spec = run.spec
    demos = [step for file in config.demos for step in load_demos(file, spec)]
    run.add_loggers(config.wandb)
    link = TrainerEnd(path, spec)
    with display:
        trainer = Trainer(config, run, spec, demos, display, link)
        trainer.campaign.watch = watch or trainer.campaign.watch
        loop = TrainerLoop(trainer, link)
        if run.has_checkpoint():
            with restoring(run.checkpoints):
                loop.restore()
        else:
            loop.begin(init_from)
        with interruptible(trainer):
            try:
                reason = loop.run()
            finally:
                trainer.write_row()
        loop.beat("stopped")
        save(trainer)
        summary = trainer.finish(reason)
    link.close()
    run.close()
    return summary


class TrainerLoop:
    """The loop of a trainer whose actors are other processes."""

    def __init__(self, trainer: Trainer, link: TrainerEnd) -> None:
        self.trainer, self._link = trainer, link
        self.paused = False
        trainer.judge.each_step = lambda: self.beat("evaluating")

    def begin(self, init_from: Path | None) -> None:
        """Start from the beginning. A trainer that died before its first checkpoint finds steps in the journal and uses them."""
        trainer = self.trainer
        if trainer.run.version_file.exists():
            trainer.run.next_incarnation()
        config, spec = trainer.config, trainer.spec
        trainer.begin(None if init_from is None else starting_policy(init_from, spec, config.agent, config.seed, trainer.display.say))

    def restore(self) -> None:
        """Continue from the newest checkpoint. Its policy is published under a new version, above all that were published before."""
        trainer = self.trainer
        checkpoint = trainer.campaign.newest_checkpoint()
        with open_journal(trainer.run.path, trainer.spec, read_only=True) as journal:
            restore(trainer, checkpoint, journal)
        trainer.learner.publish()

    def run(self) -> str:
        """Train until a limit, a command or a signal stops it; returns the reason."""
        trainer = self.trainer
        trainer.check_limits()
        while trainer.stop_reason is None:
            for command in self._link.commands():
                self.handle_command(command)
            new = trainer.receive()
            if self.paused:
                self.beat("paused")
                time.sleep(_IDLE_S)
            elif trainer.learner.ready and trainer.progress.credit >= 1:
                self.beat("training")
                trainer.step()
                if trainer.checkpoint_due:
                    self._save()
            else:
                self.beat("training" if trainer.learner.ready else "filling")
                trainer.check_limits()
                if not new:
                    time.sleep(_IDLE_S)
        return trainer.stop_reason

    def _save(self) -> None:
        with self.trainer.campaign.storing("the checkpoint"):
            save(self.trainer)

    def beat(self, phase: str) -> None:
        """Tell the hub how far training is, and that the trainer is alive."""
        learner, ratio = self.trainer.learner, self.trainer.config.updates_per_actor_step
        # Not simply `training_starts`: a run may have been resumed with another ratio, or have trained on demonstrations alone first.
        before = math.ceil(learner.received - (learner.steps + self.trainer.progress.credit) / ratio)
        self._link.beat(learner_step=learner.steps, phase=phase, steps_before=before, updates_per_actor_step=ratio)

    def handle_command(self, command: Command) -> None:
        """Do what a person asked the trainer to do."""
        trainer, what = self.trainer, command.command
        trainer.run.event("command", command=what, learner_step=trainer.learner.steps)
        trainer.display.say(f"asked to {what} at learner step {trainer.learner.steps:,}")
        if what in ("pause", "resume"):
            self.paused = what == "pause"
        elif what == "checkpoint":
            self._save()
        elif what == "evaluate":
            trainer.evaluate(scheduled=False)
        elif what == "stop":
            trainer.stop("stopped by a command")

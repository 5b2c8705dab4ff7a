"""The trainer as a process of its own, beside a hub and actors: it reads the journal, learns, and leaves policies in the run folder.

Nothing here touches a socket, and nobody waits for it: the hub goes on when it stops, and it goes on when the hub does.
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
from tandem.off_policy.sync import add_loggers
from tandem.off_policy.trainer import Trainer
from tandem.off_policy.transfer import starting_policy
from tandem.runs.campaign import Watch
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.runs.stopping import interruptible

_IDLE_S = 0.002
"""How long it waits when there is nothing to learn from yet."""


def train_beside(
    config: TrainConfig, path: Path, display: Display, init_from: Path | None = None, watch: Watch | None = None
) -> dict[str, Any]:
    """Begin a run whose folder exists, or go on with it where its newest checkpoint is; returns the summary."""
    run = RunFolder.open(path)
    spec = run.spec
    demos = [step for file in config.demos for step in load_demos(file, spec)]
    add_loggers(run, config)
    link = TrainerEnd(path, spec)
    with display:
        trainer = Trainer(config, run, spec, demos, display, link)
        trainer.campaign.watch = watch or trainer.campaign.watch
        beside = Beside(trainer, link)
        if run.has_checkpoint():
            beside.restore()
        else:
            beside.begin(init_from)
        with interruptible(trainer):
            reason = beside.loop()
        beside.say_where("stopped")
        trainer.save()
        summary = trainer.finish(reason)
    link.close()
    run.close()
    return summary


class Beside:
    """The loop of a trainer whose actors are elsewhere."""

    def __init__(self, trainer: Trainer, link: TrainerEnd) -> None:
        self.trainer, self._link = trainer, link
        self.paused = False
        trainer.judge.each_step = lambda: self.say_where("evaluating")

    def begin(self, init_from: Path | None) -> None:
        """From the start. Steps may be there already: a trainer that died before its first checkpoint begins again with them."""
        trainer = self.trainer
        if trainer.run.version_file.exists():
            trainer.run.next_incarnation()
        config, spec = trainer.config, trainer.spec
        trainer.begin(None if init_from is None else starting_policy(init_from, spec, config.agent, config.seed, trainer.display.say))

    def restore(self) -> None:
        """From the newest checkpoint, and under a version that nobody has seen: what was published after it is not unsaid, but followed."""
        trainer = self.trainer
        checkpoint = trainer.campaign.newest_checkpoint()
        with open_journal(trainer.run.path, trainer.spec, read_only=True) as journal:
            trainer.restore(checkpoint, journal)
        trainer.learner.publish()

    def loop(self) -> str:
        """Until something says stop; returns the reason."""
        trainer = self.trainer
        trainer.check_limits()
        while trainer.stop_reason is None:
            for order in self._link.commands():
                self._obey(order)
            new = trainer.take_in()
            if self.paused:
                self.say_where("paused")
                time.sleep(_IDLE_S)
            elif trainer.learner.ready and trainer.progress.credit >= 1:
                self.say_where("training")
                trainer.step()
                if trainer.checkpoint_due:
                    trainer.save()
            else:
                self.say_where("training" if trainer.learner.ready else "filling")
                trainer.check_limits()
                if not new:
                    time.sleep(_IDLE_S)
        return trainer.stop_reason

    def say_where(self, phase: str) -> None:
        learner, ratio = self.trainer.learner, self.trainer.config.updates_per_actor_step
        # Not simply `training_starts`: a run may have been resumed with another ratio, or have trained on demonstrations alone first.
        before = math.ceil(learner.received - (learner.steps + self.trainer.progress.credit) / ratio)
        self._link.beat(learner_step=learner.steps, phase=phase, steps_before=before, updates_per_actor_step=ratio)

    def _obey(self, order: Command) -> None:
        trainer = self.trainer
        trainer.run.event("command", command=order.command, learner_step=trainer.learner.steps)
        trainer.display.say(f"asked to {order.command} at learner step {trainer.learner.steps:,}")
        if order.command in ("pause", "resume"):
            self.paused = order.command == "pause"
        elif order.command == "checkpoint":
            trainer.save()
        elif order.command == "evaluate":
            trainer.evaluate(scheduled=False)
        elif order.command == "stop":
            trainer.stop("stopped by a command")

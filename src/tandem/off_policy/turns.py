"""The loop of synchronous training: actor and learner take turns in one thread.

Reproducible to the last bit on the same machine, and resumable the same way. An update is computed in the background while the
simulations make their next step.
"""

from __future__ import annotations

from tandem.acting.actor import Actor
from tandem.data.journal import Journal
from tandem.off_policy.saving import save_with_actor
from tandem.off_policy.trainer import Trainer


def take_turns(trainer: Trainer, actor: Actor, journal: Journal) -> str:
    """Train until a limit or a signal stops it; returns the reason."""
    trainer.check_limits()  # a finished run that is resumed is still finished
    while True:
        while trainer.progress.credit >= 1 and trainer.stop_reason is None:
            trainer.step()
            if trainer.checkpoint_due:
                with trainer.campaign.storing("the checkpoint"):
                    save_with_actor(trainer, actor, journal)
        if trainer.stop_reason is not None:
            return trainer.stop_reason  # without another actor step, from which nothing would be learned
        actor.step()
        actor.reset_ended()
        trainer.receive()

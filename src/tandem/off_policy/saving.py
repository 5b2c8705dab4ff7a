"""What a checkpoint of RLPD holds, and how a run goes on from it.

The data are not in it: they are in the journal, and a checkpoint knows how far into the journal it had read. After `restore` the
learner has the same networks, the same steps in the same rows and the same random numbers to come.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tandem.acting.actor import Actor
from tandem.acting.actor_state import actor_state, restore_actor
from tandem.data.journal import Journal
from tandem.off_policy.learner import Learner
from tandem.off_policy.trainer import Trainer
from tandem.runs.checkpoint import Checkpoint, write_checkpoint
from tandem.runs.folder import plain, this_machine
from tandem.types import PolicySnapshot, Transition

GOOD = "good/"
"""Before the name of an array: it is of the last good state."""


def save(trainer: Trainer, actor: dict[str, Any] | None = None) -> Path:
    """Write a checkpoint. `actor` is the state of an actor in the same thread, for an exact resume."""
    trainer.write_row()
    learner = trainer.learner
    meta = {
        "actor_step": learner.received,
        "ord": trainer.link.ord,
        "policy_version": learner.version,
        "wall_s": trainer.run.wall_s,
        "spec_hash": trainer.spec.hash,
    }
    loops = {"learner": _state_of(learner), "actor": actor, "progress": trainer.campaign.state()}
    return write_checkpoint(trainer.run.checkpoints, learner.steps, _arrays_of(learner), loops, meta)


def save_with_actor(trainer: Trainer, actor: Actor, journal: Journal) -> Path:
    """A checkpoint with the actor of this thread. It counts on the steps before it: they go to the disk first."""
    journal.flush()
    return save(trainer, actor_state(actor))


def restore(trainer: Trainer, checkpoint: Checkpoint, journal: Journal) -> None:
    """Continue from a checkpoint, with the data of that time. Later steps will be received again, in the same order."""
    meta, learner, saved = checkpoint.meta, trainer.learner, checkpoint.loops["learner"]
    received = (step for _, step in journal.read(up_to_ord=meta["ord"], with_discarded=True))
    refill(learner, received, journal.discarded(), saved.get("oldest", {}).get("online") or 0)
    trainer.link.ord = bookmark(meta["ord"], journal.last_ord(), trainer.display.say)
    _restore_learner(learner, dict(checkpoint.agent), saved)
    trainer.campaign.restore(checkpoint)
    actor = checkpoint.loops["actor"]
    exact = actor is not None and actor["env"] is not None
    facts = {"learner_step": learner.steps, "exact": exact, "demo_transitions": len(learner.demos)}
    trainer.run.event("resumed", **facts, config=plain(trainer.config), **this_machine())
    trainer.display.say(f"resumed {trainer.run.path} at learner step {learner.steps:,}, actor step {learner.received:,}")


def restore_with_actor(trainer: Trainer, actor: Actor, journal: Journal) -> None:
    """Continue from the newest checkpoint, with an actor in this thread.

    In our simulations bit for bit, elsewhere with the same data and a new episode.
    """
    checkpoint = trainer.campaign.newest_checkpoint()
    saved = checkpoint.loops["actor"]
    if saved is not None and saved["env"] is not None:
        journal.forget_after(checkpoint.meta["ord"])  # the same steps will be made again
    restore(trainer, checkpoint, journal)
    if trainer.learner.snapshot is not None:
        trainer.link.publish(trainer.learner.snapshot)  # the actor may not have taken it yet
    if saved is None:  # the run had actors in other processes until now
        actor.steps = trainer.learner.received
        actor.begin()
    else:
        restore_actor(actor, saved)


def bookmark(saved: int, last: int, say: Callable[[str], None]) -> int:
    """Where to go on reading. A journal of durability `process` may have lost its newest rows in a power cut, and gives their numbers to
    the next steps: read on from its end, or those would be passed over."""
    if saved > last:
        say(
            f"the journal ends at row {last:,}, the checkpoint had read {saved:,}: {saved - last:,} steps are gone, probably lost in "
            "a power cut (--durability process). What was learned from them is kept; training goes on with the steps that follow."
        )
    return min(saved, last)


def refill(learner: Learner, steps: Iterable[Transition], discarded: set[tuple[str, int]], oldest: int) -> None:
    """Store again what a checkpoint had: `steps` are all steps received until then, one at a time in memory.

    Steps before number `oldest` had left the online replay. Their corrections are demonstrations all the same.
    """
    for number, step in enumerate(steps):
        if (step.source, step.episode) in discarded:
            continue
        if number >= oldest:
            learner.store(step, number)
        else:
            learner.store_correction(step, number)


def _arrays_of(learner: Learner) -> dict[str, np.ndarray]:
    agent = learner.agent
    return agent.arrays(learner.state) | {f"{GOOD}{name}": array for name, array in agent.arrays(learner.good_state).items()}


def _state_of(learner: Learner) -> dict[str, Any]:
    """All that decides what comes next, beside the arrays."""
    return {
        "steps": learner.steps,
        "received": learner.received,
        "received_digest": learner.received_digest,
        "acted_with": learner.acted_with,
        "version": learner.version,
        "rolled_back": learner.rolled_back,
        "good_temperature": learner.good_temperature,
        "random": json.dumps(learner.random.bit_generator.state),
        "policy_metrics": learner.policy_metrics,
        "published_at": learner.snapshot.learner_step if learner.snapshot else -1,
        "published": dict(learner.snapshot.parameters) if learner.snapshot else {},
        "oldest": {"online": learner.online.oldest, "demos": learner.demos.oldest},
    }


def _restore_learner(learner: Learner, arrays: dict[str, np.ndarray], saved: dict[str, Any]) -> None:
    """After `refill`."""
    good = {name.removeprefix(GOOD): array for name, array in arrays.items() if name.startswith(GOOD)}
    newest = {name: array for name, array in arrays.items() if not name.startswith(GOOD)}
    learner.state = learner.agent.from_arrays(learner.state, newest)
    learner.good_state = learner.agent.from_arrays(learner.good_state, good)
    learner.steps, learner.received = saved["steps"], saved["received"]
    # names and entries of earlier versions of Tandem
    learner.received_digest = saved["received_digest"] if "received_digest" in saved else saved["trail"]
    learner.acted_with = saved.get("acted_with", 0)
    learner.good_temperature = saved.get("good_temperature", learner.good_temperature)
    learner.version, learner.rolled_back = saved["version"], saved["rolled_back"]
    learner.random.bit_generator.state = json.loads(saved["random"])
    learner.policy_metrics = saved.get("policy_metrics", {})
    for name, oldest in saved.get("oldest", {}).items():
        replay = {"online": learner.online, "demos": learner.demos}[name]
        replay.drop_before(learner.received if oldest is None else oldest)
    if saved["published"]:
        learner.snapshot = PolicySnapshot(learner.version, saved["published_at"], saved["published"])

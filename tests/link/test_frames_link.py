"""Pictures over a real link: a hub that is killed and an actor that is killed cost none, and none comes twice."""

import sqlite3
from pathlib import Path

import numpy as np
from link_samples import HubProcess, assert_each_once_in_order, client, make_run

from tandem.data.journal import Journal
from tandem.data.seen import FrameSender
from tandem.link.client import ActorClient
from tandem.link.messages import EpisodeEnd
from tandem.link.trainer_end import TrainerEnd
from tests.data.test_seen import SPEC, episode, seen
from tests.waiting import wait_for


def seeing(hub: HubProcess, spool: Path) -> ActorClient:
    """It greets with the pictures of its environment, and sends features once it has the run's encoder."""
    actor = client(hub, spool, spec=SPEC.without_encoder())
    actor.connect()
    actor.pack = FrameSender(SPEC).pack
    return actor


def test_each_picture_is_stored_once_whatever_dies(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", SPEC)
    with HubProcess(run) as hub:
        actor = seeing(hub, tmp_path / "spool")
        for number, step in enumerate(episode(150)):
            actor.send([step])
            if number in (40, 90):
                hub.kill()
            if number in (60, 110):
                hub.start()
        assert actor.close(drain_s=20) == 0
        # the next one dies with its steps in the spool; the one after it sends them, and its own
        hub.kill()
        dead = seeing_without_hub(hub, tmp_path / "spool")
        hub.start()
        last = seeing(hub, tmp_path / "spool")
        last.send(episode(5, "c.0", start=300))
        last.episode_end(EpisodeEnd("c.0", 0, 5, kept=False, success=None))
        wait_for(lambda: last.status.left_behind == 0, what="the spool to be drained")
        assert dead == 20 and last.close() == 0
        trainer = TrainerEnd(run, SPEC)
        received = []
        wait_for(lambda: received.extend(trainer.receive()) or len(received) == 175, what="all steps")
        assert trainer.discarded() == {("c.0", 0)}
        trainer.close()
    assert_each_once_in_order(run, {"a.0": 150, "b.0": 20})  # without the discarded one
    assert np.array_equal(received[0].observation["left"], seen(0)["left"]) and received[0].observation.keys() == SPEC.observation.keys()
    with sqlite3.connect(run / "journal.db") as file:
        [(frames,)] = file.execute("SELECT count(*) FROM frames").fetchall()
    assert frames == 151 + 21 + 6
    with Journal.open(run / "journal.db") as journal:
        journal.pictured = True
        pictured = [step for _, step in journal.read(with_discarded=True) if step.source == "b.0"]
    assert np.array_equal(pictured[7].next_observation["right"], seen(208)["right:picture"])


def seeing_without_hub(hub: HubProcess, spool: Path) -> int:
    """An actor that joined, whose hub is gone: returns how many steps stay in its spool."""
    hub.start()
    actor = seeing(hub, spool)
    hub.kill()
    actor.send(episode(20, "b.0", start=200))
    return actor.close(drain_s=0)

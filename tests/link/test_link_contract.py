"""What every link must do, in one process or over the network: one set of tests, two links."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from link_samples import SPEC, HubProcess, client, make_run, observation, snapshot, step

from tandem.data.journal import Journal
from tandem.link.client import ActorClient
from tandem.link.inproc import InprocLink
from tandem.link.trainer_end import TrainerEnd
from tandem.types import Transition
from tests.waiting import wait_for


@dataclass
class Ends:
    """The two ends of a link, and the journal between them."""

    actor: Any
    learner: Any
    run: Path

    def receive(self, count: int) -> list[Transition]:
        """Until that many have arrived; and then nothing more may be on its way."""
        received: list[Transition] = []
        wait_for(lambda: received.extend(self.learner.receive()) or len(received) >= count, what=f"{count} steps")
        if isinstance(self.actor, ActorClient):
            wait_for(lambda: self.actor.status.unacknowledged == 0, what="the acknowledgement")
        return received + self.learner.receive()

    def learner_again(self, after_ord: int) -> Any:
        return (
            InprocLink(self.learner._journal, after_ord) if isinstance(self.learner, InprocLink) else TrainerEnd(self.run, SPEC, after_ord)
        )

    def newest(self, version: int) -> Any:
        return wait_for(lambda: self.actor.newest_policy(version - 1), what=f"version {version}")


@pytest.fixture(params=["inproc", "websocket"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ends]:
    if request.param == "inproc":
        with Journal.create(tmp_path / "journal.db", SPEC) as journal:
            link = InprocLink(journal)
            yield Ends(link, link, tmp_path)
        return
    run = make_run(tmp_path / "run")
    with HubProcess(run) as hub:
        actor, learner = client(hub, tmp_path / "spool"), TrainerEnd(run, SPEC)
        actor.connect()
        yield Ends(actor, learner, run)
        actor.close()
        learner.close()


def test_steps_arrive_once_and_in_order(ends: Ends) -> None:
    ends.actor.send([step(0), step(1)])
    ends.actor.send([step(1), step(2)])  # one of them again
    assert [t.seq for t in ends.receive(3)] == [0, 1, 2]
    assert ends.learner.receive() == []


def test_steps_arrive_whole(ends: Ends) -> None:
    sent = step(3, episode=4, policy_version=7, intervened=True, success=True, terminated=True)
    ends.actor.send([sent])
    [received] = ends.receive(1)
    for name in ("source", "seq", "episode", "step", "policy_version", "intervened", "success", "terminated", "truncated", "reward"):
        assert getattr(received, name) == getattr(sent, name), name
    np.testing.assert_array_equal(received.observation["q"], sent.observation["q"])
    np.testing.assert_array_equal(received.next_observation["touch"], sent.next_observation["touch"])


def test_several_sources_keep_the_order_in_which_they_were_sent(ends: Ends) -> None:
    for number in range(20):
        ends.actor.send([step(number, f"row.{row}") for row in range(4)])
    assert [(t.source, t.seq) for t in ends.receive(80)] == [(f"row.{row}", number) for number in range(20) for row in range(4)]


def test_an_invalid_step_is_kept_with_a_reason_and_never_learned_from(ends: Ends) -> None:
    nan = observation(1) | {"q": np.array([0, np.nan], np.float32)}
    wide = observation(2) | {"q": np.zeros(3, np.float32)}
    ends.actor.send([step(0), step(1, observation=nan), step(2, observation=wide), step(3)])
    assert [t.seq for t in ends.receive(2)] == [0, 3]
    with Journal.open(ends.run / "journal.db") as journal:
        reasons = {row.seq: row.reason for row in journal.rejected()}
    assert reasons == {1: "observation entry 'q' has nan at [1]", 2: "observation entry 'q' has shape (3,), the spec says (2,)"}


def test_a_restarted_learner_continues_where_it_was(ends: Ends) -> None:
    ends.actor.send([step(number) for number in range(5)])
    ends.receive(5)
    position = ends.learner.ord
    ends.actor.send([step(number) for number in range(5, 8)])
    ends.receive(3)
    again = ends.learner_again(position)
    assert [t.seq for t in again.receive()] == [5, 6, 7]
    if again is not ends.learner and isinstance(again, TrainerEnd):
        again.close()


def test_the_newest_policy_goes_to_actors_that_have_an_older_one(ends: Ends) -> None:
    assert ends.actor.newest_policy() is None
    for version in (1, 2, 3):
        ends.learner.publish(snapshot(version))
    newest = ends.newest(3)
    assert newest.version == 3 and newest.hash == snapshot(3).hash and newest.learner_step == snapshot(3).learner_step
    np.testing.assert_array_equal(newest.parameters["w"], snapshot(3).parameters["w"])
    assert ends.actor.newest_policy(newer_than=3) is None
    assert ends.actor.newest_policy(newer_than=2) is not None

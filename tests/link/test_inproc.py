"""Steps arrive once and in order; the newest policy wins."""

from pathlib import Path

import numpy as np

from tandem.data.journal import Journal
from tandem.link.inproc import InprocLink
from tandem.types import Continuous, Entry, PolicySnapshot, Spec, Transition

SPEC = Spec("toy", {"q": Entry((2,))}, (Continuous("force", 1),), 10, 100)


def step(seq: int, value: float = 0.0) -> Transition:
    observation = {"q": np.full(2, value, np.float32)}
    return Transition(observation, np.zeros(1, np.float32), 0.0, observation, False, False, source="a", seq=seq)


def snapshot(version: int) -> PolicySnapshot:
    return PolicySnapshot(version, 50 * version, {"w": np.full(3, version, np.float32)})


def test_valid_steps_arrive_once_and_in_order(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        link = InprocLink(journal)
        link.send([step(0), step(1)])
        link.send([step(1), step(2, np.nan), step(3)])  # one again, one that cannot be used
        assert [t.seq for t in link.receive()] == [0, 1, 3]
        assert link.receive() == []
        assert [r.seq for r in journal.rejected()] == [2]


def test_a_restarted_learner_receives_from_where_it_was(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        link = InprocLink(journal)
        link.send([step(i) for i in range(5)])
        link.receive()
        position = link.ord
        link.send([step(i) for i in range(5, 8)])
        assert [t.seq for t in InprocLink(journal, position).receive()] == [5, 6, 7]


def test_the_newest_policy_wins_and_is_given_once(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        link = InprocLink(journal)
        assert link.newest_policy() is None
        link.publish(snapshot(1))
        link.publish(snapshot(2))
        newest = link.newest_policy(newer_than=0)
        assert newest is not None and newest.version == 2
        assert link.newest_policy(newer_than=2) is None


def test_equal_parameters_have_equal_hashes_and_others_do_not() -> None:
    assert snapshot(1).hash == PolicySnapshot(9, 0, snapshot(1).parameters).hash != snapshot(2).hash

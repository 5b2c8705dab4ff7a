"""An episode that a person threw away: kept in the file, left out wherever something is learned from it."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from data_samples import SPEC, transition

from tandem.data.journal import Journal
from tandem.data.replay import Replay


@pytest.fixture
def journal(tmp_path: Path):
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        journal.append(transition(number, episode=number // 4) for number in range(12))  # episodes 0, 1, 2
        yield journal


def test_its_steps_are_left_out_unless_asked_for(journal: Journal) -> None:
    assert journal.discard([("robot", 1)]) == 1
    assert [step.seq for _, step in journal.read()] == [0, 1, 2, 3, 8, 9, 10, 11]
    assert [step.seq for _, step in journal.read(with_discarded=True)] == list(range(12))
    assert journal.counts() == (12, 0) and journal.discarded() == {("robot", 1)}
    # the last six of what is left: two of episode 0, all of episode 2
    assert [step.seq for _, step in journal.read(journal.start_of_last(6))] == [2, 3, 8, 9, 10, 11]


def test_it_is_thrown_away_once_and_steps_that_come_late_are_too(journal: Journal) -> None:
    journal.discard([("robot", 2)])
    assert journal.discard([("robot", 2), ("robot", 0)]) == 1
    journal.append([transition(12, episode=2)])
    assert {step.episode for _, step in journal.read()} == {1}


def test_another_robots_episode_of_the_same_number_stays(journal: Journal) -> None:
    journal.append([transition(0, source="other", episode=1)])
    journal.discard([("robot", 1)])
    assert [(step.source, step.episode) for _, step in journal.read(8)][-1] == ("other", 1)


def test_a_journal_of_before_has_no_such_table_and_gets_one_when_it_is_needed(journal: Journal) -> None:
    plain = sqlite3.connect(journal.path)
    plain.execute("DROP TABLE discarded")
    plain.commit()
    plain.close()
    assert len(list(journal.read())) == 12 and journal.discarded() == set()
    journal.discard([("robot", 0)])
    assert len(list(journal.read())) == 8


def test_a_replay_forgets_it_and_keeps_the_order_of_the_rest() -> None:
    replay = Replay(SPEC, 10)
    replay.extend(transition(number, reward=float(number), episode=number // 4) for number in range(12))  # 2 .. 11 are left
    assert replay.forget({("robot", 1), ("elsewhere", 2)}) == 4
    assert len(replay) == 6
    np.testing.assert_array_equal(replay.rows(np.arange(6)).rewards, [2, 3, 8, 9, 10, 11])
    replay.extend(transition(number, reward=float(number), episode=9) for number in range(12, 18))  # six more: the ring closes again
    np.testing.assert_array_equal(replay.rows(np.arange(10)).rewards, [8, 9, 10, 11, 12, 13, 14, 15, 16, 17])
    assert replay.forget(set()) == 0 and len(replay) == 10

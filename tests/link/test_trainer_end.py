"""Hub and trainer meet in the run folder: neither waits for the other, and either may come first."""

import json
import time
from pathlib import Path

import pytest
from link_samples import SPEC, make_run, snapshot, step

from tandem.data.journal import Journal
from tandem.errors import SpecMismatch, StorageFull
from tandem.link.hub import Hub
from tandem.link.trainer_end import TrainerEnd, open_journal, read_policy_file
from tandem.runs.board import PHASES, Board
from tandem.runs.live import TrainerView
from tandem.types import Continuous, Entry, Spec


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


def test_a_trainer_needs_no_hub_and_reads_what_one_stores_later(run: Path) -> None:
    trainer = TrainerEnd(run, SPEC)
    assert trainer.receive() == [] and trainer.commands() == []
    with open_journal(run, SPEC, read_only=False) as journal:
        journal.append([step(0), step(1)])
        board = Board(run)
        board["hub_ord"] = 2
        assert [t.seq for t in trainer.receive()] == [0, 1] and trainer.ord == 2
        board.close()
    trainer.close()


def test_rows_that_a_killed_hub_committed_but_did_not_announce_are_found(run: Path) -> None:
    trainer = TrainerEnd(run, SPEC)
    trainer.receive()
    with open_journal(run, SPEC, read_only=False) as journal:
        journal.append([step(0)])
        assert trainer.receive() == []  # the board says nothing new
        time.sleep(1.05)
        assert [t.seq for t in trainer.receive()] == [0]
    trainer.close()


def test_a_trainer_is_alive_from_its_first_heartbeat_on(run: Path) -> None:
    """Not only from the hub's next look on: a view kept in between would call it dead for as long as it is the newest."""
    hub, trainer = Hub(run), TrainerEnd(run, SPEC)
    assert hub.status().trainer.alive is False
    trainer.beat(learner_step=0, phase="filling", steps_before=0, updates_per_actor_step=1.0)
    assert hub.status().trainer == TrainerView(alive=True, phase="filling", ord=0)
    trainer.close()


def test_a_heartbeat_takes_a_few_microseconds(run: Path) -> None:
    trainer, board = TrainerEnd(run, SPEC, after_ord=0), Board(run)
    took = []
    for number in range(2000):
        began = time.perf_counter()
        trainer.beat(learner_step=number, phase="training", steps_before=100, updates_per_actor_step=0.3)
        took.append(time.perf_counter() - began)
    assert sorted(took)[1000] < 20e-6
    assert (board["learner_step"], board["steps_before"], board.updates_per_actor_step, board.phase) == (1999, 100, 0.3, "training")
    assert board["trainer_heartbeat"] == 2000
    for phase in PHASES:
        trainer.beat(learner_step=1, phase=phase, steps_before=0, updates_per_actor_step=1.0)
        assert board.phase == phase
    with pytest.raises(ValueError):
        trainer.beat(learner_step=1, phase="dancing", steps_before=0, updates_per_actor_step=1.0)
    board.close()
    trainer.close()


def test_a_policy_file_is_complete_or_absent(run: Path) -> None:
    assert read_policy_file(run) is None
    trainer = TrainerEnd(run, SPEC)
    trainer.publish(snapshot(4))
    found = read_policy_file(run)
    assert found is not None and found[0].version == 4 and found[1] == (run / "policy.bin").read_bytes()
    (run / "policy.bin").write_bytes(found[1][:-1])
    assert read_policy_file(run) is None
    (run / ".policy.partial.bin").mkdir()  # nothing can be written there
    with pytest.raises(StorageFull, match="keep the policy they have"):
        trainer.publish(snapshot(5))
    trainer.close()


def test_a_command_is_read_only_when_its_line_is_complete(run: Path) -> None:
    trainer = TrainerEnd(run, SPEC)
    line = json.dumps({"time": 0, "from": "api", "command": "pause", "to": "all", "detail": {}}) + "\n"
    with (run / "commands.jsonl").open("a") as file:
        file.write(line[:20])
        file.flush()
        assert trainer.commands() == []
        file.write(line[20:] + "not json\n" + json.dumps({"command": "jump", "to": "all", "detail": {}}) + "\n" + line)
        file.flush()
        assert [command.command for command in trainer.commands()] == ["pause", "pause"]
    trainer.close()


def test_commands_to_an_earlier_trainer_are_not_carried_out_again(run: Path) -> None:
    line = json.dumps({"time": 0, "from": "api", "command": "stop", "to": "all", "detail": {}}) + "\n"
    (run / "commands.jsonl").write_text(line)
    trainer = TrainerEnd(run, SPEC)
    assert trainer.commands() == []
    with (run / "commands.jsonl").open("a") as file:
        file.write(line)
    assert [command.command for command in trainer.commands()] == ["stop"]
    trainer.close()


def test_the_journal_of_another_spec_is_refused(run: Path) -> None:
    open_journal(run, SPEC, read_only=True).close()
    other = Spec("toy", {"q": Entry((9,))}, (Continuous("force", 1),), 10, 100)
    with pytest.raises(SpecMismatch, match="'q'"):
        TrainerEnd(run, other)


def test_a_journal_from_synchronous_training_is_continued(run: Path) -> None:
    with Journal.create(run / "journal.db", SPEC) as journal:
        journal.append([step(number) for number in range(5)])
    trainer = TrainerEnd(run, SPEC, after_ord=3)
    assert [t.seq for t in trainer.receive()] == [3, 4]
    trainer.close()

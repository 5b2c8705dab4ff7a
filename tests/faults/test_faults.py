"""Each fault at two moments of one run: nothing is lost, nothing is counted twice, and everyone is back within seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.counted_point import NOTE, read_notes
from tests.faults.rig import FAULTS, LATCHED, Rig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("faults"))
    yield rig
    rig.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_no_step_is_lost_or_counted_twice(rig: Rig, fault: str) -> None:
    rig.wait("all is well", rig.well)
    for _ in range(2):
        rig.strike(fault)
    rig.stand_still()
    assert rig.check() > 0
    rig.go_on()


@pytest.mark.parametrize("fault", ["kill_actor" if LATCHED else "stop_actor", "kill_hub"])
def test_no_robot_moves_while_it_must_stand_still(rig: Rig, fault: str) -> None:
    rig.wait("all is well", rig.well)
    rig.strike_while_stopped(fault)
    rig.stand_still()
    assert rig.stops and rig.check() > 0  # it compares when each action came with when all had to stand still
    rig.go_on()


def test_the_learner_was_given_every_row_once_and_in_order(rig: Rig) -> None:
    """After all of the above: over every life of the trainer."""
    summary = rig.finish()
    assert summary["actor_step"] == rig.check()


def test_the_witness_can_tell(tmp_path: Path) -> None:
    """The proof above can fail: a witness with one step more, one less or two in another order than the journal is refused."""
    rig = Rig(tmp_path / "small", actors=1)
    try:
        rig.wait("all is well", rig.well)
        size = NOTE.size
        rig.wait("more than four steps are noted", lambda: any(file.stat().st_size > 4 * size for file in rig.witness.iterdir()))
        rig.stand_still()
        assert rig.check() > 0
        [notes] = [file for file in rig.witness.iterdir() if file.stat().st_size > 4 * size][:1]
        whole = notes.read_bytes()
        first, second, third, rest = whole[:size], whole[size : 2 * size], whole[2 * size : 3 * size], whole[3 * size :]
        for damaged in (whole + bytes(size), second + third + rest, whole[:-size], first + third + second + rest):
            notes.write_bytes(damaged)
            with pytest.raises(AssertionError):
                rig.check()
        notes.write_bytes(whole)
        rig.check()
        moved = read_notes(notes)[0].at_ns
        rig.stops.append((moved - 1, moved + 1))
        assert rig.proof().moved_while_stopped == 1
    finally:
        rig.close()

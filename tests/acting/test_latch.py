"""What holds a robot is on the disk before it is shown, is found again by the right actor, and is never lost by a damaged file."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.acting import latch as latches
from tandem.acting.latch import Latch, read_latch
from tandem.errors import ConfigError, StorageFull
from tandem.programs.latch import latch as latch_command


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "latch"


def opened(folder: Path, name: str = "arm", task: str = "reach", takes_over: bool = False) -> Latch:
    return Latch.open(folder, task, name, takes_over=takes_over)


def test_another_process_of_the_same_robot_finds_it_and_no_other_robot_does(folder: Path) -> None:
    first = opened(folder)
    assert not first.holds
    first.hold("stop", "Ada", "stopped by a person")
    first.close()
    for other in (opened(folder, name="other arm"), opened(folder, task="gear_assembly")):
        assert not other.holds
        other.close()
    again = opened(folder, task="serve:/some/python:reach")
    assert again.holds == first.holds and "by Ada" in again.words, "the same environment in another Python is the same robot"
    again.release()
    again.close()
    assert not opened(folder).holds


def test_actors_of_one_name_hold_and_release_themselves_alone(folder: Path) -> None:
    one, two = opened(folder), opened(folder)
    two.hold("pause", "Ada", "paused by a person")
    assert not one.holds and not read_latch(one.path).holds
    one.release()
    assert read_latch(two.path).holds
    two.close()
    restarted = opened(folder)
    assert restarted.holds, "the first one still runs, so this is the second one again"
    one.close()
    restarted.close()
    assert opened(folder).holds, "where both are free, the one that is held comes first"


def test_a_robot_held_by_a_process_that_hangs_is_held_in_the_next_one_too(folder: Path) -> None:
    hung = opened(folder, takes_over=True)
    hung.hold("stop", "Ada", "stopped by a person")
    second = opened(folder, takes_over=True)
    assert second.holds and second.path != hung.path
    hung.close()
    second.release()
    second.close()
    third = opened(folder, takes_over=True)
    assert third.holds, "the first process was never told to resume"
    third.release()
    third.close()
    assert not opened(folder, takes_over=True).holds, "one resume is enough for what was left behind"


@pytest.mark.parametrize("damage", [b"", b"{", b'{"holds": []}\n', b"\xff\xfe" * 50])
def test_a_damaged_file_holds_the_robot(folder: Path, damage: bytes) -> None:
    first = opened(folder)
    first.close()
    first.path.write_bytes(damage)
    again = opened(folder)
    assert list(again.holds) == ["damaged"] and "nobody knows whether the robot was stopped" in again.words
    again.release()
    again.close()
    assert not opened(folder).holds


def test_a_changed_letter_is_damage(folder: Path) -> None:
    first = opened(folder)
    first.hold("stop", "Ada", "stopped by a person")
    first.close()
    first.path.write_bytes(first.path.read_bytes().replace(b"Ada", b"Eve"))
    assert list(opened(folder).holds) == ["damaged"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_cannot_be_read_holds_the_robot(folder: Path) -> None:
    first = opened(folder)
    first.close()
    first.path.chmod(0)
    assert "cannot be read" in opened(folder).words


def test_on_a_full_disk_the_robot_stands_still_also_after_a_restart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(folder)

    def full(path: Path, data: bytes) -> None:
        raise StorageFull(f"cannot write {path}: No space left on device.")

    monkeypatch.setattr(latches, "write_atomically", full)
    first.hold("stop", "Ada", "stopped by a person")
    assert first.holds and "not on the disk" in first.problem and "stands still after a restart too" in first.problem
    again = read_latch(first.path)
    assert list(again.holds) == ["damaged"] and "the disk was full" in str(again.holds["damaged"])
    monkeypatch.undo()
    first._tried = 0.0
    first.try_again()
    assert not first.problem and list(read_latch(first.path).holds) == ["stop"], "written when there is room again"


def test_a_resume_that_cannot_be_written_is_said_and_holds_after_a_restart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(folder)
    first.hold("stop", "Ada", "stopped by a person")

    def full(path: Path, data: bytes) -> None:
        raise StorageFull(f"cannot write {path}: No space left on device.")

    monkeypatch.setattr(latches, "write_atomically", full)
    first.release()
    assert not first.holds and "may move is not on the disk" in first.problem
    assert list(read_latch(first.path).holds) == ["stop"]


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="--latch FOLDER"):
        opened(tmp_path / "file")


def test_names_from_other_machines_bring_no_control_characters(folder: Path) -> None:
    first = opened(folder)
    first.hold("pause", "\x1b[2JAda\n[ACTOR] resume", "paused by a person")
    assert "\x1b" not in first.words and "\n" not in first.words


def test_a_person_at_the_robot_sees_what_holds_it_and_releases_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = opened(folder)
    running.hold("pause", "Grace", "paused by a person")
    with pytest.raises(ConfigError, match="is running: say resume in the page"):
        latch_command(folder, release="arm")
    running.close()
    latch_command(folder)
    assert "'arm' (reach) stands still: paused by a person (by Grace" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(ConfigError, match=r"no robot of an actor 'leg' is held in .*; held are: 'arm'"):
        latch_command(folder, release="leg")
    latch_command(folder, release="arm")
    assert not opened(folder).holds

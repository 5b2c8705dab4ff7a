"""What is acknowledged survives a power cut: hub and actor on a disk that forgets what was not flushed (`faults/volatile_disk.py`)."""

import json
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from link_samples import HERE, SPEC, HubProcess, assert_each_once_in_order, client, make_run, python, step, stored

from tandem.files import write_atomically
from tandem.link.client import ActorClient
from tandem.link.messages import EpisodeEnd
from tandem.runs.folder import RunFolder
from tandem.runs.lines import read_rows
from tests.faults.volatile_disk import NoVolatileDisk, VolatileDisk
from tests.waiting import wait_for


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[VolatileDisk]:
    try:
        disk = VolatileDisk(tmp_path)
    except NoVolatileDisk as problem:
        pytest.skip(f"this machine can make no disk that forgets (root, loop devices and ext4): {problem}")
    yield disk
    disk.close()


def send(actor: ActorClient, first: int, count: int, every_s: float) -> int:
    for number in range(first, first + count):
        actor.send([step(number)])
        time.sleep(every_s)
    return first + count


def test_the_disk_forgets_what_was_not_flushed(disk: VolatileDisk) -> None:
    """The proofs below rest on this."""
    write_atomically(disk.path / "flushed", b"1" * 5000)
    write_atomically(disk.path / "written", b"1" * 5000, durable=False)
    with (disk.path / "flushed").open("ab") as file:
        file.write(b"2" * 5000)
    disk.cut()
    disk.power_on()
    assert (disk.path / "flushed").read_bytes() == b"1" * 5000 and not (disk.path / "written").exists()


def test_no_acknowledged_step_is_lost_when_the_hubs_machine_loses_power(disk: VolatileDisk, tmp_path: Path) -> None:
    """The actor's machine goes on: what it has let go of, the hub must have."""
    chance = random.Random(5)
    run = make_run(disk.path / "run")
    made = ends = 0
    with HubProcess(run, ping_s=0.5, timeout_s=2.0) as hub:
        actor = client(hub, tmp_path / "spool")
        actor.connect()
        for moment in range(4):
            made = send(actor, made, chance.randrange(50, 200), 0.001)
            actor.episode_end(EpisodeEnd("a", moment, 10, kept=True, success=True))
            ends += 1
            time.sleep(chance.uniform(0.0, 0.25))
            disk.cut(chance if moment else None)
            hub.kill()
            disk.power_on()
            hub.start()
            wait_for(lambda: actor.status.connected, 10, "the actor to be back")
        assert actor.close(drain_s=20) == 0
    assert_each_once_in_order(run, {"a": made})
    assert {row["episode"] for row in read_rows(RunFolder(run).episodes_file)} == set(range(ends))


def test_the_mode_that_does_not_wait_for_the_disk_does_lose_steps(disk: VolatileDisk, tmp_path: Path) -> None:
    """As its name says; and the test above can fail."""
    run = make_run(disk.path / "run")
    with HubProcess(run, durability="process") as hub:
        actor = client(hub, tmp_path / "spool")
        actor.connect()
        send(actor, 0, 100, 0.001)
        wait_for(lambda: actor.status.unacknowledged == 0)
        disk.cut()
        hub.kill()
        disk.power_on()
        hub.start()
        wait_for(lambda: actor.status.connected, 10)
        assert actor.close(drain_s=20) == 0
    assert len(stored(run)) < 100


def life_of_a_machine(disk: VolatileDisk, run: Path, port: int, durability: str) -> tuple[str, int, int]:
    """Hub and actor until the power goes, the last 1.2 s without the hub; returns the source, the steps made and those acknowledged."""
    with HubProcess(run, port=port, durability=durability) as hub:
        options = {"address": hub.address, "token": hub.token, "name": "left", "rows": 1, "pace": "realtime", "durability": durability}
        told = json.dumps({**options, "spool": str(disk.path / "spool"), "every_s": 0.005, "acknowledged": True})
        actor = python(HERE / "actor_process.py", told, stdout=subprocess.PIPE)
        assert actor.stdout is not None
        source = f"{actor.stdout.readline().split()[1]}.0"
        time.sleep(0.4)
        hub.kill()
        time.sleep(1.2)
        disk.cut()
        actor.kill()
        lines = actor.communicate()[0].splitlines()
    disk.power_on()
    last = [line for line in lines if len(line.split()) == 2][-1]
    made, acknowledged = (int(part) for part in last.split())
    return source, made, acknowledged


@pytest.mark.parametrize("durability", ["power", "process"])
def test_steps_in_the_spool_survive_a_power_cut_of_the_actors_machine(disk: VolatileDisk, durability: str) -> None:
    """Those that had 0.05 s and a flush; with `process` only what the hub had acknowledged, or not even that."""
    run = make_run(disk.path / "run")
    source, made, acknowledged = life_of_a_machine(disk, run, 0, durability)
    assert 0 < acknowledged < made - 50, "the hub must be missed by some of them"
    with HubProcess(run) as hub:
        actor = client(hub, disk.path / "spool")
        actor.connect()
        wait_for(lambda: actor.status.left_behind == 0, 10, "the spool of the actor before to be sent")
        actor.send([step(0, "next")])
        assert actor.close(drain_s=20) == 0
    seqs = [seq for each, seq in stored(run) if each == source]
    assert seqs == list(range(len(seqs)))
    if durability == "power":
        assert len(seqs) >= acknowledged and made - len(seqs) <= 100, "0.5 s of steps at most, on a busy machine"
    else:
        assert len(seqs) <= acknowledged


def test_what_others_build_on_survives(disk: VolatileDisk) -> None:
    """The name of the run, the token, the number of a policy and the configuration: as soon as anyone has seen them."""
    run = RunFolder.create(disk.path / "runs" / "a", "recording", {}, SPEC)
    before = (run.run_id, run.token, run.next_version())
    disk.cut()
    disk.power_on()
    run = RunFolder.open(disk.path / "runs" / "a")
    assert (run.run_id, run.token) == before[:2] and run.next_version() == before[2] + 1 and run.spec == SPEC


def test_a_robot_that_was_told_to_stand_still_stands_still_after_a_power_cut(disk: VolatileDisk) -> None:
    latches = pytest.importorskip("tandem.acting.latch", reason="this version has no latch")
    folder = disk.path / "latch"
    latch = latches.Latch.open(folder, "reach", "left", takes_over=True)
    latch.hold("stop", "an operator", "STOP on the page")
    latch.close()
    disk.cut()
    disk.power_on()
    found = latches.Latch.open(folder, "reach", "left", takes_over=True)
    found.close()
    assert "stop" in found.holds and "damaged" not in found.holds

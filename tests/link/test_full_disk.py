"""A disk that is really full under a real hub: commands reach the robots, no step is lost, and all goes on when there is room."""

import asyncio
import dataclasses
import json
import os
import time
import urllib.error
from pathlib import Path

import numpy as np
import pytest
from link_samples import SPEC, HubProcess, assert_each_once_in_order, client, make_run, snapshot, step

from tandem.errors import ConfigError, StorageFull
from tandem.link.client import ActorClient
from tandem.link.hub import Hub
from tandem.link.hub_config import disk_reserve
from tandem.link.trainer_end import TrainerEnd
from tandem.runs.checkpoint import write_checkpoint
from tandem.types import Entry, Spec
from tests.small_disk import SmallDisk, small_disk
from tests.waiting import wait_for

MEGABYTES = 8
RESERVE = MEGABYTES * 2**20 // 20


@pytest.fixture
def disk(tmp_path: Path):
    with small_disk(tmp_path / "disk", MEGABYTES) as disk:
        yield disk


@pytest.fixture
def hub(disk: SmallDisk):
    with HubProcess(make_run(disk.folder / "run"), ping_s=0.5, timeout_s=2.0) as hub:
        yield hub


@pytest.fixture
def actor(hub: HubProcess, tmp_path: Path):
    """A robot whose spool is on a disk of its own."""
    actor = client(hub, tmp_path / "spool")
    actor.connect()
    yield actor
    actor.close(0.0)


def state_of(hub: HubProcess) -> str:
    return hub.api("status")["journal"]["state"]


def test_the_reserve_is_a_twentieth_of_a_small_disk(disk: SmallDisk) -> None:
    assert disk_reserve(disk.folder, 500) == RESERVE
    assert disk_reserve(disk.folder, 0.1) == 100_000 and disk_reserve(disk.folder, 0) == 0
    with pytest.raises(ConfigError, match="megabytes"):
        disk_reserve(disk.folder, float("nan"))


def test_a_hub_that_starts_on_a_full_disk_is_not_taken_for_the_one_before(disk: SmallDisk) -> None:
    hub = Hub(make_run(disk.folder / "run"))
    hub.folder.hub_file.write_text('{"address": "127.0.0.1:1", "pid": 1}')
    disk.fill()
    hub._begin_listening()
    assert not hub.folder.hub_file.exists(), "where the hub before listened"
    disk.clear()
    hub._tick(time.monotonic())
    assert json.loads(hub.folder.hub_file.read_text())["pid"] == os.getpid()
    hub.close()


def test_the_address_is_written_when_the_hub_listens_and_not_before(tmp_path: Path) -> None:
    """Its first tick wrote it: whoever read it then was refused, for a moment."""
    hub = Hub(make_run(tmp_path / "run"))

    async def start() -> bool:
        async with hub._lifespan(hub.app):  # what runs before the socket accepts connections
            return hub.folder.hub_file.exists()

    assert not asyncio.run(start())
    hub._begin_listening()
    assert json.loads(hub.folder.hub_file.read_text())["pid"] == os.getpid()
    hub.close()


def test_below_the_reserve_steps_stay_at_the_actor_until_there_is_room(hub: HubProcess, actor: ActorClient, disk: SmallDisk) -> None:
    actor.send([step(number) for number in range(100)])
    wait_for(lambda: actor.status.unacknowledged == 0, what="the first steps to be stored")
    disk.fill(but=RESERVE // 2)
    left = disk.free
    for number in range(100, 1100):
        actor.send([step(number)])
    wait_for(lambda: state_of(hub) == "storage_full", what="the state on the page")
    trouble = hub.api("status")["journal"]["trouble"]
    assert "disk-reserve-mb" in trouble and wait_for(lambda: actor.status.problem == trouble, what="the actor to be told")
    assert actor.status.unacknowledged == 1000 and actor.status.dropped == 0
    assert disk.free > left - 200_000, "steps have used the room that is kept"  # live.json and events are written, steps are not
    disk.clear()
    wait_for(lambda: actor.status.unacknowledged == 0, what="the steps to be stored")
    wait_for(lambda: state_of(hub) == "ok" and actor.status.problem == "", what="the state to be well again")
    assert actor.close() == 0 and hub.stop() == 0
    assert_each_once_in_order(hub.run, {"a": 1100})


def test_steps_alone_never_fill_the_disk_and_checkpoints_keep_their_room(tmp_path: Path) -> None:
    """Nothing else writes here: the run's own steps are stopped by the reserve, and a checkpoint of that size can still be written."""
    spec = Spec("toy", {"q": Entry((1000,))}, SPEC.action, 10, 100)
    reserve, seen, number = 24 * 2**20 // 20, {"q": np.zeros(1000, np.float32)}, 0
    with small_disk(tmp_path / "disk", 24) as disk, HubProcess(make_run(disk.folder / "run", spec)) as hub:
        actor = client(hub, tmp_path / "spool", spec=spec)
        actor.connect()
        while state_of(hub) == "ok":
            actor.send([dataclasses.replace(step(number + i), observation=seen, next_observation=seen) for i in range(200)])
            number += 200
            wait_for(lambda: actor.status.unacknowledged == 0 or state_of(hub) != "ok", what="the group to be stored")
            assert number < 5000, "16 MB would be 2,000 steps"
        assert number > 1000 and actor.status.dropped == 0
        assert disk.free > reserve, f"{disk.free / 1e6} MB are left"
        checkpoint = write_checkpoint(hub.run / "checkpoints", 1, {"weights": np.zeros(reserve // 5, np.float32)}, {}, {})
        assert (checkpoint / "agent.safetensors").stat().st_size > 0.7 * reserve
        actor.close(0.0)


@pytest.mark.parametrize("command", ["stop", "pause"])
def test_a_command_reaches_robots_and_trainer_on_a_full_disk(hub: HubProcess, actor: ActorClient, disk: SmallDisk, command: str) -> None:
    trainer = TrainerEnd(hub.run, SPEC)
    hub.api("command", {"command": "resume"})  # so that the file exists
    wait_for(lambda: trainer.commands(), what="the command in the file")
    wait_for(lambda: actor.commands(), what="the command")
    disk.fill()
    filled = 0
    while not (answer := hub.api("command", {"command": command})).get("problem"):
        filled += 1  # until the last block of the file is full too
        assert filled < 200
    assert answer["told"] == ["trainer", actor.source] and "commands.jsonl" in answer["problem"]
    wait_for(lambda: any(told.command == command for told in actor.commands()), what="the robot to be told")
    told = trainer.commands()
    assert told and told[-1].command == command
    assert trainer.commands() == [], "a command is carried out once"
    assert hub.api("status")["unwritten_commands"] == 1 and hub.process.is_alive()
    disk.clear()
    assert "problem" not in hub.api("command", {"command": "resume"})
    assert [told.command for told in trainer.commands()] == ["resume"]
    trainer.close()


def test_a_policy_that_finds_no_room_is_refused_and_the_old_one_stays(hub: HubProcess, actor: ActorClient, disk: SmallDisk) -> None:
    trainer = TrainerEnd(hub.run, SPEC)
    trainer.publish(snapshot(1))
    disk.fill()
    with pytest.raises(StorageFull, match="keep the policy"):
        trainer.publish(snapshot(2, size=50_000))
    assert wait_for(actor.newest_policy).version == 1
    disk.clear()
    trainer.publish(snapshot(3, size=50_000))
    wait_for(lambda: (actor.newest_policy(1) or snapshot(0)).version == 3, what="the next policy")
    trainer.close()


def test_an_actor_that_cannot_join_is_not_shown_as_connected(hub: HubProcess, disk: SmallDisk) -> None:
    """Its spool is on the full disk of the run: each attempt fails, and none stays behind as a ghost."""
    disk.fill()
    for _ in range(3):
        with pytest.raises(StorageFull):
            client(hub, disk.folder / "run" / "spool").connect(5)
    wait_for(lambda: not any(actor["connected"] for actor in hub.api("actors")), 5, "the failed ones to be gone")
    assert hub.api("status")["actors"] == 0
    disk.clear()
    late = client(hub, disk.folder / "run" / "spool")
    late.connect(5)
    assert hub.api("status")["actors"] == 1
    late.close(0.0)


def test_a_hub_that_cannot_write_its_log_lets_actors_join_and_leave(tmp_path: Path) -> None:
    """The line about an actor that joined was written after it counted as connected: it stayed, and nobody was there."""
    with HubProcess(make_run(tmp_path / "run"), broken_log=True) as hub:
        actor = client(hub, tmp_path / "spool")
        actor.connect(5)
        actor.send([step(0)])
        assert actor.close() == 0
        wait_for(lambda: not hub.api("actors")[0]["connected"], 5, "it to be gone")


def test_the_hub_answers_every_question_on_a_full_disk(hub: HubProcess, actor: ActorClient, disk: SmallDisk) -> None:
    disk.fill()
    actor.send([step(0)])
    wait_for(lambda: state_of(hub) == "storage_full", what="the state")
    for path in ("status", "clocks", "actors", "metrics", "events", "findings"):
        hub.api(path)
    with pytest.raises(urllib.error.HTTPError):
        hub.api("nothing")
    assert hub.stop() == 0, "and it can be ended"

"""Whatever dies, freezes, fills up or breaks on the way: every step is stored once, in order, and the control loop never waits."""

import dataclasses
import json
import os
import random
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from link_samples import HERE, SPEC, HubProcess, assert_each_once_in_order, client, make_run, observation, python, snapshot, step, stored
from proxy import Proxy

from tandem.data.journal import Journal
from tandem.errors import StorageFull
from tandem.link.client import MAX_WAITING, ActorClient
from tandem.link.client_state import ALONE_S
from tandem.link.trainer_end import TrainerEnd
from tandem.types import Continuous, Entry, Spec
from tests.waiting import wait_for


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


@pytest.fixture
def hub(run: Path):
    with HubProcess(run, ping_s=0.5, timeout_s=2.0) as hub:
        yield hub


def send(actor: ActorClient, first: int, stop: int, every_s: float = 0.0) -> None:
    """Steps first to stop - 1, none of which may wait for anything but its turn on a busy machine."""
    took = []
    for number in range(first, stop):
        began = time.perf_counter()
        actor.send([step(number)])
        took.append(time.perf_counter() - began)
        if every_s:
            time.sleep(every_s)
    assert np.median(took) < 1e-3 and np.percentile(took, 95) < 5e-3 and max(took) < 0.25, f"the control loop waited: {sorted(took)[-5:]}"


def test_a_connection_cut_in_the_middle_of_frames(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    random.seed(3)
    with Proxy(hub.port) as proxy:
        actor = client(hub, tmp_path / "spool", address=proxy.address)
        actor.connect()
        for first in range(0, 1500, 100):
            proxy.cut_after(random.randrange(1, 12_000))  # a step has some 250 bytes, a greeting 500
            send(actor, first, first + 100)
            wait_for(lambda: actor.status.unacknowledged < 60, what="the steps to get through")
        assert actor.close(drain_s=20) == 0
        assert proxy.connections >= 8
    assert_each_once_in_order(run, {"a": 1500})


def test_steps_with_images_over_a_link_that_is_cut(tmp_path: Path) -> None:
    """A step of 400 kB: a group holds two of them, a frame is cut in its middle."""
    image = Entry((128, 128, 3), "uint8")
    spec = Spec("pictures", {"wrist": image, "front": image}, (Continuous("force", 1),), 10, 100)
    run = make_run(tmp_path / "run", spec)
    seen = {name: np.random.default_rng(0).integers(0, 256, image.shape).astype(np.uint8) for name in spec.observation}
    with HubProcess(run) as hub, Proxy(hub.port) as proxy:
        actor = client(hub, tmp_path / "spool", spec=spec, address=proxy.address)
        actor.connect()
        for number in range(40):
            if number % 10 == 0:
                wait_for(lambda: actor.status.unacknowledged == 0, what="the last ten")
                proxy.cut_after(700_000)
            actor.send([dataclasses.replace(step(number), observation=seen, next_observation=seen)])
        assert actor.close(drain_s=20) == 0 and proxy.connections == 5  # four were cut
    assert_each_once_in_order(run, {"a": 40})
    with Journal.open(run / "journal.db") as journal:
        [(_, last)] = journal.read(39)
    np.testing.assert_array_equal(last.observation["wrist"], seen["wrist"])


def test_a_slow_link_that_breaks_now_and_then(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    with Proxy(hub.port) as proxy:
        proxy.delay_s, proxy.bytes_per_s = 0.02, 200_000
        actor = client(hub, tmp_path / "spool", address=proxy.address)
        actor.connect()
        for first in range(0, 400, 100):
            send(actor, first, first + 100, every_s=0.002)
            proxy.drop()
        assert actor.close(drain_s=20) == 0
        assert actor.status.round_trip_s >= 0.04
    assert_each_once_in_order(run, {"a": 400})


def test_a_cable_that_is_pulled_out_and_put_back(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    """Nothing is closed and nothing arrives: only time tells. What was under way is lost on the way, and sent again."""
    with Proxy(hub.port) as proxy:
        actor = client(hub, tmp_path / "spool", address=proxy.address, timeout_s=0.7)
        actor.connect()
        send(actor, 0, 100)
        wait_for(lambda: actor.status.unacknowledged == 0)
        proxy.silent = True
        send(actor, 100, 300, every_s=0.001)
        wait_for(lambda: not actor.status.connected, 5, "the actor to notice")
        assert "has not answered for 0.7 s" in actor.status.problem
        wait_for(lambda: hub.api("status")["actors"] == 0, 8, "the hub to drop it")
        proxy.silent = False
        assert actor.close(drain_s=20) == 0
    assert_each_once_in_order(run, {"a": 300})


@pytest.mark.parametrize("moment", [30, 170])
def test_a_hub_that_is_frozen_for_longer_than_the_time_out(hub: HubProcess, run: Path, tmp_path: Path, moment: int) -> None:
    actor = client(hub, tmp_path / "spool", timeout_s=0.5)
    actor.connect()
    send(actor, 0, moment)
    hub.signal(signal.SIGSTOP)
    send(actor, moment, moment + 500, every_s=0.002)
    assert not actor.status.connected and actor.status.unacknowledged >= 500
    hub.signal(signal.SIGCONT)
    assert actor.close(drain_s=20) == 0
    assert_each_once_in_order(run, {"a": moment + 500})


def test_a_hub_that_is_killed_at_any_moment_and_restarted_on_the_same_port(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    random.seed(5)
    actors = [client(hub, tmp_path / "spool") for _ in range(2)]
    for actor in actors:
        actor.connect()
    number = 0
    for _ in range(4):
        until = time.monotonic() + random.uniform(0.02, 0.25)
        while time.monotonic() < until:
            for index, actor in enumerate(actors):
                actor.send([step(number, f"a{index}.{row}") for row in range(2)])
            number += 1
        hub.kill()
        hub.start()
    assert [actor.close(drain_s=20) for actor in actors] == [0, 0]
    assert_each_once_in_order(run, {f"a{index}.{row}": number for index in range(2) for row in range(2)})


def start_actor(hub: HubProcess, spool: Path, **options: object) -> tuple[subprocess.Popen[str], str]:
    plain = {
        "address": hub.address,
        "token": hub.token,
        "name": "left",
        "rows": 1,
        "pace": "realtime",
        "spool": str(spool),
        "every_s": 0.0005,
    }
    process = python(HERE / "actor_process.py", json.dumps(plain | options), stdout=subprocess.PIPE)
    assert process.stdout is not None
    word, source = process.stdout.readline().split()
    assert word == "READY"
    return process, f"{source}.0"


@pytest.mark.parametrize("hub_is_there", [True, False])
def test_an_actor_that_is_killed_loses_nothing_it_has_made(hub: HubProcess, run: Path, tmp_path: Path, hub_is_there: bool) -> None:
    process, source = start_actor(hub, tmp_path / "spool")
    made = 0
    if not hub_is_there:
        hub.kill()
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            made = int(line) + 1
            if made == 200:
                os.kill(process.pid, signal.SIGKILL)
                break
        made = max([made, *(int(line) + 1 for line in process.stdout if line.endswith("\n"))])
    if not hub_is_there:
        hub.start()
    following = client(hub, tmp_path / "spool")
    following.connect()
    wait_for(lambda: following.status.left_behind == 0, what="the spool left behind to be drained")
    following.send([step(0, "next")])
    assert following.close() == 0
    assert list((tmp_path / "spool").iterdir()) == []
    counts = {name: sum(name == found for found, _ in stored(run)) for name in (source, "next")}
    assert counts[source] in (made, made + 1)  # it may have died between a step and its word
    assert_each_once_in_order(run, counts)


def test_a_busy_actor_still_sends_a_spool_that_was_left_behind(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    first = client(hub, tmp_path / "spool")
    first.connect()
    hub.kill()
    for number in range(1000):
        first.send([step(number, "old")])
    assert first.close(drain_s=0) == 1000
    hub.start()
    busy = client(hub, tmp_path / "spool")
    busy.connect()
    number = 0
    until = time.monotonic() + 10
    while busy.status.left_behind and time.monotonic() < until:
        busy.send([step(number, "busy")])
        number += 1
        time.sleep(0.001)
    assert busy.status.left_behind == 0
    assert busy.close() == 0
    assert_each_once_in_order(run, {"old": 1000, "busy": number})


def test_an_actor_that_was_frozen_continues(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    process, source = start_actor(hub, tmp_path / "spool", every_s=0.005, count=150)
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGSTOP)
    wait_for(lambda: hub.api("status")["actors"] == 0, 8, "the hub to drop a dead actor")
    os.kill(process.pid, signal.SIGCONT)
    out, _ = process.communicate(timeout=20)
    assert json.loads(out.splitlines()[-1])["left"] == 0
    assert_each_once_in_order(run, {source: 150})


def test_a_full_disk_at_the_hub(run: Path, tmp_path: Path) -> None:
    """Nothing is acknowledged that is not stored; the actor is told, goes on, and loses nothing."""
    said: list[str] = []
    with HubProcess(run, file_limit=300_000) as hub:
        actor = client(hub, tmp_path / "spool", say=said.append)
        actor.connect()
        send(actor, 0, 3000)  # more than 600 kB
        wait_for(lambda: "no more room" in actor.status.problem, what="the actor to be told")
        status = hub.api("status")["journal"]
        assert "no more room" in status["trouble"] and 0 < status["accepted"] < 3000
        assert actor.status.connected and actor.status.unacknowledged == 3000 - status["accepted"]
        with Journal.open(run / "journal.db") as journal:
            assert journal.counts().accepted == status["accepted"]
        resource_limit(hub.pid)
        assert actor.close(drain_s=20) == 0
        assert hub.api("status")["journal"] == {"accepted": 3000, "rejected": 0, "trouble": "", "state": "ok", "unreadable": 0}
        assert any("the hub has trouble" in line for line in said) and any("well again" in line for line in said)
    assert_each_once_in_order(run, {"a": 3000})


def resource_limit(pid: int) -> None:
    """Room again, for another process."""
    import resource

    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def test_a_hub_that_dies_on_a_full_disk_is_followed_by_one_that_stores_everything(run: Path, tmp_path: Path) -> None:
    with HubProcess(run, file_limit=300_000) as hub:
        actor = client(hub, tmp_path / "spool")
        actor.connect()
        send(actor, 0, 2500)
        wait_for(lambda: "no more room" in actor.status.problem)
        hub.kill()
        hub.options.pop("file_limit")
        hub.start()
        assert actor.close(drain_s=20) == 0
    assert_each_once_in_order(run, {"a": 2500})


def test_wall_clocks_that_jump_change_only_what_is_displayed(run: Path, tmp_path: Path) -> None:
    random.seed(7)
    with HubProcess(run, jumping_clock=True, ping_s=0.2, timeout_s=0.6) as hub:
        actor = client(hub, tmp_path / "spool", wall=lambda: time.time() + random.uniform(-1e6, 1e6), timeout_s=1.5)
        trainer = TrainerEnd(run, SPEC)
        actor.connect()
        trainer.publish(snapshot(1))
        send(actor, 0, 300, every_s=0.005)
        assert actor.status.reconnects == 0 and wait_for(actor.newest_policy).version == 1
        [seen] = hub.api("actors")
        assert 0 <= seen["last_seen_s"] < 2 and 0 <= seen["lag_s"] < 5
        assert actor.close() == 0
        trainer.close()
    assert_each_once_in_order(run, {"a": 300})


def test_invalid_steps_are_acknowledged_kept_and_reported(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    actor = client(hub, tmp_path / "spool")
    actor.connect()
    nan = observation(1) | {"q": np.array([np.nan, 0], np.float32)}
    actor.send([step(0), step(1, observation=nan), step(2, observation={"q": np.zeros((2, 2), np.float32)}), step(3)])
    wait_for(lambda: actor.status.unacknowledged == 0)
    assert actor.status.rejected == 2
    [seen] = hub.api("actors")
    assert (seen["stored"], seen["rejected"]) == (4, 2) and "'touch' is missing" in seen["last_rejection"]
    assert hub.api("status")["journal"] == {"accepted": 2, "rejected": 2, "trouble": "", "state": "ok", "unreadable": 0}
    actor.close()
    with Journal.open(run / "journal.db") as journal:
        assert [(row.seq, row.reason) for row in journal.rejected()] == [
            (1, "observation entry 'q' has nan at [0]"),
            (2, "observation entry 'touch' is missing"),
        ]


def test_a_full_spool_stops_the_actor_and_loses_nothing(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    actor = client(hub, tmp_path / "spool", spool_limit=100_000)
    actor.connect()
    hub.kill()
    made = 0
    while actor.may_step(0):
        actor.send([step(made)])
        made += 1
    assert 100 < made < 1000 and "spool-limit" in actor.no_room() and not actor.may_step(0.05)
    status = actor.status
    assert status.dropped == 0 and status.unacknowledged == made and status.spool_bytes <= 100_000
    hub.start()
    wait_for(lambda: actor.may_step(0), what="room")
    assert actor.close(drain_s=20) == 0
    assert_each_once_in_order(run, {"a": made})


def test_a_full_disk_stops_the_actor_and_loses_nothing(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    actor = client(hub, tmp_path / "spool")
    actor.connect()
    hub.kill()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # a file takes no more than this, as on a full disk
    try:
        made = 0
        while actor.may_step(0):
            actor.send([step(made)])
            made += 1
        assert 20 < made < 1000 and "takes no more" in actor.no_room()
        assert actor.status.dropped == 0 and actor.status.unacknowledged == made - 1, "the last step waits in memory"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert actor.may_step(0) and actor.no_room() == ""
    hub.start()
    assert actor.close(drain_s=20) == 0
    assert_each_once_in_order(run, {"a": made})


def test_who_goes_on_without_room_loses_steps_aloud(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    said: list[str] = []
    actor = client(hub, tmp_path / "spool", spool_limit=100_000, say=said.append)
    actor.connect()
    hub.kill()
    send(actor, 0, 2000)
    kept = actor.status.unacknowledged + MAX_WAITING
    assert actor.status.dropped == 2000 - kept and any("STEPS ARE LOST" in line and "no room" in line for line in said)
    hub.start()
    wait_for(lambda: not actor.no_room() and actor.status.unacknowledged == 0, what="the steps that waited")
    assert actor.close(drain_s=20) == 0
    assert_each_once_in_order(run, {"a": kept})


def test_one_damaged_record_of_a_dead_actor_costs_itself_only(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    first = client(hub, tmp_path / "spool", name="gone")
    first.connect()
    hub.kill()
    send(first, 0, 100)
    assert first.close(drain_s=0) == 100
    [file] = (tmp_path / "spool").glob("*/*.rec")
    size = file.stat().st_size // 100
    data = bytearray(file.read_bytes())
    data[50 * size + 100] ^= 1  # one bit in the middle of a record
    file.write_bytes(data)
    hub.start()
    said: list[str] = []
    second = client(hub, tmp_path / "spool", say=said.append)
    second.connect()
    wait_for(lambda: second.status.left_behind == 0, what="the steps left behind")
    second.close()
    assert len(stored(run)) == 99 and {seq for _, seq in stored(run)} == set(range(100)) - {50}
    assert any("could not be read" in line and "unread" in line for line in said)
    [kept] = (tmp_path / "spool" / "unread").glob("*.rec")
    assert kept.read_bytes() == data


def test_a_step_that_is_larger_than_any_of_this_task_is_dropped_and_the_rest_goes_on(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    said: list[str] = []
    actor = client(hub, tmp_path / "spool", say=said.append)
    actor.connect()
    actor.send([step(0)])
    actor.send([step(1, observation=observation(1) | {"q": np.zeros(100_000, np.float32)})])
    actor.send([step(1)])
    assert actor.close() == 0 and actor.status.dropped == 1
    assert any("larger than any step of this task" in line for line in said)
    assert_each_once_in_order(run, {"a": 2})


def test_a_spool_that_cannot_be_made_is_named_at_once(hub: HubProcess, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFull, match=r"cannot make the spool .*file"):
        client(hub, tmp_path / "file").connect(5)


def test_an_actor_knows_that_it_is_alone_long_before_the_hub_counts_as_away(hub: HubProcess, tmp_path: Path) -> None:
    """A hub that hangs could not pass on a stop, so a robot that holds when it is alone holds after 3 s, not after 10."""
    actor = client(hub, tmp_path / "one", timeout_s=60.0)
    actor.connect()
    assert not actor.alone and actor.may_step(0)
    hub.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    wait_for(lambda: actor.alone, 10)
    assert ALONE_S - 1.5 < time.monotonic() - stopped < ALONE_S + 1.0 and actor.status.connected
    hub.signal(signal.SIGCONT)
    wait_for(lambda: not actor.alone, 10)
    hub.kill()
    wait_for(lambda: actor.alone)
    assert actor.may_step(0), "whether it moves is for the control loop to decide"
    hub.start()
    wait_for(lambda: not actor.alone, 10)
    actor.close()

"""One client that sends as fast as it can is slowed or disconnected; the others keep their rate, and the disk keeps its room."""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from link_samples import SPEC, HubProcess, client, make_run, step
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tandem.link.actors import COMMANDS_AT_ONCE, MESSAGES_AT_ONCE, MESSAGES_PER_S
from tandem.link.client import ActorClient
from tandem.link.messages import PROTOCOL, Command, Hello, Statistics
from tests.waiting import wait_for

STATISTICS = Statistics(0.0, 0.0, 0, -1, "", -1, 0, 0, 0, 0.0, 0.0, "", "").pack()


@pytest.fixture
def hub(tmp_path: Path):
    with HubProcess(make_run(tmp_path / "run")) as hub:
        yield hub


@pytest.fixture
def good(hub: HubProcess, tmp_path: Path):
    good = client(hub, tmp_path / "good", name="good")
    good.connect()
    yield good
    good.close(0.0)


@contextlib.contextmanager
def flooder(hub: HubProcess, source: str = "flood-1") -> Iterator[ClientConnection]:
    """An actor with the token and no manners."""
    hello = Hello(PROTOCOL, SPEC.task, SPEC.hash, SPEC.to_json(), "flood", source, "realtime", 1, "").pack()
    token = {"Authorization": f"Bearer {hub.token}"}
    with connect(f"ws://{hub.address}/link", additional_headers=token, compression=None, proxy=None, close_timeout=0.1) as connection:
        connection.send(hello)
        connection.recv(5)
        yield connection


def test_a_flood_of_commands_is_cut_off_and_fills_no_disk(hub: HubProcess, good: ActorClient) -> None:
    """60,000 commands in 5 s were 235 MB on the disk, and the trainer was shown as dead."""
    flood = Command("pause", "trainer", {"x": "y" * 3900}).pack()
    with flooder(hub) as connection, pytest.raises(ConnectionClosed):  # one that reads gets the reason; one that only sends is cut off
        for _ in range(60_000):
            connection.send(flood)
    wait_for(lambda: "commands a second" in (hub.run / "events.jsonl").read_text(), what="the reason")
    written = (hub.run / "commands.jsonl").stat().st_size
    assert written < 1.1 * COMMANDS_AT_ONCE * 4200
    flood = Command("pause", "all", {"x": "y" * 3900}).pack()
    for number in range(30):  # the same actor again and again, under its own name and others
        with flooder(hub, f"flood-{number % 3}") as connection, pytest.raises(ConnectionClosed):
            for _ in range(2000):
                connection.send(flood)
    assert (hub.run / "commands.jsonl").stat().st_size < 2**20
    good.send([step(0)])
    wait_for(lambda: good.status.unacknowledged == 0, what="the good actor's step to be stored")
    assert good.status.reconnects == 0 and hub.api("command", {"command": "stop", "to": "good"})["told"] == [good.source]
    wait_for(lambda: any(told.command == "stop" for told in good.commands()), what="a person's stop to get through")


def test_a_flood_of_messages_is_read_slowly_and_the_others_keep_their_rate(hub: HubProcess, good: ActorClient) -> None:
    sent, over = [0], threading.Event()

    def send() -> None:
        with flooder(hub) as connection:
            while not over.is_set():
                try:
                    connection.send(STATISTICS)
                except ConnectionClosed:  # it had its chance
                    return
                sent[0] += 1

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    began, late = time.monotonic(), []
    for number in itertools.count():
        if time.monotonic() - began > 3.0:
            break
        good.send([step(number)])
        asked = time.monotonic()
        wait_for(lambda: good.status.unacknowledged == 0, what="the step to be stored")
        late.append(time.monotonic() - asked)
        time.sleep(0.02)
    took = time.monotonic() - began
    [shown] = [actor for actor in hub.api("actors") if actor["name"] == "flood"]
    over.set()
    connection_buffers = 64_000  # what the network holds that nobody reads
    assert sent[0] < MESSAGES_AT_ONCE + MESSAGES_PER_S * (took + 1) + connection_buffers
    if sent[0] > MESSAGES_AT_ONCE + 2 * MESSAGES_PER_S * took:  # on a machine that can send so many at all
        assert shown["slowed"] > 0
    assert sorted(late)[len(late) // 2] < 0.5 and good.status.reconnects == 0

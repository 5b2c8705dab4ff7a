"""Each reason not to work together has its own error, at both ends, and says what to do."""

import dataclasses
import json
import os
import socket
import threading
import time
from pathlib import Path

import pytest
from link_samples import SPEC, HubProcess, client, make_run, python
from websockets.sync.client import connect

from tandem.errors import (
    ConfigError,
    HubBusy,
    HubUnreachable,
    LinkError,
    LinkSpecMismatch,
    OtherRun,
    OtherTask,
    ProtocolMismatch,
    SpecMismatch,
    WrongToken,
)
from tandem.link import messages
from tandem.link.client import ActorClient, ClientConfig
from tandem.link.messages import PROTOCOL, Hello
from tandem.types import Entry
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory):
    with HubProcess(make_run(tmp_path_factory.mktemp("hub") / "run"), max_actors=3) as hub:
        yield hub


def refusals(hub: HubProcess) -> list[dict]:
    return [row for row in hub.api("events")["rows"] if row["kind"] == "refused"]


def refused(actor: ActorClient, kind: type[LinkError], says: str, within: float = 3.0) -> None:
    began = time.monotonic()
    with pytest.raises(kind, match=says):
        actor.connect(timeout=20)
    assert time.monotonic() - began < within  # at once: waiting would not help
    assert not actor._link.alive


def test_a_wrong_token(hub: HubProcess, tmp_path: Path) -> None:
    refused(client(hub, tmp_path, token="wrong"), WrongToken, r"does not accept this token.*file 'token'")
    with pytest.raises(ConfigError, match="token is empty"):
        client(hub, tmp_path, token="")
    assert list(tmp_path.iterdir()) == []  # no spool was made for a run that it never joined


def test_another_protocol(hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.link.link_thread.PROTOCOL", 99)
    refused(client(hub, tmp_path), ProtocolMismatch, f"version 99 of the protocol, this hub speaks {PROTOCOL}.*same version of Tandem")
    assert refusals(hub)[-1]["code"] == "protocol"


def test_another_task(hub: HubProcess, tmp_path: Path) -> None:
    other = dataclasses.replace(SPEC, task="tower")
    refused(client(hub, tmp_path, spec=other, name="right"), OtherTask, "run is of the task 'toy', the actor 'right' has 'tower'")
    assert (refusals(hub)[-1]["code"], refusals(hub)[-1]["name"]) == ("task", "right")


def test_another_spec_names_the_entry_and_both_shapes(hub: HubProcess, tmp_path: Path) -> None:
    other = dataclasses.replace(SPEC, observation={**SPEC.observation, "q": Entry((7,))})
    actor = client(hub, tmp_path, spec=other)
    refused(actor, LinkSpecMismatch, r"'q': shape \(2,\) float32 here, shape \(7,\) float32 there.*here: the run, there: the actor")
    assert issubclass(LinkSpecMismatch, SpecMismatch)
    last = refusals(hub)[-1]
    assert last["code"] == "spec" and "'q'" in last["problem"] and "(7,)" in last["problem"]


@pytest.mark.parametrize(
    "shape", [[10**6] * 2, [2**25], [10**9, 10**9], [-1], [1] * 10_000], ids=["two axes", "one axis", "overflow", "negative", "many axes"]
)
def test_a_greeting_with_a_huge_shape_costs_the_hub_nothing(hub: HubProcess, shape: list[int]) -> None:
    """A hundred bytes that say that an observation has a trillion numbers: their hash looks at the scale of each."""
    spec = SPEC.to_json()
    spec["observation"]["q"]["shape"] = shape
    hello = Hello(PROTOCOL, SPEC.task, SPEC.hash, spec, "large", "large-1", "realtime", 1, "")
    before = resource_of(hub.pid)
    with connect(f"ws://{hub.address}/link", additional_headers={"Authorization": f"Bearer {hub.token}"}, proxy=None) as socket:
        socket.send(hello.pack())
        answer = str(socket.recv(timeout=10))
    assert "spec" in answer and ("cannot be read" in answer or "'q': shape" in answer)
    after = resource_of(hub.pid)
    assert after["seconds"] - before["seconds"] < 1.0 and after["mb"] - before["mb"] < 50


def resource_of(pid: int) -> dict[str, float]:
    """Processor time, and the most memory so far."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {"seconds": (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"), "mb": int(peak.split()[1]) / 1e3}


def test_another_reward_of_the_same_task_is_refused_although_the_hash_is_the_same(hub: HubProcess, tmp_path: Path) -> None:
    dense = dataclasses.replace(SPEC, return_range=(-400.0, 1.0))
    assert dense.hash == SPEC.hash
    refused(client(hub, tmp_path, spec=dense), LinkSpecMismatch, r"return_range: .* here, \[-400\.0, 1\.0\] there")


def test_a_spec_that_cannot_be_read_is_refused_too(hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(SPEC), "hash", property(lambda self: "0" * 16))
    refused(client(hub, tmp_path), LinkSpecMismatch, "the same description, but another hash")


def test_more_actors_than_the_hub_accepts(hub: HubProcess, tmp_path: Path) -> None:
    actors = [client(hub, tmp_path) for _ in range(3)]
    for actor in actors:
        actor.connect()
    refused(client(hub, tmp_path), HubBusy, "3 actors are connected, the most this hub accepts")
    actors[0].close()
    wait_for(lambda: hub.api("status")["actors"] == 2)
    late = client(hub, tmp_path)
    late.connect()
    for actor in [*actors, late]:
        actor.close()


def test_a_hub_that_serves_another_run_now(tmp_path: Path) -> None:
    """The actor goes on and keeps its steps: it does not give one run's steps to another."""
    first, second = make_run(tmp_path / "first"), make_run(tmp_path / "second")
    (second / "token").write_text("same")
    (first / "token").write_text("same")
    said: list[str] = []
    with HubProcess(first) as hub:
        actor = client(hub, tmp_path / "spool", say=said.append)
        actor.connect()
    with HubProcess(second, port=hub.port):
        wait_for(lambda: actor.status.refused, what="the refusal")
        assert "this is run" in actor.status.problem and any("refuses this actor" in line for line in said)
        assert not actor.status.connected and actor.may_step(0)
        assert actor.close(0) == 0
    again = client(hub, tmp_path / "spool")
    again._state.welcome = messages.Welcome("some-run", "toy", -1, 1, 1, {})
    with HubProcess(second, port=hub.port):
        refused(again, OtherRun, "joined run some-run, this is run")


def test_no_hub_at_the_address(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        actor = ActorClient(SPEC, ClientConfig(address, token="t", name="left", rows=1, pace="fast", spool=tmp_path))
        began = time.monotonic()
        with pytest.raises(HubUnreachable, match=r"no hub at ws://127\.0\.0\.1.* within 0\.4 s.*Is `tandem learner` running there"):
            actor.connect(timeout=0.4)
        assert time.monotonic() - began < 2.5


def test_a_hub_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "token").write_text("t")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = ClientConfig(f"127.0.0.1:{port}", token="t", name="left", rows=1, pace="fast", spool=tmp_path / "spool")
    actor = ActorClient(SPEC, config)
    thread = threading.Thread(target=lambda: actor.connect(timeout=20))
    thread.start()
    time.sleep(0.3)
    with HubProcess(run, port=port) as hub:
        thread.join(10)
        assert actor.status.connected and hub.api("status")["actors"] == 1
        actor.close()


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"]
)
def test_a_server_that_is_not_a_hub(tmp_path: Path, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)
                connection.recv(4096)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        actor = ActorClient(SPEC, ClientConfig(address, token="t", name="left", rows=1, pace="fast", spool=tmp_path))
        refused(actor, ProtocolMismatch, "no Tandem hub")
        thread.join(5)


@pytest.mark.parametrize("address", ["", "ftp://there:1", "http://"])
def test_an_invalid_address(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        ActorClient(SPEC, ClientConfig(address, token="t", name="left", rows=1, pace="fast", spool=tmp_path))


def test_two_actors_with_one_name_are_both_welcome(hub: HubProcess, tmp_path: Path) -> None:
    one, two = client(hub, tmp_path, name="twin"), client(hub, tmp_path, name="twin")
    assert one.connect().run == two.connect().run
    assert one.source != two.source
    twins = [actor for actor in hub.api("actors") if actor["name"] == "twin"]
    assert {actor["source"] for actor in twins} == {one.source, two.source} and all(actor["connected"] for actor in twins)
    one.close()
    wait_for(lambda: [a["connected"] for a in hub.api("actors") if a["name"] == "twin"].count(True) == 1)
    two.close()


def test_a_second_hub_for_the_same_run_is_refused(hub: HubProcess) -> None:
    second = python(Path(__file__).parent / "hub_process.py", str(hub.run), json.dumps({}), stderr=-1)
    _, error = second.communicate(timeout=20)
    assert second.returncode == 1 and "another hub serves" in error
    assert hub.api("status")["task"] == "toy"


def test_a_port_that_is_taken_is_named(hub: HubProcess, tmp_path: Path) -> None:
    second = python(Path(__file__).parent / "hub_process.py", str(make_run(tmp_path / "run")), json.dumps({"port": hub.port}), stderr=-1)
    _, error = second.communicate(timeout=20)
    assert second.returncode == 1 and f"cannot listen on 127.0.0.1:{hub.port}" in error

"""Faults in real processes: a learner, actors behind a proxy, and the doctor called from the command line."""

import asyncio
import dataclasses
import http.server
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from tandem.codec import pack
from tandem.doctor.diagnosis import diagnose_run
from tandem.envs.reach import SPEC
from tandem.errors import LinkError
from tandem.link.client import ActorClient, ClientConfig
from tests.doctor.doctor_samples import assert_healthy, write_down
from tests.link.proxy import Proxy
from tests.waiting import wait_for

HERE = Path(__file__).parent
SMALL = ("--hidden", "16", "16", "--batch-size", "16", "--training-starts", "40", "--steps-per-update", "10", "--eval-period", "0")
SMALL = (*SMALL, "--final-episodes", "0", "--log-period", "10")


def start(folder: Path, name: str, *command: str) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen([sys.executable, *command], stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def doctor(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Run `tandem doctor ... --json` in its own process: exit status and answer."""
    environment = {name: value for name, value in os.environ.items() if name != "TANDEM_TOKEN"}
    command = [sys.executable, "-m", "tandem.cli", "doctor", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    write_down(answer["findings"])
    return done.returncode, answer


def names(diagnosis: dict[str, Any]) -> list[str]:
    return [finding["name"] for finding in diagnosis["findings"]]


# ---- a healthy run, early and at its end


def test_a_run_of_processes_is_healthy_early_and_at_its_end(demos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = (*SMALL, "--num-envs", "4", "--updates-per-actor-step", "0.125", "--max-steps", "600", "--demos", str(demos), "--quiet")
    command = start(tmp_path, "train", "-m", "tandem.cli", "train", "reach", "--run", str(run), *options)
    try:
        wait_for(lambda: (run / "live.json").exists(), 60, what="its folder exists")
        assert_healthy(diagnose_run(run))
        wait_for(lambda: diagnose_run(run)["clocks"]["learner_step"] > 50, 60, what="it has learned a little")
        young = diagnose_run(run)
        assert_healthy(young)
        assert young["state"] == "running" and young["clocks"]["learner_step"] < 600
        assert command.wait(60) == 0
    finally:
        end(command)
    done = diagnose_run(run)
    assert done["state"] == "finished"
    assert_healthy(done)


# ---- one run, one fault after another


class Rig:
    """A learner that is asked for more updates than it can make, and a real-time actor behind a proxy."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run = folder, folder / "run"
        options = (*SMALL, "--max-steps", "1000000", "--updates-per-actor-step", "1000", "--timeout", "30", "--port", "0", "--quiet")
        self.learner = start(folder, "learner", "-m", "tandem.cli", "learner", "reach", "--run", str(self.run), *options)
        wait_for(lambda: (self.run / "hub.json").exists(), 60, what="the hub listens")
        self.proxy = Proxy(int(self.address.rpartition(":")[2]))
        self.actor = self.start_actor()
        wait_for(lambda: self.look()["clocks"]["learner_step"] > 200, 60, what="it learns")

    @property
    def address(self) -> str:
        return json.loads((self.run / "hub.json").read_text())["address"]

    @property
    def token(self) -> str:
        return (self.run / "token").read_text()

    def start_actor(self, *program: str) -> subprocess.Popen[bytes]:
        command = program or ("-m", "tandem.cli", "actor")
        options = ("reach", "--learner", f"127.0.0.1:{self.proxy.port}", "--token-file", str(self.run / "token"), "--pace", "realtime")
        spool = str(self.folder / "spool")
        return start(self.folder, "actor", *command, *options, "--name", "arm", "--spool", spool, "--num-envs", "2", "--threads", "1")

    def look(self) -> dict[str, Any]:
        return diagnose_run(self.run)

    def first(self, name: str, seconds: float = 30.0) -> dict[str, Any]:
        """Wait until this is the first finding."""

        def found() -> dict[str, Any] | None:
            seen = self.look()
            if names(seen)[:1] != [name]:
                return None
            write_down(seen["findings"])
            return seen

        try:
            return wait_for(found, seconds, what=f"{name} is first")
        except AssertionError:
            raise AssertionError(f"not {name} but {self.look()['findings']}") from None

    def part(self, kind: str) -> int:
        children = Path(f"/proc/{self.learner.pid}/task/{self.learner.pid}/children").read_text().split()
        return next(int(child) for child in children if f"parts\0{kind}\0".encode() in Path(f"/proc/{child}/cmdline").read_bytes())

    def command(self, command: str) -> None:
        import urllib.request

        asked = urllib.request.Request(
            f"http://{self.address}/api/command",
            json.dumps({"command": command, "to": "trainer"}).encode(),
            {"Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(asked, timeout=5):
            pass

    def client(self, spec: Any, name: str) -> ActorClient:
        return ActorClient(spec, ClientConfig(self.address, self.token, name=name, rows=1, pace="fast", spool=self.folder / "other"))

    def close(self) -> None:
        self.proxy.close()
        end(self.actor)
        end(self.learner)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("rig"))
    yield rig
    rig.close()


def test_a_learner_that_cannot_keep_up(rig: Rig) -> None:
    """1,000 updates for each of 20 actor steps a second were asked for."""
    seen = rig.first("learner_slow")
    assert seen["severity"] == "warning" and any("1e+03" in line or "1,000" in line for line in seen["findings"][0]["evidence"]), seen


def test_address_token_and_the_diagnosis_from_the_hub(rig: Rig, tmp_path: Path) -> None:
    status, seen = doctor(rig.address, "--token-file", str(rig.run / "token"))
    assert status == 1 and names(seen)[0] == "learner_slow" and seen["probe"]["outcome"] == "ok", seen
    assert seen["clocks"]["steps_per_update"] == 10 and len(seen["checklist"]) == 9, "the hub has diagnosed its own folder"
    (tmp_path / "token").write_text("x" * 43)
    status, seen = doctor(rig.address, "--token-file", str(tmp_path / "token"))
    assert status == 2 and names(seen) == ["wrong_token"] and "was given" in seen["findings"][0]["evidence"][0]
    status, seen = doctor(rig.address)
    assert status == 2 and names(seen) == ["wrong_token"] and "no token was given" in seen["findings"][0]["evidence"][0]


def test_a_closed_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    status, seen = doctor(f"127.0.0.1:{port}")
    assert status == 2 and names(seen) == ["connection_refused"]


def test_a_port_of_another_program() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        status, seen = doctor(f"127.0.0.1:{server.server_port}")
        server.shutdown()
    assert status == 2 and names(seen) == ["not_a_hub"]


def test_no_answer(rig: Rig) -> None:
    """As behind a firewall that drops packets."""
    with Proxy(int(rig.address.rpartition(":")[2])) as proxy:
        proxy.silent = True
        status, seen = doctor(proxy.address, "--token-file", str(rig.run / "token"))
    assert status == 2 and names(seen) == ["no_answer"]


def test_an_unknown_host_name() -> None:
    assert names(doctor("nobody.invalid:5588")[1]) == ["address_unknown"]


def test_an_actor_with_other_observations_another_task_another_version(rig: Rig) -> None:
    other = dataclasses.replace(
        SPEC, observation={**SPEC.observation, "tcp_velocity": dataclasses.replace(SPEC.observation["tcp_velocity"], shape=(2,))}
    )
    with pytest.raises(LinkError):
        rig.client(other, "camera").connect()
    seen = rig.first("other_spec")
    assert any("tcp_velocity" in line for line in seen["findings"][0]["evidence"])
    with pytest.raises(LinkError):
        rig.client(dataclasses.replace(SPEC, task="push"), "second").connect()
    seen = rig.first("other_task")
    assert any("push" in line for line in seen["findings"][0]["evidence"])

    async def greet() -> None:
        async with connect(f"ws://{rig.address}/link", additional_headers={"Authorization": f"Bearer {rig.token}"}) as connection:
            header = pack({"kind": "hello", "protocol": 99, "name": "third"})
            await connection.send(len(header).to_bytes(4, "little") + header)
            await connection.recv()

    asyncio.run(greet())
    assert rig.first("other_version")
    # the finding ends when an actor of that name joins; here the events are deleted instead
    events = rig.run / "events.jsonl"
    events.write_text("".join(line + "\n" for line in events.read_text().splitlines() if '"refused"' not in line))
    rig.first("learner_slow")


def test_paused(rig: Rig) -> None:
    rig.command("pause")
    rig.first("paused")
    rig.command("resume")
    rig.first("learner_slow")


def test_an_actor_that_is_stopped_and_one_that_is_killed(rig: Rig) -> None:
    rig.actor.send_signal(signal.SIGSTOP)
    seen = rig.first("actor_silent")
    assert "arm" in seen["findings"][0]["evidence"][0]
    rig.actor.send_signal(signal.SIGCONT)
    rig.first("learner_slow")
    rig.actor.kill()
    rig.actor.wait()
    rig.first("actor_gone")


def test_a_full_disk(rig: Rig) -> None:
    rig.actor = rig.start_actor()
    rig.first("learner_slow")
    pid = rig.part("hub")
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (min(path.stat().st_size for path in rig.run.glob("journal.db*")), hard))
    # the hub cannot write its status file now either, so ask the hub itself
    status, seen = wait_for(
        lambda: (answer := doctor(rig.address, "--token-file", str(rig.run / "token")))[1]["findings"][0]["name"] == "disk_full" and answer,
        60,
        what="the disk is full",
    )
    assert status == 2 and seen["findings"][0]["evidence"]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    rig.first("learner_slow")


def test_an_actor_that_never_receives_new_policies(rig: Rig) -> None:
    end(rig.actor)
    rig.actor = rig.start_actor(str(HERE / "deaf_actor.py"))
    seen = rig.first("policies_not_applied", 60)
    assert any("arm" in line for line in seen["findings"][0]["evidence"])


def test_a_stopped_trainer(rig: Rig) -> None:
    os.kill(rig.part("trainer"), signal.SIGSTOP)
    try:
        rig.first("trainer_dead")
    finally:
        os.kill(rig.part("trainer"), signal.SIGCONT)

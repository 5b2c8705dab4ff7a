"""Hub, trainer and actors as processes: started together, steered, stopped together, resumed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.acting.control_loop import Rhythm
from tandem.data.journal import Journal
from tests.waiting import wait_for

SMALL = ("--hidden", "16", "16", "--batch-size", "16", "--training-starts", "20", "--steps-per-update", "10", "--eval-period", "0")
SMALL = (*SMALL, "--final-episodes", "0", "--num-envs", "2", "--checkpoint-period", "50")


class Command:
    """`tandem ...` as a person would start it, with its run folder."""

    def __init__(self, folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self.log = folder / f"{arguments[0]}_{len(list(folder.glob('*.log')))}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tandem.cli", *arguments], stdout=log, stderr=log, env={**os.environ, **(environment or {})}
            )

    def said(self) -> str:
        return self.log.read_text()

    def ends(self, code: int = 0, seconds: float = 60.0) -> str:
        assert self.process.wait(seconds) == code, self.said()
        return self.said()

    def interrupt(self) -> str:
        self.process.send_signal(signal.SIGINT)
        return self.ends()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    commands: list[Command] = []

    def start(*arguments: str, **options: Any) -> Command:
        commands.append(Command(tmp_path, *arguments, **options))
        return commands[-1]

    yield start
    for command in commands:
        command.process.terminate()
        try:
            command.process.wait(20)
        except subprocess.TimeoutExpired:
            command.process.kill()
            command.process.wait()


def api(run: Path, path: str, post: dict[str, Any] | None = None) -> Any:
    told = json.loads((run / "hub.json").read_text())
    data = None if post is None else json.dumps(post).encode()
    headers = {"Authorization": f"Bearer {(run / 'token').read_text()}"}
    with urllib.request.urlopen(urllib.request.Request(f"http://{told['address']}{path}", data, headers), timeout=5) as answer:
        return json.loads(answer.read())


def learner_step(run: Path) -> int:
    return api(run, "/api/clocks")["learner_step"]


def parts_of(run: Path) -> list[int]:
    """Processes whose command line names this run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(run).encode() in command and b"tandem.programs.parts" in command:
                found.append(int(entry.name))
    return found


def test_two_processes_learn_together_and_a_resume_goes_on_with_one(tmp_path: Path, started: Callable[..., Command]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    run, there = tmp_path / "run", ("--learners", "2", "--learners-address", address)
    command = started("train", "reach", "--scripted-demos", "3", "--run", str(run), *SMALL, "--max-steps", "400", "--no-film", *there)
    taking_part = ("learner-part", address, "--number", "1", "--of", "2")
    part = started(*taking_part)
    wait_for(lambda: (run / "hub.json").exists() and learner_step(run) > 60, 120)
    part.process.kill()  # the run waits for another, and goes on from its checkpoint
    wait_for(lambda: "a process of this learner is gone" in (run / "train.log").read_text(), 60)
    said = started(*taking_part).ends(seconds=120)
    assert "computing a part of each update of 'reach' on 1 of 2 devices" in said
    updates = int(said.rsplit("after ", 1)[1].split()[0])
    assert 0 < updates < 400 and "the leader has ended" in said, "not from the beginning"
    assert f"tandem learner-part {address} --number 1 --of 2" in command.ends(seconds=60)
    assert "memory on 2 cpu devices" in (run / "train.log").read_text()
    resumed = started("train", "--resume", str(run), "--max-steps", "420", "--no-film", "--quiet", "--json").ends(seconds=120)
    assert json.loads(resumed.splitlines()[-1])["summary"]["learner_step"] == 420


@pytest.mark.parametrize("arguments", [("--sync", "--learners", "2"), ("--learners", "0")])
def test_learners_that_make_no_sense_are_refused(tmp_path: Path, started: Callable[..., Command], arguments: tuple[str, ...]) -> None:
    said = started("train", "reach", "--run", str(tmp_path / "run"), *arguments).ends(code=2)
    assert "--learners" in said and not (tmp_path / "run").exists()


def test_reach_is_learned_by_processes_of_their_own(tmp_path: Path, started: Callable[..., Command]) -> None:
    run = tmp_path / "run"
    command = started("train", "reach", "--scripted-demos", "10", "--run", str(run), "--final-episodes", "50", "--quiet", "--json")
    said = command.ends(seconds=180)
    summary = json.loads(said.splitlines()[-1])["summary"]
    assert summary["stopped"].startswith("stop_success") and summary["deterministic"]["success"] >= 0.9
    # the ratio that was asked for is kept, though nobody takes turns: 8 actor steps for a learner step, and a little more in hand
    assert summary["actor_step"] / summary["learner_step"] == pytest.approx(8, rel=0.1)
    with Journal.open(run / "journal.db") as journal:
        versions = [step.policy_version for _, step in journal.read()]
    assert min(versions) >= 1, "no step is made before there is a policy to make it by"
    assert max(versions) >= summary["policy_version"] - 1
    log = (run / "train.log").read_text()
    for line in (
        "sent initial network to actor",
        "[ACTOR] Received network parameters update",
        "[HUB] listening on",
        "[HUB] durability 'power'",
        "demo buffer size",
    ):
        assert line in log, line
    assert not parts_of(run), "nothing is left behind"
    assert not list((run / "spool").glob("*/*")), "everything was handed over"


def test_interrupted_resumed_and_interrupted_with_another_ratio(tmp_path: Path, started: Callable[..., Command]) -> None:
    run = tmp_path / "run"
    first = started("train", "reach", *SMALL, "--updates-per-actor-step", "0.125", "--actors", "2", "--run", str(run))
    wait_for(lambda: learner_step(run) > 60, 60, what="it has learned a little")
    said = first.interrupt()
    assert "interrupted" in said and "tandem train --resume" in said
    before = json.loads((run / "summary.json").read_text())
    assert before["learner_step"] > 60 and not parts_of(run)
    # eight times as many learner steps per actor step as before, and an eighth: neither waits for the other for ever
    for ratio in ("1.0", "0.125"):
        again = started("train", "--resume", str(run), "--updates-per-actor-step", ratio)
        start = before["learner_step"]
        wait_for(lambda start=start: learner_step(run) > start + 40, 60, what="it goes on")
        again.interrupt()
        after = json.loads((run / "summary.json").read_text())
        learned, stepped = after["learner_step"] - before["learner_step"], after["actor_step"] - before["actor_step"]
        assert learned / stepped == pytest.approx(float(ratio), rel=0.6), f"{learned} learner steps and {stepped} actor steps"
        before = after
    assert before["policy_version"] > 3


def test_a_run_is_steered_over_its_api(tmp_path: Path, started: Callable[..., Command]) -> None:
    run = tmp_path / "run"
    command = started("train", "reach", *SMALL, "--eval-episodes", "4", "--run", str(run))
    actors = wait_for(lambda: api(run, "/api/actors"), 60, what="an actor")
    assert {actor["credential"] for actor in actors} == {"actors"}, "not the admin's token"
    secrets = [(run / name).read_bytes().strip() for name in ("token", "actors_token")]
    shown = [Path(f"/proc/{pid}/{what}").read_bytes() for pid in parts_of(run) for what in ("cmdline", "environ")]
    files = [file.read_bytes() for file in run.rglob("*") if file.is_file() and not file.name.endswith("token")]
    assert len(shown) >= 6 and not any(secret in data for secret in secrets for data in (*shown, *files))
    wait_for(lambda: learner_step(run) > 30, 60, what="it learns")
    api(run, "/api/command", {"command": "pause", "to": "all"})
    wait_for(lambda: api(run, "/api/status")["trainer"]["phase"] == "paused", 60, what="it pauses")
    step = learner_step(run)
    time.sleep(0.5)
    assert learner_step(run) == step
    api(run, "/api/command", {"command": "checkpoint", "to": "trainer"})
    wait_for(lambda: (run / "checkpoints" / f"{step:08d}").exists(), 60, what="a checkpoint of this very step")
    api(run, "/api/command", {"command": "evaluate", "to": "trainer"})
    wait_for(lambda: any("eval/success" in row for row in api(run, "/api/metrics")["rows"]), 60, what="an evaluation")
    api(run, "/api/command", {"command": "resume", "to": "all"})
    wait_for(lambda: learner_step(run) > step + 10, 60, what="it goes on")
    clocks = api(run, "/api/clocks")
    assert clocks["steps_per_update"] == 10 and clocks["in_words"].startswith("100 learner steps = 10 policies")
    api(run, "/api/command", {"command": "stop", "to": "all"})
    said = command.ends()
    assert "stopped by a command" in said


def test_when_the_supervisor_dies_its_parts_save_and_stop(tmp_path: Path, started: Callable[..., Command]) -> None:
    run = tmp_path / "run"
    command = started("train", "reach", *SMALL, "--run", str(run))
    wait_for(lambda: learner_step(run) > 20, 60, what="it learns")
    assert len(parts_of(run)) == 3
    command.process.kill()
    command.process.wait()
    wait_for(lambda: not parts_of(run), 30, what="all parts are gone")
    assert json.loads((run / "summary.json").read_text())["stopped"] == "interrupted"


def test_a_port_in_use_is_said_so(tmp_path: Path, started: Callable[..., Command]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = started("learner", "reach", *SMALL, "--run", str(tmp_path / "run"), "--port", str(port)).ends(code=2)
    assert str(port) in said and "Traceback" not in said, said


def test_an_actor_without_a_token_or_with_a_wrong_one_is_told_what_to_do(tmp_path: Path, started: Callable[..., Command]) -> None:
    said = started("actor", "reach", "--learner", "127.0.0.1:1").ends(code=2)
    assert "no token" in said and "--token-file" in said
    run = tmp_path / "run"
    started("learner", "reach", *SMALL, "--run", str(run), "--port", "0")
    address = wait_for(lambda: json.loads((run / "hub.json").read_text())["address"], 60, what="the hub listens")
    said = started("actor", "reach", "--learner", address, environment={"TANDEM_TOKEN": "x" * 43}).ends(code=2)
    assert "token" in said and "Traceback" not in said, said
    token = {"TANDEM_TOKEN": (run / "token").read_text()}
    said = started("actor", "gear_assembly", "--learner", address, environment=token).ends(code=2)
    assert "gear_assembly" in said and "reach" in said, said
    spool = ("--spool", str(tmp_path / "spool"))
    actor = started("actor", "reach", "--learner", address, "--max-steps", "30", "--name", "left hand", *spool, environment=token)
    assert "stopped after 30 steps" in actor.ends()
    [seen] = [each for each in api(run, "/api/actors") if each["name"] == "left hand"]
    assert seen["stored"] == 30


def test_a_real_time_actor_keeps_its_rate_while_the_learner_is_away(tmp_path: Path, started: Callable[..., Command]) -> None:
    run = tmp_path / "run"
    learner = started("learner", "reach", *SMALL, "--updates-per-actor-step", "4", "--run", str(run), "--port", "0")
    wait_for(lambda: (run / "hub.json").exists(), 60, what="the hub listens")
    spool = ("--spool", str(tmp_path / "spool"), "--when-alone", "go-on")
    actor = started("actor", "reach", "--run", str(run), "--pace", "realtime", "--timeout", "2", "--max-steps", "120", *spool)
    wait_for(lambda: api(run, "/api/clocks")["actor_step"] > 5, 60, what="it has begun")
    address = json.loads((run / "hub.json").read_text())["address"]
    learner.interrupt()
    began = time.monotonic()
    again = started("learner", "--resume", str(run), "--port", address.rpartition(":")[2])
    actor.ends()
    lasted = time.monotonic() - began
    # at most 115 steps at 10 Hz were left when the learner went; it is away for the seconds of its start
    assert lasted < 115 / 10 + 4.0, f"{lasted:.1f} s: it waited for the learner"
    wait_for(lambda: api(run, "/api/clocks")["actor_step"] == 120, 60, what="all of it is there")
    wait_for(lambda: api(run, "/api/status")["trainer"]["alive"], 60, what="the trainer is back")
    again.interrupt()


def test_a_stop_before_the_trainer_has_begun_is_clean(tmp_path: Path, started: Callable[..., Command]) -> None:
    run = tmp_path / "run"
    command = started("train", "reach", *SMALL, "--run", str(run))
    wait_for(lambda: (run / "hub.json").exists(), 60, what="the hub listens")
    command.process.send_signal(signal.SIGINT)
    said = command.ends(code=130)
    assert "stopped" in said and "Traceback" not in said and not parts_of(run)


def test_a_late_beat_moves_those_that_follow() -> None:
    rhythm = Rhythm(hz=50.0)
    began = time.monotonic()
    for _ in range(5):
        rhythm.wait()
    assert time.monotonic() - began == pytest.approx(0.1, abs=0.02)
    time.sleep(0.1)
    rhythm.wait()  # late: returns at once, and the next one is a whole period away
    late = time.monotonic()
    rhythm.wait()
    assert rhythm.late == 1 and time.monotonic() - late == pytest.approx(0.02, abs=0.01)

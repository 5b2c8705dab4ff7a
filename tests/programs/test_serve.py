"""`tandem serve`, and the commands that use what it serves."""

import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tandem.acting.judge import Judge
from tandem.data.demos import DemoWriter
from tandem.envs.registry import make_env, make_expert, spec_for
from tandem.envs.served import server
from tandem.errors import EnvironmentTaken
from tandem.files import name_for_files
from tandem.programs.record import record_demos
from tandem.runs.folder import RunFolder
from tandem.types import Spec, Transition, environment_id
from tests.acting.counter_env import steady
from tests.waiting import wait_for

TANDEM = (sys.executable, "-m", "tandem.cli")
WORLDS = Path(__file__).parents[1] / "envs"


def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", "PYTHONPATH": os.pathsep.join([*sys.path, str(WORLDS)])}
    return subprocess.run([*TANDEM, *(str(a) for a in arguments)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture
def reach(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a served task, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("TANDEM_ENV_TOKEN_FILE", str(tmp_path / "token"))
    process = subprocess.Popen([*TANDEM, "serve", "reach", "--port", str(port), "--token-file", str(tmp_path / "token")])
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"ws://127.0.0.1:{port}", process
    process.kill()
    process.wait()


def test_a_task_of_ours_is_served_with_its_whole_spec(reach: tuple[str, subprocess.Popen[bytes]]) -> None:
    address, process = reach
    here, there = make_env("reach", 2), make_env(address, 2)
    assert not [line for line in here.spec.difference(there.spec) if not line.startswith("task")]
    a, b = here.reset(seeds=[1, 2]), there.reset(seeds=[1, 2])
    assert all(np.array_equal(a[name], b[name]) for name in a)
    random = np.random.default_rng(0)
    for _ in range(5):
        action = random.uniform(-1, 1, (2, here.spec.action_dim)).astype(np.float32)
        one, other = here.step(action), there.step(action)
        for name in a:
            np.testing.assert_allclose(one.observation[name], other.observation[name], atol=1e-5)
        assert np.array_equal(one.ended, other.ended)
    there.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0


def test_an_episode_is_replayed_in_a_served_simulation_from_where_it_began(
    reach: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    path = record_demos(make_env("reach"), make_expert("reach", 0), 2, tmp_path, seed=7)
    again = run("demos", "replay", path, 1, "--task", reach[0], "--out", tmp_path / "page", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "start: exactly as recorded (seed 7, attempt 1)" in again.stdout and "no number is off by more than 2%" in again.stdout
    assert (tmp_path / "page" / "index.html").exists()


def test_an_episode_is_replayed_on_a_robot_only_under_limits_and_says_where_it_departs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The robot measures 0 whatever it does; in the recording the first number grows by 0.1 in every step, and the second stays 0."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    witness, task = tmp_path / "witness", f"serve:{sys.executable}:stamped_robot:StampedRobot-v0"
    monkeypatch.setenv("WITNESS", str(witness))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    looks = [{"state": np.array([0.1 * t, 0], np.float32)} for t in range(5)]
    action = np.array([0.25, 0], np.float32)
    ends = [(0.0, False)] * 3 + [(1.0, True)]
    steps = [
        Transition(looks[t], action, paid, looks[t + 1], last, False, success=last, episode=0, step=t, source="r", seq=t)
        for t, (paid, last) in enumerate(ends)
    ]
    with DemoWriter(tmp_path / "demos", spec_for(task)) as writer:
        writer.add(steps)
        path = writer.finish()
    witness.unlink(missing_ok=True)
    refused = run("demos", "replay", path, 0, "--task", task, cwd=tmp_path)
    assert refused.returncode == 2 and "--no-limits" in refused.stderr, refused.stderr
    assert not witness.exists() or {line.split()[0] for line in witness.read_text().splitlines()} == {"halt"}, "it did not move"
    (tmp_path / "limits.toml").write_text("stall_s = 5\naxis.x.speed_share = 0.9\naxis.y.speed_share = 0.9\n")
    moved = run("demos", "replay", path, 0, "--task", task, "--limits", "limits.toml", "--out", "page", cwd=tmp_path)
    assert moved.returncode == 1 and "recorded: success after 4 steps; again: no success after 4" in moved.stdout, moved.stderr
    assert "start: where the reset leads" in moved.stdout and "it departs from the recording at step 1 (0.1 s)" in moved.stdout
    [line] = [line for line in moved.stdout.splitlines() if "state[0]" in line]
    assert "from step 1" in line and "at the end off by 0.4" in line and "state[1]" not in moved.stdout
    assert witness.read_text().count("action ") == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("reach", "--host", "0.0.0.0", "--token-file", "t"), "--certificate and --key, or type --insecure"),
        (("reach",), "no token"),
        (("no_such_world:X-v0", "--token-file", "t"), "no_such_world"),
        (("ws://127.0.0.1:1", "--token-file", "t"), "is served already"),
    ],
)
def test_what_cannot_be_served_is_refused(arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TANDEM_TOKEN", raising=False)
    refused = run("serve", *arguments, cwd=tmp_path)
    assert refused.returncode == 2 and words in refused.stderr and "Traceback" not in refused.stderr


def test_an_environment_in_another_python_is_trained_and_evaluated(tmp_path: Path) -> None:
    name = f"serve:{sys.executable}:served_worlds:ServedRail-v0"
    short = ("--max-steps", 20, "--eval-period", 0, "--final-episodes", 1, "--quiet")
    trained = run("train", name, "--sync", *short, cwd=tmp_path)
    assert trained.returncode == 0 and "max_steps (20) reached" in trained.stdout, trained.stderr
    [folder] = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"served_worlds_ServedRail-v0_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", folder.name), "nothing of the interpreter's path"
    refused = run("eval", folder, "--episodes", 2, cwd=tmp_path)
    assert refused.returncode == 2 and "--allow-module" in refused.stderr, "a file does not decide which interpreter runs what"
    evaluated = run("eval", folder, "--episodes", 2, "--allow-module", name.rpartition(":")[0], cwd=tmp_path)
    assert evaluated.returncode == 0 and "of 2" in evaluated.stdout, evaluated.stderr


def test_the_same_environment_has_the_same_hash_in_any_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment_id("serve:/usr/bin/python3:mw:Peg-v3") == "mw:Peg-v3" and environment_id("mw:Peg-v3") == "mw:Peg-v3"
    assert environment_id("serve:python") == "serve:python" and environment_id("ws://robot:5599") == "ws://robot:5599"
    here, there = spec_for("Pendulum-v1"), spec_for(f"serve:{sys.executable}:Pendulum-v1")
    assert here.hash == there.hash and not here.difference(there) and here.task != there.task
    assert Spec.from_json(there.to_json()) == there


def test_files_are_named_after_the_environment_and_not_after_its_python(tmp_path: Path) -> None:
    assert name_for_files("serve:/home/me/venvs/mw/bin/python:mw:Peg-v3") == name_for_files("mw:Peg-v3") == "mw_Peg-v3"
    assert name_for_files("ws://robot:5599") == "ws_robot_5599" and name_for_files("gear_assembly") == "gear_assembly"
    spec = dataclasses.replace(spec_for("Pendulum-v1"), task="serve:/home/me/venvs/mw/bin/python:mw:Peg-v3")
    with DemoWriter(tmp_path, spec) as writer:
        assert writer.partial_path.name.startswith("mw_Peg-v3_demos_")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def robot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The address of a robot, which serves one client."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for name, value in (("TANDEM_TOKEN", "t" * 20), ("TANDEM_ENV_CONNECT_S", "2"), ("HALTED", str(tmp_path / "halted"))):
        monkeypatch.setenv(name, value)
    environment = {**os.environ, "PYTHONPATH": str(WORLDS)}
    process = subprocess.Popen([sys.executable, server.__file__, "served_worlds:ServedRobot-v0", "--port", str(port)], env=environment)
    wait_for(lambda: _listens(port), what="the robot's server")
    yield f"ws://127.0.0.1:{port}"
    process.terminate()
    process.wait(10)


def test_a_robot_that_serves_one_client_is_trained_without_evaluations(robot: str, tmp_path: Path) -> None:
    """Neither the evaluation beside training nor the last one ends the run; what happens instead is said once."""
    sizes = ("--batch-size", 8, "--training-starts", 10, "--steps-per-update", 5, "--max-steps", 40, "--stop-success", 0)
    evaluations = ("--eval-period", 10, "--eval-episodes", 1, "--final-episodes", 1)
    options = ("--pace", "realtime", "--no-limits", "--operator", "none", "--no-film", "--run", tmp_path / "run")
    trained = run("train", robot, *options, *sizes, *evaluations, cwd=tmp_path)
    words, folder = trained.stdout, RunFolder.open(tmp_path / "run")
    summary = folder.summary() or {}
    assert trained.returncode == 0 and summary["stopped"].startswith("max_steps") and "deterministic" not in summary, trained.stderr
    assert words.count("no evaluation: environment 'ws://") == 2, "at the first one, and at the end"
    assert "1 clients use this environment" in words and "tandem eval RUN" in words and "the latest policy is kept" in words
    assert folder.latest_policy.exists()
    assert not [row for row in folder.metrics() if "eval/return" in row]


def test_a_robot_that_lets_two_in_is_not_moved_by_an_evaluation(robot: str) -> None:
    """Nobody else has it here, as after an actor that was lost: it must still be there when the actor comes back."""
    judge = Judge(robot, spec_for(robot), 0, eval_episodes=1, final_episodes=1, say=[].append)
    with pytest.raises(EnvironmentTaken, match="is a robot"):
        judge.score(steady(0.1))
    assert not judge.affordable() and judge.final(steady(0.1)) == {}
    env = make_env(robot)  # it is free again
    env.reset(seeds=[0])
    env.close()

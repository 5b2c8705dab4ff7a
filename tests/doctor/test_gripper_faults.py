"""Faults of a gripper that is learned, injected into a short real run: the doctor names each, and says where episodes end."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.doctor.diagnosis import diagnose_run
from tandem.doctor.show import lines
from tandem.envs import registry
from tandem.envs.task import Stages
from tandem.types import Observation, Transition
from tests.doctor.doctor_samples import copy_of, edit_rows, edit_steps, findings, short_run
from tests.grasp_task import Grasp

STAGES = ("approach", "grasp", "lift")
CLOSE, HOLD, OPEN = 0.0, 1.0, 2.0


def stage(observation: Observation) -> np.ndarray:
    """In this test: by the x of the tool, which `edit_steps` sets."""
    return np.rint(observation["tcp_position"][:, 0]).astype(int).clip(0, 2)


@pytest.fixture(scope="module")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run on `reach` with a gripper; its task is registered for all tests here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.TASKS, "grasp", registry.Registered(Grasp, "a test", stages=lambda: Stages(STAGES, stage, held=2)))
        yield short_run(tmp_path_factory.mktemp("hand") / "run", task="grasp", max_steps=100)


def told(step: Transition, choice: float) -> np.ndarray:
    return np.array([*step.action[:3], choice], np.float32)


def named(run: Path) -> dict[str, dict[str, Any]]:
    return {finding["name"]: finding for finding in findings(run)}


GRIPPER = {"gripper_never_closes", "grasp_slips", "gripper_chatters", "grasp_critic_flat"}


def test_a_hand_that_closes_once_has_no_finding(hand: Path, tmp_path: Path) -> None:
    run = copy_of(hand, tmp_path / "run")
    edit_steps(run, lambda _, step: dataclasses.replace(step, action=told(step, CLOSE if step.step == 3 else HOLD)))
    assert not GRIPPER & set(named(run))


def test_a_gripper_that_chatters(hand: Path, tmp_path: Path) -> None:
    run = copy_of(hand, tmp_path / "run")
    edit_steps(run, lambda _, step: dataclasses.replace(step, action=told(step, (CLOSE, HOLD, OPEN, HOLD)[step.step % 4])))
    found = named(run)
    assert "gripper_chatters" in found and "gripper:" in found["gripper_chatters"]["evidence"][0]


def test_a_gripper_that_never_closes(hand: Path, tmp_path: Path) -> None:
    run = copy_of(hand, tmp_path / "run")

    def never(number: int, step: Transition) -> Transition:
        return dataclasses.replace(step, action=told(step, OPEN if number % 3 else HOLD), success=False)

    edit_steps(run, never)
    assert "gripper_never_closes" in named(run)
    edit_steps(run, lambda _, step: dataclasses.replace(step, action=told(step, CLOSE if step.step == 2 else HOLD)))
    assert "gripper_never_closes" not in named(run)


def test_a_grasp_critic_that_is_flat(hand: Path, tmp_path: Path) -> None:
    run = copy_of(hand, tmp_path / "run")
    late = {"learner_step": 2000, "policy_version": 201}
    edit_rows(run, lambda _, row: row | late | ({"grasp_critic/spread": 0.3} if "grasp_critic/spread" in row else {}))
    assert "grasp_critic_flat" not in named(run)
    edit_rows(run, lambda _, row: row | ({"grasp_critic/spread": 0.004} if "grasp_critic/spread" in row else {}))
    assert "0.004" in named(run)["grasp_critic_flat"]["evidence"][0]


@pytest.mark.parametrize(("opens", "says"), [(True, "told something new"), (False, "it was not")])
def test_grasps_that_slip_and_the_stage_at_which_episodes_end(hand: Path, tmp_path: Path, opens: bool, says: str) -> None:
    """Every episode closes at once; every second one is held, and lost; the others time out while approaching."""
    run = copy_of(hand, tmp_path / "run")

    def lose(number: int, step: Transition) -> Transition:
        held = step.episode % 2 == 0
        choice = CLOSE if step.step < 2 else OPEN if opens and step.last else HOLD
        seen = {**step.observation, "tcp_position": np.array([2.0 if held else 0.0, 0, 0], np.float32)}
        end = {"terminated": step.last and held, "truncated": step.last and not held, "success": False}
        return dataclasses.replace(step, observation=seen, action=told(step, choice), **end)

    edit_steps(run, lose)
    found = named(run)["grasp_slips"]
    assert "stage lift" in found["evidence"][0]
    counts = [int(word) for word in found["evidence"][1].replace(",", "").split() if word.isdigit()]
    assert counts[0 if opens else 1] > 0 and counts[1 if opens else 0] == 0, (says, found["evidence"])
    diagnosis = diagnose_run(run)
    rows = {row["stage"]: row for row in diagnosis["stages"]["rows"]}
    assert rows["lift"]["lost"] > 0 and rows["lift"]["time"] == 0 and rows["approach"]["time"] > 0 and rows["grasp"]["lost"] == 0
    assert diagnosis["stages"]["succeeded"] == 0
    shown, chinese = "\n".join(lines(diagnosis, "en")), "\n".join(lines(diagnosis, "zh"))
    assert "out of time" in shown and "抬起" in chinese

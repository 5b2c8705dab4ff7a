"""Odd tasks: `reach` with a discrete gripper that does nothing, or with a camera. Registered for the length of a test."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from tandem.envs import registry
from tandem.envs.reach import SPEC, Reach, ReachExpert
from tandem.types import Discrete, Entry, Observation

GRASP = dataclasses.replace(SPEC, task="grasp", action=(*SPEC.action, Discrete("gripper", ("close", "hold", "open"), rest=1)))
PICTURED = dataclasses.replace(SPEC, task="pictured", observation={**SPEC.observation, "wrist": Entry((8, 8, 3), "uint8")})


class Grasp(Reach):
    """The gripper does nothing; what was chosen is kept for the tests."""

    def __init__(self) -> None:
        super().__init__()
        self.spec = GRASP
        self.chosen: list[float] = []

    def advance(self, rows, action: np.ndarray, streams) -> None:
        self.chosen += action[:, 3].tolist()
        super().advance(rows, action[:, :3], streams)


class Pictured(Reach):
    def __init__(self) -> None:
        super().__init__()
        self.spec = PICTURED

    def observe(self, rows) -> Observation:
        seen = super().observe(rows)
        return seen | {"wrist": np.zeros((len(seen["to_ball"]), 8, 8, 3), np.uint8)}


class Presses(ReachExpert):
    """Closes near the ball, and holds otherwise."""

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        arm, by_human = super().decide(observation, proposed)
        return np.append(arm, 0.0 if np.linalg.norm(observation["to_ball"]) < 0.05 else 1.0).astype(np.float32), by_human


@pytest.fixture
def odd_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, task in (("grasp", Grasp), ("pictured", Pictured)):
        monkeypatch.setitem(registry.TASKS, name, registry.Registered(task, "a test"))
    yield

"""`reach` by eye, drawn without OpenGL: a bright square stands where the ball is in the plane. `tests.seeing_task:seeing_reach`."""

import dataclasses

import numpy as np

from tandem.envs.reach import HALF_BOX, SPEC, Reach, ReachExpert
from tandem.envs.registry import register_task
from tandem.envs.task import Rows
from tandem.types import Discrete, Entry, Observation

SIZE = 32
SEEING = dataclasses.replace(
    SPEC,
    task="seeing_reach",
    observation={
        "eye": Entry((SIZE, SIZE, 3), "uint8"),
        **{name: entry for name, entry in SPEC.observation.items() if name != "to_ball"},
        "to_ball": dataclasses.replace(SPEC.observation["to_ball"], role="privileged"),
    },
)


class SeeingReach(Reach):
    def __init__(self) -> None:
        super().__init__()
        self.spec = SEEING

    def observe(self, rows: Rows) -> Observation:
        seen = super().observe(rows)
        pictures = np.full((len(seen["to_ball"]), SIZE, SIZE, 3), 40, np.uint8)
        for picture, (x, y, z) in zip(pictures, seen["to_ball"] / (2 * HALF_BOX), strict=True):
            column, row = (int(np.clip((1 + number) * SIZE / 2, 0, SIZE - 6)) for number in (x, y))
            picture[row : row + 6, column : column + 6] = (220, int(np.clip(110 + 100 * z, 0, 255)), 60)
        return {"eye": pictures, **seen}


GRASPING = dataclasses.replace(SEEING, task="seeing_grasp", action=(*SEEING.action, Discrete("gripper", ("close", "open"), rest=1)))


class SeeingGrasp(SeeingReach):
    """With a gripper that does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.spec = GRASPING

    def advance(self, rows: Rows, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        super().advance(rows, action[:, :3], streams)


class GraspExpert(ReachExpert):
    """Closes near the ball."""

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        arm, by_human = super().decide(observation, proposed)
        return np.append(arm, float(np.linalg.norm(observation["to_ball"]) > 0.05)).astype(np.float32), by_human


register_task("seeing_reach", SeeingReach, "a test", expert=ReachExpert)
register_task("seeing_grasp", SeeingGrasp, "a test", expert=GraspExpert)

"""Practice: episodes that are easier, or of other physics, than those a policy is judged by. For learning in simulation only.

*Curriculum*: every simulation has a level from 0 to 1 of its own. A success raises it, a failure lowers it by half as much, so a
simulation hovers where about a third of its episodes succeed until it reaches 1, which is the task as it is. It is learned from its
end: at level 0 the gear is nearly seated already; up to `ON_THE_PEG` it starts higher and higher up the peg, straight and in mesh, with
the board measured without error; from there on every range widens to the task's own.

*Randomisation*: friction, the bearings of the mounted gears and the arm's stiffness are drawn anew for every episode, each times a
factor of 1 - r to 1 + r. A policy that works for all of them has a better chance on a real robot.
"""

from __future__ import annotations

import mujoco.batch
import numpy as np

from tandem.envs.task import Rows

STEP_UP, STEP_DOWN = 0.1, 0.05
ON_THE_PEG = 0.4
"""The level at which an episode begins at the peg's tip."""
LOWEST_START = 3e-3
"""Height of the gear's bottom over the board at level 0 (m)."""


class Levels:
    """How hard each simulation's episodes are; all at 1, for ever, without a curriculum."""

    def __init__(self, count: int, curriculum: bool) -> None:
        self._curriculum = curriculum
        self.level = np.full(count, 0.0 if curriculum else 1.0)
        self._stepped, self._succeeded = np.zeros(count, bool), np.zeros(count, bool)

    def finished_step(self, rows: Rows, success: np.ndarray) -> None:
        """A step was made; the last one of an episode decides."""
        self._stepped[rows], self._succeeded[rows] = True, success

    def begin(self, rows: Rows) -> None:
        """New episodes: the level follows from what became of the old ones."""
        if self._curriculum:
            change = np.where(self._succeeded[rows], STEP_UP, -STEP_DOWN) * self._stepped[rows]
            self.level[rows] = np.clip(self.level[rows] + change, 0, 1)
            self._stepped[rows] = False

    def width(self, row: int) -> float:
        """The share of every range that an episode is drawn from; 1 is the task itself."""
        level = float(self.level[row])
        return 1.0 if level == 1 else max(0.0, (level - ON_THE_PEG) / (1 - ON_THE_PEG))

    def start(self, row: int, peg: float) -> float:
        """Height of the gear's bottom over the board, before what the task adds to it; `peg` is that of the peg's tip."""
        climbed = min(1.0, float(self.level[row]) / ON_THE_PEG)
        return LOWEST_START + climbed * (peg - LOWEST_START) if climbed < 1 else peg

    def memory(self) -> dict[str, np.ndarray]:
        return {"level": self.level, "lived": self._stepped, "succeeded": self._succeeded} if self._curriculum else {}


class OtherPhysics:
    """Draws the physics of an episode. Nothing is touched, and nothing drawn, when `spread` is 0."""

    def __init__(self, batch: mujoco.batch.Batch, spread: float) -> None:
        self._spread = spread
        self._fields = {name: batch.expand(name) for name in _FIELDS} if spread else {}
        self._as_built = {name: np.array(getattr(batch.get_model(0), name)) for name in self._fields}

    def draw(self, row: int, stream: np.random.Generator) -> None:
        if not self._spread:
            return
        friction, bearings, stiffness = 1 + self._spread * stream.uniform(-1, 1, 3)
        factors = {"geom_friction": friction, "dof_frictionloss": bearings, "actuator_gainprm": stiffness, "actuator_biasprm": stiffness}
        for name, field in self._fields.items():
            field[row] = self._as_built[name] * factors[name]

    def memory(self) -> dict[str, np.ndarray]:
        return dict(self._fields)


_FIELDS = ("geom_friction", "dof_frictionloss", "actuator_gainprm", "actuator_biasprm")

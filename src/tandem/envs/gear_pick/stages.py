"""How far an episode of the pick tasks has come: where do the failed ones end?"""

from __future__ import annotations

import numpy as np

from tandem.envs.gear_assembly.board import MM
from tandem.envs.gear_pick.scene import TABLE
from tandem.envs.task import Stages
from tandem.types import Observation

STAGES = ("approach", "grasp", "lift", "carry", "insert")
"""What the hand has to do next: come to the gear, hold it, raise it, bring it over the peg, seat it."""
_AT_THE_GEAR, _LIFTED, _OVER = 6 * MM, 8 * MM, 8 * MM


def stage(observation: Observation) -> np.ndarray:
    """The index in `STAGES` of each robot, (n,). In the lift task the last one is the rest of the way up."""
    gear, gripper = observation["gear_offset"].astype(float), observation["gripper"].astype(float)
    place = observation["tcp_pose"][:, :3] + gear
    near = np.abs(gear).max(axis=1) < _AT_THE_GEAR
    held = near & (gripper[:, 2] > 4.0) & (gripper[:, 0] > 6 * MM)
    lifted = held & (place[:, 2] - TABLE > _LIFTED)
    over = lifted & (np.hypot(place[:, 0], place[:, 1]) < _OVER)
    return near.astype(int) + held + lifted + over


def stages() -> Stages:
    """For the registry."""
    return Stages(STAGES, stage, held=STAGES.index("lift"))

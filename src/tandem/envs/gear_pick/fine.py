"""The whole gear assembly with small actions: the longest of the tasks, of the same physics.

An action moves the command by 1.2 mm or 0.008 rad, the scale of a fork of hil-serl that drives this job in Isaac Sim; that is about a
sixth of what it does in `gear_pick_assembly`. So a demonstration takes about 550 actions. Hidden errors, contacts, observation and what
counts as seated or lost are those of `gear_pick_assembly`; an episode may take 1,000 actions.
"""

from __future__ import annotations

import dataclasses

from tandem.envs.gear_assembly.board import MM
from tandem.envs.gear_pick.expert import PickCorrector, PickExpert
from tandem.envs.gear_pick.task import CONTROL, GearPick, PickOptions, pick_limits_of
from tandem.envs.limits import LimitSettings

FINE = dataclasses.replace(CONTROL, action_scale=(1.2 * MM,) * 3 + (0.008,) * 3)
SEARCH_PACE = FINE.action_scale[0] / CONTROL.action_scale[0]
"""How much shorter a step of the demonstrator's search is: 0.09 to 0.15 mm along the spiral."""
PACES = (0.42, 0.72)
"""The demonstrator's steps on the way, as shares of the largest."""
STEPS = 1000


def gear_pick_assembly_fine(options: PickOptions | None = None) -> GearPick:
    """The task; its reward is sparse and its gripper is commanded by width."""
    task = GearPick(options=options, control=FINE)
    task.spec = dataclasses.replace(task.spec, task="gear_pick_assembly_fine", max_episode_steps=STEPS)
    return task


def fine_pick_expert(seed: int | None = None) -> PickExpert:
    """The demonstrator with smaller steps."""
    return PickExpert("assembly", "absolute", seed, FINE, PACES, SEARCH_PACE)


def fine_pick_corrector(seed: int | None = None) -> PickCorrector:
    """A person who corrects for a moment, with smaller steps."""
    return PickCorrector("assembly", "absolute", seed, FINE)


def fine_pick_limits() -> LimitSettings:
    """Limits of a robot that does this task."""
    return pick_limits_of(FINE, "absolute")

"""The gear task with small actions: a long task, of the same physics.

An action moves the command by a sixteenth of what it does in `gear_assembly`: 0.44 mm or 0.19 degrees. So a demonstration takes about
300 actions, one action changes almost nothing, and the single reward lies far ahead. Hidden errors, contacts, observation and what
counts as seated are those of `gear_assembly`; an episode may take 600 actions.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tandem.envs.gear_assembly.expert import GearCorrector, GearExpert, by_touch
from tandem.envs.gear_assembly.task import CONTROL, SPEC, GearAssembly, GearOptions
from tandem.envs.limits import LimitSettings, limits_of_control
from tandem.types import Continuous, Observation

FINER = 16
"""So many of its actions are one of `gear_assembly`."""
SEARCH_PACE = 0.065
"""How much shorter a step of the demonstrator's search is: 0.03 to 0.06 mm along the spiral."""
FINE = dataclasses.replace(CONTROL, action_scale=tuple(step / FINER for step in CONTROL.action_scale))
FINE_SPEC = dataclasses.replace(
    SPEC,
    task="gear_assembly_fine",
    action=tuple(dataclasses.replace(part, scale=FINE.action_scale) if isinstance(part, Continuous) else part for part in SPEC.action),
    max_episode_steps=600,
)


def gear_assembly_fine(options: GearOptions | None = None) -> GearAssembly:
    """The task; its reward is sparse."""
    return GearAssembly(options, spec=FINE_SPEC, control=FINE)


def fine_expert(seed: int | None = None) -> GearExpert:
    """The demonstrator with smaller steps."""
    return GearExpert(seed, FINE, SEARCH_PACE)


def fine_corrector(seed: int | None = None) -> GearCorrector:
    """A person who corrects for a moment, with smaller steps."""
    return GearCorrector(seed, FINE)


def fine_by_touch(observation: Observation) -> np.ndarray:
    """`by_touch` with smaller steps."""
    return by_touch(observation, FINE)


def fine_limits() -> LimitSettings:
    """Limits of a robot that does this task."""
    return limits_of_control(FINE, 6, 10.0, position="tcp_pose", offset="command_offset", wrench="wrench", force=20.0)

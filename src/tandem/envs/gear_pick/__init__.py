"""Pick a gear up from the table with two fingers: to put it on its peg, or just to lift it."""

from tandem.envs.gear_pick.task import GearPick

__all__ = ["GearPick"]

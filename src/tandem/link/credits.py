"""How many steps the fast actors may make: pure arithmetic, so that it can be tested to the last step.

    allowed = steps_before + learner_step / updates_per_actor_step + burst
    burst   = R + max(R, ceil(1 / updates_per_actor_step)),   R = rows of all connected fast actors

What is allowed and not yet stored is divided into outstanding grants. Two things hold at every moment: the grants never add up to
more than is left, and no actor holds more than its own part of the burst. So one that stands still cannot keep the others from
going on: when the trainer waits for steps, at least the whole burst is left, and every actor's part of it is its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Pacing:
    """Where the trainer is, and what was asked for."""

    steps_before: int
    """Steps that had been made when the first learner step was earned, had the ratio always been this one."""
    updates_per_actor_step: float
    learner_step: int


def burst(rows: int, updates_per_actor_step: float) -> int:
    return rows + max(rows, math.ceil(1 / updates_per_actor_step))


def left(pacing: Pacing, rows: int, stored: int) -> int:
    """Steps that may be made beyond those stored, by all actors together."""
    allowed = pacing.steps_before + pacing.learner_step / pacing.updates_per_actor_step + burst(rows, pacing.updates_per_actor_step)
    return max(0, math.floor(allowed) - stored)


def grants(pacing: Pacing, rows: list[int], outstanding: list[int], stored: int) -> list[int]:
    """New outstanding grants of each actor, none below what it holds already (`outstanding`: granted and not yet acknowledged)."""
    total = sum(rows)
    if not total:
        return []
    free = left(pacing, total, stored) - sum(outstanding)
    share = max(total, math.ceil(1 / pacing.updates_per_actor_step))
    given = []
    for row, held in zip(rows, outstanding, strict=True):
        part = row + share * row // total
        more = max(0, min(part - held, free))
        free -= more
        given.append(held + more)
    return given

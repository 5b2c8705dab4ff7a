"""How many steps the fast actors may make. Pure arithmetic, so that it can be tested to the last step.

    allowed = steps_before + learner_step / updates_per_actor_step + burst
    burst   = R + max(R, n) + n,   n = ceil(1 / updates_per_actor_step),   R = rows of all connected fast actors

Steps that are allowed and not yet stored are divided into outstanding grants. Two things hold at every moment: the grants never add
up to more than is left, and no actor holds more than its own part of R + max(R, n). So an actor that stands still cannot stop the
others: a trainer that waits has seen less than n steps since its last learner step was earned, so that at least R + max(R, n) are left,
and every actor has its own part of them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Pacing:
    """The trainer's progress, and the configured ratio."""

    steps_before: int
    """Steps made before the first learner step was earned, as if the ratio had always been this one."""
    updates_per_actor_step: float
    learner_step: int


def burst(rows: int, updates_per_actor_step: float) -> int:
    needed = math.ceil(1 / updates_per_actor_step)
    return rows + max(rows, needed) + needed


def left(pacing: Pacing, rows: int, stored: int) -> int:
    """Steps that may be made beyond those stored, by all actors together."""
    allowed = pacing.steps_before + pacing.learner_step / pacing.updates_per_actor_step + burst(rows, pacing.updates_per_actor_step)
    return max(0, math.floor(allowed) - stored)


@dataclass
class Account:
    """The grants of one fast actor."""

    rows: int
    outstanding: int = 0
    """Steps granted and not yet acknowledged."""
    served: float = -1.0
    """Grants so far, in steps per row; negative until it takes part."""

    def acknowledge(self, steps: int) -> None:
        self.outstanding = max(0, self.outstanding - steps)


def divide(pacing: Pacing, accounts: Sequence[Account], stored: int) -> None:
    """Grant all that is left, step by step, each to the actor that was granted least per row."""
    rows = sum(account.rows for account in accounts)
    share = max(rows, math.ceil(1 / pacing.updates_per_actor_step))
    free = left(pacing, rows, stored) - sum(account.outstanding for account in accounts)
    least = min((account.served for account in accounts if account.served >= 0), default=0.0)
    waiting: list[tuple[float, int, Account]] = []
    for number, account in enumerate(accounts):
        account.served = least if account.served < 0 else account.served
        if account.outstanding < _part(account, share, rows):
            waiting.append((account.served, number, account))
    heapq.heapify(waiting)
    while free > 0 and waiting:
        _, number, account = heapq.heappop(waiting)
        account.outstanding += 1
        account.served += 1 / account.rows
        free -= 1
        if account.outstanding < _part(account, share, rows):
            heapq.heappush(waiting, (account.served, number, account))
    if waiting:  # an actor that holds its maximum does not save up a claim while others wait
        for account in accounts:
            account.served = max(account.served, waiting[0][0])


def _part(account: Account, share: int, rows: int) -> int:
    """Its own part of `rows + share`."""
    return account.rows + share * account.rows // rows

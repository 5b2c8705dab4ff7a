"""Looks at the board again and again: has the trainer made progress, published a policy, or died?"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from tandem.runs.board import Board

LOOK_S, LOOK_SELDOM_S = 0.005, 0.02
"""Between two looks; seldom while no actor waits for credit."""
TICK_S = 0.2
DEAD_TRAINER_S = 5.0
"""A trainer whose heartbeat stands still for so long counts as dead."""


class BoardWatch:
    """Runs in the hub's event loop.

    `changed(published)` is called when the trainer wrote something; `published`: a new policy among it. `tick(now)` is called five
    times a second. `hurry()` says whether an actor may be waiting for credit.
    """

    def __init__(
        self,
        board: Board,
        *,
        changed: Callable[[bool], None],
        tick: Callable[[float], None],
        hurry: Callable[[], bool],
    ) -> None:
        self._board, self._changed, self._tick, self._hurry = board, changed, tick, hurry
        self._state: tuple[int, ...] = ()
        self._version = -1
        self._heartbeat = board["trainer_heartbeat"]
        self._alive_at = self._ticked_at = -math.inf
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._look()

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()

    def trainer_alive(self, now: float) -> bool:
        """Whether the trainer's heartbeat has moved within the last seconds."""
        if self._board["trainer_heartbeat"] != self._heartbeat:
            self._heartbeat, self._alive_at = self._board["trainer_heartbeat"], now
        return now - self._alive_at < DEAD_TRAINER_S

    def _look(self) -> None:
        now, board = time.monotonic(), self._board
        state = board.trainer_state()
        if state != self._state:
            version = board["policy_version"]
            published, self._version = version != self._version, version
            self._state = state
            self._changed(published)
        if now - self._ticked_at >= TICK_S:
            self._ticked_at = now
            self.trainer_alive(now)
            self._tick(now)
        self._next = asyncio.get_running_loop().call_later(LOOK_S if self._hurry() else LOOK_SELDOM_S, self._look)

"""The return that really followed each step, known once its episode has ended.

    G_t = r_t + γ r_(t+1) + γ² r_(t+2) + ...    to the step that terminated

An episode that was cut off by time has no such return: what would have come is not known. Nor has one that a person threw away.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tandem.data.replay import Replay
from tandem.types import Transition


class Returns:
    """Collects the rewards of running episodes, and hands the returns to the replay buffers when an episode ends."""

    def __init__(self, discount: float) -> None:
        self._discount = discount
        self._running: dict[tuple[str, int], dict[int, float]] = {}
        """Reward of each step so far, by source and number of the episode."""

    def add(self, step: Transition, *replays: Replay) -> None:
        """In the order in which the steps were made; `replays` hold the steps of the episode, or some of them."""
        rewards = self._running.setdefault((step.source, step.episode), {})
        rewards[step.step] = step.reward
        if step.last:
            del self._running[step.source, step.episode]
            whole = step.terminated and len(rewards) == step.step + 1
            returns = discounted(list(rewards.values()), self._discount) if whole else None
            for replay in replays:
                replay.set_returns(step.source, step.episode, returns)

    def forget(self, episodes: Iterable[tuple[str, int]]) -> None:
        for episode in episodes:
            self._running.pop(episode, None)


def discounted(rewards: list[float], discount: float) -> np.ndarray:
    """The return from each step to the end, (steps,) float32."""
    returns, after = np.zeros(len(rewards), np.float32), 0.0
    for i in reversed(range(len(rewards))):
        after = rewards[i] + discount * after
        returns[i] = after
    return returns

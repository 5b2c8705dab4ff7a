"""Which choices change something: closing an open hand, opening a closed one.

What was chosen stands until something else is chosen. So a choice of rest changes nothing, nor does the choice that stands already:

    choice      hold  hold  close  hold  close  open
    it changes  0     0     1      0     0      1

At the start of an episode nothing stands yet, and the first choice other than rest counts.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tandem.layouts import ActionLayout
from tandem.types import Transition


class Switches:
    """Counts them, for all episodes that run. Steps of an episode come in their order, and each once."""

    def __init__(self, layout: ActionLayout) -> None:
        self._columns = np.flatnonzero(layout.is_discrete)
        self._rest = layout.rest[self._columns]
        self._standing: dict[tuple[str, int], np.ndarray] = {}
        self._counts: dict[tuple[str, int], list[float]] = {}

    def count(self, step: Transition) -> float:
        """How many discrete parts this step tells something new."""
        episode = (step.source, step.episode)
        chosen, standing = np.rint(step.action[self._columns]), self._standing.get(episode, self._rest)
        changes = (chosen != self._rest) & (chosen != standing)
        self._standing[episode] = np.where(changes, chosen, standing)
        self._counts.setdefault(episode, []).append(float(changes.sum()))
        return self._counts[episode][-1]

    def end(self, source: str, episode: int) -> list[float]:
        """The episode is over: its counts, one for each step that was seen."""
        self._standing.pop((source, episode), None)
        return self._counts.pop((source, episode), [])

    def forget(self, episodes: Iterable[tuple[str, int]]) -> None:
        for source, episode in episodes:
            self.end(source, episode)

"""Steps in, finished episodes out: what `environment/episode/*` reports."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tandem.types import Metrics, Transition

WINDOW = 20
"""Episodes over which success is averaged for people to look at."""


@dataclass
class Episode:
    """`interventions` counts segments, `intervention_steps` their steps."""

    returns: float = 0.0
    length: int = 0
    interventions: int = 0
    intervention_steps: int = 0
    success: bool = False
    last_intervened: bool = False

    def add(self, step: Transition) -> None:
        self.returns += step.reward
        self.length += 1
        self.interventions += step.intervened and not self.last_intervened
        self.intervention_steps += step.intervened
        self.success |= step.success
        self.last_intervened = step.intervened


class EpisodeLog:
    """Follows every source and remembers the last episodes."""

    def __init__(self, control_hz: float) -> None:
        self._control_hz = control_hz
        self._open: dict[tuple[str, int], Episode] = {}
        self.finished = 0
        self._recent: deque[Episode] = deque(maxlen=WINDOW)

    def add(self, steps: Iterable[Transition]) -> None:
        for step in steps:
            episode = self._open.setdefault((step.source, step.episode), Episode())
            episode.add(step)
            if step.last:
                self._recent.append(self._open.pop((step.source, step.episode)))
                self.finished += 1

    @property
    def success_rate(self) -> float | None:
        """Of the last episodes; None before the first has ended."""
        return sum(episode.success for episode in self._recent) / len(self._recent) if self._recent else None

    def metrics(self) -> Metrics:
        """Means over the last episodes, by the names that hil-serl's users know."""
        if not self._recent:
            return {}

        def mean(name: str) -> float:
            return sum(float(getattr(episode, name)) for episode in self._recent) / len(self._recent)

        autonomous = [episode.success for episode in self._recent if not episode.intervention_steps]
        return {
            "environment/episode/r": mean("returns"),
            "environment/episode/l": mean("length"),
            "environment/episode/t": mean("length") / self._control_hz,
            "environment/episode/success": mean("success"),
            "environment/episode/intervention_count": mean("interventions"),
            "environment/episode/intervention_steps": mean("intervention_steps"),
            **({"environment/episode/success_autonomous": sum(autonomous) / len(autonomous)} if autonomous else {}),
        }

"""Where episodes end: at which stage of the task, and how. For tasks that name their stages (`Registered.stages`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.doctor import limits
from tandem.doctor.records import Records
from tandem.envs.registry import known_task
from tandem.types import Transition


@dataclass(frozen=True)
class Ended:
    """An episode that ended, as far as it is known."""

    steps: list[Transition]
    stage: str
    """The furthest of its last steps."""
    holding: bool
    """Whether the object was held there."""

    @property
    def success(self) -> bool:
        return bool(self.steps[-1].success)

    @property
    def lost(self) -> bool:
        """The task ended it without success after the object was held."""
        return self.steps[-1].terminated and not self.success and self.holding


def ended_episodes(records: Records) -> list[Ended]:
    """The episodes that ended in the newest part of the journal; none where the task has no stages."""
    entry = known_task(records.task)
    if records.journal is None or entry is None or entry.stages is None:
        return []
    stages = entry.stages()
    newest = records.journal.blocks[-len(records.journal.blocks) // 3 :]
    steps = {(step.source, step.seq): step for block in (*newest, records.journal.tail) for step in block}
    episodes: dict[tuple[str, int], list[Transition]] = {}
    for step in sorted(steps.values(), key=lambda step: (step.source, step.episode, step.step)):
        episodes.setdefault((step.source, step.episode), []).append(step)
    found = []
    for episode in episodes.values():
        last = episode[-limits.LAST_STEPS :]
        if episode[-1].last:
            names = last[0].observation
            furthest = int(stages.of({name: np.stack([step.observation[name] for step in last]) for name in names}).max())
            found.append(Ended(episode, stages.names[furthest], furthest >= stages.held))
    return found


def stage_table(records: Records) -> dict[str, Any] | None:
    """How many of the newest episodes ended at which stage, by what; None where the task has no stages or nothing ended."""
    ended = ended_episodes(records)
    entry = known_task(records.task)
    if not ended or entry is None or entry.stages is None:
        return None
    failed = [episode for episode in ended if not episode.success]
    rows = [
        {
            "stage": name,
            "lost": sum(episode.stage == name and episode.steps[-1].terminated for episode in failed),
            "time": sum(episode.stage == name and not episode.steps[-1].terminated for episode in failed),
        }
        for name in entry.stages().names
    ]
    return {"episodes": len(ended), "succeeded": len(ended) - len(failed), "rows": rows}

"""What the critics of a run say along its stored episodes, and how well noticing would have done on them.

The critics are those of the newest checkpoint, so they know more than those that the robot had at the time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tandem.acting.noticing import calibrate
from tandem.acting.policy import load_policy
from tandem.data.journal import Journal
from tandem.doctor.values import read_critics
from tandem.errors import TandemError
from tandem.layouts import ActionLayout, Layout
from tandem.networks.numpy_policy import ActingPolicy, acting_policy, look
from tandem.runs.folder import RunFolder, RunInfo
from tandem.types import Transition

EPISODES = 100
"""The newest that are looked at: a part of a second."""


class EpisodeValues:
    """The value of each step; nothing is known of a run without a checkpoint, with cameras, or of PPO."""

    def __init__(self, run: RunFolder, info: RunInfo) -> None:
        self._spec = info.spec
        self._critics = read_critics(run, info.settings)
        self._policy = _policy_of(run) if self._critics is not None else None

    def along(self, steps: Sequence[Transition]) -> list[float]:
        """Empty where nobody knows."""
        if self._critics is None or self._policy is None or not steps:
            return []
        observed = {name: np.stack([step.observation[name] for step in steps]) for name in steps[0].observation}
        seen = look(self._policy, Layout(self._spec), observed)
        axes = ~ActionLayout.of(self._spec).is_discrete
        values = self._critics(seen, self._policy.mode(seen)[:, axes]).mean(axis=0)
        return [float(f"{value:.4g}") for value in values]

    def noticing(self, journal: Journal) -> dict[str, Any]:
        """How often noticing would have been right on the newest episodes without help; empty where nobody knows."""
        episodes = []
        for item in reversed(journal.episodes(EPISODES)):
            steps = journal.episode(item.source, item.episode, between=(item.first_ord, item.last_ord))
            values = self.along(steps) if not any(step.intervened for step in steps) and steps[-1].last else []
            if values:
                episodes.append((values, any(step.success for step in steps)))
        if not episodes:
            return {}
        found = calibrate(episodes, self._spec.max_episode_steps, self._spec.control_hz)
        return {"episodes": len(episodes), **dataclasses.asdict(found)}


def _policy_of(run: RunFolder) -> ActingPolicy | None:
    """None if it has none yet, or one that this cannot act with."""
    try:
        return acting_policy(load_policy(run.path, "latest")[0])
    except TandemError:
        return None

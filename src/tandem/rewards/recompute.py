"""Rewards of stored steps, computed anew by a rule. An episode then ends with its success, as it would have ended on the robot."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tandem.rewards.rule import Progress, Rule
from tandem.types import Observation, Spec, Transition


def stacked(observations: Sequence[Observation], names: Sequence[str]) -> Observation:
    """N observations as one with N rows."""
    return {name: np.stack([observation[name] for observation in observations]) for name in names}


def with_reward_of(spec: Spec, rule: Rule) -> Spec:
    """The spec of data whose rewards this rule gives: an episode returns 0 to 1."""
    return dataclasses.replace(spec, reward=rule.name, return_range=(0.0, 1.0))


@dataclass
class Recomputed:
    """Applies a rule to episodes, and counts what became of them."""

    rule: Rule
    spec: Spec
    episodes: int = 0
    before: int = 0
    """Episodes that had a success in the file."""
    now: int = 0
    left_out: int = 0
    """Steps after the success."""
    changed: list[int] = field(default_factory=list)
    """Numbers of the episodes that were a success and are none now, or the other way round."""

    def episode(self, steps: Sequence[Transition]) -> list[Transition]:
        """The steps up to the success, or all of them; the last one is an end."""
        values = self.rule.values(stacked([step.next_observation for step in steps], list(self.spec.observation)))
        progress, result = Progress(self.rule, 1, self.spec.control_hz), []
        for step, value in zip(steps, values, strict=True):
            verdict = progress.advance(value[None])
            success = bool(verdict.success[0])
            result.append(dataclasses.replace(step, reward=float(verdict.reward[0]), success=success, terminated=success, truncated=False))
            if success:
                break
        if not result[-1].terminated:
            result[-1] = dataclasses.replace(result[-1], truncated=True)
        self._count(steps, result)
        return result

    def _count(self, steps: Sequence[Transition], result: Sequence[Transition]) -> None:
        before, now = any(step.success for step in steps), bool(result[-1].success)
        if before != now:
            self.changed.append(self.episodes)
        self.episodes, self.before, self.now = self.episodes + 1, self.before + before, self.now + now
        self.left_out += len(steps) - len(result)

    def words(self) -> str:
        """What it did."""
        changed = ", ".join(map(str, self.changed[:10])) + (", ..." if len(self.changed) > 10 else "")
        return (
            f"rewards computed by {self.rule.name}: {self.now} of {self.episodes} episodes succeed, {self.before} did before"
            + (f"; changed: {changed}" if self.changed else "")
            + (f"; {self.left_out} steps after the success left out" if self.left_out else "")
        )

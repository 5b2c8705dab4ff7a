"""A rule as the reward of an actor's steps: a classifier, or conditions. A person's label still counts more."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tandem.acting.rewards import Judged, TakesLabels, with_label
from tandem.rewards.rule import Progress, Rule
from tandem.types import Spec, Step


class RuleReward(TakesLabels):
    """The environment says only when its time is up. Each row has its own progress, which its reset ends."""

    def __init__(self, rule: Rule, rows: int, spec: Spec) -> None:
        super().__init__()
        rule.require(spec)
        self.name, self._rule = rule.name, rule
        self._progress = Progress(rule, rows, spec.control_hz)

    def begin(self, rows: Sequence[int]) -> None:
        super().begin(rows)
        self._progress.begin(rows)

    def must_ask(self, step: Step) -> bool:
        return False

    def judge(self, step: Step) -> Judged:
        verdict = self._progress.advance(self._rule.values(step.observation))
        success = verdict.success if step.lost is None else verdict.success & ~step.lost
        judged = dataclasses.replace(
            step,
            reward=verdict.reward,
            terminated=success,
            truncated=step.ended & ~success,
            success=success,
            reward_terms={},
            success_known=True,
        )
        known = zip(self._rule.stages, verdict.values[0], strict=True)
        values = {stage: float(value) for stage, value in known if np.isfinite(value)}  # a NaN meets nothing, and is not shown
        label = self.take_label()
        if label is not None:
            return dataclasses.replace(with_label(judged, label), values=values)
        return Judged(judged, f"{self.name}: {_said(values)}", values=values)


def _said(values: dict[str, float]) -> str:
    return ", ".join(f"{stage} {value:.2f}" for stage, value in values.items())

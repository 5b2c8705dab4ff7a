"""Reward sources: who says what a step was worth, whether it ended the episode, and whether that was a success.

    simulation    the environment's own reward; a person may still end an episode with a label
    person        a person's labels alone; the environment says only when its time is up (`person_reward.py`)
    a rule        a classifier or conditions on what is observed (`rule_reward.py`)

An actor holds one of them. A label is a person's judgement of the episode that row 0 is in: it ends that episode with its next step, and
never another one. A label that comes too late is dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tandem.types import Step


@dataclass(frozen=True)
class Label:
    """A person's judgement of an episode, which ends it."""

    success: bool | None
    """True: reward 1, terminated. False: reward 0, terminated (a failure has no future). None: cut short, truncated."""

    def __str__(self) -> str:
        return {True: "success", False: "failure", None: "cut short"}[self.success]


@dataclass(frozen=True)
class Judged:
    """A step with the reward, the end and the success that count."""

    step: Step
    why: str
    """Who decided, in words."""
    label: Label | None = None
    """The label that ended the episode of row 0, where one did."""
    values: Mapping[str, float] = field(default_factory=dict)
    """How sure a rule is of each stage in row 0."""

    def labelled(self, row: int) -> bool:
        """Whether a person has said of this row that it succeeded or failed."""
        return row == 0 and self.label is not None and self.label.success is not None


class RewardSource(Protocol):
    """Asked once for each step of the environments, in the order of the steps."""

    name: str

    def begin(self, rows: Sequence[int]) -> None:
        """New episodes begin in these rows: a label that was given before is not about that of row 0."""
        ...

    def give_label(self, label: Label) -> None:
        """End the episode of row 0 with its next step."""
        ...

    def must_ask(self, step: Step) -> bool:
        """Whether this step cannot be judged before a person gives a label."""
        ...

    def judge(self, step: Step) -> Judged: ...


class TakesLabels:
    """Keeps the label that a person has given until the next step is judged, or the next episode begins."""

    def __init__(self) -> None:
        self._label: Label | None = None

    def begin(self, rows: Sequence[int]) -> None:
        self._label = None if 0 in rows else self._label

    def give_label(self, label: Label) -> None:
        self._label = label

    def take_label(self) -> Label | None:
        label, self._label = self._label, None
        return label


class EnvironmentReward(TakesLabels):
    """The environment's own reward."""

    name = "simulation"

    def must_ask(self, step: Step) -> bool:
        return False

    def judge(self, step: Step) -> Judged:
        label = self.take_label()
        return Judged(step, "the environment") if label is None else with_label(step, label)


def with_label(step: Step, label: Label) -> Judged:
    """The label written over row 0. Cut short, the step keeps its reward."""
    reward, terminated, truncated, success = (part.copy() for part in (step.reward, step.terminated, step.truncated, step.success))
    terminated[0], truncated[0], success[0] = label.success is not None, label.success is None, label.success is True
    if label.success is not None:
        reward[0] = float(label.success)
    judged = dataclasses.replace(step, reward=reward, terminated=terminated, truncated=truncated, success=success)
    return Judged(judged, f"a person: {label}", label)

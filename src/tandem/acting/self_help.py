"""A robot that helps itself: it notices that it is stuck, tries to get out once, and only then asks a person.

An operator around the others, so it can do no more than a policy can: it puts its own proposal in the place of the policy's. A person who
holds the robot decides before that, the limits come after it, and a robot that stands still is not asked for an action at all.

    policy ──proposes──► SelfHelp ──proposes──► person or script ──decides──► limits ──► robot
                            │ stuck: the way back, once
                            └ stuck again: ask
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from tandem.acting.asking import Asking, AskingConfig, Tell
from tandem.acting.expected import Acting, Expected
from tandem.acting.getting_out import Retrace
from tandem.acting.noticing import Noticed, Noticing
from tandem.acting.rewards import Judged
from tandem.decisions import DECIDES
from tandem.layouts import ActionLayout
from tandem.teleop.ask import Ask
from tandem.teleop.operator import HandsOff, ResumableOperator
from tandem.teleop.scripted_person import ScriptedPerson
from tandem.teleop.steering import Steering
from tandem.types import Observation, Spec, Transition

TRY_AGAIN_S = 1.5
"""What the policy gets after the way back, and after a person let go, before it may be stuck again."""


class Robot(Acting, Protocol):
    """The actor whose robots these are."""

    judged: Judged | None
    transitions: list[Transition]


@dataclass
class SelfHelp:
    """One robot's. `attach` it to its actor before the first episode."""

    inner: ResumableOperator
    noticing: Noticing
    asking: Asking | None
    """None: nobody could answer for this robot."""
    retrace: Retrace | None
    """None: it asks at once."""
    expected: Expected
    try_again: int
    """Steps."""
    robot: Robot | None = None
    row: int = 0
    noticed: Noticed | None = None
    """Why it does not go forward now; None if it does."""
    got_out: int = 0
    """How often it went back."""
    _step: int = 0
    steps: int = 0
    """Steps in all episodes together."""
    _look_at: int = 0
    """The step from which on it may be stuck again."""
    _alone: bool = True
    """Nobody has helped in this episode, and it has not gone back."""
    _has_asked: bool = False
    """In this episode, and nobody has taken over since."""

    name: str = field(init=False)
    tag: str = ""

    def __post_init__(self) -> None:
        self.name = self.inner.name

    def attach(self, robot: Robot, row: int) -> None:
        self.robot, self.row = robot, row

    @property
    def progress(self) -> tuple[float, ...]:
        """For people: how far the episode has come (0 to 1; -1 while nobody knows) and how near to stuck it is (1: it is)."""
        far = self.noticing.progress
        return (-1.0 if far is None else max(0.0, far), min(9.0, self.noticing.level), float(self.goes_back)) if self._step else ()

    @property
    def goes_back(self) -> bool:
        return self.retrace is not None and self.retrace.under_way

    # ---- as an operator

    def reset(self) -> None:
        if self.asking is not None:
            self.asking.end("over")
        self.noticing.end(self._alone and self._succeeded)
        if self.retrace is not None:
            self.retrace.reset()
        self._step, self._look_at, self._alone, self._has_asked, self.noticed = 0, 0, True, False, None
        self.inner.reset()
        self.tag = self.inner.tag

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        """What `inner` makes of the policy's proposal, or of the next action of the way back."""
        assert self.robot is not None
        self._note_executed(self.robot)
        if self.asking is not None:
            self.asking.tick()
        self.noticed = self.noticing.add(self.expected(self.robot, observation))
        if self.noticed is not None and self._step >= self._look_at:
            self._help_itself(self.noticed)
        goes_back = self.goes_back
        action, by_human = self.inner.decide(observation, self.retrace.next() if self.retrace and goes_back else proposed)
        self._step, self.steps, self.tag = self._step + 1, self.steps + 1, self.inner.tag
        if goes_back:
            self._start_afresh()
        if by_human:
            self._is_helped()
        return action, by_human

    def _note_executed(self, robot: Robot) -> None:
        """What the last step executed, after the limits."""
        if self.retrace is not None and self._step and self.row < len(robot.transitions):
            self.retrace.executed(robot.transitions[self.row].action)

    def _help_itself(self, noticed: Noticed) -> None:
        """The way back once in an episode, unless it is only late: that would take even longer. Else ask."""
        tries = self._alone and noticed.sign != "late" and self._decides_every_step
        if tries and self.retrace is not None and self.retrace.begin():
            self._alone, self.got_out = False, self.got_out + 1
        elif self.asking is not None and not self._has_asked:
            self._has_asked = self.asking.begin(noticed.reason, self._step)

    @property
    def _decides_every_step(self) -> bool:
        """A way back in the middle of a decision that lasts for several steps would be stored as that decision."""
        snapshot = self.robot.snapshot if self.robot is not None else None
        return snapshot is None or DECIDES not in snapshot.parameters

    def _is_helped(self) -> None:
        self._alone = self._has_asked = False
        if self.retrace is not None:
            self.retrace.stop()
        if self.asking is not None:
            self.asking.somebody_is_there()
            self.asking.end("answered")
        self._start_afresh()

    def _start_afresh(self) -> None:
        self.noticing.forgive()
        self._look_at = self._step + self.try_again

    @property
    def _succeeded(self) -> bool:
        judged = self.robot.judged if self.robot is not None else None
        return judged is not None and self._step > 0 and bool(judged.step.success[self.row])

    # ---- to go on as if nothing had happened

    def memory(self) -> dict[str, Any]:
        return {
            "inner": self.inner.memory(),
            "noticing": self.noticing.memory(),
            "retrace": self.retrace.memory() if self.retrace is not None else None,
            "step": self._step,
            "look_at": self._look_at,
            "alone": self._alone,
            "steps": self.steps,
            "asking": self.asking.memory() if self.asking is not None else None,
            "has_asked": self._has_asked,
        }

    def restore(self, state: dict[str, Any]) -> None:
        if "noticing" not in state:  # the run did not notice until now
            self.inner.restore(state)
            return
        self.inner.restore(state["inner"])
        self.noticing.restore(state["noticing"])
        if self.retrace is not None and state["retrace"] is not None:
            self.retrace.restore(state["retrace"])
        if self.asking is not None and state["asking"] is not None:
            self.asking.restore(state["asking"])
        self._step, self._look_at, self.steps = int(state["step"]), int(state["look_at"]), int(state["steps"])
        self._alone, self._has_asked = bool(state["alone"]), bool(state["has_asked"])


def with_self_help(
    operators: Sequence[ResumableOperator],
    spec: Spec,
    rows: int,
    seed: int,
    config: AskingConfig | None = None,
    tell: Sequence[Tell] = (),
    clock: Callable[[], float] | None = None,
) -> list[SelfHelp]:
    """Each operator with self-help around it. A robot asks its stand-in, and the first one a person at a page or a device; the
    others ask nobody. `tell` hears what the first one asks. `clock`: None where time passes with the steps."""
    config, layout = config or AskingConfig(), ActionLayout.of(spec)
    helping = [
        SelfHelp(
            inner,
            Noticing(spec.max_episode_steps, spec.control_hz),
            None,
            Retrace(layout, spec.control_hz, (seed, 5, row)) if config.get_out else None,
            Expected(spec),
            max(3, round(TRY_AGAIN_S * spec.control_hz)),
        )
        for row, inner in enumerate(operators or [HandsOff()] * rows)
    ]
    for row, one in enumerate(helping):
        person = one.inner.inner if isinstance(one.inner, Steering) else one.inner
        answers = person.asked if isinstance(person, ScriptedPerson) else None
        if answers is not None or isinstance(one.inner, Steering):
            now = clock or partial(_seconds, one, spec.control_hz)
            one.asking = Asking(config, tell if row == 0 else (), answers or _nobody, now)
    return helping


def attach(operators: Sequence[SelfHelp], robot: Robot) -> None:
    for row, operator in enumerate(operators):
        operator.attach(robot, row)


def _seconds(robot: SelfHelp, control_hz: float) -> float:
    return robot.steps / control_hz


def _nobody(ask: Ask) -> bool:
    """A person answers by taking over."""
    del ask
    return False

"""How people differ from a perfect helper: stand-ins that are late, tremble, err, look away or take over for nothing.

    person:scripted          sees every stall at once and corrects it well
    person:late              half a second from seeing to acting; the policy goes on meanwhile
    person:noisy             its corrections tremble by a third of the range of each axis
    person:wrong             moves the wrong way along the first axis in one region: always, so it looks consistent there
    person:inattentive       misses 30 % of the moments in which help is needed, and of the asks
    person:trigger-happy     takes over at 5 % of the moments in which all is well

With `:asked` at the end (`person:late:asked`) it does not watch. It comes 0.5 to 2 s after the robot has asked (`ask.py`), sees for itself
whether help is needed, and stays until the end of the episode.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tandem.errors import ConfigError

PREFIX, ASKED = "person:", ":asked"


@dataclass(frozen=True)
class Flaws:
    """In what a stand-in differs from one that sees everything at once and is always right."""

    late_s: float = 0.0
    """Seconds from seeing that help is needed to the first action."""
    noise: float = 0.0
    """Standard deviation of what is added to each axis of a correction."""
    wrong_beyond: float = 0.0
    """Where the right action is beyond this along both of the first two axes, it moves the wrong way along the first. 0: nowhere. A quarter
    of the plane: it is left by the way along the second axis, so a detour is shown, and not a dead end."""
    misses: float = 0.0
    """Share of the looks, and of the asks, at which it does not see that help is needed."""
    needless: float = 0.0
    """Share of the looks at which it takes over although all is well."""
    asked_only: bool = False
    """It does not watch: it comes when the robot asks."""
    answer_s: tuple[float, float] = (0.5, 2.0)
    """Seconds from an ask until it is there."""
    tags: bool = True
    """It says why it took over. Many people never do."""

    def executed(self, action: np.ndarray, axes: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """What becomes of the right action (action_dim,) in its hand; `axes` are the columns that are no choices, (action_dim,) bool."""
        if not self.noise and not self.wrong_beyond:
            return action
        moved = action.astype(np.float32)
        if self.wrong_beyond and axes[:2].all() and (action[:2] > self.wrong_beyond).all():
            moved[0] *= -1
        if self.noise:
            moved = moved + np.where(axes, random.normal(0.0, self.noise, moved.shape), 0.0)
        return np.where(axes, np.clip(moved, -1.0, 1.0), action).astype(np.float32)


PEOPLE: dict[str, Flaws] = {
    "scripted": Flaws(),
    "late": Flaws(late_s=0.5),
    "noisy": Flaws(noise=0.3),
    "wrong": Flaws(wrong_beyond=0.05),
    "inattentive": Flaws(misses=0.3),
    "trigger-happy": Flaws(needless=0.05),
}


def is_person(operator: str) -> bool:
    """Whether `--operator` names a stand-in."""
    return operator.startswith(PREFIX)


def flaws_of(operator: str) -> Flaws:
    """The stand-in behind a name such as `person:late` or `person:late:asked`."""
    kind = operator.removeprefix(PREFIX).removesuffix(ASKED)
    if not is_person(operator) or kind not in PEOPLE:
        names = ", ".join(PREFIX + name for name in PEOPLE)
        raise ConfigError(f"no operator '{operator}'; the stand-ins for a person are {names}, each also with {ASKED}")
    return replace(PEOPLE[kind], asked_only=operator.endswith(ASKED))


@dataclass(frozen=True)
class Seen:
    """What a stand-in, who knows how far from done things are, noticed about the asks of its robot."""

    kind: Literal["ask", "stall"]
    episode: int
    step: int
    right: bool
    """Of an ask: help was needed. Of a stall: the robot asked, or got out of it by itself."""
    seconds: float = 0.0
    """Of an ask: until it was there. An ask that it missed has none."""

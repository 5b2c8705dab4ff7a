"""A stand-in for the person beside the robot: lets the policy try, corrects it briefly, and helps less as it succeeds.

It does what people are advised to do. Some episodes it leaves to the policy altogether: exploring, and failing, is the policy's part. In
the others it looks on for a while, then compares how far from the goal things look now and some steps ago: no nearer means standing,
further away means straying. Then it corrects for a moment, in a way that the policy could learn, and lets it try again from there: so
every part of the task is tried by the policy first and shown by the person where it got stuck. Late in an episode it sees it through, so
that early training has rewards to learn from. The more episodes the policy manages alone, the longer it looks on; so it tapers off by
itself. It sees what the policy sees, and that an episode ended before its time, which is success.

`people.py` has stand-ins with the flaws of real people, and such that come only when the robot asks.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

from tandem.teleop.ask import Ask
from tandem.teleop.operator import Operator
from tandem.teleop.people import Flaws, Seen
from tandem.types import Observation


@dataclass(frozen=True)
class Manner:
    """How a person helps; counts are in steps, pairs are drawn from evenly."""

    often: float = 0.9
    """Share of the episodes in which it helps if need be; the others are the policy's own."""
    look_on: tuple[int, int] = (8, 15)
    """At the start of an episode, whatever the policy does."""
    trust: float = 1.0
    """How much longer it looks on for a policy that always succeeds alone (1: twice as long); in proportion for one that often does."""
    compare: int = 8
    """How far back it looks to see whether it goes forward."""
    nearer: float = 0.15
    """Share of the distance that must be gone meanwhile; less is standing."""
    see_through: int = 60
    """From this step of an episode on, a correction goes on until the end; before it, only for a moment."""
    correct: tuple[int, int] = (6, 12)
    """That moment."""
    try_again: tuple[int, int] = (4, 8)
    """What the policy gets after it, before the person looks again."""
    remember: int = 10
    """Episodes by which it judges how often the policy succeeds alone."""

    @classmethod
    def for_episodes(cls, longest: int) -> Manner:
        """Fit for episodes of at most so many steps. The numbers above are right for 100; in longer ones, where a step does less, a person
        looks on, compares and corrects for as much longer: so help comes in the middle of an episode too, and not from its start on."""
        factor, usual = max(1.0, longest / 100), cls()

        def longer(span: tuple[int, int]) -> tuple[int, int]:
            return round(factor * span[0]), round(factor * span[1])

        return cls(
            look_on=longer(usual.look_on),
            compare=round(factor * usual.compare),
            see_through=round(factor * usual.see_through),
            correct=longer(usual.correct),
            try_again=longer(usual.try_again),
        )


AWAY_S = 2.0
"""Who missed that help is needed looks again after so long."""
STALL_S = 1.6
"""Standing or straying for so long is a stall: the robot should get out of it, or ask."""
KEPT = 100_000
_MEMORY = ("step", "helped", "next_look", "left", "tag", "due", "why", "present", "stalled", "fine", "stall_asked", "episode")


class ScriptedPerson:
    """One person at one robot. `distance`: how far from done it looks, from what the policy sees.

    `axes`: the columns of an action that are no choices, (action_dim,) bool; None: all.
    """

    name = "person:scripted"

    def __init__(
        self,
        expert: Operator,
        distance: Callable[[Observation], float],
        max_episode_steps: int,
        seed: int | tuple[int, ...],
        manner: Manner | None = None,
        flaws: Flaws | None = None,
        control_hz: float = 10.0,
        axes: np.ndarray | None = None,
    ) -> None:
        self._expert, self._distance, self._longest = expert, distance, max_episode_steps
        self.manner, self.flaws = manner or Manner.for_episodes(max_episode_steps), flaws or Flaws()
        self._hz, self._axes = control_hz, axes
        self._random = np.random.default_rng(seed)
        self._alone: deque[bool] = deque(maxlen=self.manner.remember)
        self._step, self._helped = 0, False
        self._next_look, self._left = 0, 0
        self._distances: list[float] = []
        self.tag = ""
        self._due, self._why = -1, ""
        """The step at which it takes over, and why; -1: none."""
        self._present = not self.flaws.asked_only
        """It looks at the robot."""
        self._stalled, self._fine, self._stall_asked, self._episode = 0, 0, False, 0
        """For how many steps it stands or strays by now, how many since then went well, and whether it asked meanwhile."""
        self.seen: deque[Seen] = deque(maxlen=KEPT)
        """The asks and stalls so far, for benchmarks."""

    @property
    def managed_alone(self) -> float:
        """Share of the last episodes that the policy managed without help."""
        return sum(self._alone) / len(self._alone) if self._alone else 0.0

    def reset(self) -> None:
        if self._step:
            self._alone.append(self._step < self._longest and not self._helped)
        self._end_stall(right=self._step < self._longest)
        self._distances = []
        self._episode += self._step > 0
        self._step, self._helped, self._left = 0, False, 0
        self._due, self._present = -1, not self.flaws.asked_only
        self._next_look = round(self._drawn(self.manner.look_on) * (1 + self.manner.trust * self.managed_alone))
        if self._random.uniform() >= self.manner.often:
            self._next_look = self._longest  # this one is the policy's own

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        self._distances.append(self._distance(observation))
        if self._left == 0 and self._takes_over(watched=proposed is not None):
            self._expert.reset()
            self._left = self._longest if self._step >= self.manner.see_through else self._drawn(self.manner.correct)
            self.tag = self._why if self.flaws.tags else ""
        self._note_stall()
        self._step += 1
        if self._left == 0:
            assert proposed is not None
            self.tag = ""
            return proposed, False
        self._left -= 1
        self._helped = True
        if self._left == 0:
            self._next_look = self._step + self._drawn(self.manner.try_again)
        action = self._expert.decide(observation, proposed)[0]
        return self.flaws.executed(action, np.ones(len(action), bool) if self._axes is None else self._axes, self._random), True

    def _takes_over(self, watched: bool) -> bool:
        """Whether its hand is on the robot from this step on. Who is late takes over some steps after seeing that it has to."""
        if self._due < 0 and self._present and self._step >= self._next_look and (not watched or self._wants_to_help()):
            self._due = self._step + (round(self.flaws.late_s * self._hz) if watched else 0)
        if not 0 <= self._due <= self._step:
            return False
        self._due = -1
        return True

    def _wants_to_help(self) -> bool:
        """Asked now and then: does it stray or stand? Or does it seem so to this person?"""
        self._next_look = self._step + self.manner.compare // 2
        self._why = self.needs_help
        if self._why and self._happens(self.flaws.misses):
            self._why, self._next_look = "", self._step + round(AWAY_S * self._hz)
        elif not self._why and self._happens(self.flaws.needless):
            self._why = "just because"
        return bool(self._why)

    @property
    def needs_help(self) -> str:
        """Why the robot needs help, as it is: `wrong way` (it strays), `stuck` (it stands), or empty."""
        if len(self._distances) <= self.manner.compare:
            return ""
        before, now = self._distances[-1 - self.manner.compare], self._distances[-1]
        if now <= (1 - self.manner.nearer) * before:
            return ""
        return "wrong way" if now > (1 + self.manner.nearer) * before else "stuck"

    def asked(self, ask: Ask) -> bool:
        """The robot asks for help (`ask.Answers`). True unless it misses that: it comes, and takes over if help is needed."""
        if self._left or not self._distances:
            return bool(self._left)
        why = self.needs_help
        self._stall_asked |= bool(why)
        if self._happens(self.flaws.misses):
            self.seen.append(Seen("ask", self._episode, self._step, bool(why)))
            return False
        seconds = float(self._random.uniform(*self.flaws.answer_s)) + self.flaws.late_s
        self.seen.append(Seen("ask", self._episode, self._step, bool(why), seconds))
        self._why = why or ("just because" if self._happens(self.flaws.needless) else "")
        self._due = self._step + (0 if ask.holds else round(seconds * self._hz)) if self._why else -1
        self._present = True
        self._next_look = self._step + self.manner.compare // 2
        return True

    def _note_stall(self) -> None:
        """How long it stands or strays in the hands of the policy; it has got out of that after a while of progress."""
        if self._left:
            self._end_stall(right=False)
        elif self.needs_help:
            self._stalled, self._fine = self._stalled + 1, 0
        elif self._stalled:
            self._fine += 1
            if self._fine >= self.manner.compare:
                self._end_stall(right=True)

    def _end_stall(self, right: bool) -> None:
        if self._stall_asked or self._stalled >= STALL_S * self._hz:
            self.seen.append(Seen("stall", self._episode, self._step, right or self._stall_asked))
        self._stalled, self._fine, self._stall_asked = 0, 0, False

    def _happens(self, share: float) -> bool:
        return share > 0 and bool(self._random.uniform() < share)

    def _drawn(self, span: tuple[int, int]) -> int:
        return int(self._random.integers(span[0], span[1] + 1))

    # ---- to go on as if nothing had happened

    def memory(self) -> dict[str, Any]:
        own = {name: getattr(self, "tag" if name == "tag" else f"_{name}") for name in _MEMORY}
        expert = {name: _plain(value) for name, value in vars(self._expert).items() if not is_dataclass(value)}  # those are settings
        random = json.dumps(self._random.bit_generator.state)
        return {**own, "distances": list(self._distances), "alone": list(self._alone), "random": random, "expert": expert}

    def restore(self, state: dict[str, Any]) -> None:
        for name in _MEMORY:
            if name in state:  # checkpoints of earlier versions have fewer
                setattr(self, "tag" if name == "tag" else f"_{name}", state[name])
        self._distances, self._alone = list(state["distances"]), deque(state["alone"], self.manner.remember)
        self._random.bit_generator.state = json.loads(state["random"])
        for name, saved in state["expert"].items():
            value = getattr(self._expert, name)
            if isinstance(value, np.random.Generator):
                value.bit_generator.state = json.loads(saved)
            else:
                setattr(self._expert, name, np.array(saved) if isinstance(value, np.ndarray) else saved)


def _plain(value: Any) -> Any:
    """As a checkpoint takes it; an expert's memory is numbers, arrays and a random stream."""
    if isinstance(value, np.random.Generator):
        return json.dumps(value.bit_generator.state)
    return value.item() if isinstance(value, np.generic) else value

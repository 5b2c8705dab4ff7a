"""A stand-in for the person beside the robot: lets the policy try, corrects it briefly, and helps less as it succeeds.

It does what people are advised to do. Some episodes it leaves to the policy altogether: exploring, and failing, is the policy's part. In
the others it looks on for a while, then compares how far from the goal things look now and some steps ago: no nearer means standing,
further away means straying. Then it corrects for a moment, in a way that the policy could learn, and lets it try again from there: so
every part of the task is tried by the policy first and shown by the person where it got stuck. Late in an episode it sees it through, so
that early training has rewards to learn from. The more episodes the policy manages alone, the longer it looks on; so it tapers off by
itself. It sees what the policy sees, and that an episode ended before its time, which is success.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

from tandem.teleop.operator import Operator
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


class ScriptedPerson:
    """One person at one robot. `distance`: how far from done it looks, from what the policy sees."""

    name = "person:scripted"

    def __init__(
        self,
        expert: Operator,
        distance: Callable[[Observation], float],
        max_episode_steps: int,
        seed: int | tuple[int, ...],
        manner: Manner | None = None,
    ) -> None:
        self._expert, self._distance, self._longest = expert, distance, max_episode_steps
        self.manner = manner or Manner.for_episodes(max_episode_steps)
        self._random = np.random.default_rng(seed)
        self._alone: deque[bool] = deque(maxlen=self.manner.remember)
        self._step, self._helped = 0, False
        self._next_look, self._left = 0, 0
        self._distances: list[float] = []

    @property
    def managed_alone(self) -> float:
        """Share of the last episodes that the policy managed without help."""
        return sum(self._alone) / len(self._alone) if self._alone else 0.0

    def reset(self) -> None:
        if self._step:
            self._alone.append(self._step < self._longest and not self._helped)
        self._step, self._helped, self._left = 0, False, 0
        self._distances = []
        self._next_look = round(self._drawn(self.manner.look_on) * (1 + self.manner.trust * self.managed_alone))
        if self._random.uniform() >= self.manner.often:
            self._next_look = self._longest  # this one is the policy's own

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        self._distances.append(self._distance(observation))
        if self._left == 0 and self._step >= self._next_look and (proposed is None or self._wants_to_help()):
            self._expert.reset()
            self._left = self._longest if self._step >= self.manner.see_through else self._drawn(self.manner.correct)
        self._step += 1
        if self._left == 0:
            assert proposed is not None
            return proposed, False
        self._left -= 1
        self._helped = True
        if self._left == 0:
            self._next_look = self._step + self._drawn(self.manner.try_again)
        return self._expert.decide(observation, proposed)[0], True

    def _wants_to_help(self) -> bool:
        """Asked now and then: does it stray or stand?"""
        compare = self.manner.compare
        self._next_look = self._step + compare // 2
        before, now = self._distances[-min(len(self._distances), compare + 1)], self._distances[-1]
        return now > (1 - self.manner.nearer) * before

    def _drawn(self, span: tuple[int, int]) -> int:
        return int(self._random.integers(span[0], span[1] + 1))

    # ---- to go on as if nothing had happened

    def memory(self) -> dict[str, Any]:
        own = {name: getattr(self, f"_{name}") for name in ("step", "helped", "next_look", "left")}
        expert = {name: _plain(value) for name, value in vars(self._expert).items() if not is_dataclass(value)}  # those are settings
        random = json.dumps(self._random.bit_generator.state)
        return {**own, "distances": list(self._distances), "alone": list(self._alone), "random": random, "expert": expert}

    def restore(self, state: dict[str, Any]) -> None:
        for name in ("step", "helped", "next_look", "left"):
            setattr(self, f"_{name}", state[name])
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

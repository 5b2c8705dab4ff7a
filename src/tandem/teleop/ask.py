"""A robot that is stuck asks for help: what it says, and why a person took over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Tag = Literal["stuck", "danger", "wrong way", "just because"]
TAGS: tuple[Tag, ...] = ("stuck", "danger", "wrong way", "just because")
"""Why a person took over. Only the first three say something about what the policy did before."""


@dataclass(frozen=True)
class Ask:
    """One request for help."""

    reason: str
    """One sentence for people: why the robot asks."""
    since: int
    """The step of the episode at which it asked; divide what has passed since then by the control rate for seconds."""
    holds: bool = True
    """The robot makes no step until it is answered (`--while-asking hold`): who answers after two seconds answers at the same step. False:
    the policy goes on meanwhile, and steps pass."""


class Answers(Protocol):
    """An operator who hears that the robot asks: a stand-in, or an operator of your own."""

    def asked(self, ask: Ask) -> bool:
        """Called once for each ask, before `decide` of the same step. True: it will take over by itself, so the robot does not wait for
        anybody else. The ask ends when a step is `by_human`, when it times out, or with the episode."""
        ...

"""Asking a person for help: how often, how long, and who is told.

A robot that cannot get out by itself (`getting_out.py`) asks. It says why in one sentence. While it waits it holds still or the policy goes
on, until somebody takes over, says that it may go on, or nobody has answered in time. It asks seldom: at most so many times in ten minutes,
once in an episode, and not at all while nobody is there, so that nobody learns to ignore it.

    quiet ──stuck──► asking ──a person acts──► answered
                       │ ├──"go on" (resume)──► dismissed: a false alarm
                       │ └──the episode ends──► over
                       └──nobody within `ask_timeout`──► unanswered: nobody is there, so no further ask until somebody shows up
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tandem.errors import ConfigError
from tandem.teleop.ask import TAGS, Answers, Ask, Tag

__all__ = ["TAGS", "Answers", "Ask", "Asked", "Asking", "AskingConfig", "Tag", "WhileAsking"]

WhileAsking = Literal["hold", "go-on"]
BUDGET_S = 600.0
Ending = Literal["answered", "dismissed", "unanswered", "over"]


@dataclass(frozen=True)
class AskingConfig:
    """Noticing that the robot is stuck, getting out by itself, and asking a person."""

    notice: bool = False
    """Notice when the robot is stuck, let it try to get out by itself once, and then ask a person for help (docs/when-to-help.md)."""
    get_out: bool = True
    """With --notice: retrace the last second with a little noise and try again once, before it asks."""
    while_asking: WhileAsking = "hold"
    """With --notice: what the robot does until somebody answers: `hold` still (no step is made), or `go-on` with the policy."""
    ask_timeout: float = 60.0
    """With --notice: seconds after which nobody is there: the policy goes on, and the robot does not ask again before somebody shows up."""
    asks: int = 6
    """With --notice: at most so many asks in ten minutes; 0: never ask, only get out."""
    webhook: str = ""
    """With --notice: http(s) address that gets every ask as JSON, for a messenger or a lamp. Empty: none."""

    def __post_init__(self) -> None:
        if not self.ask_timeout > 0:
            raise ConfigError(f"--ask-timeout must be more than 0 seconds, got {self.ask_timeout}")
        if self.asks < 0:
            raise ConfigError(f"--asks must be 0 or more asks in ten minutes, got {self.asks}")
        if self.webhook and not self.webhook.startswith(("http://", "https://")):
            raise ConfigError(f"--webhook must begin with http:// or https://, got '{self.webhook}'")


@dataclass(frozen=True)
class Asked:
    """An ask and what became of it."""

    ask: Ask
    ending: Ending
    seconds: float


class Asking:
    """The asks of one robot. `clock`: the wall clock of a robot; a simulation that is faster gives the time of its steps."""

    def __init__(
        self,
        config: AskingConfig,
        tell: Sequence[Callable[[Ask | None], None]] = (),
        answers: Callable[[Ask], bool] = lambda ask: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._tell, self._answers, self._clock = config, tuple(tell), answers, clock
        self._asked_at: deque[float] = deque(maxlen=max(1, config.asks))
        self.ask: Ask | None = None
        """The ask that waits for an answer."""
        self.nobody = False
        """The last ask was not answered in time: quiet until somebody shows up."""
        self.holds = False
        """The robot stands still because of it."""
        self.endings: deque[Asked] = deque(maxlen=50)
        """The last asks, oldest first."""

    @property
    def may_ask(self) -> bool:
        if self.ask is not None or self.nobody or not self._config.asks:
            return False
        full = len(self._asked_at) == self._asked_at.maxlen
        return not full or self._clock() - self._asked_at[0] >= BUDGET_S

    def begin(self, reason: str, step: int) -> bool:
        """Ask, if it may; returns whether it does."""
        if not self.may_ask:
            return False
        self._asked_at.append(self._clock())
        self.ask = ask = Ask(reason, step, self._config.while_asking == "hold")
        self.holds = not self._answers(ask) and ask.holds
        for tell in self._tell:
            tell(ask)
        return True

    def end(self, ending: Ending) -> None:
        """It is over; nothing happens if nobody was asked."""
        if self.ask is None:
            return
        self.endings.append(Asked(self.ask, ending, self._clock() - self._asked_at[-1]))
        self.ask, self.holds = None, False
        self.nobody = ending == "unanswered"
        for tell in self._tell:
            tell(None)

    def somebody_is_there(self) -> None:
        """A person did something at this robot."""
        self.nobody = False

    def tick(self) -> None:
        """Once for each turn of the loop: an ask that nobody answers ends."""
        if self.ask is not None and self._clock() - self._asked_at[-1] >= self._config.ask_timeout:
            self.end("unanswered")

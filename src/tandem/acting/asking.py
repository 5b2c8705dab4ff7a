"""Asking a person for help: how often, how long, and who gets to know.

A robot that cannot get out by itself (`getting_out.py`) asks. It says why in one sentence. While it waits it holds still or the policy goes
on, until somebody takes over, says that it may go on, or nobody has answered in time. It asks seldom: at most so many times in ten minutes,
once in an episode, and not at all while nobody is there, so that nobody learns to ignore it.

    quiet ──stuck──► asking ──a person acts──► answered
                       │ ├──"go on" (resume)──► dismissed: a false alarm
                       │ └──the episode ends, or somebody stops the robot──► over
                       └──nobody within `ask_timeout`──► unanswered: nobody is there, so it is quiet until somebody shows up, or for ten
                          minutes
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tandem.errors import ConfigError
from tandem.teleop.ask import TAGS, Answers, Ask, Tag

__all__ = ["TAGS", "Answers", "Ask", "AskEnded", "Asking", "AskingConfig", "Ending", "Tag", "Tell", "WhileAsking"]

WhileAsking = Literal["hold", "go-on"]
BUDGET_S = QUIET_S = 600.0
Ending = Literal["answered", "dismissed", "unanswered", "over"]


@dataclass(frozen=True)
class AskingConfig:
    """What a robot does when the run notices that it is stuck (`--notice`)."""

    get_out: bool = True
    """In a run with --notice: retrace the last moments with a little noise and try again once, before it asks."""
    while_asking: WhileAsking = "hold"
    """What the robot does until somebody answers: `hold` still (no step is made), or `go-on` with the policy."""
    ask_timeout: float = 60.0
    """Seconds after which nobody is there: the policy goes on, and the robot does not ask again before somebody shows up, or for ten
    minutes."""
    asks: int = 20
    """At most so many asks in ten minutes; 0: never ask, only get out."""
    webhook: str = ""
    """Web address (http or https) that gets every ask as JSON, for a messenger or a lamp. Empty: none."""

    def __post_init__(self) -> None:
        if not self.ask_timeout > 0:
            raise ConfigError(f"--ask-timeout must be more than 0 seconds, got {self.ask_timeout}")
        if self.asks < 0:
            raise ConfigError(f"--asks must be 0 or more asks in ten minutes, got {self.asks}")
        if self.webhook and not self.webhook.startswith(("http://", "https://")):
            raise ConfigError(f"--webhook must begin with http:// or https://, got '{self.webhook}'")


@dataclass(frozen=True)
class AskEnded:
    """An ask and what became of it."""

    ask: Ask
    ending: Ending
    seconds: float


Tell = Callable[[Ask | AskEnded], None]
"""Called with each ask, and when it ends."""


class Asking:
    """The asks of one robot. `clock`: the wall clock of a robot; a simulation that is faster gives the time of its steps."""

    def __init__(
        self,
        config: AskingConfig,
        tell: Sequence[Tell] = (),
        answers: Callable[[Ask], bool] = lambda ask: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._tell, self._answers, self._clock = config, tuple(tell), answers, clock
        self._asked_at: deque[float] = deque(maxlen=max(1, config.asks))
        self.ask: Ask | None = None
        """The ask that waits for an answer."""
        self._quiet_until = -math.inf
        self.holds = False
        """The robot stands still because of it."""
        self.endings: deque[AskEnded] = deque(maxlen=50)
        """The last asks, oldest first."""

    @property
    def words(self) -> str:
        """What it says now; empty if it asks nothing."""
        return "" if self.ask is None else f"asks for help: {self.ask.reason}"

    @property
    def nobody_is_there(self) -> bool:
        """The last ask was not answered in time: quiet until somebody shows up, or for a while."""
        return self._clock() < self._quiet_until

    @property
    def may_ask(self) -> bool:
        if self.ask is not None or self.nobody_is_there or not self._config.asks:
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
        ended = AskEnded(self.ask, ending, self._clock() - self._asked_at[-1])
        self.endings.append(ended)
        self.ask, self.holds = None, False
        self._quiet_until = self._clock() + QUIET_S if ending == "unanswered" else -math.inf
        for tell in self._tell:
            tell(ended)

    def somebody_is_there(self) -> None:
        """A person did something at this robot."""
        self._quiet_until = -math.inf

    def tick(self) -> None:
        """Once for each turn of the loop: an ask that nobody answers ends."""
        if self.ask is not None and self._clock() - self._asked_at[-1] >= self._config.ask_timeout:
            self.end("unanswered")

    def memory(self) -> dict[str, Any]:
        """What goes on from here needs. An ask that waits is not saved: after a restart nobody has been asked."""
        now = self._clock()
        return {"asked": [now - at for at in self._asked_at], "quiet": max(0.0, self._quiet_until - now)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        now = self._clock()
        self._asked_at = deque((now - ago for ago in saved["asked"]), self._asked_at.maxlen)
        self._quiet_until = now + saved["quiet"] if saved["quiet"] else -math.inf

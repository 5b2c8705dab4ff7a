"""What is done beside the control of a robot and beside learning, and must not stop either: lines for people, views, checks, files.

Lines    a function that prints or writes lines. One that fails is counted, and the next that succeeds says how many are missing
Apart    a block of work. A failure is said once and counted, and it is said when the work succeeds again
Bucket   how much may happen in a time, for whatever somebody else decides the amount of
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator


class Bucket:
    """Lets `per_s` pass each second on average, and up to `burst` at once."""

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_s, self.burst, self._clock = per_s, burst, clock
        self._left, self._counted_at = burst, clock()

    def take(self, amount: float = 1.0) -> bool:
        """Whether this much may pass now; if not, nothing is taken."""
        self._refill()
        if self._left < min(amount, self.burst):
            return False
        self._left -= amount
        return True

    def take_later(self, amount: float = 1.0) -> float:
        """Take it in any case; returns the seconds to wait before it may pass."""
        self._refill()
        self._left -= amount
        return max(0.0, -self._left / self.per_s)

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(self.burst, self._left + (now - self._counted_at) * self.per_s)
        self._counted_at = now


class Lines:
    """Calls `say` for each line and never raises: a full disk or a closed terminal must not end the loop that has something to say."""

    def __init__(self, say: Callable[[str], None], limit: Bucket | None = None) -> None:
        self._say, self._limit = say, limit
        self.missing = 0
        """Lines that were not written, in all."""
        self._unsaid, self._why = 0, ""

    def __call__(self, line: str) -> None:
        if self._limit is not None and not self._limit.take():
            self._miss("too many lines")
            return
        try:
            if self._unsaid:
                self._say(f"({self._unsaid} lines before this one are missing: {self._why})")
                self._unsaid = 0
            self._say(line)
        except (Exception, SystemExit) as problem:  # rich ends the program when the pipe it prints to is closed
            self._miss(f"{type(problem).__name__}: {problem}")

    def _miss(self, why: str) -> None:
        self.missing += 1
        self._unsaid += 1
        self._why = why


class Apart:
    """`with apart("view"): ...`: a failure in the block is said the first time, counted, and goes no further.

    `only`: the failures that are meant; by default all.
    """

    def __init__(self, say: Callable[[str], None], only: type[Exception] = Exception) -> None:
        self._say, self._only = Lines(say), only
        self.failures: Counter[str] = Counter()
        """How often each thing has failed."""
        self._failing: dict[str, int] = {}
        """What fails at present, and how often in a row."""

    @contextlib.contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._only as problem:
            self.failures[what] += 1
            self._failing[what] = self._failing.get(what, 0) + 1
            if self._failing[what] == 1 and math.log2(self.failures[what]).is_integer():  # what comes and goes is said less and less
                self._say(f"{what} failed: {type(problem).__name__}: {problem} It is left out until it works again.")
        else:
            if self._failing.pop(what, 0):
                self._say(f"{what} works again ({self.failures[what]} failures so far)")

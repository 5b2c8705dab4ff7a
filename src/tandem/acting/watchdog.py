"""A time limit on what the control loop waits for: a step or a reset of the environment that hangs is noticed, and motion is stopped.

This thread helps where the environment hangs. Where the whole process hangs or is gone, `watchdog_process.py` does.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_POLL_S = 0.02


class Halt:
    """Stops all motion of an environment. It never raises: whatever has to be done after a halt is done, and the error is said."""

    def __init__(self, halt: Callable[[str], object], say: Callable[[str], None]) -> None:
        self._halt, self._say = halt, say

    def __call__(self, reason: str) -> bool:
        """Halt before anything is said; returns whether that worked."""
        try:
            self._halt(reason)
        except Exception as problem:
            self._say(f"[ACTOR] THE ROBOT COULD NOT BE HALTED ({reason}): {type(problem).__name__}: {problem}. Use its emergency stop.")
            return False
        return True


class Watchdog:
    """A thread beside the control loop. `halt` is called from it, once for each call that exceeds its limit, and before it is said.

    An environment of a robot stops moving (`TaskEnv.halt`); a simulation that hangs does not move.
    """

    def __init__(self, halt: Callable[[str], bool], say: Callable[[str], None]) -> None:
        self._halt, self._say = halt, say
        self._until: tuple[float, str] | None = None
        """When the present call has lasted too long, and the sentence that is then said."""
        self.stalls = 0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def limit(self, what: str, seconds: float) -> Iterator[None]:
        """The block is one call of the environment; 0 seconds: no limit."""
        if seconds > 0:
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
                self._thread.start()
            self._until = time.monotonic() + seconds, f"the environment's {what} takes longer than {seconds:g} s: it hangs"
        try:
            yield
        finally:
            self._until = None

    def _watch(self) -> None:
        while not self._closed.wait(_POLL_S):
            until = self._until
            if until is not None and time.monotonic() > until[0] and self._until is until:
                self._until = None
                self.stalls += 1
                halted = self._halt(until[1])
                with contextlib.suppress(Exception):  # a line that cannot be written must not end this thread
                    self._say(f"[ACTOR] {until[1]}. {'Motion is stopped.' if halted else 'Motion is not stopped.'}")

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

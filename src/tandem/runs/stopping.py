"""Stopping a run from outside: Ctrl-C at the keyboard, or SIGTERM from the process that started it."""

from __future__ import annotations

import signal
from typing import Any, Protocol

INTERRUPTED = "interrupted"
"""The reason in the summary of a run that was stopped this way."""


class Stoppable(Protocol):
    def stop(self, reason: str) -> None: ...


class interruptible:
    """The first Ctrl-C (or SIGTERM) ends the loop after the step it is in; a second Ctrl-C ends the program."""

    def __init__(self, parts: Stoppable) -> None:
        self._parts = parts
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._stop)
            except ValueError:  # not the main thread, which alone may handle signals
                return

    def _stop(self, *_: object) -> None:
        self._parts.stop(INTERRUPTED)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

"""Until something is true: real processes take the time they take."""

import time
from collections.abc import Callable
from typing import Any


def wait_for(condition: Callable[[], Any], seconds: float = 10.0, what: str = "it") -> Any:
    """What the condition gives once it is something; says what did not come about. A file that is not there yet is no failure."""
    deadline = time.monotonic() + seconds
    while True:
        problem: Exception | None = None
        try:
            if result := condition():
                return result
        except (OSError, ValueError, LookupError) as not_yet:
            problem = not_yet
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for {what}") from problem
        time.sleep(0.01)

"""How much time a call has left."""

from __future__ import annotations

import time


def seconds_left(until: float) -> float:
    """To this moment of the monotonic clock; a `TimeoutError` once it is over."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left

"""Lets a test move the wall clock of a process: imported by Python itself where this folder is on the path."""

import os
import time

_real_time = time.time


def _jumping_time() -> float:
    try:
        with open(os.environ["TANDEM_CLOCK_JUMP"]) as file:
            return _real_time() + float(file.read() or 0)
    except (KeyError, OSError, ValueError):
        return _real_time()


if "TANDEM_CLOCK_JUMP" in os.environ:
    time.time = _jumping_time

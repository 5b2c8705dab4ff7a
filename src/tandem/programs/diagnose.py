"""`tandem doctor`: the doctor's answers on the terminal."""

from __future__ import annotations

from tandem.doctor.command import doctor
from tandem.programs.terminal import say


def diagnose(args: list[str]) -> int:
    """What is wrong with a run, how that is known, and what to type next."""
    return doctor(args, say)

"""The form of a text about a finding: what is wrong, the evidence, the cause, the command; each in English and in Chinese."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
Words = tuple[str, str]
"""English, Chinese."""


@dataclass(frozen=True)
class Text:
    """What is printed about one kind of finding."""

    what: Words
    """What is wrong, in one sentence."""
    evidence: tuple[Words, ...]
    """The measured values that show it."""
    cause: Words
    """What usually causes it."""
    next: str
    """The command to type."""
    criterion: Words
    """The detection rule with its thresholds, for `explain` and the pages."""
    next_unscripted: str = ""
    """The command for an environment that has no scripted operator, where `next` needs one."""


@dataclass(frozen=True)
class Description:
    """One finding written out in one language."""

    name: str
    severity: str
    what: str
    evidence: list[str]
    cause: str
    next: str
    explains: list[str]
    """Findings that follow from this one and are not listed themselves."""

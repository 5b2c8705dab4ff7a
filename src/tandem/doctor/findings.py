"""A finding: a name, how bad it is, and the numbers it rests on. The words are in `texts.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["problem", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("problem", "warning", "note")
EXIT_STATUS: dict[str, int] = {"problem": 2, "warning": 1, "note": 0}

PROBLEM: Severity = "problem"
"""It will not learn, or not for long."""
WARNING: Severity = "warning"
"""It may learn, but something is not as it should be."""
NOTE: Severity = "note"
"""Worth knowing; a healthy run may have it."""


class Seconds(float):
    """Shown as people say a duration."""


class Share(float):
    """Shown in percent."""


class Bytes(float):
    """Shown in MB or GB."""


@dataclass(frozen=True)
class Finding:
    """What a check has found. Facts that are None are unknown, and what would be said of them is left out."""

    name: str
    severity: Severity
    facts: Mapping[str, Any] = field(default_factory=dict)
    explains: tuple[str, ...] = ()
    """Findings that are likely to follow from it, and are therefore not told themselves."""


def worst(findings: list[Finding]) -> Severity | None:
    return next((severity for severity in SEVERITIES if any(finding.severity == severity for finding in findings)), None)

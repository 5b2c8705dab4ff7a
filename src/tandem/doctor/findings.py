"""A finding: its name, its severity and the measured facts. The text is in `texts.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["problem", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("problem", "warning", "note")
EXIT_STATUS: dict[str, int] = {"problem": 2, "warning": 1, "note": 0}

PROBLEM: Severity = "problem"
"""Training does not work, or will stop working soon."""
WARNING: Severity = "warning"
"""Training may work, but something is not as it should be."""
NOTE: Severity = "note"
"""Information; a healthy run may have it."""


class Seconds(float):
    """Printed as a duration: 4.5 s, 83 min."""


class Share(float):
    """Printed in percent."""


class Bytes(float):
    """Printed in MB or GB."""


@dataclass(frozen=True)
class Finding:
    """The result of a check. A fact that is None is unknown; evidence that needs it is not printed."""

    name: str
    severity: Severity
    facts: Mapping[str, Any] = field(default_factory=dict)
    explains: tuple[str, ...] = ()
    """Findings that probably follow from this one, and are therefore not listed themselves."""


def worst(findings: list[Finding]) -> Severity | None:
    return next((severity for severity in SEVERITIES if any(finding.severity == severity for finding in findings)), None)

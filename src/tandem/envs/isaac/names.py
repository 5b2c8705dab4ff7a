"""Names of Isaac Sim servers, known without what their client needs."""

from __future__ import annotations

SCHEME, OFFLINE = "isaac+http://", "isaac:"
"""With an address; and without one, for a learner that needs the spec alone."""


def is_isaac(name: str) -> bool:
    return name.startswith((SCHEME, OFFLINE))

"""Names of robots behind HTTP, known without what their clients need: `isaac+http://HOST:5001/`, or `isaac:PROFILE` without a server."""

from __future__ import annotations

from tandem.spec import ROBOT_SERVERS

WITH_ADDRESS = tuple(f"{kind}+http://" for kind in ROBOT_SERVERS)
"""With an address; and without one (`isaac:PROFILE`), for a learner that needs the spec alone."""


def is_http_robot(name: str) -> bool:
    return name.startswith((*WITH_ADDRESS, *(f"{kind}:" for kind in ROBOT_SERVERS)))


def server_kind(name: str) -> str:
    """`isaac` or `franka`."""
    return name.partition("+" if name.startswith(WITH_ADDRESS) else ":")[0]

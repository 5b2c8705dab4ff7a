"""The settings of a hub, and what its parts share."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tandem.errors import ConfigError
from tandem.files import Durability
from tandem.link.audit import Audit
from tandem.link.hub_events import HubEvents
from tandem.link.messages import MAX_FRAME
from tandem.link.published_policy import PublishedPolicy
from tandem.link.sources import Sources
from tandem.runs.folder import RunInfo
from tandem.types import Spec

SMALL_DISK_SHARE = 20
"""The reserve is at most this part of the disk."""
MESSAGES_PER_S = 2500
"""Messages with steps of all real-time actors together: a quarter of what one core takes (docs/scale.md)."""


@dataclass(frozen=True)
class HubConfig:
    """How a hub listens, and what it allows."""

    host: str = "127.0.0.1"
    """Address to listen on. Other machines reach only an address other than the loopback; then give a certificate too."""
    port: int = 0
    """0: the system chooses a free one."""
    token: str | None = None
    """None: the run's own token, made on first use."""
    certificate: Path | None = None
    """TLS certificate; None: no TLS."""
    key: Path | None = None
    insecure: bool = False
    """Listen without TLS where other machines can read along."""
    host_names: Sequence[str] = ()
    """Names under which the hub answers, beside the address at which a request arrives (`hosts.py`)."""
    session_hours: float = 12.0
    """How long a page stays logged in."""
    durability: Durability = "power"
    """What an acknowledged step survives: `power` waits for the disk before each acknowledgement, `process` does not."""
    actor_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that every actor gets with its welcome (random_steps, seed, ...)."""
    rule: bytes = b""
    """The file of the rule that gives the rewards, where one does; actors get it with their welcome."""
    max_actors: int = 64
    max_unknown_connections: int = 64
    """Connections that have not shown a credential yet; half of them from one address. The newest closes the oldest."""
    disk_reserve_mb: float = 500.0
    """Megabytes of the run's disk that are left to checkpoints, policies and commands; below it no step is stored (`disk_reserve`)."""
    ping_s: float = 5.0
    timeout_s: float = 10.0
    """An actor that answers no ping for so long is disconnected; a connection without a token is closed after it."""

    @property
    def linger_s(self) -> float:
        """How long a step of a real-time actor waits for others to share its message: the more actors may come, the longer."""
        return self.max_actors / MESSAGES_PER_S


@dataclass(frozen=True)
class HubContext:
    """What the parts of one hub share."""

    config: HubConfig
    run_id: str
    info: RunInfo
    record_bytes: int
    """The largest packed step that this run accepts."""
    policy: PublishedPolicy
    events: HubEvents
    sources: Sources
    audit: Audit
    say: Callable[[str], None] = lambda line: None
    warn: Callable[[str], None] = lambda line: None
    """For what somebody must see now."""
    wall: Callable[[], float] = time.time


def disk_reserve(folder: Path, megabytes: float) -> int:
    """Bytes to keep free on the disk of a folder; on a small disk a twentieth of it."""
    if not 0 <= megabytes < 1e9:
        raise ConfigError(f"--disk-reserve-mb is a number of megabytes from 0, got {megabytes}")
    return int(min(megabytes * 1e6, shutil.disk_usage(folder).total / SMALL_DISK_SHARE))


def record_limit(spec: Spec) -> int:
    """Bytes that a packed step may have. A valid one holds two observations, with their pictures, and an action; an invalid one must
    still fit."""
    one = sum(entry.size * np.dtype(entry.dtype).itemsize for entry in spec.observation.values())
    one += sum(math.prod(entry.picture) for entry in spec.observation.values() if entry.picture)
    needed = 2 * one + spec.action_dim * 8 + 4096
    if needed > MAX_FRAME // 2:
        raise ConfigError(f"a step of '{spec.task}' has {needed} bytes; the link takes at most {MAX_FRAME // 2}. Use smaller images.")
    return min(2 * needed + 2**16, MAX_FRAME - 2**20)

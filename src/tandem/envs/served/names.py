"""Served environments by name: `serve:PYTHON:module:Id`, `ws://HOST:PORT` and `wss://HOST:PORT`."""

from __future__ import annotations

from tandem.envs.served.client import Address, Deadlines, RemoteEnv, ServedEnv
from tandem.envs.served.process import PREFIX, ServedProcess
from tandem.errors import ConfigError

MAX_PROCESSES = 256
"""More are refused: they are processes with a simulator each, not rows of one simulation."""


def is_served(name: str) -> bool:
    return name.startswith((PREFIX, "ws://", "wss://"))


def open_served(name: str, num_envs: int = 1, *, render: bool = False, watched: bool = False) -> ServedEnv:
    """`num_envs` sessions. For `serve:` each is a process of its own, and all of them start at the same time.

    With `render` they draw themselves; with `watched` row 0 does if it can.
    """
    if not 1 <= num_envs <= MAX_PROCESSES:
        raise ConfigError(f"'{name}' is served by one process for each environment: 1 to {MAX_PROCESSES} of them, got num_envs={num_envs}")
    deadlines, rows = Deadlines.from_environment(), []
    started = [ServedProcess(name, render, watched and row == 0) for row in range(num_envs)] if name.startswith(PREFIX) else []
    try:
        for row in range(num_envs):
            process = started[row] if started else None
            address = process.address(deadlines) if process is not None else Address.of(name)
            rows.append(RemoteEnv(name, address, deadlines, process))
        return ServedEnv(name, rows)
    except BaseException:
        for opened in rows:
            opened.close()
        for process in started:
            process.stop()
        raise

"""Under which names a hub answers.

A page of another site can have its own name point to this machine (DNS rebinding), and a browser then takes the hub for a part of that
site. So a request is answered only if its `Host` is the address at which it arrived, a name of this machine on the loopback, or a name that
was given. The port does not matter: a tunnel has another one.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a hub that listens on this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HostNames:
    """The names of one server: its own `host`, this machine's name where others can reach it, and `more`."""

    def __init__(self, host: str, more: Sequence[str] = ()) -> None:
        name = socket.gethostname()
        own = () if is_loopback(host) else (name, name.partition(".")[0], f"{name.partition('.')[0]}.local")
        self._names = frozenset(name.lower() for name in (host, *own, *more) if name)

    def known(self, shown: Sequence[bytes], arrived_at: str) -> bool:
        """Whether a request with these `Host` headers, which came in at this address of the machine, is meant for this server."""
        if len(shown) != 1:
            return False
        name = host_of(shown[0].decode("latin-1"))
        arrived_at = arrived_at.removeprefix("::ffff:")
        return name in self._names or name == arrived_at or (is_loopback(arrived_at) and name in LOOPBACK_NAMES)


def host_of(shown: str) -> str:
    """The name or address in a `Host` header, without its port."""
    shown = shown.strip().lower()
    if shown.startswith("["):
        return shown[1:].partition("]")[0]
    return shown.partition(":")[0]

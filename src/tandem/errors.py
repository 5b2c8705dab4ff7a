"""Every failure that Tandem names, drawn once.

    TandemError
    ├── ConfigError            what was asked for cannot be (unknown task, bad option)
    │   ├── UnknownTaskError
    │   └── PackageMissing     an optional package is not installed; the message says what to type
    ├── SpecMismatch           two ends, or a file and a task, disagree on observations or actions
    ├── ActionError            an action of the wrong shape, or not finite
    ├── SimulationDiverged     the physics left the finite numbers
    ├── NotFinite              an environment, or learning itself, gave a number that is none
    ├── RenderingUnavailable   no OpenGL to draw with
    ├── DeviceError            a device of the person who steers cannot be used
    │   └── DeviceLost         it was there, and is gone
    ├── DataError              a file of data cannot be used
    │   ├── FileMissing
    │   ├── FileUnreadable     truncated, foreign, or of another version
    │   ├── UnsafePickle       a pickle that asks for more than arrays and plain containers
    │   └── InvalidTransition  NaN, wrong shape, missing entry: named with its place
    ├── StorageFull            the disk took no more; what was written before is intact
    └── LinkError              actor and hub cannot work together
        ├── HubUnreachable     nobody answers at that address
        ├── HubBusy            as many actors as the hub takes are connected, or another hub has the run
        ├── WrongToken         the hub does not know who is asking
        ├── UntrustedCertificate   the actor does not know who is answering
        ├── ProtocolMismatch   the two ends speak different versions, or one of them does not speak the protocol at all
        ├── OtherTask          the hub's run is of another task
        ├── OtherRun           the hub serves another run than the one this actor joined
        └── LinkSpecMismatch   also a SpecMismatch: the same task, but other observations or actions

A message names the object, what it got, what was expected, the likely cause and what to do.
The command line prints it without a traceback; anything that is not a TandemError is a bug.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class TandemError(Exception):
    """A failure with a message that was written for the person who reads it."""


class ConfigError(TandemError):
    pass


class UnknownTaskError(ConfigError):
    pass


EXTRAS = {"jax": "learn", "jaxlib": "learn", "equinox": "learn", "tensorboardX": "learn", "yaml": "learn", "nicegui": "page"}
"""Packages that a plain install leaves out, and the extra that brings them."""


class PackageMissing(ConfigError):
    def __init__(self, what: str, package: str) -> None:
        super().__init__(f"{what} needs the package '{package}', which is not installed: pip install 'tandem-rl[{EXTRAS[package]}]'")


@contextlib.contextmanager
def extras_named(what: str) -> Iterator[None]:
    """Turn the failed import of an optional package into a `PackageMissing` that says what to install."""
    try:
        yield
    except ModuleNotFoundError as problem:
        package = (problem.name or "").split(".")[0]
        if package not in EXTRAS:
            raise
        raise PackageMissing(what, package) from None


class SpecMismatch(TandemError):
    pass


class ActionError(TandemError):
    pass


class SimulationDiverged(TandemError):
    pass


class NotFinite(TandemError):
    pass


class RenderingUnavailable(TandemError):
    pass


class DeviceError(TandemError):
    pass


class DeviceLost(DeviceError):
    pass


class DataError(TandemError):
    pass


class FileMissing(DataError):
    pass


class FileUnreadable(DataError):
    pass


class UnsafePickle(DataError):
    pass


class InvalidTransition(DataError):
    pass


class StorageFull(TandemError):
    pass


class LinkError(TandemError):
    pass


class HubUnreachable(LinkError):
    pass


class HubBusy(LinkError):
    pass


class WrongToken(LinkError):
    pass


class UntrustedCertificate(LinkError):
    pass


class ProtocolMismatch(LinkError):
    pass


class OtherTask(LinkError):
    pass


class OtherRun(LinkError):
    pass


class LinkSpecMismatch(LinkError, SpecMismatch):
    pass

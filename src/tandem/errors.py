"""Every failure that Tandem names, drawn once.

    TandemError
    ├── ConfigError            what was asked for cannot be (unknown task, bad option)
    │   └── UnknownTaskError
    ├── SpecMismatch           two ends, or a file and a task, disagree on observations or actions
    ├── ActionError            an action of the wrong shape, or not finite
    ├── SimulationDiverged     the physics left the finite numbers
    ├── NotFinite              an environment, or learning itself, gave a number that is none
    ├── RenderingUnavailable   no OpenGL to draw with
    ├── DataError              a file of data cannot be used
    │   ├── FileMissing
    │   ├── FileUnreadable     truncated, foreign, or of another version
    │   ├── UnsafePickle       a pickle that asks for more than arrays and plain containers
    │   └── InvalidTransition  NaN, wrong shape, missing entry: named with its place
    └── StorageFull            the disk took no more; what was written before is intact

A message names the object, what it got, what was expected, the likely cause and what to do.
The command line prints it without a traceback; anything that is not a TandemError is a bug.
"""


class TandemError(Exception):
    """A failure with a message that was written for the person who reads it."""


class ConfigError(TandemError):
    pass


class UnknownTaskError(ConfigError):
    pass


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

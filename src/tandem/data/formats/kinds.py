"""Which format a file or folder has, and how it is opened and written."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from tandem.data.demos import OpenDemos, is_foreign, open_demos
from tandem.data.formats.columns import Foreign, episodes, fitted, require
from tandem.errors import ConfigError, extras_named
from tandem.types import Spec

FORMATS = ("lerobot", "robomimic", "minari")
"""The formats that are written."""


@contextlib.contextmanager
def open_any(path: Path, spec: Spec | None = None, *, fit_actions: bool = False) -> Iterator[OpenDemos]:
    """Demonstrations of any format. `fit_actions`: map the range that the actions have to -1 ... 1."""
    opener = _foreign(path)
    if opener is None:
        if fit_actions:
            raise ConfigError(f"--fit-actions is for LeRobot, robomimic and Minari; {path} has actions from -1 to 1 already.")
        with open_demos(path, spec) as opened:
            yield opened
        return
    with opener(path) as file:
        if spec is not None:
            require(spec, file, path)
        own, scaling = spec or file.spec, None
        if fit_actions:
            own, scaling = fitted(file.actions(), own)
        source = f"{file.kind.lower()}-{hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:16]}"
        yield OpenDemos(path, file.kind, own, lambda: episodes(file, own, path, source, scaling), attributes=file.attributes)


def _foreign(path: Path) -> Callable[[Path], AbstractContextManager[Foreign]] | None:
    if path.is_dir() and (path / "meta" / "info.json").exists():
        with extras_named("LeRobot datasets"):
            from tandem.data.formats.lerobot import open_lerobot
        return open_lerobot
    if path.is_dir() and any((folder / "metadata.json").exists() for folder in (path, path / "data")):
        with extras_named("Minari datasets"):
            from tandem.data.formats.hdf5 import open_minari
        return open_minari
    if path.is_file() and is_foreign(path):
        with extras_named("HDF5 files"):
            from tandem.data.formats.hdf5 import open_robomimic
        return open_robomimic
    return None


def export(opened: OpenDemos, name: str, out: Path) -> Path:
    """Write demonstrations in a format of others, to a new file or folder."""
    if out.exists():
        raise ConfigError(f"{out} exists already; nothing is written over. Choose another name.")
    with extras_named(f"{name} files"):
        if name == "lerobot":
            from tandem.data.formats.lerobot import write_lerobot as write
        elif name == "robomimic":
            from tandem.data.formats.hdf5 import write_robomimic as write
        elif name == "minari":
            from tandem.data.formats.hdf5 import write_minari as write
        else:
            raise ConfigError(f"no format '{name}'; there are {', '.join(FORMATS)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    return write(dataclasses.replace(opened), out)

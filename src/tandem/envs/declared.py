"""What an environment may declare of itself, beyond what its spaces say.

    environments/NAME.toml      a file of the user's, in the folder where commands are started     first
    env.unwrapped.tandem        an attribute of the environment, a dict with the same keys
    env.metadata["tandem"]      the same in its metadata
    a guess                     from its spaces, its registration and `metadata["render_fps"]`     last

Each key is taken from the first place that has it. `tandem env describe ENV` writes a first file by looking. NAME is what stands
after the last colon of the environment's name, so `my_robot:Arm-v0` is `environments/Arm-v0.toml`; the variable TANDEM_ENVIRONMENTS
names another folder.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tandem.envs.framing import Framer, Framing, framed, framer, read_framings
from tandem.errors import ConfigError
from tandem.types import Continuous, Entry, Spec

ATTRIBUTE = "tandem"
"""Name of the attribute, and of the key in `metadata`."""
FOLDER = "environments"
FOLDER_VARIABLE = "TANDEM_ENVIRONMENTS"
MAX_BYTES = 2**20

Scale = float | tuple[float, ...]


@dataclass(frozen=True)
class Declaration:
    """What is declared; None or empty where nothing is."""

    return_range: tuple[float, float] | None = None
    """Lowest and highest return of an episode. Targets are clipped to it."""
    success_key: str | None = None
    """Key of `info` that says whether the task succeeded. Without it `success`, `is_success` and `succeed` are looked for."""
    scales: Mapping[str, Scale] = field(default_factory=dict)
    """Per observation entry, for all its numbers or one for each: value / scale is of order one, and clipped to plus and minus 5."""
    control_hz: float | None = None
    """Actions per second."""
    max_episode_steps: int | None = None
    """Actions after which an episode is cut off (truncated), also if the environment would go on."""
    axes: tuple[str, ...] = ()
    """What the axes of the action move, in order."""
    units: tuple[str, ...] = ()
    """Their units, in order: what the full deflection of an axis is measured in."""
    action_scales: tuple[float, ...] = ()
    """What the full deflection of each axis does, in its unit. Without it: half the width of the action space, taken in that unit."""
    cameras: tuple[str, ...] = ()
    """Observation entries that are pictures: three axes of uint8, channels first or last."""
    pictures: Mapping[str, Framing] = field(default_factory=dict)
    """Per camera: what part of its pictures is learned from, at which size (`framing.py`)."""

    def over(self, other: Declaration) -> Declaration:
        """This one's word where it has one, else the other's; scales entry by entry."""
        mine = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        said = {name: value for name, value in mine.items() if value}
        tables = {"scales": {**other.scales, **self.scales}, "pictures": {**other.pictures, **self.pictures}}
        return dataclasses.replace(other, **{**said, **tables})

    def framers(self, spec: Spec) -> dict[str, Framer]:
        """What makes the pictures of the environment those of its spec, by entry; `spec` is what its spaces say."""
        pictures = {name: entry for name, entry in spec.observation.items() if entry.role == "image"}
        _known(spec.task, "pictures", self.pictures, pictures)
        return {name: framer(spec.task, name, entry, self.pictures.get(name, Framing())) for name, entry in pictures.items()}

    def applied(self, spec: Spec) -> Spec:
        """The spec with what was declared; a declaration that does not fit it is refused."""
        name = spec.task
        _known(name, "scales", self.scales, spec.observation)
        _known(name, "cameras", self.cameras, spec.observation)
        framers = self.framers(spec)
        entries = {key: self._entry(name, key, entry) for key, entry in spec.observation.items()}
        entries |= {key: framed(entries[key], by) for key, by in framers.items()}
        return dataclasses.replace(
            spec,
            observation=entries,
            action=self._action(spec),
            control_hz=self.control_hz or spec.control_hz,
            max_episode_steps=self.max_episode_steps or spec.max_episode_steps,
            return_range=self.return_range or spec.return_range,
        )

    def _entry(self, name: str, key: str, entry: Entry) -> Entry:
        if key in self.cameras and (entry.dtype != "uint8" or len(entry.shape) != 3):
            expected = "(height, width, channels) uint8, or channels first"
            raise _refused(name, "cameras", f"the entry '{key}' of shape {entry.shape} {entry.dtype}", expected)
        scale = self.scales.get(key, entry.scale)
        length = entry.shape[-1] if entry.shape else 1
        if isinstance(scale, tuple) and len(scale) != length:
            raise _refused(name, f"scales.{key}", f"{len(scale)} numbers", f"one number, or {length} for the shape {entry.shape}")
        return dataclasses.replace(entry, scale=scale, role="image" if key in self.cameras else entry.role)

    def _action(self, spec: Spec) -> tuple[Any, ...]:
        for key, given in (("action.axes", self.axes), ("action.units", self.units), ("action.scales", self.action_scales)):
            if given and len(given) != spec.action_dim:
                kind = "numbers" if key == "action.scales" else "names"
                raise _refused(spec.task, key, f"{len(given)} {kind}", f"{spec.action_dim}, one for each axis of the action")
        part = spec.action[0]
        if len(spec.action) > 1 or not isinstance(part, Continuous):
            return spec.action
        unit, meaning = ", ".join(self.units) or part.unit, ", ".join(self.axes) or part.meaning
        return (dataclasses.replace(part, unit=unit, meaning=meaning, axes=self.axes, scale=self.action_scales or part.scale),)


def declaration(name: str, attribute: Any, metadata: Mapping[str, Any]) -> Declaration:
    """What the environment of this name declares: file over attribute over metadata."""
    found = Declaration()
    for where, given in ((f"metadata['{ATTRIBUTE}']", metadata.get(ATTRIBUTE)), (f"the attribute `{ATTRIBUTE}`", attribute)):
        if given is not None:
            found = read_mapping(given, f"environment '{name}', {where}").over(found)
    file = declaration_file(name)
    return read_file(file).over(found) if file.is_file() else found


def declaration_file(name: str) -> Path:
    """Where the file of an environment is looked for."""
    alone = name if "://" in name else name.rpartition(":")[2]
    return Path(os.environ.get(FOLDER_VARIABLE) or FOLDER) / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', alone)}.toml"


def read_file(path: Path) -> Declaration:
    """The declaration in a TOML file."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} has {path.stat().st_size:,} bytes; a file that describes an environment has at most {MAX_BYTES:,}")
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path} is not TOML: {problem}") from None
    return read_mapping(given, str(path))


def read_mapping(given: Any, where: str) -> Declaration:
    """Check keys and values; an error names the key, what it got and what is expected. `where` begins the message."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: expected a dict of declarations, got {type(given).__name__}")
    flat = {key: value for key, value in given.items() if key != "action"}
    action = given.get("action", {})
    if not isinstance(action, Mapping):
        raise _wrong(where, "action", action, "a table with `axes`, `units` and `scales`")
    flat |= {f"action.{key}": value for key, value in action.items()}
    unknown = sorted(set(map(str, flat)) - set(_READERS))
    if unknown:
        raise ConfigError(f"{where}: no declaration is called '{unknown[0]}'; there are {', '.join(_READERS)}")
    read = {str(key): _READERS[key](where, key, value) for key, value in flat.items()}
    return Declaration(**{"action_scales" if key == "action.scales" else key.removeprefix("action."): value for key, value in read.items()})


def _number(where: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise _wrong(where, key, value, "a number above 0")
    return float(value)


def _count(where: str, key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _wrong(where, key, value, "a whole number from 1")
    return value


def _range(where: str, key: str, value: Any) -> tuple[float, float]:
    expected = "[lowest, highest], two finite numbers, the first below the second"
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise _wrong(where, key, value, expected)
    if not all(isinstance(each, (int, float)) and not isinstance(each, bool) and math.isfinite(each) for each in value):
        raise _wrong(where, key, value, expected)
    if not value[0] < value[1]:
        raise _wrong(where, key, value, expected)
    return float(value[0]), float(value[1])


def _word(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(where, key, value, "a word, the name of a key in `info`")
    return value


def _words(where: str, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise _wrong(where, key, value, "a list of words")
    return tuple(value)


def _numbers(where: str, key: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, (list, tuple)):
        raise _wrong(where, key, value, "a list of numbers above 0")
    return tuple(_number(where, key, each) for each in value)


def _scales(where: str, key: str, value: Any) -> dict[str, Scale]:
    if not isinstance(value, Mapping):
        raise _wrong(where, key, value, "a table: the name of an observation entry, and its scale")
    return {str(entry): _scale(where, f"{key}.{entry}", scale) for entry, scale in value.items()}


def _scale(where: str, key: str, value: Any) -> Scale:
    if isinstance(value, (list, tuple)):
        return tuple(_number(where, key, each) for each in value)
    return _number(where, key, value)


_READERS: dict[str, Callable[[str, str, Any], Any]] = {
    "return_range": _range,
    "success_key": _word,
    "scales": _scales,
    "control_hz": _number,
    "max_episode_steps": _count,
    "action.axes": _words,
    "action.units": _words,
    "action.scales": _numbers,
    "cameras": _words,
    "pictures": read_framings,
}
"""All keys, as they stand in a file, an attribute or the metadata."""


def _wrong(where: str, key: str, value: Any, expected: str) -> ConfigError:
    return ConfigError(f"{where}: '{key}' is {value!r}, expected {expected}")


def _refused(name: str, key: str, got: str, expected: str) -> ConfigError:
    return ConfigError(f"the declaration of environment '{name}' does not fit it: '{key}' is {got}, expected {expected}")


def _known(name: str, key: str, given: Any, entries: Mapping[str, Entry]) -> None:
    for entry in given:
        if entry not in entries:
            raise _refused(name, key, f"about the observation entry '{entry}'", f"one of {', '.join(entries)}")

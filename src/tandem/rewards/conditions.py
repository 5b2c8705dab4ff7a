"""Conditions on entries of the observation and on poses of objects, from a file that people write.

    name = "gear seated"
    hold_s = 0.5
    quaternions = "xyzw"

    [[stage]]                                      # one table for each stage, from the first to the last; all of its conditions must hold
    name = "seated"
    conditions = [
        "gear[2] < 0.402",                         # a number of an entry: entry[index]
        "tilt(gear, base) < 5",                    # degrees between the z axes of two poses
        "in_frame(gear, base)[0] = 0.02 +- 0.002", # a coordinate of one pose in the frame of another
        "distance(gear, base) < 0.03",             # metres between two positions
    ]

A pose is an entry of 7 numbers: x, y, z and a quaternion. A part of an entry stands for one too: `state[0:7]`.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tandem.envs.rotations import quat_conjugate, rotate
from tandem.errors import ConfigError, FileUnreadable, SpecMismatch
from tandem.files import read_toml
from tandem.types import Observation, Spec

_PART = r"[A-Za-z_][\w/.-]*(?:\[\d+:\d+\])?"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_CONDITION = re.compile(
    rf"(?:(?P<function>distance|tilt|in_frame)\(\s*(?P<one>{_PART})\s*,\s*(?P<other>{_PART})\s*\)|(?P<entry>[A-Za-z_][\w/.-]*))"
    rf"(?:\[(?P<index>\d+)\])?\s*(?P<sign><|>|=)\s*(?P<bound>{_NUMBER})(?:\s*\+-\s*(?P<within>{_NUMBER}))?"
)
_SIZES = {"distance": 3, "tilt": 7, "in_frame": 7}
"""Numbers that a function needs of each of its two entries."""
_EXAMPLES = "'gear[2] < 0.402', 'in_frame(gear, base)[0] = 0.02 +- 0.002', 'tilt(gear, base) < 5' or 'distance(gear, base) < 0.03'"
MOST = 100
"""Conditions of a file."""


@dataclass(frozen=True)
class Part:
    """An entry of the observation, or some of its numbers."""

    entry: str
    first: int = 0
    last: int | None = None

    @classmethod
    def of(cls, text: str) -> Part:
        name, _, places = text.partition("[")
        first, _, last = places.removesuffix("]").partition(":")
        return cls(name, int(first), int(last)) if places else cls(name)

    def of_rows(self, observation: Observation) -> np.ndarray:
        """(N, numbers)"""
        values = observation[self.entry]
        return values.reshape(len(values), -1)[:, self.first : self.last].astype(float)

    def require(self, spec: Spec, numbers: int, condition: str) -> None:
        entry = spec.observation.get(self.entry)
        if entry is None or entry.dtype != "float32":
            raise SpecMismatch(
                f"the condition '{condition}' looks at '{self.entry}', and '{spec.task}' observes "
                f"{', '.join(name for name, e in spec.observation.items() if e.dtype == 'float32') or 'no numbers'}. "
                "Name an entry that the environment observes, or add it there."
            )
        have = min(self.last or entry.size, entry.size) - self.first
        if have < numbers:
            raise SpecMismatch(
                f"the condition '{condition}' needs {numbers} numbers of '{self.entry}', which has {entry.size} "
                f"(from {self.first}: {max(0, have)})"
            )


@dataclass(frozen=True)
class Condition:
    """One line: something measured, and what it must be."""

    text: str
    function: str
    """Empty: the number itself."""
    parts: tuple[Part, ...]
    index: int
    low: float
    high: float

    def holds(self, observation: Observation, scalar_last: bool) -> np.ndarray:
        """(N,) bool. NaN holds nothing."""
        value = self._measured(observation, scalar_last)
        return (value > self.low) & (value < self.high)

    def _measured(self, observation: Observation, scalar_last: bool) -> np.ndarray:
        arrays = [part.of_rows(observation) for part in self.parts]
        if not self.function:
            return arrays[0][:, self.index]
        if self.function == "distance":
            return np.linalg.norm(arrays[0][:, :3] - arrays[1][:, :3], axis=1)
        turns = [_turn(pose[:, 3:7], scalar_last) for pose in arrays]
        if self.function == "tilt":
            up = np.array([0.0, 0.0, 1.0])
            cosine = (rotate(turns[0], up) * rotate(turns[1], up)).sum(axis=1)
            return np.degrees(np.arccos(np.clip(cosine, -1, 1)))
        return rotate(quat_conjugate(turns[1]), arrays[0][:, :3] - arrays[1][:, :3])[:, self.index]

    def require(self, spec: Spec) -> None:
        for part in self.parts:
            part.require(spec, _SIZES.get(self.function, self.index + 1), self.text)


def _turn(quaternion: np.ndarray, scalar_last: bool) -> np.ndarray:
    """w, x, y, z and of length 1; a quaternion of length 0 is no rotation that could be measured."""
    ordered = np.roll(quaternion, 1, axis=1) if scalar_last else quaternion
    with np.errstate(invalid="ignore", divide="ignore"):
        return ordered / np.linalg.norm(ordered, axis=1, keepdims=True)


def parse_condition(text: Any) -> Condition:
    match = _CONDITION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ConfigError(f"a condition is a text such as {_EXAMPLES}; got {str(text)[:80]!r}")
    function, bound, within = match["function"] or "", float(match["bound"]), match["within"]
    if (match["sign"] == "=") != (within is not None):
        raise ConfigError(f"the condition '{text}': = needs a tolerance (= 0.02 +- 0.002), and < and > take none")
    if function in ("distance", "tilt") and match["index"]:
        raise ConfigError(f"the condition '{text}': {function} is one number, without an index")
    if function == "in_frame" and int(match["index"] or 9) > 2:
        raise ConfigError(f"the condition '{text}': in_frame has three coordinates: in_frame(gear, base)[0] is x, [1] y and [2] z")
    near = 0.0 if within is None else abs(float(within))
    low, high = {"<": (-np.inf, bound), ">": (bound, np.inf), "=": (bound - near, bound + near)}[match["sign"]]
    parts = (Part.of(match["one"]), Part.of(match["other"])) if function else (Part(match["entry"]),)
    return Condition(text.strip(), function, parts, int(match["index"] or 0), low, high)


@dataclass(frozen=True)
class Conditions:
    """A rule from a file: stages, each with conditions that must all hold."""

    title: str
    stages: tuple[str, ...]
    conditions: tuple[tuple[Condition, ...], ...]
    """Of each stage."""
    hold_s: float
    scalar_last: bool
    source: bytes
    """The file, as it was written."""

    @property
    def name(self) -> str:
        return f"conditions:{self.title}:{hashlib.sha256(self.source).hexdigest()[:8]}"

    def require(self, spec: Spec) -> None:
        for stage in self.conditions:
            for condition in stage:
                condition.require(spec)

    def values(self, observation: Observation) -> np.ndarray:
        return np.stack([self._all(stage, observation) for stage in self.conditions], axis=1).astype(float)

    def _all(self, stage: tuple[Condition, ...], observation: Observation) -> np.ndarray:
        return np.logical_and.reduce([condition.holds(observation, self.scalar_last) for condition in stage])

    def met(self, values: np.ndarray) -> np.ndarray:
        return values > 0.5

    def to_bytes(self) -> bytes:
        return self.source


def read_conditions(path: Path) -> Conditions:
    """A file of conditions; what is wrong with it is said with its name."""
    read_toml(path, "file of conditions")  # missing, too large or no TOML
    return parse_conditions(path.read_bytes(), str(path), path.stem)


def parse_conditions(source: bytes, what: str, title: str = "conditions") -> Conditions:
    try:
        given = tomllib.loads(source.decode())
    except (ValueError, RecursionError) as problem:
        raise FileUnreadable(f"{what} is no file of conditions: {problem}") from None
    try:
        return _parsed(given, source, title)
    except ConfigError as problem:
        raise ConfigError(f"{what}: {problem}") from None


def _parsed(given: Mapping[str, Any], source: bytes, title: str) -> Conditions:
    unknown = sorted(given.keys() - {"name", "hold_s", "quaternions", "stage"})
    if unknown:
        raise ConfigError(f"'{unknown[0]}' is no setting of a file of conditions; there are name, hold_s, quaternions and [[stage]]")
    hold, order, stages = given.get("hold_s", 0.0), given.get("quaternions", "wxyz"), given.get("stage")
    if isinstance(hold, bool) or not isinstance(hold, int | float) or not 0 <= hold <= 3600:
        raise ConfigError(f"hold_s is a time in seconds, got {hold!r}")
    if order not in ("wxyz", "xyzw"):
        raise ConfigError(f"quaternions is the order of their numbers, 'wxyz' or 'xyzw'; got {order!r}")
    if not isinstance(stages, list) or not stages or not all(isinstance(stage, dict) for stage in stages):
        raise ConfigError("a file of conditions has at least one table [[stage]] with `conditions`")
    names, listed = [], []
    for number, stage in enumerate(stages):
        conditions = stage.get("conditions")
        if not isinstance(conditions, list) or not conditions or stage.keys() - {"name", "conditions"}:
            raise ConfigError(f"stage {number} needs `conditions`, a list of texts such as {_EXAMPLES}, and may have a `name`")
        names.append(str(stage.get("name", "success" if number == len(stages) - 1 else f"stage {number + 1}"))[:60])
        listed.append(tuple(parse_condition(text) for text in conditions))
    if len(set(names)) < len(names) or sum(map(len, listed)) > MOST:
        raise ConfigError(f"stages need different names, and all together at most {MOST} conditions; got {', '.join(names)}")
    return Conditions(str(given.get("name", title))[:60], tuple(names), tuple(listed), float(hold), order == "xyzw", source)

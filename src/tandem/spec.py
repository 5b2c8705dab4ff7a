"""What a task observes and which actions it takes: shapes, units, scales, symmetry. As JSON, and compared with another.

An observation is a dict of named arrays, an action one vector made of named parts. Both are described by
a `Spec`, which has a hash: two ends that disagree find out before any number is exchanged.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.errors import ConfigError

ROLES = ("vector", "image", "privileged", "features")
"""vector: numbers for every network. image: (height, width, channels) uint8. privileged: numbers for critics and teachers only.
features: what an encoder made of an image, (height, width, channels) int8."""

MAX_NUMBERS = 2**25
"""Numbers in the observations and actions of a spec from outside: a picture in 4K has 25 million. Its hash looks at the scale of each."""


def _usual_role(shape: tuple[int, ...], dtype: str) -> str:
    return "image" if dtype == "uint8" and len(shape) == 3 else "vector"


Bounds = float | tuple[float | None, ...] | None
"""One number for all components, one for each along the last axis, or None where there is no bound."""


@dataclass(frozen=True)
class Entry:
    """One named array of an observation."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    unit: str = ""
    """Unit of the values, per component where they differ ("m, rad")."""
    scale: float | tuple[float, ...] = 1.0
    """(value - offset) / scale is of order one."""
    meaning: str = ""
    role: str = ""
    """How it is learned from, one of `ROLES`. Empty: `image` for three axes of uint8, `vector` for all else."""
    offset: float | tuple[float, ...] = 0.0
    """What is subtracted before dividing by the scale: about the middle of the values."""
    low: Bounds = None
    high: Bounds = None
    """The range of the values, where it is known; far beyond it nothing is believed (`data/plausibility.py`). It is not in the hash."""
    encoder: str = ""
    """Of features: the name and the hash of the encoder that made them. Features of another encoder mean something else."""
    picture: tuple[int, ...] = ()
    """Of features: the shape of the image that they were made from."""
    in_place_of: tuple[str, ...] = ()
    """Entries that critics which see the state do not get beside this one, a privileged one: it says the same and says it better."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", self.role or _usual_role(self.shape, self.dtype))
        if self.role not in ROLES:
            raise ConfigError(f"an observation entry has the role '{self.role}'; there are {', '.join(ROLES)}")
        if self.role == "image" and (self.dtype != "uint8" or len(self.shape) != 3):
            raise ConfigError(f"an image is (height, width, channels) uint8, got an entry of shape {self.shape} {self.dtype}")
        if self.role == "features" and (self.dtype != "int8" or len(self.shape) != 3 or not self.encoder or len(self.picture) != 3):
            raise ConfigError(f"features are (height, width, channels) int8 with an encoder and a picture, got {self.shape} {self.dtype}")
        if self.in_place_of and self.role != "privileged":
            raise ConfigError(f"only a privileged entry stands in the place of another for critics, got role '{self.role}'")

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    def scales(self) -> np.ndarray:
        """The scale of every component, `(*shape)`."""
        return np.broadcast_to(np.asarray(self.scale, dtype=np.float32), self.shape)

    def offsets(self) -> np.ndarray:
        """The offset of every component, `(*shape)`."""
        return np.broadcast_to(np.asarray(self.offset, dtype=np.float32), self.shape)

    def lowest(self) -> np.ndarray:
        """The lower bound of every component, `(*shape)`; -inf where there is none."""
        return _bound_of(self.low, -np.inf, self.shape)

    def highest(self) -> np.ndarray:
        """The upper bound of every component, `(*shape)`; inf where there is none."""
        return _bound_of(self.high, np.inf, self.shape)


def _bound_of(bound: Bounds, missing: float, shape: tuple[int, ...]) -> np.ndarray:
    given = bound if isinstance(bound, tuple) else (bound,)
    numbers = np.array([missing if number is None else number for number in given], float)
    return np.broadcast_to(numbers if isinstance(bound, tuple) else numbers[0], shape)


def bounds(low: np.ndarray, high: np.ndarray) -> tuple[Bounds, Bounds]:
    """Bounds as an `Entry` keeps them: one for each component along the last axis (the widest over the other axes), infinity as None."""
    size = low.shape[-1] if low.ndim else 1
    return _listed(low.reshape(-1, size).min(axis=0)), _listed(high.reshape(-1, size).max(axis=0))


def _listed(widest: np.ndarray) -> Bounds:
    listed = tuple(float(number) if np.isfinite(number) else None for number in widest)
    return listed[0] if len(set(listed)) == 1 else listed


@dataclass(frozen=True)
class Continuous:
    """A part of an action: axes in [-1, 1] each."""

    name: str
    size: int
    unit: str = ""
    """Unit of the axes, per axis where they differ ("m, rad")."""
    scale: float | tuple[float, ...] = 1.0
    """What 1 does, in `unit`."""
    meaning: str = ""
    axes: tuple[str, ...] = ()
    """What each axis is called, where somebody named them; as prose, it does not count in the hash."""
    stands_at: float | None = None
    """For an absolute command, such as the width of a gripper, 0 is not "no motion": a hand at rest leaves it where it stands. Here is
    where it stands when an episode begins. None: 0 is no motion."""

    def scales(self) -> np.ndarray:
        """The scale of every axis, `(size,)`."""
        return np.broadcast_to(np.asarray(self.scale, dtype=np.float32), (self.size,))


@dataclass(frozen=True)
class Discrete:
    """A part of an action: one of several choices, one column that holds the index of the choice."""

    name: str
    choices: tuple[str, ...]
    rest: int = 0
    """Index of the choice that changes nothing: the one that a hand at rest commands."""
    meaning: str = ""

    @property
    def size(self) -> int:
        return 1

    @property
    def numbered(self) -> str:
        """The choices with their numbers, in words."""
        return ", ".join(f"{number}: {choice}" for number, choice in enumerate(self.choices))


ActionPart = Continuous | Discrete


@dataclass(frozen=True)
class Spec:
    """The observations and actions of a task. The scales are fixed: a running statistic would shift every stored value."""

    task: str
    observation: Mapping[str, Entry]
    action: tuple[ActionPart, ...]
    """Named parts. Stored and sent, an action is one float32 vector (`layouts.ActionLayout`)."""
    control_hz: float
    max_episode_steps: int
    return_range: tuple[float, float] | None = None
    """Lowest and highest return an episode can have, where that is known (sparse reward: 0 to 1)."""
    reward_range: tuple[float, float] | None = None
    """Lowest and highest reward of a step, where the demonstrations show it and the range of the return is not known."""
    reward: str = ""
    """What gave the rewards: `person`, or the name of a rule (`rewards/`). Empty: the environment. As prose, it is not in the hash."""

    @functools.cached_property
    def action_dim(self) -> int:
        """Columns of the action's vector."""
        return sum(part.size for part in self.action)

    @property
    def hash(self) -> str:
        """Equal for two specs whose numbers mean the same; prose (unit, meaning) does not count.

        Nor does the range of the return: a policy sees and does the same whatever it is paid.
        """
        canonical = json.dumps({**_numbers_of(self), "return_range": None}, sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def difference(self, other: Spec) -> list[str]:
        """Each disagreement in words, this one's value first. The range of the return counts here: it tells data of two rewards apart."""
        mine, theirs = _numbers_of(self), _numbers_of(other)
        differences = [f"{key}: {mine[key]} here, {theirs[key]} there" for key in mine if key != "observation" and mine[key] != theirs[key]]
        entries, other_entries = mine["observation"], theirs["observation"]
        for name in sorted(entries.keys() | other_entries.keys()):
            if name not in other_entries:
                differences.append(f"observation entry '{name}' {tuple(entries[name]['shape'])}: only here")
            elif name not in entries:
                differences.append(f"observation entry '{name}' {tuple(other_entries[name]['shape'])}: only there")
            elif entries[name] != other_entries[name]:
                differences.append(f"observation entry '{name}': {_brief(entries[name])} here, {_brief(other_entries[name])} there")
        return differences

    def data_difference(self, other: Spec) -> list[str]:
        """Each disagreement that makes steps of the other spec unusable here.

        Steps are stored as they were measured and scaled when they are read, so scales do not count. Nor does the range of the return
        where the other one does not know it: a run may have been told it later.
        """
        known = self.return_range if other.return_range is None else other.return_range
        return self.difference(dataclasses.replace(other.with_scales(self.scales()), return_range=known))

    def scales(self) -> dict[str, dict[str, Any]]:
        """Scale and offset of every entry by its name, as JSON knows them."""
        return {name: {"scale": _scale_to_json(e.scale), "offset": _scale_to_json(e.offset)} for name, e in self.observation.items()}

    def with_scales(self, scales: Mapping[str, Any]) -> Spec:
        """The same spec with these scales and offsets; an entry that is not named, or of another size, keeps its own.

        A bare number or list is a scale with an offset of 0: so they were written before there were offsets.
        """
        entries = {}
        for name, entry in self.observation.items():
            given = scales.get(name, {"scale": entry.scale, "offset": entry.offset})
            given = given if isinstance(given, Mapping) else {"scale": given, "offset": 0.0}
            scale, offset = _scale_from_json(given["scale"]), _scale_from_json(given["offset"])
            last = entry.shape[-1] if entry.shape else 1
            fits = all(not isinstance(numbers, tuple) or len(numbers) == last for numbers in (scale, offset))
            entries[name] = dataclasses.replace(entry, scale=scale, offset=offset) if fits else entry
        return dataclasses.replace(self, observation=entries)

    def without_encoder(self) -> Spec:
        """As the environment hands it out: images in the place of their features, and nothing that is for teachers alone."""
        entries = {
            name: Entry(entry.picture, "uint8", meaning=entry.meaning) if entry.picture else entry
            for name, entry in self.observation.items()
            if entry.role != "privileged"
        }
        return dataclasses.replace(self, observation=entries)

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "action": [_part_to_json(part) for part in self.action]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Spec:
        return_range, reward_range = data["return_range"], data.get("reward_range")
        read = cls(
            task=str(data["task"]),
            observation={name: _entry_from_json(entry) for name, entry in data["observation"].items()},
            action=_action_from_json(data["action"]),
            control_hz=float(data["control_hz"]),
            max_episode_steps=int(data["max_episode_steps"]),
            return_range=None if return_range is None else (float(return_range[0]), float(return_range[1])),
            reward_range=None if reward_range is None else (float(reward_range[0]), float(reward_range[1])),
            reward=str(data.get("reward", "")),
        )
        sizes = [math.prod(entry.shape) for entry in read.observation.values()] + [part.size for part in read.action]
        if min(sizes, default=0) < 0 or sum(sizes) > MAX_NUMBERS:
            raise ValueError(f"a spec with shapes of {min(sizes)} to {max(sizes)} numbers; all together have at most {MAX_NUMBERS:,}")
        return read


@dataclass(frozen=True)
class Symmetry:
    """A mirror in which a task looks the same: what is done in the mirror leads to what is then seen in it, and is worth as much.

    Where the numbers of an entry come from, by signed places that count from 1: (1, -2, 3) turns the sign of the second, (2, 1) swaps
    two. An entry that is not named stays as it is.
    """

    observation: Mapping[str, tuple[int, ...]]
    action: tuple[int, ...]


ROBOT_SERVERS = {"isaac": "gear_assembly", "franka": "gear_lift"}
"""Robots behind HTTP by the kind of their server (`isaac+http://`, `franka+http://`), and the profile of each if none is named."""


def environment_id(task: str) -> str:
    """The environment behind a name, whatever Python or machine runs it: `serve:PYTHON:module:Id` is `module:Id`, with the same data.

    A robot's server is known by its profile: `isaac+http://HOST:5001/?profile=gear_lift_1mm` is `isaac:gear_lift_1mm`.
    """
    for kind, default in ROBOT_SERVERS.items():
        if task.startswith((f"{kind}+http://", f"{kind}:")):
            profile = task.partition("?profile=")[2] or default if "+" in task else task.removeprefix(f"{kind}:")
            return f"{kind}:{profile.rpartition('/')[2].removesuffix('.toml')}"
    parts = task.split(":", 2)
    return parts[2] if parts[0] == "serve" and len(parts) == 3 else task


def _entry_from_json(data: Mapping[str, Any]) -> Entry:
    return Entry(
        shape=tuple(int(n) for n in data["shape"]),
        dtype=str(data["dtype"]),
        unit=str(data["unit"]),
        scale=_scale_from_json(data["scale"]),
        meaning=str(data["meaning"]),
        role=str(data.get("role", "")),
        offset=_scale_from_json(data.get("offset", 0.0)),
        low=_bounds_from_json(data.get("low")),
        high=_bounds_from_json(data.get("high")),
        encoder=str(data.get("encoder", "")),
        picture=tuple(int(n) for n in data.get("picture", ())),
        in_place_of=tuple(str(name) for name in data.get("in_place_of", ())),
    )


def _part_to_json(part: ActionPart) -> dict[str, Any]:
    return {"kind": "continuous" if isinstance(part, Continuous) else "discrete", **dataclasses.asdict(part)}


def _action_from_json(data: Any) -> tuple[ActionPart, ...]:
    """A spec written before actions had parts holds one entry: it is one continuous part."""
    if isinstance(data, Mapping):
        entry = _entry_from_json(data)
        return (Continuous("action", entry.size, entry.unit, entry.scale, entry.meaning),)
    return tuple(_part_from_json(part) for part in data)


def _part_from_json(data: Mapping[str, Any]) -> ActionPart:
    name, meaning = str(data["name"]), str(data["meaning"])
    if data["kind"] == "discrete":
        return Discrete(name, tuple(str(choice) for choice in data["choices"]), int(data["rest"]), meaning)
    axes = tuple(str(axis) for axis in data.get("axes", ()))
    stands_at = None if data.get("stands_at") is None else float(data["stands_at"])
    return Continuous(name, int(data["size"]), str(data["unit"]), _scale_from_json(data["scale"]), meaning, axes, stands_at)


def _bounds_from_json(given: Any) -> Bounds:
    if isinstance(given, (list, tuple)):
        return tuple(None if number is None else float(number) for number in given)
    return None if given is None else float(given)


def _scale_to_json(scale: float | tuple[float, ...]) -> float | list[float]:
    return list(scale) if isinstance(scale, tuple) else scale


def _scale_from_json(scale: Any) -> float | tuple[float, ...]:
    return tuple(float(s) for s in scale) if isinstance(scale, (list, tuple)) else float(scale)


def _entry_numbers(entry: Entry) -> dict[str, Any]:
    # float32 first: a scale that went through a file must hash like one that did not.
    numbers = {"shape": list(entry.shape), "dtype": entry.dtype, "scale": _rounded(entry.scales())}
    # what is not the usual counts only where it is so: the hash of files that were written before it existed stays what it was
    if entry.role != _usual_role(entry.shape, entry.dtype):
        numbers["role"] = entry.role
    if np.any(entry.offsets()):
        numbers["offset"] = _rounded(entry.offsets())
    if entry.encoder:
        numbers |= {"encoder": entry.encoder, "picture": list(entry.picture)}
    if entry.in_place_of:
        numbers["in_place_of"] = list(entry.in_place_of)
    return numbers


def _rounded(scales: np.ndarray) -> list[float]:
    return [float(f"{s:.6g}") for s in scales.ravel()]


def _action_numbers(action: tuple[ActionPart, ...]) -> Any:
    """One continuous part counts as the plain array that an action was before it had parts: its hash is that of older files."""
    if len(action) == 1 and isinstance(action[0], Continuous):
        return {"shape": [action[0].size], "dtype": "float32", "scale": _rounded(action[0].scales())}
    return [
        {"name": part.name, "size": part.size, "scale": _rounded(part.scales())}
        if isinstance(part, Continuous)
        else {"name": part.name, "choices": list(part.choices)}
        for part in action
    ]


def _numbers_of(spec: Spec) -> dict[str, Any]:
    return {
        "task": environment_id(spec.task),
        "action": _action_numbers(spec.action),
        "control_hz": float(spec.control_hz),
        "max_episode_steps": spec.max_episode_steps,
        "return_range": None if spec.return_range is None else [float(r) for r in spec.return_range],
        "observation": {name: _entry_numbers(entry) for name, entry in spec.observation.items()},
    }


def _brief(entry: Mapping[str, Any]) -> str:
    scale = entry["scale"] if len(set(entry["scale"])) > 1 else entry["scale"][:1]
    further = "".join(f" {name} {entry[name]}" for name in ("offset", "role", "encoder") if name in entry)
    return f"shape {tuple(entry['shape'])} {entry['dtype']} scale {scale}{further}"

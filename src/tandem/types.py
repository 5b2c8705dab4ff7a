"""The types that cross from one folder to another, with shapes, units and meaning.

An observation is a dict of named arrays, an action one vector made of named parts. Both are described by
a `Spec`, which has a hash: two ends that disagree find out before any number is exchanged.
A batch of anything has the same names with one more axis in front.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from tandem.errors import ConfigError

Observation = dict[str, np.ndarray]
"""Named entries; `(*shape)` each for one robot, `(N, *shape)` for N of them."""


def first_row(observation: Observation) -> Observation:
    """One robot's observation, of an environment that has one row."""
    return {name: values[0] for name, values in observation.items()}


Metrics = dict[str, float]
"""What a loop reports: a name such as `critic/critic_loss` and one number."""

OBSERVATION_CLIP = 5.0
"""Scaled observations (value / scale) are clipped to plus and minus this."""


ROLES = ("vector", "image", "privileged")
"""vector: numbers for every network. image: (height, width, channels) uint8. privileged: numbers for critics and teachers only."""


def _usual_role(shape: tuple[int, ...], dtype: str) -> str:
    return "image" if dtype == "uint8" and len(shape) == 3 else "vector"


@dataclass(frozen=True)
class Entry:
    """One named array of an observation."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    unit: str = ""
    """Unit of the values, per component where they differ ("m, rad")."""
    scale: float | tuple[float, ...] = 1.0
    """value / scale is of order one."""
    meaning: str = ""
    role: str = ""
    """How it is learned from, one of `ROLES`. Empty: `image` for three axes of uint8, `vector` for all else."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", self.role or _usual_role(self.shape, self.dtype))
        if self.role not in ROLES:
            raise ConfigError(f"an observation entry has the role '{self.role}'; there are {', '.join(ROLES)}")
        if self.role == "image" and (self.dtype != "uint8" or len(self.shape) != 3):
            raise ConfigError(f"an image is (height, width, channels) uint8, got an entry of shape {self.shape} {self.dtype}")

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    def scales(self) -> np.ndarray:
        """The scale of every component, `(*shape)`."""
        return np.broadcast_to(np.asarray(self.scale, dtype=np.float32), self.shape)


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


ActionPart = Continuous | Discrete


@dataclass(frozen=True)
class Spec:
    """The observations and actions of a task. The scales are fixed: a running statistic would shift every stored value."""

    task: str
    observation: Mapping[str, Entry]
    action: tuple[ActionPart, ...]
    """Named parts. Stored and sent, an action is one float32 vector (`actions.ActionLayout`)."""
    control_hz: float
    max_episode_steps: int
    return_range: tuple[float, float] | None = None
    """Lowest and highest return an episode can have, where that is known (sparse reward: 0 to 1)."""

    @property
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

    def scales(self) -> dict[str, float | list[float]]:
        """The scale of every entry by its name, as JSON knows it."""
        return {name: list(entry.scale) if isinstance(entry.scale, tuple) else entry.scale for name, entry in self.observation.items()}

    def with_scales(self, scales: Mapping[str, Any]) -> Spec:
        """The same spec with these scales; an entry that is not named, or of another size, keeps its own."""
        entries = {}
        for name, entry in self.observation.items():
            scale = _scale_from_json(scales.get(name, entry.scale))
            fits = not isinstance(scale, tuple) or len(scale) == (entry.shape[-1] if entry.shape else 1)
            entries[name] = dataclasses.replace(entry, scale=scale) if fits else entry
        return dataclasses.replace(self, observation=entries)

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "action": [_part_to_json(part) for part in self.action]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Spec:
        return_range = data["return_range"]
        return cls(
            task=str(data["task"]),
            observation={name: _entry_from_json(entry) for name, entry in data["observation"].items()},
            action=_action_from_json(data["action"]),
            control_hz=float(data["control_hz"]),
            max_episode_steps=int(data["max_episode_steps"]),
            return_range=None if return_range is None else (float(return_range[0]), float(return_range[1])),
        )


def environment_id(task: str) -> str:
    """The environment behind a name, whatever Python runs it: `serve:PYTHON:module:Id` is `module:Id`, with the same data."""
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
    return Continuous(name, int(data["size"]), str(data["unit"]), _scale_from_json(data["scale"]), meaning)


def _scale_from_json(scale: Any) -> float | tuple[float, ...]:
    return tuple(float(s) for s in scale) if isinstance(scale, (list, tuple)) else float(scale)


def _entry_numbers(entry: Entry) -> dict[str, Any]:
    # float32 first: a scale that went through a file must hash like one that did not.
    numbers = {"shape": list(entry.shape), "dtype": entry.dtype, "scale": _rounded(entry.scales())}
    # a role counts only where it is not the usual one, so that the hash of files without roles stays what it was
    return numbers if entry.role == _usual_role(entry.shape, entry.dtype) else numbers | {"role": entry.role}


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
    return f"shape {tuple(entry['shape'])} {entry['dtype']} scale {scale}"


@dataclass(frozen=True)
class Step:
    """One step of N environments: every array has one row for each of them."""

    observation: Observation
    """What the step led to. An environment that ended is reset by a call of its own, never inside of its last step."""
    reward: np.ndarray
    """(N,) float64"""
    terminated: np.ndarray
    """(N,) bool: the task ended here (success, failure)."""
    truncated: np.ndarray
    """(N,) bool: the episode was cut off (time limit)."""
    success: np.ndarray
    """(N,) bool: reported by the task, on the step that achieved it."""
    executed: np.ndarray | None = None
    """(N, action_dim) float32: the actions that the robots really executed, in the agent's units and frame. None: exactly as asked."""
    intervened: np.ndarray | None = None
    """(N,) bool: a person on the environment's own side chose the executed action. None: nobody did."""
    reward_terms: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The parts of the reward by name, (N,) each, where it has any."""
    seconds: float = 0.0
    """Wall time that the step took, as the environment measured it."""
    lost: np.ndarray | None = None
    """(N,) bool: no step was made in this row, for its episode is gone (a served environment was restarted): it is cut off after the
    step before, and what this row shows is not a transition. None: no row is lost."""
    success_known: bool = True
    """Whether the environment reports success at all. False: `success` is always False, and only the return can be judged."""

    @property
    def ended(self) -> np.ndarray:
        """The row has to be reset before its next step."""
        ended = self.terminated | self.truncated
        return ended if self.lost is None else ended | self.lost


@dataclass(frozen=True)
class Transition:
    """One step of the environment, whole in itself: it keeps its own next observation."""

    observation: Observation
    action: np.ndarray
    """The action that was *executed*, after clipping, in the agent's frame: one vector (`actions.ActionLayout`)."""
    reward: float
    next_observation: Observation
    terminated: bool
    """The task ended here (success, failure): there is no future to value."""
    truncated: bool
    """The episode was cut off by time: bootstrap from `next_observation`."""
    intervened: bool = False
    """A person (or a script standing in for one) chose this action."""
    success: bool | None = False
    """Reported by the task, on the step that achieved it. None: this environment does not report success (`Step.success_known`)."""
    episode: int = 0
    step: int = 0
    policy_version: int = -1
    """The policy that proposed the action; -1 where there was none (a demonstration, a random step)."""
    source: str = ""
    """The process that made the step; (source, seq) is globally unique."""
    seq: int = -1

    @property
    def last(self) -> bool:
        return self.terminated or self.truncated

    @property
    def corrected(self) -> bool:
        """A person put this action in the place of one that a policy had proposed; in a demonstration there was none to correct."""
        return self.intervened and self.policy_version >= 0


Array = Any
"""NumPy's on the host, JAX's inside a jitted function."""


class Batch(NamedTuple):
    """Transitions for one or more updates, as arrays with the axes (batches, rows, ...)."""

    observations: Array
    """(..., D) float32: the float entries, scaled, clipped and side by side (`observations.Layout`)."""
    actions: Array
    """(..., action_dim) float32"""
    rewards: Array
    """(...) float32"""
    masks: Array
    """(...) float32: 1 - terminated. A time-out keeps its mask of 1, so its future is valued."""
    next_observations: Array
    corrected: Array = None
    """(...) float32: 1 where a person put this action in the place of the policy's. None: nobody asks (`imitation` 0)."""
    raw: dict[str, Array] = {}  # noqa: RUF012 (never written to)
    """Entries of another dtype than float32 (images), by name, as they are."""
    next_raw: dict[str, Array] = {}  # noqa: RUF012


@dataclass(frozen=True)
class ForeignPolicy:
    """A policy that somebody acts with and that this run never published."""

    hash: str
    version: int = -1
    """Versions are counted by the run that learns; this policy has none."""


PolicyKind = Literal["tanh_gaussian", "gaussian", "recurrent_gaussian"]
"""tanh_gaussian: RLPD's and a clone's, squashed by tanh. gaussian: PPO's, clipped. recurrent_gaussian: PPO's with memory."""


def policy_kind(said: str | None, parameters: Mapping[str, np.ndarray]) -> PolicyKind:
    """The kind that a file or a frame says; an older one says none."""
    if said is None:
        return kind_of_old_policy(parameters)
    if said not in get_args(PolicyKind):
        raise ValueError(f"a policy of the kind '{said}'; this version knows {', '.join(get_args(PolicyKind))}")
    return cast("PolicyKind", said)


def kind_of_old_policy(parameters: Mapping[str, np.ndarray]) -> PolicyKind:
    """The kind of a policy that was written before files said it: the only place that tells it by the names of the parameters."""
    if "rnn_type" in parameters:
        return "recurrent_gaussian"
    return "gaussian" if "normaliser/mean" in parameters else "tanh_gaussian"


@dataclass(frozen=True)
class PolicySnapshot:
    """A policy as it is published: everything that acting needs, and which one it is."""

    version: int
    """Publications so far; persisted before it is used, never used twice."""
    learner_step: int
    parameters: Mapping[str, np.ndarray]
    """The acting parameters only, by name; no critics, no optimiser."""
    kind: PolicyKind = "tanh_gaussian"

    @functools.cached_property
    def hash(self) -> str:
        """Equal for equal parameters, whatever their version."""
        digest = hashlib.sha256()
        for name in sorted(self.parameters):
            array = np.asarray(self.parameters[name], order="C")
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Symmetry:
    """A mirror in which a task looks the same: what is done in the mirror leads to what is then seen in it, and is worth as much.

    Where the numbers of an entry come from, by signed places that count from 1: (1, -2, 3) turns the sign of the second, (2, 1) swaps
    two. An entry that is not named stays as it is.
    """

    observation: Mapping[str, tuple[int, ...]]
    action: tuple[int, ...]

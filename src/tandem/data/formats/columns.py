"""An episode as columns, which is how other formats store one; from columns to steps and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from tandem.data.validation import Validator
from tandem.errors import DataError, FileUnreadable, InvalidTransition, SpecMismatch
from tandem.types import Continuous, Entry, Spec, Transition


@dataclass(frozen=True)
class Columns:
    """One episode of T steps."""

    observations: Mapping[str, np.ndarray]
    """(T + 1, *shape) each: the one after the last step too"""
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    success: np.ndarray | None = None
    """None: not known"""
    intervened: np.ndarray | None = None


@dataclass(frozen=True)
class Foreign:
    """A file of another format, open."""

    kind: str
    spec: Spec
    """Its own, where we wrote it; otherwise what its arrays suggest."""
    columns: Callable[[], Iterator[Columns]]
    actions: Callable[[], np.ndarray]
    """All actions, to know their range before the first step is made."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    ours: bool = False
    """The spec was in the file."""


# ---- to steps


Scaling = tuple[np.ndarray, np.ndarray] | None
"""Offset and scale of each column of the actions."""


def episodes(file: Foreign, spec: Spec, path: object, source: str, scaling: Scaling) -> Iterator[list[Transition]]:
    """The steps of all episodes, checked."""
    validator, seq = Validator(spec), 0
    for number, columns in enumerate(file.columns()):
        steps = []
        for step in range(len(columns.actions)):
            transition = _step(columns, step, spec, scaling, number, source, seq)
            reason = validator.reason(transition)
            if reason:
                raise InvalidTransition(f"{path}: episode {number}, step {step}: {reason}.{_hint(reason)}")
            steps.append(transition)
            seq += 1
        yield steps


def _hint(reason: str) -> str:
    return " `--fit-actions` maps the range that the actions have to -1 ... 1." if reason.startswith("action") else ""


def _step(c: Columns, t: int, spec: Spec, scaling: Scaling, episode: int, source: str, seq: int) -> Transition:
    action = np.asarray(c.actions[t], np.float64 if scaling else np.float32).reshape(-1)
    if scaling is not None:
        action = np.clip((action - scaling[0]) / scaling[1], -1, 1)
    before, after = (
        {name: _shaped(values[at], spec.observation.get(name)) for name, values in c.observations.items()} for at in (t, t + 1)
    )
    return Transition(
        observation=before,
        action=action.astype(np.float32),
        reward=float(c.rewards[t]),
        next_observation=after,
        terminated=bool(c.terminated[t]),
        truncated=bool(c.truncated[t]),
        intervened=bool(c.intervened[t]) if c.intervened is not None else False,
        success=bool(c.success[t]) if c.success is not None else None,
        episode=episode,
        step=t,
        source=source,
        seq=seq,
    )


def _shaped(value: np.ndarray, entry: Entry | None) -> np.ndarray:
    if entry is None or not np.can_cast(value.dtype, entry.dtype, casting="same_kind") or value.size != entry.size:
        return np.asarray(value)
    return np.asarray(value, entry.dtype).reshape(entry.shape)


def require(spec: Spec, file: Foreign, path: object) -> None:
    """Refuse a file whose entries are not those of the task."""
    mine, theirs = spec.observation, file.spec.observation
    differences = [f"observation entry '{name}' {mine[name].shape}: only here" for name in mine if name not in theirs]
    differences += [f"observation entry '{name}' {theirs[name].shape}: only there" for name in theirs if name not in mine]
    differences += [
        f"observation entry '{name}': {mine[name].shape} here, {theirs[name].shape} there"
        for name in mine
        if name in theirs and mine[name].size != theirs[name].size
    ]
    if spec.action_dim != file.spec.action_dim:
        differences.append(f"action: {spec.action_dim} columns here, {file.spec.action_dim} there")
    if differences:
        raise SpecMismatch(
            f"{path} does not fit the task '{spec.task}': {'; '.join(differences)} (here: the task, there: the file). Use the task that it "
            "was recorded with, or leave out --task, to keep its entries as they are; `tandem demos edit --drop` leaves some out."
        )


def guessed_spec(
    task: str, shapes: Mapping[str, tuple[tuple[int, ...], str]], action_dim: int, hz: float, longest: int, axes: Sequence[str] = ()
) -> Spec:
    """The spec that names, shapes and dtypes suggest: scales of 1."""
    entries = {name: Entry(shape, _known(dtype)) for name, (shape, dtype) in shapes.items()}
    named = tuple(axes) if len(axes) == action_dim else ()
    return Spec(task, entries, (Continuous("action", action_dim, axes=named),), hz, max(1, longest))


def _known(dtype: str) -> str:
    kind = np.dtype(dtype)
    return "float32" if kind.kind == "f" else {"bool": "bool", "uint8": "uint8", "int8": "int8"}.get(str(kind), "int64")


def fitted(actions: np.ndarray, spec: Spec) -> tuple[Spec, tuple[np.ndarray, np.ndarray]]:
    """The spec whose actions from -1 to 1 are the range that these have, and offset and scale of each column."""
    low, high = actions.min(axis=0).astype(float), actions.max(axis=0).astype(float)
    offset, scale = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
    meaning = f"(action - offset) / scale, with the offset {[float(f'{number:.6g}') for number in offset]}"
    part = Continuous("action", len(low), scale=tuple(float(f"{number:.9g}") for number in scale), meaning=meaning)
    return dataclasses.replace(spec, action=(part,)), (offset, scale)


# ---- from steps


def columns_of(steps: Sequence[Transition], path: object) -> Columns:
    """An episode as columns; one with gaps has none."""
    for step, following in pairwise(steps):
        if not all(np.array_equal(step.next_observation[name], following.observation[name]) for name in step.next_observation):
            raise DataError(
                f"{path}: episode {step.episode} has a gap after step {step.step}: it cannot be written as one sequence of observations. "
                "`tandem demos edit` splits it there."
            )
    looks = [step.observation for step in steps] + [steps[-1].next_observation]
    known = all(step.success is not None for step in steps)
    return Columns(
        observations={name: np.stack([look[name] for look in looks]) for name in looks[0]},
        actions=np.stack([step.action for step in steps]),
        rewards=np.array([step.reward for step in steps], np.float64),
        terminated=np.array([step.terminated for step in steps], bool),
        truncated=np.array([step.truncated for step in steps], bool),
        success=np.array([bool(step.success) for step in steps]) if known else None,
        intervened=np.array([step.intervened for step in steps], bool),
    )


def ours(spec: Spec, attributes: Mapping[str, Any]) -> str:
    """What our importer needs to restore everything, as text."""
    return json.dumps({"spec": spec.to_json(), "attributes": dict(attributes)})


def read_ours(text: object, path: object) -> tuple[Spec, dict[str, Any]]:
    try:
        data = json.loads(str(text))
        return Spec.from_json(data["spec"]), dict(data["attributes"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as problem:
        raise FileUnreadable(f"{path}: the description that Tandem wrote is damaged ({type(problem).__name__}: {problem}).") from None

"""Demonstrations recorded with hil-serl: a pickle of a list of dicts, read without running any of it.

    observations, next_observations   dict of arrays (often with a leading axis of 1), or one flat array
    actions, rewards
    masks                             0: the task ended here, there is no future to value
    dones                             1: the episode ended here; with masks = 1 it was cut by time
    infos                             may hold `intervene_action` (what a person did instead) and `succeed`

`pickled.py` reads the pickle without running any of it; here its arrays become steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tandem.data.pickled import Array, PickleFile
from tandem.data.validation import Validator
from tandem.errors import DataError, FileUnreadable, InvalidTransition, SpecMismatch
from tandem.layouts import ActionLayout
from tandem.types import Continuous, Entry, Observation, Spec, Transition

MAX_PICKLE_BYTES = 4 * 2**30
"""A larger file is not read into memory; 25 demonstrations with three cameras are about half a gigabyte."""

CONTROL_HZ = 10.0
"""hil-serl's own rate, assumed where a pickle is looked at without a task's spec."""

_FIELDS = ("observations", "actions", "next_observations", "rewards", "masks", "dones")


def import_hil_serl(path: Path | str, spec: Spec, *, max_bytes: int = MAX_PICKLE_BYTES) -> list[list[Transition]]:
    """The episodes of a hil-serl demo file, checked against the spec."""
    return read_hil_serl(path, spec, max_bytes=max_bytes)[1]


def read_hil_serl(path: Path | str, spec: Spec | None, *, max_bytes: int = MAX_PICKLE_BYTES) -> tuple[Spec, list[list[Transition]]]:
    """Spec and episodes, all in memory. Without a spec, the one that the file's own arrays suggest: names and shapes, scales of 1."""
    path = Path(path)
    size = path.stat().st_size if path.exists() else 0
    if size > max_bytes:
        raise DataError(
            f"{path} has {size} bytes, more than the {max_bytes} that are read into memory at most. `tandem demos import {path}` reads it "
            "episode by episode and writes a file of Tandem's own, in which each picture is stored once."
        )
    with HilSerlFile(path, spec) as file:
        return file.spec, list(file.episodes())


class HilSerlFile:
    """A hil-serl pickle, read episode by episode: of a large file no more than an episode is in memory at a time."""

    def __init__(self, path: Path, spec: Spec | None) -> None:
        self._pickle = PickleFile(path)
        try:
            self._records = _records(self._pickle.content, path)
            with _naming(path, 0):
                if spec is None:
                    spec = _guess_spec(self._records, path.stem)
                else:
                    _require_spec(self._records[0], spec, path)
        except BaseException:
            self._pickle.close()
            raise
        self.spec = spec
        self.steps = len(self._records)

    def episodes(self) -> Iterator[list[Transition]]:
        # The same file always gives the same names, so importing it twice into one journal stores it once.
        source = f"hil-serl-{self._pickle.hash()[:16]}"
        return _episodes(self._records, self.spec, source, self._pickle.path)

    def close(self) -> None:
        self._pickle.close()

    def __enter__(self) -> HilSerlFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- its meaning


def _records(loaded: Any, path: Path) -> list[Mapping[str, Any]]:
    if not isinstance(loaded, list):
        raise FileUnreadable(f"{path} holds a {type(loaded).__name__}; a hil-serl demo file holds a list of transitions.")
    if not loaded:
        raise DataError(f"{path} holds no transitions. Record demonstrations first.")
    for number, record in enumerate(loaded):
        if not isinstance(record, dict):
            raise FileUnreadable(f"{path}: transition {number} is a {type(record).__name__}, not a dict with {', '.join(_FIELDS)}.")
        missing = [field for field in _FIELDS if field not in record]
        if missing:
            raise FileUnreadable(f"{path}: transition {number} has no {missing[0]!r}; a hil-serl transition has {', '.join(_FIELDS)}.")
    return loaded


def _episodes(records: list[Mapping[str, Any]], spec: Spec, source: str, path: Path) -> Iterator[list[Transition]]:
    validator = Validator(spec)
    number, steps = 0, []
    for seq, record in enumerate(records):
        with _naming(path, seq):
            transition = _transition(record, spec, source, seq, episode=number, step=len(steps))
        reason = validator.reason(transition)
        if reason:
            raise InvalidTransition(
                f"{path}: transition {seq} (episode {transition.episode}, step {transition.step}): {reason}. "
                "The task's spec and the recording disagree, or a sensor failed; leave this episode out or record it again."
            )
        steps.append(_sharing_pictures(transition, steps[-1]) if steps else transition)
        if transition.last:
            yield steps
            number, steps = number + 1, []
    if steps:
        yield steps


def _sharing_pictures(step: Transition, before: Transition) -> Transition:
    """The step with its pictures in the memory of the step before, which led to them: half of a file with cameras is there twice."""
    shared = {
        name: before.next_observation[name]
        for name, picture in step.observation.items()
        if picture.ndim == 3 and np.array_equal(picture, before.next_observation[name])
    }
    return replace(step, observation=step.observation | shared) if shared else step


def _transition(record: Mapping[str, Any], spec: Spec, source: str, seq: int, episode: int, step: int) -> Transition:
    infos = record.get("infos")
    infos = infos if isinstance(infos, dict) else {}
    intervened = infos.get("intervene_action") is not None
    terminated, reward = not _number(record["masks"]), _number(record["rewards"])
    action = _fitted(_array(infos["intervene_action"] if intervened else record["actions"]), Entry((spec.action_dim,)))
    return Transition(
        observation=_observation(record["observations"], spec),
        action=_with_choices(action, ActionLayout.of(spec)),
        reward=reward,
        next_observation=_observation(record["next_observations"], spec),
        terminated=terminated,
        truncated=bool(_number(record["dones"])) and not terminated,
        intervened=intervened,
        success=bool(_number(infos["succeed"])) if "succeed" in infos else terminated and reward > 0,
        episode=episode,
        step=step,
        source=source,
        seq=seq,
    )


def _with_choices(action: np.ndarray, layout: ActionLayout) -> np.ndarray:
    """hil-serl's gripper column, from -1 (close) over 0 (hold) to 1 (open), as the number of the choice; of two choices, by its sign.

    Rounded and not cut off: a person's press is stored as 0.9 to 1, and would become "hold".
    """
    if layout.all_continuous or action.shape != layout.shape:
        return action
    choices = action.copy()
    for column in np.flatnonzero(layout.is_discrete):
        value, count = float(action[column]), int(layout.high[column]) + 1
        if not abs(value) <= 1 or count not in (2, 3):
            raise ValueError(
                f"the action has {value:g} in column {column}, which is a discrete part of {count} choices; hil-serl's gripper has -1 "
                f"(close), 0 (hold) and 1 (open), for a part of three choices, or of two without hold"
            )
        choices[column] = np.rint(value) + 1 if count == 3 else float(value > 0)
    return choices


def _observation(value: Any, spec: Spec) -> Observation:
    return {name: _fitted(array, spec.observation.get(name)) for name, array in _named(value, spec).items()}


def _named(value: Any, spec: Spec) -> dict[str, np.ndarray]:
    leaves = _leaves(value)
    if not isinstance(value, dict) and len(spec.observation) == 1:
        [name] = spec.observation  # one flat array goes to the only entry there is, whatever its name
        return {name: leaves["state"]}
    return leaves


def _leaves(value: Any) -> dict[str, np.ndarray]:
    """The named arrays of an observation; a group of them ({"state": {"pose": ...}}) is taken apart."""
    if not isinstance(value, dict):
        return {"state": _array(value)}
    leaves: dict[str, np.ndarray] = {}
    for name, item in value.items():
        group = item if isinstance(item, dict) else {name: item}
        leaves.update((str(key), _array(array)) for key, array in group.items())
    return leaves


def _fitted(array: np.ndarray, entry: Entry | None) -> np.ndarray:
    """In the spec's shape and dtype where that is only a matter of form; else as it is, for the validator to name."""
    if entry is None:
        return array
    if array.shape == (1, *entry.shape):  # hil-serl's ChunkingWrapper with a horizon of one
        array = array.reshape(entry.shape)
    if not np.can_cast(array.dtype, entry.dtype, casting="same_kind"):
        return array
    with np.errstate(over="ignore"):
        return array.astype(entry.dtype)


def _require_spec(record: Mapping[str, Any], spec: Spec, path: Path) -> None:
    arrays = _observation(record["observations"], spec)
    differences = [
        f"observation entry '{name}' {spec.observation[name].shape}: only here" for name in spec.observation if name not in arrays
    ]
    for name, array in arrays.items():
        entry = spec.observation.get(name)
        if entry is None:
            differences.append(f"observation entry '{name}' {array.shape}: only there")
        elif array.shape != entry.shape:
            differences.append(f"observation entry '{name}': shape {entry.shape} here, {array.shape} there")
    action = _fitted(_array(record["actions"]), Entry((spec.action_dim,)))
    if action.shape != (spec.action_dim,):
        differences.append(f"action: shape {(spec.action_dim,)} here, {action.shape} there")
    if differences:
        raise SpecMismatch(
            f"{path} does not fit the task '{spec.task}': {'; '.join(differences)} (here: the task, there: the file). "
            "Use the task it was recorded with, or one whose spec has these entries."
        )


def _guess_spec(records: list[Mapping[str, Any]], task: str) -> Spec:
    observation = {name: _guess_entry(array) for name, array in _leaves(records[0]["observations"]).items()}
    longest, length = 1, 0
    for record in records:
        length += 1
        longest = max(longest, length)
        length = 0 if _number(record["dones"]) else length
    action = Continuous("action", _guess_entry(_array(records[0]["actions"])).size)
    return Spec(task, observation, (action,), CONTROL_HZ, longest)


def _guess_entry(array: np.ndarray) -> Entry:
    shape = array.shape[1:] if array.ndim > 1 and array.shape[0] == 1 else array.shape
    return Entry(shape, dtype=str(array.dtype) if array.dtype.kind in "iub" else "float32")


def _array(value: Any) -> np.ndarray:
    if isinstance(value, Array):
        return value.read()
    if isinstance(value, (bool, int, float)) or (isinstance(value, list) and all(type(item) in (bool, int, float) for item in value)):
        return np.asarray(value)
    raise ValueError(f"expected an array of numbers, got a {type(value).__name__.lstrip('_')}")


def _number(value: Any) -> float:
    array = _array(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise ValueError(f"expected one number, got an array of shape {array.shape} {array.dtype}")
    return float(array.item())


@contextlib.contextmanager
def _naming(path: Path, number: int) -> Iterator[None]:
    try:
        yield
    except (ValueError, OverflowError) as problem:
        raise InvalidTransition(f"{path}: transition {number}: {problem}.") from None

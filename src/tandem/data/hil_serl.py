"""Demonstrations recorded with hil-serl: a pickle of a list of dicts, read without running any of it.

    observations, next_observations   dict of arrays (often with a leading axis of 1), or one flat array
    actions, rewards
    masks                             0: the task ended here, there is no future to value
    dones                             1: the episode ended here; with masks = 1 it was cut by time
    infos                             may hold `intervene_action` (what a person did instead) and `succeed`

A pickle is a program. This reader knows a handful of calls, all of which make an array or a container, and answers
them with its own few lines; NumPy's own are never called, so that a hostile file cannot reach them either.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tandem.data.validation import Validator
from tandem.errors import DataError, FileMissing, FileUnreadable, InvalidTransition, SpecMismatch, UnsafePickle
from tandem.layouts import ActionLayout
from tandem.types import Continuous, Entry, Observation, Spec, Transition

MAX_PICKLE_BYTES = 4 * 2**30
"""A larger file is refused before it is read; 25 demonstrations with three cameras are about half a gigabyte."""

MAX_OPERATIONS = 6_000_000
"""The most operations that a pickle may have; a step has 100 to 200. Looking at so many takes some seconds."""
MAX_TUPLE_DEPTH = 16

CONTROL_HZ = 10.0
"""hil-serl's own rate, assumed where a pickle is looked at without a task's spec."""

_FIELDS = ("observations", "actions", "next_observations", "rewards", "masks", "dones")


def import_hil_serl(path: Path | str, spec: Spec, *, max_bytes: int = MAX_PICKLE_BYTES) -> list[list[Transition]]:
    """The episodes of a hil-serl demo file, checked against the spec."""
    return read_hil_serl(path, spec, max_bytes=max_bytes)[1]


def read_hil_serl(path: Path | str, spec: Spec | None, *, max_bytes: int = MAX_PICKLE_BYTES) -> tuple[Spec, list[list[Transition]]]:
    """Spec and episodes. Without a spec, the one that the file's own arrays suggest: names and shapes, scales of 1."""
    path = Path(path)
    data = _read_bytes(path, max_bytes)
    records = _records(_unpickle(data, path), path)
    with _naming(path, 0):
        if spec is None:
            spec = _guess_spec(records, path.stem)
        else:
            _require_spec(records[0], spec, path)
    # The same file always gives the same names, so importing it twice into one journal stores it once.
    source = f"hil-serl-{hashlib.sha256(data).hexdigest()[:16]}"
    return spec, _episodes(records, spec, source, path)


# ---- the pickle


class _Call:
    """Stands for a function that a pickle may name. It cannot be given a state: that would change it for the next file."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]):
        self._make = make

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("a function is given a state")


class _Dtype:
    """Stands for a dtype of numbers, booleans or text; objects and records have no business in a demonstration."""

    __slots__ = ("dtype",)

    def __init__(self, code: object, *_: object):
        if not (isinstance(code, str) and re.fullmatch(r"[biufSU]\d{1,6}", code)):
            raise pickle.UnpicklingError(f"an array of dtype {code!r:.40}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        _, order, subdtype, names, *_rest = state
        if subdtype is not None or names is not None or order not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError("an array of records")
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """Stands for an array until its bytes are known."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray | None = None):
        self.array = array

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        self.array = _from_bytes(raw, dtype, shape, "F" if fortran else "C").array


def _from_bytes(raw: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    if not (isinstance(raw, (bytes, bytearray)) and isinstance(dtype, _Dtype) and isinstance(shape, tuple)):
        raise pickle.UnpicklingError("an array without plain bytes")
    if math.prod(shape) * dtype.dtype.itemsize != len(raw):
        raise pickle.UnpicklingError(f"an array of shape {shape!r:.60} with {len(raw)} bytes")
    flat = np.frombuffer(bytes(raw), dtype.dtype) if raw else np.zeros(0, dtype.dtype)
    return _Array(flat.reshape(shape, order="F" if order == "F" else "C"))


def _scalar(dtype: Any, raw: Any) -> Any:
    array = _from_bytes(raw, dtype, (), "C").array
    return None if array is None else array.item()


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r:.40}")
    return text.encode("latin1")


_CALLS = {
    ("numpy", "dtype"): _Call(_Dtype),
    ("numpy", "ndarray"): _Call(lambda *_: _Array()),
    ("collections", "OrderedDict"): _Call(dict),
    # How protocols before 3 spell bytes.
    ("_codecs", "encode"): _Call(_latin1),
    ("__builtin__", "bytes"): _Call(lambda: b""),
}
for _core in ("numpy.core", "numpy._core"):  # NumPy 1 and 2
    _CALLS[f"{_core}.multiarray", "_reconstruct"] = _Call(lambda *_: _Array())
    _CALLS[f"{_core}.multiarray", "scalar"] = _Call(_scalar)
    _CALLS[f"{_core}.numeric", "_frombuffer"] = _Call(_from_bytes)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _CALLS[module_name, global_name]
        except KeyError:
            raise UnsafePickle(f"{module_name}.{global_name}") from None


def _unpickle(data: bytes, path: Path) -> Any:
    try:
        _refuse_bombs(data)
        return _Unpickler(io.BytesIO(data)).load()
    except UnsafePickle as asked:
        raise UnsafePickle(
            f"{path} asks for {asked}, which is neither an array nor a plain container. It was refused, and nothing of it was run. "
            "A demonstration needs no such thing: the file is damaged, hostile, or holds other objects. Save it again as NumPy arrays."
        ) from None
    except Exception as problem:  # a damaged pickle raises almost anything
        raise FileUnreadable(
            f"{path} is not a pickle of arrays: {type(problem).__name__}: {problem}. Cut off, or another format?"
        ) from None


def _refuse_bombs(data: bytes) -> None:
    """Look at every operation before one is carried out: a few bytes can ask for a table of any size, for millions of objects, or for
    tuples so deep that Python's own hash of them overflows its stack. An honest pickle numbers what it remembers one by one."""
    stack: list[int] = []  # of each object the depth of tuples in tuples; all others can be as deep as they like
    marks: list[int] = []
    memo: dict[int, int] = {}
    for count, (operation, argument, _) in enumerate(pickletools.genops(data)):
        name = operation.name
        if count >= MAX_OPERATIONS:
            raise pickle.UnpicklingError(f"more than {MAX_OPERATIONS:,} operations; demonstrations of 40,000 steps have as many: split it")
        if name in _PUTS:
            number = argument if isinstance(argument, int) else len(memo)
            if number > count:
                raise pickle.UnpicklingError(f"memo entry {number} after {count} operations")
            memo[number] = stack[-1]
        elif name in _GETS:
            stack.append(memo[argument] if isinstance(argument, int) else 0)
        elif name == "MARK":
            marks.append(len(stack))
        elif _EFFECTS[name] == (0, 1):  # most of them
            stack.append(0)
        else:
            _depth_after(name, stack, marks)


def _depth_after(name: str, stack: list[int], marks: list[int]) -> None:
    """What an operation takes from the stack and puts there, by Python's own table of operations."""
    taken, put = _EFFECTS[name]
    start = len(stack) - taken if taken >= 0 else marks.pop() - (-1 - taken)
    if start < 0:
        raise pickle.UnpicklingError("an operation on an empty stack")
    depth = 1 + max(stack[start:], default=0) if name in _TUPLES else 0
    if depth > MAX_TUPLE_DEPTH:
        raise pickle.UnpicklingError(f"tuples in tuples, more than {MAX_TUPLE_DEPTH} deep")
    kept = stack[-1:] if name == "DUP" else [depth]
    stack[start:] = kept * put


def _effect(operation: pickletools.OpcodeInfo) -> tuple[int, int]:
    """How many objects it takes and puts. Taken up to a mark: -1, and one less for each object below the mark."""
    before = operation.stack_before
    marked = pickletools.markobject in before
    taken = -1 - before.index(pickletools.markobject) if marked else len(before)
    return taken, len(operation.stack_after)


_EFFECTS = {operation.name: _effect(operation) for operation in pickletools.opcodes}
_PUTS, _GETS, _TUPLES = (
    ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"),
    ("GET", "BINGET", "LONG_BINGET"),
    ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
)


def _read_bytes(path: Path, max_bytes: int) -> bytes:
    if not path.is_file():  # a pipe or a device could go on for ever
        raise FileMissing(f"there is no file {path} (looked in {path.absolute().parent}).")
    size = path.stat().st_size
    if size > max_bytes:
        raise DataError(f"{path} has {size} bytes, more than the {max_bytes} that are read into memory at most. Split it by episodes.")
    try:
        return path.read_bytes()
    except OSError as problem:
        raise FileUnreadable(f"cannot read {path}: {problem.strerror}.") from None


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


def _episodes(records: list[Mapping[str, Any]], spec: Spec, source: str, path: Path) -> list[list[Transition]]:
    validator = Validator(spec)
    episodes: list[list[Transition]] = [[]]
    for number, record in enumerate(records):
        if episodes[-1] and episodes[-1][-1].last:
            episodes.append([])
        with _naming(path, number):
            transition = _transition(record, spec, source, number, episode=len(episodes) - 1, step=len(episodes[-1]))
        reason = validator.reason(transition)
        if reason:
            raise InvalidTransition(
                f"{path}: transition {number} (episode {transition.episode}, step {transition.step}): {reason}. "
                "The task's spec and the recording disagree, or a sensor failed; leave this episode out or record it again."
            )
        episodes[-1].append(transition)
    return episodes


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
    if isinstance(value, _Array) and value.array is not None:
        return value.array
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

"""Records to bytes and back with msgpack; arrays as dtype, shape and bytes. Nothing here can run code.

Used for rows of the journal and for frames of the link, so that a step is encoded once in its life.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import msgpack
import numpy as np

from tandem.types import Transition

MAX_ARRAY_BYTES = 64 * 2**20
"""Larger arrays are refused on the way in: a bad length must not become a large allocation."""

MAX_ARRAY_AXES = 8

_packb: Any = msgpack.packb  # it has no types of its own, and a checker would take its result for optional
_ARRAY_CODE = 1
_DTYPES = {np.dtype(name).str: np.dtype(name) for name in ("float32", "float64", "int64", "int32", "int8", "uint8", "bool")}


class CodecError(ValueError):
    """The bytes are not a record of ours, or a value has no encoding."""


def pack(record: Any) -> bytes:
    """Encode plain containers, numbers, strings, bytes and NumPy arrays."""
    return _packb(record, default=_encode, use_bin_type=True)


def unpack(data: bytes, **limits: Any) -> Any:
    """Decode what `pack` wrote; arrays come back read-only, without a copy."""
    hooks = {"object_hook": _with_text_keys, "ext_hook": _decode} | limits
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=True, max_ext_len=MAX_ARRAY_BYTES, **hooks)
    except CodecError:
        raise
    except Exception as problem:  # msgpack raises a family of its own, ValueError and TypeError
        raise CodecError(f"not a record: {type(problem).__name__}: {problem}") from None


def _with_text_keys(found: dict[Any, Any]) -> dict[str, Any]:
    """msgpack also lets bytes be keys; texts and bytes cannot be sorted together, and nothing here is named by bytes."""
    for key in found:
        if type(key) is not str:
            raise CodecError(f"a map has a key of {type(key).__name__}, not a text")
    return found


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return msgpack.ExtType(_ARRAY_CODE, _array_header(value.dtype, value.shape) + value.tobytes())
    if isinstance(value, np.generic):
        return value.item()
    raise CodecError(f"a {type(value).__name__} has no encoding; records hold numbers, strings, lists, dicts and arrays")


def _decode(code: int, payload: bytes) -> np.ndarray:
    if code != _ARRAY_CODE or not payload:
        raise CodecError(f"unknown extension type {code} of {len(payload)} bytes")
    start = 1 + payload[0]
    dtype, shape, expected = _parse_header(payload[1:start])
    if len(payload) - start != expected:
        raise CodecError(f"array of shape {shape} {dtype} needs {expected} bytes, got {len(payload) - start}")
    flat = np.frombuffer(payload, dtype, -1, start)
    return flat if len(shape) == 1 else flat.reshape(shape)


# A stream has a handful of different headers and thousands of arrays: each header is made and checked once.
@lru_cache(maxsize=256)
def _array_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    if dtype.str not in _DTYPES:
        raise CodecError(f"an array of dtype {dtype} has no encoding; use one of {sorted(d.name for d in _DTYPES.values())}")
    if len(shape) > MAX_ARRAY_AXES:
        raise CodecError(f"an array of {len(shape)} axes has no encoding; at most {MAX_ARRAY_AXES}")
    header = _packb([dtype.str, list(shape)])
    return bytes([len(header)]) + header


@lru_cache(maxsize=256)
def _parse_header(header: bytes) -> tuple[np.dtype, tuple[int, ...], int]:
    parsed = msgpack.unpackb(header)
    if not (isinstance(parsed, list) and len(parsed) == 2 and isinstance(parsed[0], str) and parsed[0] in _DTYPES):
        raise CodecError(f"bad array header {parsed!r:.100}")
    dtype, shape = _DTYPES[parsed[0]], parsed[1]
    if not (isinstance(shape, list) and len(shape) <= MAX_ARRAY_AXES and all(type(n) is int and n >= 0 for n in shape)):
        raise CodecError(f"bad array shape {shape!r:.100}")
    return dtype, tuple(shape), math.prod(shape) * dtype.itemsize


# The step's own fields; source and seq are columns of the journal and part of the link's frame.
_FIELDS = (
    "observation",
    "action",
    "reward",
    "next_observation",
    "terminated",
    "truncated",
    "intervened",
    "success",
    "episode",
    "step",
    "policy_version",
)


class _Count:
    """Lets a number of maps and lists pass."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, found: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise CodecError("not a transition: too many maps and lists")
        return _with_text_keys(found) if isinstance(found, dict) else found


def pack_transition(transition: Transition) -> bytes:
    tag = {"tag": transition.tag} if transition.tag else {}  # few steps have one
    return pack({name: getattr(transition, name) for name in _FIELDS} | tag)


def unpack_transition(data: bytes, source: str, seq: int) -> Transition:
    """Rebuild a transition; types are checked here, shapes later, against the spec (`data.validation`)."""
    # A step has three maps and no list; a hostile one of a million empty ones would take a hundred times its size in memory.
    count = _Count(16)
    record = unpack(data, max_array_len=1000, max_map_len=1000, object_hook=count, list_hook=count)
    if not isinstance(record, dict) or record.keys() - {"tag"} != set(_FIELDS):
        found = ", ".join(sorted(record)) if isinstance(record, dict) else type(record).__name__
        raise CodecError(f"not a transition: fields {found:.200}")
    for name in ("observation", "next_observation"):
        entries = record[name]
        if not isinstance(entries, dict) or not all(isinstance(array, np.ndarray) for array in entries.values()):
            raise CodecError(f"'{name}' is not a dict of arrays")
    if not isinstance(record["action"], np.ndarray):
        raise CodecError("'action' is not an array")
    if type(record["reward"]) not in (int, float):
        raise CodecError(f"'reward' is a {type(record['reward']).__name__}, not a number")
    for name, kind in (
        ("terminated", bool),
        ("truncated", bool),
        ("intervened", bool),
        ("success", bool),
        ("episode", int),
        ("step", int),
        ("policy_version", int),
        ("tag", str),
    ):
        if type(record.setdefault(name, "")) is not kind and (name, record[name]) != ("success", None):  # which is: not reported
            raise CodecError(f"'{name}' is a {type(record[name]).__name__}, not a {kind.__name__}")
    return Transition(**record, source=source, seq=seq)

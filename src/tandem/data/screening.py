"""Sound steps known by their bytes, many at once: what a hub can afford for every step of every actor.

All sound steps of one spec look alike: the same keys, dtypes and shapes at the same places, and between them numbers that must lie
within what is believed of them (`plausibility.py`). So a group is laid side by side as bytes, compared with a template, and its numbers
tested together. A step that differs anywhere is not judged here; it is decoded and looked at entry by entry, as `validation.Validator`
does. Recognised means sound.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgpack
import numpy as np

from tandem.codec import pack_transition
from tandem.data.plausibility import believed, believed_rewards
from tandem.data.validation import COUNT_LIMIT
from tandem.layouts import ActionLayout
from tandem.types import Spec, Transition

MAX_BYTES = 16 * 2**10
"""Larger steps (images) are decoded: that costs little beside storing them."""


class Place(NamedTuple):
    """Where a sound step belongs."""

    episode: int
    step: int


class Screen:
    """Recognises the sound steps of one spec."""

    def __init__(self, spec: Spec) -> None:
        self._layout = ActionLayout.of(spec)
        example = _zeros(spec)
        template = pack_transition(example)
        self._tail = template.rindex(b"episode") + len(b"episode")
        """From here on the counts, whose lengths differ."""
        self._useful = self._tail <= MAX_BYTES
        if not self._useful:
            return
        self._template = np.frombuffer(template, np.uint8, self._tail)
        self._fixed = np.full(self._tail, 0xFF, np.uint8)
        floats: dict[np.dtype, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
        ranges = _ranges(spec)
        for dtype, changed in _examples_with_one_change(example):
            places = np.flatnonzero(np.frombuffer(pack_transition(changed), np.uint8, self._tail) != self._template)
            self._fixed[places] = 0xFE if dtype.kind == "b" else 0  # false (C2) and true (C3) differ in their last bit
            if dtype.kind == "f":
                low, high = next(ranges)
                floats.setdefault(dtype, []).append((places, low, high))
            if changed.action is not example.action:
                self._action = places, dtype
            if changed.success:
                self._success = int(places[0])
                self._fixed[self._success] = 0xFC  # an environment that does not report it has nil (C0) here; no value is C1
        self._floats = [(dtype, *(np.concatenate(column) for column in zip(*parts, strict=True))) for dtype, parts in floats.items()]

    def places(self, records: Sequence[bytes]) -> list[Place | None]:
        """For each record its place if it is sound for sure; None means: look closer."""
        if not self._useful:
            return [None] * len(records)
        heads = [record[: self._tail].ljust(self._tail, b"\0") for record in records]
        table = np.frombuffer(b"".join(heads), np.uint8).reshape(len(heads), self._tail)
        sound = np.asarray(~((table ^ self._template) & self._fixed).any(axis=1))
        sound &= table[:, self._success] != 0xC1
        for dtype, places, low, high in self._floats:
            numbers = table.take(places, axis=1).view(dtype)
            sound &= ((numbers >= low) & (numbers <= high)).all(axis=1)  # NaN compares false, and no bound is infinite
        places, dtype = self._action
        sound &= self._layout.valid(table.take(places, axis=1).view(dtype))
        return [self._place(record) if good else None for record, good in zip(records, sound.tolist(), strict=True)]

    def _place(self, record: bytes) -> Place | None:
        """The three counts at the end: episode, step and policy version."""
        try:
            episode, key, step, other_key, version = msgpack.unpackb(b"\x95" + record[self._tail :])
        except (ValueError, TypeError, msgpack.UnpackException):
            return None
        if (key, other_key) != ("step", "policy_version") or not type(episode) is type(step) is type(version) is int:
            return None
        if 0 <= episode < COUNT_LIMIT and 0 <= step < COUNT_LIMIT and -1 <= version < COUNT_LIMIT:
            return Place(episode, step)
        return None


def _zeros(spec: Spec) -> Transition:
    observation, following = ({name: np.zeros(entry.shape, entry.dtype) for name, entry in spec.observation.items()} for _ in range(2))
    return Transition(observation, np.zeros(spec.action_dim, np.float32), 0.0, following, False, False)


def _ranges(spec: Spec) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Lowest and highest that is believed of the float arrays, in the order of `_examples_with_one_change`."""
    for _ in ("observation", "next_observation"):
        for entry in spec.observation.values():
            if np.dtype(entry.dtype).kind == "f":
                low, high = believed(entry)
                yield low.reshape(-1), high.reshape(-1)
    yield -np.ones(spec.action_dim) * np.inf, np.ones(spec.action_dim) * np.inf  # the layout judges actions
    low, high = believed_rewards(spec)
    yield np.array([low]), np.array([high])


def _examples_with_one_change(example: Transition) -> Iterator[tuple[np.dtype, Transition]]:
    """Each number or flag of a step set to other bytes, one at a time: what differs then is where it lies."""
    for which in ("observation", "next_observation"):
        entries = getattr(example, which)
        for name, array in entries.items():
            yield array.dtype, dataclasses.replace(example, **{which: entries | {name: _all_ones(array)}})
    yield example.action.dtype, dataclasses.replace(example, action=_all_ones(example.action))
    yield np.dtype(">f8"), dataclasses.replace(example, reward=struct.unpack(">d", b"\xff" * 8)[0])
    for flag in ("terminated", "truncated", "intervened", "success"):
        yield np.dtype(bool), dataclasses.replace(example, **{flag: True})


def _all_ones(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(b"\xff" * array.nbytes, array.dtype).reshape(array.shape)

"""What a run with cameras has seen, at rest: features, and the pictures that they were made of, each once.

    on its way      observation["eye"] is features, observation["eye:picture"] the picture itself, where a run keeps pictures
    on the link     observation["eye"] is a hash. The first step that shows it brings "eye:features" and "eye:zlib" (:png, :jpeg) along
    in the journal  the step's record holds the hash; the tables `features` and `frames` hold what belongs to it

A frame travels inside of the step that shows it first, so all that holds for steps holds for frames: spool, acknowledgement, order,
exactly once, one transaction. What a step led to is where the next one begins: that one refers to it. A step that refers to a frame that
nobody brought is rejected in words.

The hash is the picture's; where pictures are not kept, that of the features. A journal is read back with features, and the image network
does not run again. `FeatureTable.pictured` gives the pictures back, for people and for another encoder.
"""

from __future__ import annotations

import dataclasses
import math
import sqlite3
from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from tandem.codec import CodecError, pack_transition
from tandem.data.frames import CODECS, DIGEST, Packed, Parted, compressed, digest_of, store_pictures, stored_picture
from tandem.data.journal_file import CREATE_FEATURES
from tandem.errors import DataError
from tandem.types import Entry, Observation, Spec, Transition

PICTURE, FEATURES = ":picture", ":features"
"""After the name of a camera."""
_SLACK = 4096
"""Bytes that compression may add to what cannot be compressed."""
_RECENT = 256
"""Features that stay in memory: those of the step before are those of this one, in every row of an actor."""


class _Frame(NamedTuple):
    """What a camera saw once."""

    digest: bytes
    features: np.ndarray | None
    """None: an earlier step has brought them."""
    picture: np.ndarray | Packed | None
    """None: not kept, or an earlier step has brought it."""


def cameras_of(spec: Spec) -> dict[str, Entry]:
    """The entries that hold features in the place of pictures."""
    return {name: entry for name, entry in spec.observation.items() if entry.role == "features"}


class _Cameras:
    """The entries of a run that hold features, and what may come along with them."""

    def __init__(self, spec: Spec) -> None:
        self._cameras = cameras_of(spec)
        parts = (PICTURE, FEATURES, *(f":{codec}" for codec in CODECS))
        self._companions = {name + part for name in self._cameras for part in parts} - set(spec.observation)

    def _without_companions(self, observation: Observation) -> Observation:
        return {name: values for name, values in observation.items() if name not in self._companions}


class FeatureTable(_Cameras):
    """The features and pictures of one journal."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._recent: OrderedDict[tuple[bytes, str], np.ndarray] = OrderedDict()
        self._waiting: dict[tuple[bytes, str], np.ndarray] = {}
        """Features of steps that are about to be stored, by hash and camera: two cameras of different sizes may both be black."""
        self._pictures: dict[bytes, np.ndarray | Packed] = {}
        """Their pictures."""

    def parted(self, step: Transition, connection: sqlite3.Connection) -> Parted:
        """The step with features, and with hashes in their place. What came along waits for `store`."""
        problems, parts = [], []
        for observation in (step.observation, step.next_observation):  # also of a step that is rejected: the next one refers to it
            try:
                parts.append(self._parted(observation, connection))
            except CodecError as problem:
                problems.append(str(problem))
        if problems:
            return Parted(step, step, problems[0])
        (whole, slim), (next_whole, next_slim) = parts
        return Parted(
            dataclasses.replace(step, observation=whole, next_observation=next_whole),
            dataclasses.replace(step, observation=slim, next_observation=next_slim),
        )

    def _parted(self, observation: Observation, connection: sqlite3.Connection) -> tuple[Observation, Observation]:
        whole = self._without_companions(observation)
        slim = dict(whole)
        for name, entry in self._cameras.items():
            if name not in observation:
                continue
            frame = _frame(name, observation, entry)
            if frame is None:  # neither a hash nor features: to be rejected
                continue
            if frame.features is None:
                whole[name] = self._known(name, frame.digest, connection)
            else:
                whole[name] = self._waiting[frame.digest, name] = frame.features
            if frame.picture is not None:
                self._pictures[frame.digest] = frame.picture
            slim[name] = np.frombuffer(frame.digest, np.uint8)
        return whole, slim

    def store(self, connection: sqlite3.Connection) -> None:
        """Write what waits, inside of the transaction of its steps; what is there already stays as it is."""
        connection.execute(CREATE_FEATURES)
        rows = [(digest, name, features.tobytes()) for (digest, name), features in self._waiting.items()]
        connection.executemany("INSERT OR IGNORE INTO features VALUES (?, ?, ?)", rows)
        if self._pictures:
            store_pictures(self._pictures, connection)
        for key, features in self._waiting.items():
            self._remember(key, features)
        self._waiting, self._pictures = {}, {}

    def put_back(self, step: Transition, connection: sqlite3.Connection) -> Transition:
        """The step with its features. Two steps that share them share the array."""

        def seen(observation: Observation) -> Observation:
            names = [name for name in self._cameras if name in observation and _is_hash(observation[name])]
            return {**observation, **{name: self._known(name, observation[name].tobytes(), connection) for name in names}}

        return dataclasses.replace(step, observation=seen(step.observation), next_observation=seen(step.next_observation))

    def pictured(self, step: Transition, connection: sqlite3.Connection) -> Transition:
        """The step as the environment handed it out: pictures in the place of features."""

        def seen(observation: Observation) -> Observation:
            return {**observation, **{name: self._picture(name, observation[name], connection) for name in self._cameras}}

        return dataclasses.replace(step, observation=seen(step.observation), next_observation=seen(step.next_observation))

    def _picture(self, name: str, reference: np.ndarray, connection: sqlite3.Connection) -> np.ndarray:
        if not _is_hash(reference) or not _has_table(connection, "frames"):
            raise DataError(
                f"the pictures of the camera '{name}' are not in this journal: its run had --no-keep-pictures, is of an earlier version of "
                f"Tandem, or the file holds demonstrations that were encoded. Use the file that they were recorded in."
            )
        return stored_picture(reference.tobytes(), self._cameras[name].picture, connection)

    def _known(self, name: str, digest: bytes, connection: sqlite3.Connection) -> np.ndarray:
        key, entry = (digest, name), self._cameras[name]
        found = self._waiting.get(key)
        found = self._recent.get(key) if found is None else found
        if found is not None:
            return found
        row = None
        if _has_table(connection, "features"):
            row = connection.execute("SELECT record FROM features WHERE digest = ? AND camera = ?", key).fetchone()
        if row is None:
            raise CodecError(f"'{name}' refers to a picture that no step has brought: a step before it is missing, or another run's")
        if len(row[0]) != entry.size:
            raise CodecError(f"the features of '{name}' have {len(row[0])} bytes and not {entry.size}")
        return self._remember(key, np.frombuffer(row[0], np.int8).reshape(entry.shape))

    def _remember(self, key: tuple[bytes, str], features: np.ndarray) -> np.ndarray:
        self._recent[key] = features
        while len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return features


class FrameSender(_Cameras):
    """Packs the steps of an actor with cameras for a link: each frame travels once, with the first step that shows it."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._last: dict[str, dict[str, bytes]] = {}
        """By source, what its last step led to."""

    def pack(self, step: Transition) -> bytes:
        known = dict(self._last.get(step.source, {}))
        observation, following = (self._thin(entries, known) for entries in (step.observation, step.next_observation))
        self._last[step.source] = known
        return pack_transition(dataclasses.replace(step, observation=observation, next_observation=following))

    def _thin(self, observation: Observation, known: dict[str, bytes]) -> Observation:
        """Hashes, and what belongs to those that are new; `known` becomes what this observation showed."""
        thin = self._without_companions(observation)
        for name, entry in self._cameras.items():
            frame = _frame(name, observation, entry) if name in observation else None
            if frame is None:
                continue
            thin[name] = np.frombuffer(frame.digest, np.uint8)
            if known.get(name) == frame.digest or frame.features is None:
                continue
            known[name], thin[name + FEATURES] = frame.digest, frame.features
            if isinstance(frame.picture, np.ndarray):
                packed = compressed(frame.picture)
                thin[f"{name}:{packed.codec}"] = np.frombuffer(packed.record, np.uint8)
        return thin


def _frame(name: str, observation: Observation, entry: Entry) -> _Frame | None:
    """What an observation says of a camera, on its way or as it came over a link; None if it is neither."""
    value, picture = observation[name], observation.get(name + PICTURE)
    if _is_hash(value):
        features = observation.get(name + FEATURES)
        if features is not None and (features.shape != entry.shape or features.dtype != np.int8):
            raise CodecError(f"the features of '{name}' have the shape {features.shape} {features.dtype}, expected {entry.shape} int8")
        return _Frame(value.tobytes(), features, _packed(name, observation, entry))
    if value.shape != entry.shape or value.dtype != np.int8:
        return None
    return _Frame(digest_of(value if picture is None else picture), value, picture)


def _packed(name: str, observation: Observation, entry: Entry) -> Packed | None:
    for codec in CODECS:
        record = observation.get(f"{name}:{codec}")
        if record is not None:
            if record.nbytes > math.prod(entry.picture) + _SLACK:
                raise CodecError(f"the picture of '{name}' has {record.nbytes} bytes compressed, more than its {math.prod(entry.picture)}")
            return Packed(codec, record.tobytes())
    return None


def _is_hash(values: np.ndarray) -> bool:
    return values.shape == (DIGEST,) and values.dtype == np.uint8


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone() is not None

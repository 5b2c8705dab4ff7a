"""Each frame once: pictures and features in a file of steps, features in memory.

An observation and the one that follows a step show the same world twice: what a step led to is where the next one begins. Stored with
every step, each picture would be there twice.

`FrameTable`: pictures in a journal. A table `frames` holds each picture under a hash of its pixels, compressed without loss or as the JPEG
that it came in (`envs/camera_bytes.py`), and a step's record holds the hash in the picture's place. A step still says itself what it led
to; nothing is guessed from its neighbours. `seen.py` does the same for the steps of a run, which hold features beside their pictures.

`FrameStore`: features in a replay buffer. A row holds two places, for its observation and for the next one. If the next one of the step
before is equal to this observation, number by number, both rows hold the same place. A place is free again when no row holds it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from PIL import Image

from tandem.codec import CodecError
from tandem.data.journal_file import CREATE_FRAMES
from tandem.envs.camera_bytes import RECEIVED
from tandem.types import Entry, Observation, Spec, Transition

DIGEST = 16
"""Bytes of the hash that stands for a picture."""
CODECS = ("zlib", "png", "jpeg")
PNG_CHANNELS = (1, 3, 4)
_LEVEL = 4
_PLAIN = 3
"""A picture that zlib makes smaller than one part in so many is plain, as drawn ones are; the noise of a sensor is left to PNG."""
_RECENT = 64
"""Pictures that stay decoded: those of the step before are those of this one."""


class Packed(NamedTuple):
    """A compressed picture."""

    codec: str
    record: bytes


class Parted(NamedTuple):
    """A step on its way into a journal."""

    whole: Transition
    """As it is learned from, and judged (`validation.py`)."""
    slim: Transition
    """As it is stored: hashes in the place of frames."""
    problem: str = ""
    """Why it cannot be stored; empty if it can."""


def pictures_of(spec: Spec) -> dict[str, Entry]:
    return {name: entry for name, entry in spec.observation.items() if entry.role == "image"}


class FrameTable:
    """The pictures of one journal."""

    def __init__(self, spec: Spec) -> None:
        self._entries = pictures_of(spec)
        self._recent: OrderedDict[bytes, np.ndarray] = OrderedDict()
        self._waiting: dict[bytes, np.ndarray] = {}
        """Pictures of steps that are about to be stored."""

    def parted(self, step: Transition, connection: sqlite3.Connection) -> Parted:
        """The step with hashes in the place of its pictures, which wait for `store`. What is no such picture stays, to be rejected."""
        observation, following = (self._without(entries) for entries in (step.observation, step.next_observation))
        return Parted(step, dataclasses.replace(step, observation=observation, next_observation=following))

    def _without(self, observation: Observation) -> Observation:
        slim = dict(observation)
        for name, entry in self._entries.items():
            picture = observation.get(name)
            if picture is not None and picture.shape == entry.shape and picture.dtype == np.uint8:
                digest = digest_of(picture)
                self._waiting[digest] = picture
                slim[name] = np.frombuffer(digest, np.uint8)
        return slim

    def store(self, connection: sqlite3.Connection) -> None:
        """Write the pictures that wait, inside of the transaction of their steps; those that are there already stay as they are."""
        store_pictures(self._waiting, connection)
        self._waiting = {}

    def put_back(self, step: Transition, connection: sqlite3.Connection) -> Transition:
        """The step with its pictures. Two steps that share a picture share the array."""
        observation, following = (self._with(entries, connection) for entries in (step.observation, step.next_observation))
        return dataclasses.replace(step, observation=observation, next_observation=following)

    pictured = put_back

    def _with(self, observation: Observation, connection: sqlite3.Connection) -> Observation:
        names = [name for name in self._entries if name in observation and observation[name].shape == (DIGEST,)]
        return {**observation, **{name: self._picture(observation[name].tobytes(), self._entries[name], connection) for name in names}}

    def _picture(self, digest: bytes, entry: Entry, connection: sqlite3.Connection) -> np.ndarray:
        found = self._recent.get(digest)
        if found is None:
            found = self._recent[digest] = stored_picture(digest, entry.shape, connection)
            while len(self._recent) > _RECENT:
                self._recent.popitem(last=False)
        return found


def digest_of(array: np.ndarray) -> bytes:
    """The hash under which it is stored."""
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=DIGEST).digest()


def store_pictures(pictures: Mapping[bytes, np.ndarray | Packed], connection: sqlite3.Connection) -> None:
    """Write pictures under their hashes. One that is there already stays, and is not compressed again."""
    connection.execute(CREATE_FRAMES)
    for digest, picture in pictures.items():
        if connection.execute("SELECT 1 FROM frames WHERE digest = ?", (digest,)).fetchone() is None:
            packed = compressed(picture) if isinstance(picture, np.ndarray) else picture
            connection.execute("INSERT INTO frames VALUES (?, ?, ?)", (digest, *packed))


def stored_picture(digest: bytes, shape: tuple[int, ...], connection: sqlite3.Connection) -> np.ndarray:
    row = connection.execute("SELECT codec, record FROM frames WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise CodecError("a picture of this step is missing")
    codec, record = row
    found = decompressed(codec, record, shape)
    # two versions of a decoder may round the pixels of a JPEG differently; its record has a checksum of its own
    if codec != "jpeg" and digest_of(found) != digest:
        raise CodecError("a picture of this step has other bytes than were stored")
    return found


def compressed(picture: np.ndarray) -> Packed:
    """As the JPEG that it came in, else without loss. Drawn pictures are smallest and fastest with zlib, those of a sensor as PNG, which
    filters its noise."""
    jpeg = RECEIVED.of(picture)
    if jpeg is not None:
        return Packed("jpeg", _checksum(jpeg) + jpeg)
    plain = zlib.compress(np.ascontiguousarray(picture).data, _LEVEL)
    if _PLAIN * len(plain) < picture.nbytes or picture.shape[2] not in PNG_CHANNELS:
        return Packed("zlib", plain)
    filtered = png(picture)
    return Packed("png", filtered) if len(filtered) < len(plain) else Packed("zlib", plain)


def png(picture: np.ndarray) -> bytes:
    """A picture of 1, 3 or 4 channels as a PNG file."""
    buffer = io.BytesIO()
    image = Image.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture)
    image.save(buffer, "PNG", compress_level=1, compress_type=zlib.Z_RLE)
    return buffer.getvalue()


def _checksum(jpeg: bytes) -> bytes:
    return hashlib.blake2b(jpeg, digest_size=DIGEST).digest()


def decompressed(codec: str, record: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """The picture. No codec makes more bytes than the shape has, whatever the record says."""
    try:
        if codec == "png":
            picture = _opened(record, "PNG", shape, None)
        elif codec == "jpeg":
            if _checksum(record[DIGEST:]) != record[:DIGEST]:
                raise ValueError("its bytes have changed since it was stored")
            picture = _opened(record[DIGEST:], "JPEG", shape, "L" if shape[2] == 1 else "RGB")
        else:
            size = int(np.prod(shape, dtype=int))
            picture = np.frombuffer(zlib.decompressobj().decompress(record, size), np.uint8)
        return np.ascontiguousarray(picture.reshape(shape))
    except Exception as problem:  # Pillow raises almost anything
        raise CodecError(f"a picture of this step cannot be decoded ({type(problem).__name__}: {problem})") from None


def _opened(data: bytes, kind: str, shape: tuple[int, ...], mode: str | None) -> np.ndarray:
    with Image.open(io.BytesIO(data), formats=(kind,)) as image:
        if image.size != (shape[1], shape[0]):
            raise ValueError(f"it is {image.size[1]} x {image.size[0]} pixels and not {shape[0]} x {shape[1]}")
        return np.asarray(image if mode is None else image.convert(mode), np.uint8)


class FrameStore:
    """The frames of the rows of a replay buffer: arrays by place, each held by one row or two."""

    def __init__(self, entries: Mapping[str, Entry], rows: int) -> None:
        # room for two frames of every row, and of one that is about to be written over; np.zeros maps pages and touches none, and free
        # places are used again first: memory follows what is held
        places = 2 * rows + 2
        self._columns = {name: np.zeros((places, *entry.shape), entry.dtype) for name, entry in entries.items()}
        self._holders = np.zeros(places, np.int8)
        self._free: list[int] = []
        self._used = 0
        """Places that were ever used."""
        self.seen, self.next_seen = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        """The places of each row's two frames."""

    @property
    def held(self) -> int:
        """Places in use."""
        return self._used - len(self._free)

    def insert(self, transition: Transition, row: int, before: int | None, written_over: bool) -> None:
        """The frames of a row; `before` is the row of the step before it, None if that is not here."""
        shared = None if before is None else int(self.next_seen[before])
        if shared is not None and self._equal(shared, transition.observation):
            self._holders[shared] += 1
        else:
            shared = self._put(transition.observation)
        following = self._put(transition.next_observation)
        if written_over:  # after that: the row that is written over may be the step before
            self.release(np.array([row]))
        self.seen[row], self.next_seen[row] = shared, following

    def release(self, rows: np.ndarray) -> None:
        """These rows let go of their frames."""
        for place in np.concatenate([self.seen[rows], self.next_seen[rows]]).tolist():
            self._holders[place] -= 1
            if not self._holders[place]:
                self._free.append(place)

    def take(self, places: np.ndarray) -> dict[str, np.ndarray]:
        return {name: column.take(places, axis=0) for name, column in self._columns.items()}

    def _put(self, observation: Observation) -> int:
        place = self._free.pop() if self._free else self._used
        self._used = max(self._used, place + 1)
        for name, column in self._columns.items():
            column[place] = observation[name].reshape(column.shape[1:])
        self._holders[place] = 1
        return place

    def _equal(self, place: int, observation: Observation) -> bool:
        return all(np.array_equal(column[place], observation[name]) for name, column in self._columns.items())

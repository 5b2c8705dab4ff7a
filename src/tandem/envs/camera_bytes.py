"""The JPEGs that pictures came in, to store pictures as they came.

A camera that compresses its pictures has lost what it has lost. Compressing the pixels without loss again takes several times the room of
the bytes that came, and is no better. So who decodes a JPEG leaves its bytes here, and who stores the picture (`data/frames.py`) asks for
them. It is asked by the pixels: a picture that was cropped or resized on the way is another one, and is compressed without loss.

Only the newest are kept. A picture whose bytes are gone is stored like any other.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from threading import Lock

import numpy as np

MOST_BYTES = 64 * 2**20
"""A recording stores an episode when it has ended: minutes of two cameras."""


class CameraBytes:
    """Threads may share it."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self._held, self._lock = most, 0, Lock()
        self._jpegs: OrderedDict[bytes, bytes] = OrderedDict()
        """By a hash of the pixels, the newest last."""

    def came_as(self, picture: np.ndarray, jpeg: bytes) -> None:
        """This picture was decoded from these bytes."""
        key = _key(picture)
        with self._lock:
            self._held += len(jpeg) - len(self._jpegs.pop(key, b""))
            self._jpegs[key] = jpeg
            while self._held > self._most:
                self._held -= len(self._jpegs.popitem(last=False)[1])

    def of(self, picture: np.ndarray) -> bytes | None:
        """The bytes that it came in; None where it came otherwise, or too long ago."""
        return self._jpegs.get(_key(picture)) if self._jpegs else None


def _key(picture: np.ndarray) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(picture).data, digest_size=16).digest()


RECEIVED = CameraBytes()
"""Those of this process."""

"""Pictures of a robot's cameras, by name: the newest of each, with the moment at which it arrived."""

from __future__ import annotations

import io
import threading
import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from PIL import Image

from tandem.envs.camera_bytes import RECEIVED
from tandem.errors import ServedError

MAX_CAMERAS, MAX_PIXELS = 32, 2**22
WHOLE = (0.0, 1.0, 0.0, 1.0)
"""Rows from, to, columns from, to, as shares of a picture: all of it."""


@dataclass(frozen=True)
class Frame:
    number: int
    """Counts the pictures of this camera since the connection was made."""
    at: float
    """When it arrived, by the monotonic clock; most cameras send no time."""
    image: bytes | np.ndarray
    """A JPEG, or (height, width, 3) uint8 RGB."""


class Pictures(Protocol):
    """Cameras that are read in threads of their own."""

    @property
    def shelf(self) -> Shelf: ...

    @property
    def problem(self) -> str:
        """Why nothing arrives, as far as it is known."""
        ...

    def close(self) -> None: ...


class Shelf:
    """The newest picture of each camera; written by threads that receive, read by the one that acts."""

    def __init__(self) -> None:
        self._frames, self._changed = dict[str, Frame](), threading.Condition()

    def put(self, name: str, image: bytes | np.ndarray) -> None:
        with self._changed:
            before = self._frames.get(name)
            if before is None and len(self._frames) >= MAX_CAMERAS:
                return
            self._frames[name] = Frame(1 if before is None else before.number + 1, time.monotonic(), image)
            self._changed.notify_all()

    def newest(self, name: str) -> Frame | None:
        return self._frames.get(name)

    def names(self) -> list[str]:
        return sorted(self._frames)

    def wait(self, names: tuple[str, ...], since: float, within: float) -> dict[str, Frame]:
        """A picture of each of these cameras that arrived after `since`; fewer if they do not come in time."""

        def fresh() -> dict[str, Frame]:
            return {name: frame for name in names if (frame := self._frames.get(name)) is not None and frame.at > since}

        with self._changed:
            self._changed.wait_for(lambda: len(fresh()) == len(names), max(0.0, within))
            return fresh()


def pixels(name: str, frame: Frame, size: tuple[int, ...] | None = None, crop: tuple[float, ...] = WHOLE) -> np.ndarray:
    """The picture as (height, width, 3) uint8 RGB: what is left of it after `crop`, resized to `size`."""
    try:
        if isinstance(frame.image, np.ndarray):
            return _fitted(Image.fromarray(frame.image), size, crop)
        with Image.open(io.BytesIO(frame.image), formats=["JPEG"]) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise ServedError(f"the camera '{name}' sent {picture.width} x {picture.height} pixels, at most {MAX_PIXELS} are taken")
            whole = crop == WHOLE and (size is None or picture.size == (size[1], size[0]))
            found = _fitted(picture.convert("RGB"), size, crop)
        if whole:
            RECEIVED.came_as(found, frame.image)
        return found
    except OSError as problem:
        raise ServedError(f"the camera '{name}' sent a picture that cannot be read: {problem}") from None


def _fitted(picture: Image.Image, size: tuple[int, ...] | None, crop: tuple[float, ...]) -> np.ndarray:
    wanted = (size[1], size[0]) if size is not None else picture.size
    if crop == WHOLE and picture.size == wanted:
        return np.array(picture)
    top, bottom, left, right = crop
    box = (left * picture.width, top * picture.height, right * picture.width, bottom * picture.height)
    return np.array(picture.resize(wanted, box=box))

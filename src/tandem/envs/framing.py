"""How the pictures of a foreign environment become those that are learned from: (height, width, 3) uint8, cropped, and of a size that fits.

    [pictures.front]                  in environments/NAME.toml
    crop = [60, 80, 360, 480]         top, left, height, width, in pixels of what the environment hands out
    size = [96, 128]                  height and width of what is learned from
    channels = "first"                where a shape could be read both ways

Without a word about it, the channels are found by the shape, grey becomes three equal channels, and the size stays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from tandem.errors import ConfigError
from tandem.types import Entry

COLOURS = (1, 3)
"""Channels that a picture may have."""
LARGEST = 4096
"""Pixels along a side."""


@dataclass(frozen=True)
class Framing:
    """What is declared for one camera; None where nothing is."""

    crop: tuple[int, int, int, int] | None = None
    """Top, left, height, width."""
    size: tuple[int, int] | None = None
    """Height and width in the end."""
    channels: str | None = None
    """`first` or `last`."""


@dataclass(frozen=True)
class Framer:
    """Framing that is settled for pictures of one shape: a function of pictures."""

    taken: tuple[int, ...]
    """What the environment hands out."""
    channels_first: bool
    crop: tuple[int, int, int, int]
    size: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int, int]:
        return (*self.size, 3)

    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        """One picture, or many with a leading axis."""
        if pictures.ndim == 4:
            return np.stack([self(picture) for picture in pictures])
        picture = np.moveaxis(pictures, 0, -1) if self.channels_first else pictures
        top, left, height, width = self.crop
        picture = picture[top : top + height, left : left + width]
        if picture.shape[2] == 1:
            picture = np.repeat(picture, 3, axis=2)
        if picture.shape[:2] != self.size:
            # it averages over what a pixel covers, so that small things do not flicker
            tall, wide = self.size
            resized = Image.fromarray(np.ascontiguousarray(picture)).resize((wide, tall), Image.Resampling.BILINEAR)
            picture = np.asarray(resized)
        return np.array(picture, np.uint8)


def framer(task: str, name: str, entry: Entry, asked: Framing) -> Framer:
    """Settle the framing of an entry; what does not fit its shape is refused."""
    first = _channels_first(task, name, entry, asked)
    height, width = entry.shape[1:] if first else entry.shape[:2]
    crop = asked.crop or (0, 0, height, width)
    top, left, tall, wide = crop
    if top + tall > height or left + wide > width:
        raise _refused(task, f"{name}.crop", f"{list(crop)} (top, left, height, width)", f"a part of its {height} x {width} pixels")
    return Framer(entry.shape, first, crop, asked.size or (tall, wide))


def framed(entry: Entry, by: Framer) -> Entry:
    """The entry as it is handed out then."""
    if by.taken == by.shape:
        return entry
    height, width = by.taken[1:] if by.channels_first else by.taken[:2]
    said = f"from {by.taken}" + (f", crop {list(by.crop)}" if by.crop != (0, 0, height, width) else "")
    return dataclasses.replace(entry, shape=by.shape, meaning=f"{entry.meaning} ({said})".strip())


def _channels_first(task: str, name: str, entry: Entry, asked: Framing) -> bool:
    first, last = entry.shape[0] in COLOURS, entry.shape[2] in COLOURS
    if asked.channels is not None:
        if not (first if asked.channels == "first" else last):
            raise _refused(task, f"{name}.channels", f"'{asked.channels}' for the shape {entry.shape}", "an axis of 1 or 3 channels there")
        return asked.channels == "first"
    if not first and not last:
        raise ConfigError(
            f"environment '{task}' hands out the image '{name}' of shape {entry.shape}: neither its first nor its last axis has 1 or 3 "
            f"channels. A picture has 3 channels (or 1, grey); of a stack of pictures hand out the newest, of RGBA leave out the last."
        )
    if first and last:
        raise ConfigError(
            f"environment '{task}' hands out the image '{name}' of shape {entry.shape}, whose channels could be first or last: say which, "
            f'with channels = "first" or "last" in a table [pictures.{name}] of its file (docs/your-environment.md)'
        )
    return first


def read_framings(where: str, key: str, value: Any) -> dict[str, Framing]:
    """The table `pictures` of a declaration; errors name the key, what it got and what is expected."""
    if not isinstance(value, Mapping):
        raise _wrong(where, key, value, "a table for each camera")
    return {str(name): _framing(where, f"{key}.{name}", given) for name, given in value.items()}


def _framing(where: str, key: str, given: Any) -> Framing:
    if not isinstance(given, Mapping):
        raise _wrong(where, key, given, "a table with `crop`, `size` and `channels`")
    unknown = sorted(set(map(str, given)) - {"crop", "size", "channels"})
    if unknown:
        raise ConfigError(f"{where}: '{key}' has no setting '{unknown[0]}'; there are crop, size and channels")
    channels = given.get("channels")
    if channels not in (None, "first", "last"):
        raise _wrong(where, f"{key}.channels", channels, '"first" or "last"')
    crop = _pixels(where, f"{key}.crop", given.get("crop"), 4, "[top, left, height, width], whole numbers of pixels", lambda n: n[2:])
    size = _pixels(where, f"{key}.size", given.get("size"), 2, "[height, width], whole numbers of pixels", lambda n: n)
    return Framing(crop, size, channels)


def _pixels(where: str, key: str, value: Any, count: int, expected: str, sides: Callable[[Any], Any]) -> Any:
    if value is None:
        return None
    whole = isinstance(value, (list, tuple)) and len(value) == count
    if not whole or not all(type(each) is int and 0 <= each <= LARGEST for each in value) or min(sides(value)) < 1:
        raise _wrong(where, key, value, expected)
    return tuple(value)


def _wrong(where: str, key: str, value: Any, expected: str) -> ConfigError:
    return ConfigError(f"{where}: '{key}' is {value!r}, expected {expected}")


def _refused(task: str, key: str, got: str, expected: str) -> ConfigError:
    return ConfigError(f"the declaration of environment '{task}' does not fit it: 'pictures.{key}' is {got}, expected {expected}")

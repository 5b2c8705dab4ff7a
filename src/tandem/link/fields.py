"""The fields of messages: limits, the check of each field, and the base class of all messages."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import reprlib
import struct
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Self, get_args, get_type_hints

from tandem.codec import pack
from tandem.runs.printable import printable

MAX_HEADER = 256 * 2**10
"""Bytes of a frame's header."""
MAX_NAME = 100
"""Characters of a name."""
MAX_TEXT = 4000
"""Characters of a text for people."""
COUNT_LIMIT = 2**53
"""Whole numbers below it are exact in JavaScript too."""
MAX_DEPTH = 16
"""Maps and lists inside each other in a map of plain values. A spec has 5."""

LENGTH = struct.Struct("<I")


class BadFrame(ValueError):
    """A frame that is no valid message; the text says what is wrong with it."""


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, 80, 80


def shown(value: Any) -> str:
    """A value from outside in an error message. `repr` of a thousand lists inside each other would end in a RecursionError."""
    return _SHORT.repr(value)[:100]


Check = Callable[[Any], str | None]
"""Returns what is wrong with a value, None if nothing is."""


def _whole_characters(text: str) -> bool:
    """JSON can hold half of a surrogate pair, which no frame and no file can."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def is_text(limit: int, empty: bool = False) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, str) or len(value) > limit or not (value or empty) or not _whole_characters(value):
            return f"expected a text of {'0' if empty else '1'} to {limit} characters"
        return None

    return check


def is_count(lowest: int = 0, highest: int = COUNT_LIMIT) -> Check:
    def check(value: Any) -> str | None:
        return None if type(value) is int and lowest <= value <= highest else f"expected a whole number from {lowest} to {highest}"

    return check


def is_number(value: Any) -> str | None:
    sound = (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < 2**63)
    return None if sound else "expected a finite number"


def is_flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "expected true or false"


def is_maybe_flag(value: Any) -> str | None:
    return None if value is None or isinstance(value, bool) else "expected true, false or nothing"


def are_numbers(limit: int) -> Check:
    def check(value: Any) -> str | None:
        sound = type(value) is list and len(value) <= limit and all(is_number(item) is None for item in value)
        return None if sound else f"expected a list of at most {limit} finite numbers"

    return check


def is_bytes(limit: int, multiple: int = 1) -> Check:
    def check(value: Any) -> str | None:
        sound = isinstance(value, bytes) and len(value) <= limit and len(value) % multiple == 0
        return None if sound else f"expected at most {limit} bytes, in groups of {multiple}"

    return check


def is_one_of(*allowed: str) -> Check:
    def check(value: Any) -> str | None:
        return None if isinstance(value, str) and value in allowed else f"expected one of {', '.join(allowed)}"

    return check


def is_plain(limit: int) -> Check:
    """A map of values that JSON can express, of bounded size."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return "expected a map"
        if not _depth_within(value, MAX_DEPTH):
            return f"expected at most {MAX_DEPTH} maps and lists inside each other"
        try:
            size = len(json.dumps(value, allow_nan=False))
            pack(value)  # JSON knows half characters and numbers of any length, frames do not
        except (TypeError, ValueError, OverflowError):
            return "expected a map of plain values"
        return None if size <= limit else f"expected at most {limit} characters of JSON, got {size}"

    return check


def _depth_within(value: Any, limit: int) -> bool:
    """Whether maps and lists are at most so deep inside each other; without recursion, which has a limit of its own."""
    level = [value]
    for _ in range(limit + 1):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        if not inner:
            return True
        level = [item for items in inner for item in items]
    return False


Name = Annotated[str, is_text(MAX_NAME)]
MaybeName = Annotated[str, is_text(MAX_NAME, empty=True)]
Count = Annotated[int, is_count()]
Version = Annotated[int, is_count(-1)]
Number = Annotated[float, is_number]
Plain = Annotated[dict[str, Any], is_plain(MAX_HEADER // 2)]


class Message:
    """The base of all messages. Subclasses are frozen dataclasses whose fields are annotated with a check each."""

    kind: ClassVar[str]
    payload: ClassVar[str] = ""
    """The field that is sent behind the header as raw bytes; empty if there is none."""

    def __init_subclass__(cls, kind: str, payload: str = "") -> None:
        cls.kind, cls.payload = kind, payload
        KINDS[kind] = cls

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Build the message. `BadFrame` unless there are exactly these fields, each with a valid value."""
        checks = _checks_of(cls)
        if fields.keys() != checks.keys():
            missing, unknown = sorted(checks.keys() - fields.keys()), sorted(str(name) for name in fields.keys() - checks.keys())
            raise BadFrame(f"'{cls.kind}' lacks {missing} and has unknown fields {unknown[:5]}"[:MAX_TEXT])
        for name, check in checks.items():
            problem = check(fields[name])
            if problem:
                raise BadFrame(f"'{cls.kind}' has {name} = {shown(fields[name])}: {problem}")
        return cls(**{name: printable(value) if isinstance(value, str) else value for name, value in fields.items()})

    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _checks_of(type(self))}

    def pack(self) -> bytes:
        fields = self.fields()
        payload = fields.pop(self.payload) if self.payload else b""
        return make_frame(self.kind, fields, payload)


KINDS: dict[str, type[Message]] = {}


@functools.cache
def _checks_of(cls: type[Any]) -> dict[str, Check]:
    hints = get_type_hints(cls, include_extras=True)
    return {item.name: get_args(hints[item.name])[1] for item in dataclasses.fields(cls)}


def make_frame(kind: str, fields: Mapping[str, Any], *payload: bytes) -> bytes:
    header = pack({"kind": kind, **fields})
    if len(header) > MAX_HEADER:
        raise BadFrame(f"'{kind}' has a header of {len(header)} bytes, at most {MAX_HEADER}")
    return b"".join((LENGTH.pack(len(header)), header, *payload))

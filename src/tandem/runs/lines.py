"""Files of JSON lines, which only grow: metrics.jsonl, events.jsonl, commands.jsonl, episodes.jsonl.

One appender and one reader for all of them. A line counts when its newline is there: a reader that follows a growing file waits for
the end of the last line, and what a crash left of a line is skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tandem.files import Durability, sync

Row = dict[str, Any]
CHUNK = 2**19
"""Bytes read at once, so that a long file is read in many small turns."""


def append_rows(path: Path, rows: Iterable[Mapping[str, Any]], durability: Durability = "process") -> None:
    """One line for each row."""
    append_lines(path, [json.dumps(row) for row in rows], durability)


def append_lines(path: Path, lines: Iterable[str], durability: Durability = "process") -> None:
    """In one write, so that the lines of two processes do not mix. A line that a crash has cut gets its end first.

    Most of these lines tell what happened, and nobody waits for them: `process`. `power` is for a line that is acknowledged as kept.
    """
    data = "".join(line + "\n" for line in lines).encode()
    if not data:
        return
    with path.open("ab+", buffering=0) as file:
        new = file.seek(0, os.SEEK_END) == 0
        if not new:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                data = b"\n" + data
        while data:  # a nearly full disk takes a part of it; the next attempt says why
            data = data[file.write(data) or 0 :]
        if durability == "power":
            os.fsync(file.fileno())
    if durability == "power" and new:
        sync(path.parent)


def parse_rows(lines: Iterable[bytes]) -> Iterator[Row]:
    """Those lines that are JSON objects."""
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict):
                yield row


def whole_lines(path: Path) -> list[bytes]:
    """All lines so far; none where there is no file."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    return data[: data.rfind(b"\n") + 1].splitlines()


def read_rows(path: Path) -> Iterator[Row]:
    """All rows so far."""
    return parse_rows(whole_lines(path))


def newest_rows(path: Path, max_bytes: int) -> list[Row]:
    """The rows in the last bytes of a file, the oldest first."""
    try:
        tail = Tail(path, at=max(0, path.stat().st_size - max_bytes))
    except OSError:
        return []
    return tail.rows(max_bytes)  # a first line that begins in its middle is not JSON


class Tail:
    """The rows that are appended to a file after each call. A file that was replaced by a shorter one is read from its start."""

    def __init__(self, path: Path, at: int = 0) -> None:
        self.path = path
        self.at = at
        """The byte up to which it was read; always the start of a line, except where the caller began in the middle of one."""

    @classmethod
    def from_end(cls, path: Path) -> Tail:
        """Start at the end of a file, without its present rows."""
        return cls(path, path.stat().st_size if path.exists() else 0)

    def rows(self, max_bytes: int = CHUNK, max_rows: int | None = None) -> list[Row]:
        """New rows, at most about this many bytes of them; an empty list where there is nothing new or no file."""
        return list(parse_rows(self.lines(max_bytes, max_rows)))

    def lines(self, max_bytes: int = CHUNK, max_lines: int | None = None) -> list[bytes]:
        """New whole lines, JSON or not."""
        try:
            size = self.path.stat().st_size
            if size < self.at:
                self.at = 0
            if size == self.at:
                return []  # the usual case, and cheap: a trainer asks at every step
            with self.path.open("rb") as file:
                file.seek(self.at)
                data = file.read(max_bytes)
                if b"\n" not in data:
                    data += file.readline()
        except OSError:
            return []
        lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)[:max_lines]
        self.at += sum(map(len, lines))
        return [line.rstrip(b"\n") for line in lines]

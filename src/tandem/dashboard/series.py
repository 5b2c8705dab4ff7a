"""Metrics over time, as a page draws them. The file is read once, as it grows, and reduced to what a screen can show.

A point is the mean of `stride` rows. When there are too many points, neighbours are merged and the stride doubles, so memory,
update time and messages to pages stay small, however long the run is.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tandem.runs.lines import Tail

AXES = ("learner_step", "actor_step", "wall_s")
"""The x axes of a plot: training iterations, environment steps, seconds of training."""
MAX_POINTS = 800


class Point:
    """The mean of some rows, at the x values of the last one."""

    __slots__ = ("at", "counts", "rows", "sums")

    def __init__(self) -> None:
        self.at = (0.0, 0.0, 0.0)
        self.rows = 0
        self.sums: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def add(self, row: dict[str, Any]) -> None:
        self.at = tuple(float(row.get(axis) or 0) for axis in AXES)
        self.rows += 1
        for name, value in row.items():
            if "/" in name and isinstance(value, (int, float)) and math.isfinite(value):
                self.sums[name] = self.sums.get(name, 0.0) + value
                self.counts[name] = self.counts.get(name, 0) + 1

    def join(self, later: Point) -> None:
        self.at, self.rows = later.at, self.rows + later.rows
        for name, value in later.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.counts[name] = self.counts.get(name, 0) + later.counts[name]

    def value(self, name: str) -> float | None:
        return self.sums[name] / self.counts[name] if name in self.sums else None


class Series:
    """The metrics of one run so far."""

    def __init__(self, path: Path, max_points: int = MAX_POINTS) -> None:
        self._tail, self._max = Tail(path), max_points
        self.points: list[Point] = []
        self._stride = 1
        self.names: list[str] = []
        """In the order in which they first appeared."""
        self.last: dict[str, float] = {}
        """The newest value of each metric."""
        self._changed = 0
        """Points before this index have not changed since the last `new_points`."""

    def read(self) -> bool:
        """Read a part of what is new; True if there may be more."""
        rows = self._tail.rows()
        for row in rows:
            self._add(_completed(row))
        return bool(rows)

    def _add(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if "/" in name and isinstance(value, (int, float)) and math.isfinite(value):
                if name not in self.last:
                    self.names.append(name)
                self.last[name] = float(value)
        if not self.points or self.points[-1].rows >= self._stride:
            self.points.append(Point())
        self.points[-1].add(row)
        self._changed = min(self._changed, len(self.points) - 1)
        if len(self.points) > self._max:
            self._halve()

    def _halve(self) -> None:
        for early, late in zip(self.points[::2], self.points[1::2], strict=False):
            early.join(late)
        self.points = self.points[::2]
        self._stride *= 2
        self._changed = 0

    def all(self) -> dict[str, Any]:
        """Everything, for a page that was just opened."""
        return self._from(0)

    def new_points(self) -> dict[str, Any] | None:
        """The points that changed since the last call; None if none did. The last point may still change."""
        if self._changed >= len(self.points):
            return None
        points = self._from(self._changed)
        self._changed = len(self.points)
        return points

    def _from(self, start: int) -> dict[str, Any]:
        rows = [[*(_short(x) for x in point.at), *(_short(point.value(name)) for name in self.names)] for point in self.points[start:]]
        return {"from": start, "columns": [*AXES, *self.names], "rows": rows}

    def at(self, axis: str) -> float | None:
        """Where the newest point lies; None before the first."""
        return self.points[-1].at[AXES.index(axis)] if self.points else None

    def before(self, name: str, actor_step: float) -> float | None:
        """The last value of a metric up to this actor step; None if there is none."""
        earlier = (point.value(name) for point in reversed(self.points) if point.at[1] <= actor_step)
        return next((value for value in earlier if value is not None), None)

    def mean(self, name: str, start: float, end: float) -> float | None:
        """The mean of a metric over a part of the run, from `start` to `end` in [0, 1]; None if it was not logged there."""
        chosen = self.points[int(start * len(self.points)) : max(1, int(end * len(self.points)))]
        values = [value for point in chosen if (value := point.value(name)) is not None]
        return sum(values) / len(values) if values else None


def _completed(row: dict[str, Any]) -> dict[str, Any]:
    """A row with metrics that older runs did not log: the share of a person's steps, and success without help by its present name."""
    share, steps, length, alone, before = (
        f"environment/episode/{name}" for name in ("intervention_share", "intervention_steps", "l", "success_alone", "success_autonomous")
    )
    added = {}
    if share not in row and row.get(length) and steps in row:
        added[share] = row[steps] / row[length]
    if alone not in row and before in row:
        added[alone] = row[before]
    return {**row, **added} if added else row


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")

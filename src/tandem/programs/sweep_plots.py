"""The plots of a sweep, as SVG that any browser opens: a dot for each seed, or curves over the steps with the spread of the seeds."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tandem.programs.sweep_results import Estimate, Results
from tandem.runs.folder import RunFolder

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 300, 70, 46, 30
COLOURS = ("#1f6feb", "#d1570d", "#2a8a3e", "#8a4fc7", "#b3261e", "#0b7285", "#8c6d1f", "#5f6b7a")
POINTS = 200
"""Places of a curve's grid."""
Curves = Mapping[str, Sequence[tuple[np.ndarray, np.ndarray]]]
"""Steps and values of each seed, by setting."""


def plot(results: Results, metric: str) -> str:
    """One metric: over the steps where it was measured again and again (its name has a slash), else at the end of the runs."""
    if "/" in metric:
        curves, over = _curves(results, metric)
        return _draw_curves(metric, curves, over) if any(curves.values()) else _empty(metric)
    values = {name: list(results.values(name, metric).values()) for name in results.plan.settings}
    means = {name: results.mean(name, metric) for name in values}
    return _draw_dots(metric, values, means) if any(values.values()) else _empty(metric)


def _curves(results: Results, metric: str) -> tuple[Curves, str]:
    """Also of which clock they are: actor steps, or learner steps where no actor acts."""
    rows = {found.run: (RunFolder(found.folder).metrics(), found.run.setting) for found in results.found if not found.error}
    known = [[row for row in of_run if _number(row.get(metric))] for of_run, _ in rows.values()]
    over = "actor_step" if any(row["actor_step"] for of_run in known for row in of_run) else "learner_step"
    curves: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in results.plan.settings}
    for (_, setting), of_run in zip(rows.values(), known, strict=True):
        if of_run:
            steps, values = ([float(row[key]) for row in of_run] for key in (over, metric))
            curves[setting].append((np.array(steps), np.array(values)))
    return curves, over


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _draw_dots(metric: str, values: Mapping[str, Sequence[float]], means: Mapping[str, Estimate]) -> str:
    """A column for each setting: its seeds, their mean and the interval."""
    known = [value for of_setting in values.values() for value in of_setting]
    bounds = [bound for mean in means.values() for bound in (mean.low, mean.high) if math.isfinite(bound)]
    y = _Scale(min(known + bounds), max(known + bounds), HEIGHT - BOTTOM, TOP)
    width = (WIDTH - LEFT) / len(values)
    drawn = [_title(metric), *_grid(y)]
    for number, (name, of_setting) in enumerate(values.items()):
        middle, colour, mean = LEFT + width * (number + 0.5), COLOURS[number % len(COLOURS)], means[name]
        spread = np.linspace(-0.12, 0.12, len(of_setting)) if len(of_setting) > 1 else np.zeros(len(of_setting))
        dots = [(middle + width * aside, y(value)) for aside, value in zip(spread, of_setting, strict=True)]
        drawn += [f'<circle cx="{at:.1f}" cy="{height:.1f}" r="4" fill="{colour}" fill-opacity="0.6"/>' for at, height in dots]
        if of_setting:
            drawn.append(_line(middle - 0.2 * width, y(mean.value), middle + 0.2 * width, y(mean.value), colour, 2))
        if math.isfinite(mean.low):
            drawn.append(_line(middle, y(mean.low), middle, y(mean.high), colour, 2))
        drawn.append(_text(middle, HEIGHT - BOTTOM + 18, name, "middle"))
    return _svg(drawn)


def _draw_curves(metric: str, curves: Curves, over: str) -> str:
    """The mean of the seeds as a line, and the band from the lowest to the highest of them."""
    every = [curve for of_setting in curves.values() for curve in of_setting]
    steps, values = (np.concatenate([curve[which] for curve in every]) for which in (0, 1))
    x, y = _Scale(float(steps.min()), float(steps.max()), LEFT, WIDTH - 12), _Scale(values.min(), values.max(), HEIGHT - BOTTOM, TOP)
    drawn = [_title(metric), *_grid(y), *_ticks(x), _text((LEFT + WIDTH) / 2, HEIGHT - 8, over.replace("_", " "), "middle")]
    for number, (name, of_setting) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        drawn.append(_text(WIDTH - 12, TOP + 14 * (number + 1), name, "end", colour))
        if not of_setting:
            continue
        grid = np.linspace(max(at[0] for at, _ in of_setting), min(at[-1] for at, _ in of_setting), POINTS)
        lines = np.array([np.interp(grid, at, of_seed) for at, of_seed in of_setting])
        low, high = ([(x(at), y(value)) for at, value in zip(grid, edge, strict=True)] for edge in (lines.min(0), lines.max(0)))
        drawn.append(f'<polygon points="{_points([*low, *reversed(high)])}" fill="{colour}" fill-opacity="0.15"/>')
        mean = [(x(at), y(value)) for at, value in zip(grid, lines.mean(0), strict=True)]
        drawn.append(f'<polyline points="{_points(mean)}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return _svg(drawn)


class _Scale:
    """From values to pixels."""

    def __init__(self, low: float, high: float, at_low: float, at_high: float) -> None:
        room = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
        self.low, self.high, self._at_low, self._at_high = low - room, high + room, at_low, at_high

    def __call__(self, value: float) -> float:
        return self._at_low + (self._at_high - self._at_low) * (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """About five round numbers."""
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
        return [step * count for count in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def _grid(y: _Scale) -> list[str]:
    lines = [_line(LEFT, y(tick), WIDTH, y(tick), "#8c959f", 0.4) for tick in y.ticks()]
    return lines + [_text(LEFT - 6, y(tick) + 4, f"{tick:.4g}", "end") for tick in y.ticks()]


def _ticks(x: _Scale) -> list[str]:
    return [_text(x(tick), HEIGHT - BOTTOM + 18, f"{tick:,.4g}", "middle") for tick in x.ticks()]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def _text(x: float, y: float, words: str, anchor: str, colour: str = "#57606a") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="12">{html.escape(words)}</text>'


def _title(metric: str) -> str:
    return _text(LEFT, TOP - 12, metric, "start")


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _empty(metric: str) -> str:
    return _svg([_title(metric), _text(WIDTH / 2, HEIGHT / 2, "no run has this metric", "middle")])


def _svg(parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="system-ui, sans-serif">'
    return f"{head}{''.join(parts)}</svg>"

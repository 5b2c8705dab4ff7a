"""What a sweep found: the figures of its runs, means over seeds with intervals, and comparisons seed by seed.

The interval of a mean over n seeds is Student's t. That of a success rate is never narrower than what the episodes themselves allow
(Wilson, all seeds pooled): five seeds that all succeed in 100 of 100 episodes do not prove 100 %.

    difference to the baseline   d_i = value of the setting with seed i - value of the baseline with seed i,   mean d and its interval

Seeds that make a task harder make it harder for both, so the differences vary less than the values.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tandem.acting.evaluate import wilson
from tandem.programs.sweep_plan import Plan, PlannedRun
from tandem.runs.folder import RunFolder
from tandem.runs.stopping import INTERRUPTED

_JUDGED = ("success", "return", "length", "success_seconds")
"""Short names for figures of the final evaluation with the most likely actions."""
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093)
"""Student's t for a 95 % interval with 1, 2, ... degrees of freedom."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; NaN where there is none."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Found:
    """The figures of a run that has ended by itself; `error` says why another one has none."""

    run: PlannedRun
    folder: Path
    figures: Mapping[str, float]
    episodes: tuple[int, int] | None = None
    """Successes and episodes of the final evaluation."""
    error: str = ""
    process_s: float | None = None
    """Seconds of its process; None if it ran in an earlier start of the sweep."""


@dataclass(frozen=True)
class Difference:
    """A setting compared with the baseline, seed by seed."""

    mean: Estimate
    higher: int
    """Seeds with which it is higher than the baseline."""
    seeds: int


def student(values: Sequence[float]) -> Estimate:
    """The mean with its 95 % interval; one value alone has none."""
    n, mean = len(values), float(np.mean(values)) if len(values) else math.nan
    if n < 2:
        return Estimate(mean, math.nan, math.nan)
    freedom = n - 1
    # beyond the table: the first terms of the expansion of t around the normal quantile, right to three digits
    t = _T[freedom - 1] if freedom <= len(_T) else 1.95996 + (1.95996**3 + 1.95996) / (4 * freedom)
    half = t * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half)


def is_finished(folder: Path) -> bool:
    """Whether a run has ended by itself; one that was interrupted goes on."""
    summary = RunFolder(folder).summary()
    return summary is not None and summary.get("stopped") != INTERRUPTED


def look_at(run: PlannedRun, folder: Path, metrics: Sequence[str]) -> Found:
    """The figures of a finished run."""
    of_run = RunFolder(folder)
    summary = of_run.summary() or {}
    rows = of_run.metrics() if any("/" in metric for metric in metrics) else []
    found = {metric: _last(rows, metric) if "/" in metric else _of_summary(summary, metric) for metric in metrics}
    judged = summary.get("deterministic") or {}
    episodes = (judged["successes"], judged["episodes"]) if judged.get("success_known") else None
    return Found(run, folder, {name: value for name, value in found.items() if value is not None}, episodes)


def _last(rows: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    return next((float(row[metric]) for row in reversed(rows) if isinstance(row.get(metric), (int, float))), None)


def _of_summary(summary: Mapping[str, Any], metric: str) -> float | None:
    """By its short name, or by a path such as `stochastic.success`."""
    value: Any = summary
    for key in ["deterministic", metric] if metric in _JUDGED else metric.split("."):
        parent = value
        value = value.get(key) if isinstance(value, dict) else None
        if key == "success" and isinstance(parent, dict) and not parent.get("success_known", True):
            return None  # the environment never reports success
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


class Results:
    """All finished runs of a sweep."""

    def __init__(self, plan: Plan, found: Sequence[Found]) -> None:
        self.plan, self.found = plan, found

    def values(self, setting: str, metric: str) -> dict[int, float]:
        """By seed."""
        of_setting = [found for found in self.found if found.run.setting == setting]
        return {found.run.seed: found.figures[metric] for found in of_setting if metric in found.figures}

    def mean(self, setting: str, metric: str) -> Estimate:
        found = student(list(self.values(setting, metric).values()))
        pooled = [each.episodes for each in self.found if each.run.setting == setting and each.episodes]
        if metric != "success" or not pooled:
            return found
        allowed = wilson(*(sum(column) for column in zip(*pooled, strict=True)))
        if len(pooled) < 2:
            return Estimate(allowed.value, allowed.low, allowed.high)
        return Estimate(found.value, max(0.0, min(found.low, allowed.low)), min(1.0, max(found.high, allowed.high)))

    def difference(self, setting: str, metric: str) -> Difference | None:
        """To the baseline, over the seeds that both have; None for the baseline itself and where there are fewer than 2."""
        own, base = self.values(setting, metric), self.values(self.plan.baseline, metric)
        both = [own[seed] - base[seed] for seed in own if seed in base]
        if setting == self.plan.baseline or len(both) < 2:
            return None
        return Difference(student(both), sum(value > 0 for value in both), len(both))

    def best(self) -> Found | None:
        """The best finished run."""
        known = [found for found in self.found if self.plan.best_by in found.figures]
        sign = 1 if self.plan.best_is == "highest" else -1
        return max(known, key=lambda found: sign * found.figures[self.plan.best_by], default=None)

    def unknown_metrics(self) -> list[str]:
        """In words: metrics that no finished run has."""
        finished = [found for found in self.found if not found.error]
        missing = [metric for metric in self.plan.metrics if finished and not any(metric in found.figures for found in finished)]
        if not missing:
            return []
        run = RunFolder(finished[0].folder)
        names = sorted({name for row in run.metrics() for name in row} | set(run.summary() or {}) | set(_JUDGED))
        return [f"no run has the metric '{name}'{_hint(name, names)}" for name in missing]

    def to_json(self) -> dict[str, Any]:
        plan, best = self.plan, self.best()
        return {
            "file": str(plan.file),
            "command": plan.command,
            "task": plan.task,
            "baseline": plan.baseline,
            "runs": [
                {
                    "setting": each.run.setting,
                    "seed": each.run.seed,
                    "run": str(each.folder),
                    "error": each.error,
                    "process_s": each.process_s,
                    **each.figures,
                }
                for each in self.found
            ],
            "settings": {
                name: {metric: _numbers(self.mean(name, metric)) | {"seeds": len(self.values(name, metric))} for metric in plan.metrics}
                for name in plan.settings
            },
            "differences": {
                name: {
                    metric: _numbers(difference.mean) | {"higher": difference.higher, "seeds": difference.seeds}
                    for metric in plan.metrics
                    if (difference := self.difference(name, metric)) is not None
                }
                for name in plan.settings
                if name != plan.baseline
            },
            "best": None if best is None else {"setting": best.run.setting, "seed": best.run.seed, "run": str(best.folder)},
        }

    # ---- the table

    def heads(self) -> list[str]:
        return ["metric", "setting", "seeds", "mean [95 %]", f"difference to {self.plan.baseline} [95 %]", "higher with"]

    def rows(self) -> list[list[str]]:
        """Settings below each other, metric by metric."""
        return [self._row(metric, name) for metric in self.plan.metrics for name in self.plan.settings]

    def _row(self, metric: str, name: str) -> list[str]:
        seeds, difference = f"{len(self.values(name, metric))} of {len(self.plan.seeds)}", self.difference(name, metric)
        cells = [metric, name, seeds, in_words(metric, self.mean(name, metric))]
        if difference is None:
            return [*cells, "", ""]
        return [*cells, in_words(metric, difference.mean, sign="+"), f"{difference.higher} of {difference.seeds} seeds"]


def in_words(metric: str, estimate: Estimate, sign: str = "") -> str:
    """A value with its interval; success in per cent."""
    if math.isnan(estimate.value):
        return "-"
    factor, unit, form = (100, " %", f"{sign}.1f") if metric.endswith("success") else (1, "", f"{sign}.3g")
    shown = f"{factor * estimate.value:{form}}{unit}"
    if math.isnan(estimate.low):
        return shown
    return f"{shown} [{factor * estimate.low:{form}}, {factor * estimate.high:{form}}]"


def _numbers(estimate: Estimate) -> dict[str, float | None]:
    """JSON knows no NaN."""
    parts = {"mean": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: None if math.isnan(value) else value for name, value in parts.items()}


def _hint(name: str, known: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=3)
    return f"; near it are {', '.join(nearest)}" if nearest else ""

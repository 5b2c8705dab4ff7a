"""Metrics are read once as they grow, and thinned out without losing what they say."""

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.dashboard.series import Series


def append(path: Path, *rows: dict[str, Any], end: str = "\n") -> None:
    with path.open("a") as file:
        file.write("\n".join(json.dumps(row) for row in rows) + end)


def row(step: int, **metrics: float) -> dict[str, Any]:
    named = {name.replace("__", "/"): value for name, value in metrics.items()}
    return {"learner_step": step, "actor_step": 10 * step, "wall_s": step / 2, "incarnation": 0, **named}


def test_new_points_are_what_changed_and_together_they_are_all(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    series = Series(path, max_points=16)
    shown: list[list[Any]] = []
    for step in range(1, 101):
        append(path, row(step, critic__critic_loss=float(step)))
        while series.read():
            pass
        points = series.new_points()
        assert points is not None
        shown[points["from"] :] = points["rows"]
        assert series.new_points() is None
    assert shown == series.all()["rows"] and len(shown) <= 16


def test_merging_points_keeps_the_mean_and_the_last_x(tmp_path: Path) -> None:
    """100 rows with the values 1 to 100 in at most 16 points: 16 -> stride 2, 4, 8; so points of 8 rows, whose means are 4.5, 12.5, ..."""
    path = tmp_path / "metrics.jsonl"
    append(path, *(row(step, critic__critic_loss=float(step)) for step in range(1, 101)))
    series = Series(path, max_points=16)
    while series.read():
        pass
    points = series.all()
    assert points["columns"] == ["learner_step", "actor_step", "wall_s", "critic/critic_loss"]
    assert points["rows"][0] == [8, 80, 4, 4.5] and points["rows"][1] == [16, 160, 8, 12.5]
    assert points["rows"][-1][:3] == [100, 1000, 50]
    assert series.last["critic/critic_loss"] == 100


def test_a_metric_that_is_logged_rarely_or_is_nan_leaves_gaps(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append(path, row(1, actor__entropy=1.0), row(1, eval__success=0.5), row(2, actor__entropy=float("nan")))
    series = Series(path)
    while series.read():
        pass
    assert [found[3:] for found in series.all()["rows"]] == [[1.0, None], [None, 0.5], [None, None]]


def test_the_persons_share_is_computed_for_older_runs(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append(path, row(1, environment__episode__l=50.0, environment__episode__intervention_steps=10.0))
    series = Series(path)
    series.read()
    assert series.last["environment/episode/intervention_share"] == pytest.approx(0.2)

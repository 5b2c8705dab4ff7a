"""What help is worth, against runs whose numbers are known."""

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.dashboard.help_worth import Phase, by_chance, disagreement, phases, worth
from tandem.dashboard.series import Series

HELP = {"help_share": 0.5, "intervention_share": 0.2, "intervention_count": 0.5, "l": 50.0}


def series(folder: Path, rows: list[tuple[int, int, dict[str, float]]]) -> Series:
    """Rows: learner step, actor step, what `environment/episode/` says."""
    file = folder / "metrics.jsonl"
    lines = [
        {
            "learner_step": learner,
            "actor_step": actor,
            "wall_s": 0.0,
            **{f"environment/episode/{name}": value for name, value in told.items()},
        }
        for learner, actor, told in rows
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = Series(file)
    while found.read():
        pass
    return found


def told(alone: float, helped: float, **other: float) -> dict[str, float]:
    return {**HELP, "success": alone + helped, "success_alone": alone, "success_helped": helped, **other}


def test_success_with_and_without_help_and_what_the_last_corrections_changed(tmp_path: Path) -> None:
    rows = [(100, 500, told(0.1, 0.4)), (200, 1000, told(0.1, 0.4)), (300, 2000, told(0.4, 0.45))]
    facts = worth(series(tmp_path, rows), [])
    assert facts[0].startswith("with help 90% of 10 episodes succeed; without 80% of 10")
    assert facts[1] == "you made 20% of the steps of the last 20 episodes"
    assert (
        facts[2] == "over your last 10 corrections success alone went from 10% to 40%: it learns from them. Go on, and only where it fails"
    )


def test_a_change_that_chance_explains_is_called_that_and_a_fall_is_not_hidden(tmp_path: Path) -> None:
    small = worth(series(tmp_path, [(100, 500, told(0.4, 0.4)), (300, 2000, told(0.5, 0.4))]), [])
    assert small[2].endswith("from 40% to 50%: that may be chance")
    fall = worth(series(tmp_path, [(100, 500, told(0.5, 0.4)), (300, 2000, told(0.1, 0.4))]), [])
    assert "from 50% to 10%. Watch a few episodes without helping" in fall[2]
    # two windows of 20 with p = 0.25: the standard error of their difference is sqrt(2 * 0.25 * 0.75 / 20) = 0.137
    assert by_chance(0.25 - 0.13, 0.25 + 0.13) and not by_chance(0.25 - 0.14, 0.25 + 0.14)


def test_before_anybody_has_helped_nothing_is_said(tmp_path: Path) -> None:
    assert worth(series(tmp_path, []), []) == []
    alone = told(0.5, 0.0, help_share=0.0, intervention_share=0.0, intervention_count=0.0)
    assert worth(series(tmp_path, [(100, 500, alone), (300, 2000, alone)]), []) == []


@pytest.mark.parametrize(
    ("endings", "words"),
    [
        (["answered"] * 3 + ["dismissed"], "it asked 4 times; you took over 3 times and told it to go on 1 times. You need not watch it"),
        (["dismissed"] * 2 + ["over"], "it asks too early"),
    ],
)
def test_how_often_it_was_right_to_ask(tmp_path: Path, endings: list[str], words: str) -> None:
    events: list[dict[str, Any]] = [{"kind": "ask_ended", "ending": ending} for ending in endings]
    assert words in worth(series(tmp_path, [(100, 500, told(0.1, 0.4))]), [*events, {"kind": "asked"}])[-1]


def test_each_phase_of_the_run_is_measured(tmp_path: Path) -> None:
    rows = [
        (100, 0, told(0.0, 0.4)),
        (150, 500, told(0.1, 0.4)),  # 10 episodes of 50 steps, half a correction each
        (400, 1000, told(0.2, 0.4)),
        (900, 3000, told(0.6, 0.2)),
    ]
    early, middle, late = phases(series(tmp_path, rows))
    assert (early.start, early.end, early.corrections) == (0.0, 0.1, 5.0) and early.each == pytest.approx(0.02)
    assert middle.corrections == 20.0 and middle.each == pytest.approx(0.02)
    assert (late.each, str(late)) == (None, "–") and str(middle) == "20% → 60%, 20 corrections"
    assert str(Phase(0.2, 0.4, 0.0, 0.0)) == "20% → 40%, no help"


def test_where_the_measurement_disagrees_with_the_step_count_it_is_believed() -> None:
    weak, strong, unknown = Phase(0.1, 0.2, 20.0, 0.3), Phase(0.1, 0.6, 20.0, 0.3), Phase(0.1, 0.9, 2.0, 0.3)
    assert disagreement([weak, strong, unknown]) == "" == disagreement([strong, unknown, unknown])
    found = disagreement([strong, weak, unknown])
    assert "changed most at 0 to 200 learner steps: +2.5 points" in found and "elsewhere +0.5 at most. Believe this" in found
    assert "from 1,000 learner steps on" in disagreement([weak, weak, strong])
    assert disagreement([Phase(0.1, 0.31, 20.0, 0.3), weak, unknown]) != "" and disagreement([weak, weak, weak]) == ""

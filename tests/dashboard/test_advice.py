"""The phase follows the results of a run, not its step count alone; and the clocks in words."""

import dataclasses
from dataclasses import replace

import pytest

from tandem.dashboard.advice import Figures, advise, clock_words, reference
from tandem.runs.clocks import Clocks
from tandem.runs.live import ActorView

MIDDLE = Figures(Clocks(600, 5000, 13), training_starts=100, success=0.4, share=0.3, q=0.3, q_before=0.2, q_range=(0.0, 1.0))


@pytest.mark.parametrize(
    ("change", "phase", "advice"),
    [
        ({"clocks": Clocks(0, 40, 1)}, "filling", "Wait"),
        ({"clocks": Clocks(150, 900, 4), "success": 0.1}, "demonstrations", "clear mistakes"),
        ({"clocks": Clocks(150, 900, 4), "critic_steps": 500}, "critics catch up", "Watch"),
        ({"q": 7.0}, "impossible Q values", "findings"),
        ({"success": None, "share": None}, "no episode", "Watch"),
        ({"success": None, "returns": -120.0, "share": 0.0}, "by the return", "watch whether the return rises"),
        ({"success": 0.4, "best": 0.9}, "better before", "Watch a few episodes"),
        ({"success": 0.1, "share": 0.1}, "too few successes", "one episode in three"),
        ({"success": 0.4, "share": 0.3}, "learning", "actively"),
        ({"success": 0.8, "share": 0.7}, "mostly with your help", "Release control earlier"),
        ({"success": 0.8, "share": 0.1}, "refining", "Correct rarely"),
        ({"success": 0.95, "share": 0.0}, "nearly there", "Hands off"),
    ],
)
def test_what_to_do_follows_from_success_share_and_values(change: dict, phase: str, advice: str) -> None:
    found = advise(dataclasses.replace(MIDDLE, **change))
    assert phase in found.phase and advice in found.do


def failures(**counts: int) -> dict:
    rows = [{"stage": stage, "lost": count, "time": 0} for stage, count in counts.items()]
    return {"episodes": 20, "succeeded": 20 - sum(counts.values()), "rows": rows}


def test_where_a_task_has_stages_it_is_said_at_which_to_help() -> None:
    often = dataclasses.replace(MIDDLE, stages=failures(grasp=2, carry=1, insert=5))
    assert "5 of the newest 8 failures end at the stage 'insert'" in advise(often).do and "actively" in advise(often).do
    for changes in (
        {"stages": failures(grasp=3, carry=3, insert=3)},  # all over
        {"stages": failures(grasp=0, carry=0, insert=2)},  # few
        {"stages": None},
        {"success": 0.95, "share": 0.0},  # hands off
        {"clocks": Clocks(0, 40, 1)},  # it has not begun
    ):
        assert "stage '" not in advise(dataclasses.replace(often, **changes)).do, changes


def test_the_numbers_behind_the_advice_are_shown() -> None:
    assert advise(MIDDLE).because == ("success 40% of the last 20", "you acted in 30% of the steps", "Q 0.30 and rising")
    silent = dataclasses.replace(MIDDLE, success=None, returns=-120.5)
    assert advise(silent).because[0] == "return -120.5, mean of the last 20"


def test_the_clocks_in_words() -> None:
    """12,804 learner steps at one policy every 50 are 256, and the first version is the initial policy: 257."""
    actor = ActorView(name="left", connected=True, pace="fast", rows=1, version=256, lag_versions=1, lag_s=1.94)
    words = clock_words(Clocks(12804, 0, 257), [actor], 50)
    assert words[0] == "learner 12,804 steps = 256 policies after the initial one; the newest is version 257"
    assert words[1:] == ["the actor acts with 256, 1.9 s old"]
    newest = clock_words(Clocks(50, 0, 2), [replace(actor, version=2, lag_versions=0)], 50)
    assert newest[0].startswith("learner 50 steps = 1 policy") and newest[1] == "the actor acts with 2, the newest"
    assert clock_words(Clocks(0, 0, 0), [replace(actor, version=-1, lag_versions=None)], 50)[1] == "the actor has no policy yet"
    two = clock_words(Clocks(0, 0, 0), [actor, replace(actor, name="right")], 50)
    assert [line.split(" acts")[0] for line in two[1:]] == ["left", "right"]


def test_the_usual_table_marks_the_row_of_the_run() -> None:
    rows = reference(Clocks(600, 0, 0), 50)
    assert [row["here"] for row in rows] == [False, True, False]
    assert [row["policies"] for row in rows] == ["0 to 4", "4 to 20", "from 20"]

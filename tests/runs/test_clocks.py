"""The arithmetic between learner steps, actor steps and policies, with the numbers of a run at 22.18 learner steps a second."""

import pytest

from tandem.runs.clocks import Clocks, ClockSample, Rates, in_words, rates, relations, stage, versions_after, worth

AT_22 = Rates(learner=22.18, actor=10.0, version=22.18 / 50)


def sample(learner: int, actor: int, version: int, wall_s: float) -> ClockSample:
    return ClockSample(Clocks(learner, actor, version), wall_s)


def test_a_hundred_learner_steps_are_two_policies_not_a_hundred() -> None:
    assert versions_after(100, steps_per_update=50) == 2
    assert versions_after(12_804, steps_per_update=50) == 256
    assert versions_after(200, steps_per_update=100) == 2


def test_learner_steps_in_the_other_clocks() -> None:
    row = worth(100, 50, AT_22)
    assert row.versions == 2
    assert row.seconds == pytest.approx(100 / 22.18)  # 4.5 s
    assert row.actor_steps == pytest.approx(10 * 100 / 22.18)  # 45
    assert in_words(50, AT_22) == "100 learner steps = 2 policies = about 4.5 s here = about 45 actor steps"
    assert in_words(100, AT_22).startswith("100 learner steps = 1 policy =")


def test_rates_are_between_the_first_and_the_last_sample() -> None:
    pace = rates([sample(0, 0, 1, 0.0), sample(40, 30, 1, 1.0), sample(100, 80, 3, 4.0)])
    assert (pace.learner, pace.actor, pace.version) == (25.0, 20.0, 0.5)
    assert pace.learner_per_actor == 1.25


def test_a_restart_that_went_back_does_not_count_as_negative_speed() -> None:
    pace = rates([sample(0, 0, 1, 0.0), sample(500, 500, 11, 10.0), sample(400, 400, 12, 11.0), sample(420, 440, 12, 12.0)])
    assert (pace.learner, pace.actor) == (20.0, 40.0)


def test_what_did_not_move_has_no_rate_and_is_left_out_of_the_words() -> None:
    still = rates([sample(0, 0, 1, 0.0), sample(0, 20, 1, 2.0)])
    assert (still.learner, still.actor, still.version, still.learner_per_actor) == (None, 10.0, None, None)
    assert in_words(50, still) == "100 learner steps = 2 policies"
    assert rates([]) == rates([sample(5, 5, 1, 1.0)]) == Rates(None, None, None)


def test_the_table_has_what_people_ask_about_in_all_clocks() -> None:
    found = relations(50, rates([sample(0, 0, 1, 0.0), sample(2218, 1000, 45, 100.0)]))
    assert found.learner_steps_per_s == pytest.approx(22.18) and found.updates_per_actor_step_seen == pytest.approx(2.218)
    assert [row.learner_steps for row in found.table] == [0, 50, 100, 200, 500]
    assert [row.versions for row in found.table] == [0, 1, 2, 4, 10]


def test_the_stage_of_a_run_by_its_steps() -> None:
    def at(learner: int, actor: int, **settings: int) -> str:
        return stage(Clocks(learner, actor, 1), 100, **settings)

    assert [at(0, 50), at(10, 500), at(300, 900), at(2000, 9000)] == ["filling", "early", "middle", "late"]
    assert at(0, 150, random_steps=300) == "random"
    assert [at(10, 500, critic_steps=500), at(499, 500, critic_steps=500), at(500, 500, critic_steps=500)] == [
        "critics",
        "critics",
        "middle",
    ]

"""The benchmark of help: its clock and its ratios by hand, and what was measured is kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.help import ARMS, Results, Tally, config_of, figures, ratio, waited_s
from tandem.off_policy.recipes import RECIPES, for_one_robot
from tandem.teleop.people import Seen
from tests.off_policy.learner_samples import transition


def row(seed: int, arm: str = "hil-serl", mode: str = "watching", **changes: Any) -> dict[str, Any]:
    plain = {"task": "gear_assembly", "arm": arm, "operator": "scripted", "mode": mode, "seed": seed, "reached": True, "minutes": 10.0}
    counts = {"takeovers": 100, "asks": 0, "asks_right": 0, "stalls": 0, "stalls_asked": 0, "successes": 0}
    return {**plain, **counts, **changes}


def test_the_clock_counts_steps_resets_and_waiting_and_each_time_that_a_person_takes_over() -> None:
    tally = Tally(control_hz=10.0)
    #   who acts:   policy, person, person, policy, person (ends), person, policy (ends)
    for number, (human, last) in enumerate(((0, 0), (1, 0), (1, 0), (0, 0), (1, 1), (1, 0), (0, 1))):
        tally.add(transition(number, intervened=bool(human), truncated=bool(last), tag="stuck" if human else "", success=number == 6))
    tally.waited_s = 3.3
    assert tally.minutes == pytest.approx((0.7 + 2 * 2.0 + 3.3) / 60)
    assert (tally.takeovers, tally.human_steps, tally.resets, tally.successes) == (3, 4, 2, 1)
    assert tally.tags == {"stuck": 3}, "one that goes on in the next episode is another one"


def test_a_robot_waits_until_somebody_comes_or_a_minute_for_nobody() -> None:
    seen = [Seen("ask", 0, 5, True, 1.5), Seen("stall", 0, 9, True), Seen("ask", 1, 7, False, 0.5), Seen("ask", 2, 7, True)]
    assert waited_s(seen) == 1.5 + 0.5 + 60.0


def test_a_ratio_is_of_the_seeds_that_both_have() -> None:
    ours = {0: row(0, takeovers=20), 1: row(1, takeovers=60), 7: row(7, takeovers=1)}
    theirs = {0: row(0), 1: row(1), 2: row(2)}
    value, low, high = ratio(ours, theirs, "takeovers") or (0, 0, 0)
    assert value == pytest.approx(80 / 200) and low == pytest.approx(0.2) and high == pytest.approx(0.6)
    assert ratio(ours, {3: row(3)}, "takeovers") is None


def test_figures_are_made_of_what_is_there_and_censored_runs_count_and_are_counted(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    assert figures(results, "gear_assembly") == {}
    for seed in (0, 1):
        results.add(row(seed, reached=seed == 0))
        asked = {"takeovers": 30, "minutes": 6.0, "asks": 40, "asks_right": 30, "stalls": 50, "stalls_asked": 45, "successes": 20}
        results.add(row(seed, "cloned", "asked", **asked))
    found = figures(results, "gear_assembly")
    assert found["takeovers_ratio"] == pytest.approx(0.3) and found["robot_minutes_ratio"] == pytest.approx(0.6)
    assert (found["censored_hil_serl"], found["censored_default"]) == (1, 0) and "late_takeovers_ratio" not in found
    # 60 of 80 asks were right, 90 of 100 stalls were asked about, 20 wrong asks for 40 successes
    assert (found["asks_right"], found["missed_stalls"], found["false_asks_per_success"]) == pytest.approx((0.75, 0.1, 0.5))


def test_results_are_kept_and_two_calls_add_to_the_same_file(tmp_path: Path) -> None:
    one, other = Results(tmp_path / "r.json"), Results(tmp_path / "r.json")
    one.add(row(0))
    other.add(row(1))
    assert len(json.loads((tmp_path / "r.json").read_text())) == 2
    assert sorted(Results(tmp_path / "r.json").cell("gear_assembly", "hil-serl", "scripted", "watching")) == [0, 1]


def test_arms_are_settings_of_the_one_recipe() -> None:
    recipe = for_one_robot(RECIPES["gear_assembly"]())
    configs = {arm: ARMS[arm](recipe) for arm in ARMS}
    assert configs["cloned"] == recipe and recipe.clone_steps and recipe.agent.imitation
    assert (configs["hil-serl"].clone_steps, configs["hil-serl"].agent.imitation, configs["hil-serl"].agent.demo_imitation) == (0, 0.0, 0.0)
    assert configs["imitated"].agent.imitation == recipe.agent.imitation and not configs["imitated"].clone_steps
    assert configs["anchored"].agent.anchor and configs["blamed"].agent.blame == "critics" and configs["penalty"].agent.blame == "penalty"
    asked = config_of("cloned", "late", "asked", "gear_assembly", Path("demos.db"), 3, quick=False)
    assert asked.operator == "person:late:asked" and asked.notice and asked.num_envs == 1 and asked.seed == 3
    assert not config_of("cloned", "late", "watching", "gear_assembly", Path("demos.db"), 3, quick=False).notice

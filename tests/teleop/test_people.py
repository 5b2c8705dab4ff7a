"""Stand-ins with the flaws of people, and such that come only when they are asked. MANNER looks on for 5 steps and corrects for 3."""

from dataclasses import replace

import numpy as np
import pytest

from tandem.acting.operators import check_operator, make_operators
from tandem.envs.registry import make_env
from tandem.errors import ConfigError
from tandem.teleop.ask import Ask
from tandem.teleop.people import PEOPLE, Flaws, flaws_of
from tandem.teleop.scripted_person import ScriptedPerson
from tandem.teleop.steering import Steering
from tests.teleop.test_scripted_person import MANNER, PROPOSED, Expert

STANDS = [1.0] * 20
COMES_NEARER = [0.9**step for step in range(20)]


def person(flaws: Flaws, seed: int = 0) -> ScriptedPerson:
    one = ScriptedPerson(Expert(), lambda observation: float(observation["distance"][0]), 40, seed, MANNER, flaws)
    one.reset()
    return one


def episode(one: ScriptedPerson, distances: list[float], ask_at: int = -1, holds: bool = True) -> list[str]:
    """What each step was: `-` by the policy, else the tag of the person. The robot asks before the step `ask_at`."""
    found = []
    for step, distance in enumerate(distances):
        if step == ask_at:
            one.asked(Ask("no progress for 2 s", step, holds))
        by_human = one.decide({"distance": np.array([distance])}, PROPOSED)[1]
        found.append(one.tag if by_human else "-")
    one.reset()
    return found


def test_one_that_is_late_takes_over_half_a_second_after_it_has_seen_it() -> None:
    at_once, late = episode(person(Flaws()), STANDS), episode(person(PEOPLE["late"]), STANDS)
    assert at_once.index("stuck") == 5 and late.index("stuck") == 10, "0.5 s at 10 Hz are 5 steps"


def test_tags_say_what_was_wrong_and_some_people_give_none() -> None:
    strays = [1.0 + 0.1 * step for step in range(10)]
    assert episode(person(Flaws()), strays)[5] == "wrong way"
    assert episode(person(Flaws(tags=False)), strays)[5] == ""


def test_one_that_trembles_is_right_on_average_and_another_is_always_wrong_in_one_region() -> None:
    axes, random = np.array([True, True, False]), np.random.default_rng(0)
    right = np.array([0.2, -0.4, 2.0], np.float32)
    shaken = np.array([Flaws(noise=0.1).executed(right, axes, random) for _ in range(2000)])
    np.testing.assert_allclose(shaken.mean(0), right, atol=0.01)
    np.testing.assert_allclose(shaken.std(0), [0.1, 0.1, 0.0], atol=0.01)  # a choice is not shaken
    wrong = Flaws(wrong_beyond=0.2)
    there, beside = np.array([0.9, 0.3, 2.0], np.float32), np.array([0.9, 0.1, 2.0], np.float32)
    np.testing.assert_allclose(wrong.executed(there, axes, random), [-0.9, 0.3, 2.0], rtol=1e-6)
    np.testing.assert_array_equal(wrong.executed(beside, axes, random), beside)
    assert Flaws().executed(right, axes, random) is right


def test_one_that_is_inattentive_misses_its_share_of_what_it_looks_at() -> None:
    one = person(PEOPLE["inattentive"])
    seen_at_first = [episode(one, STANDS)[5] == "stuck" for _ in range(300)]
    assert 0.6 <= np.mean(seen_at_first) <= 0.8  # 70 %, and three standard deviations of 2.6 %


def test_one_that_is_trigger_happy_takes_over_for_nothing_and_says_so() -> None:
    one = person(PEOPLE["trigger-happy"])
    found = [episode(one, COMES_NEARER[:7]) for _ in range(400)]  # one look in each, at step 5
    assert {tag for tags in found for tag in tags} == {"-", "just because"}
    assert 8 <= sum("just because" in tags for tags in found) <= 33  # 5 % of 400 are 20, and three standard deviations of 4.4


def test_one_that_answers_comes_when_asked_and_stays_for_the_episode() -> None:
    one = person(Flaws(asked_only=True))
    assert set(episode(one, STANDS)) == {"-"}, "it does not watch"
    answered = episode(one, STANDS, ask_at=9)
    # a robot that holds makes no step until it is there: the next step is the person's. 4 steps later it corrects again
    assert answered == ["-"] * 9 + ["stuck"] * 3 + ["-"] * 4 + ["stuck"] * 3 + ["-"]
    assert set(episode(one, STANDS)) == {"-"}, "the next episode is the robot's own"


def test_while_the_policy_goes_on_steps_pass_before_it_is_there() -> None:
    one = person(Flaws(asked_only=True, answer_s=(0.7, 0.7)))
    assert episode(one, STANDS, ask_at=6, holds=False).index("stuck") == 13  # 0.7 s are 7 steps


def test_it_knows_whether_the_robot_was_right_to_ask_and_which_stalls_it_missed() -> None:
    one = person(Flaws(asked_only=True))
    episode(one, STANDS, ask_at=9)
    episode(one, COMES_NEARER, ask_at=9)
    episode(one, [1.0] * 40)  # until its time is over
    episode(one, [1.0] * 25 + [0.9**step for step in range(10)])
    episode(one, [1.0] * 12 + [0.9**step for step in range(10)])
    asks = [seen for seen in one.seen if seen.kind == "ask"]
    assert [(seen.episode, seen.step, seen.right) for seen in asks] == [(0, 9, True), (1, 9, False)]
    assert all(0.5 <= seen.seconds <= 2.0 for seen in asks)
    stalls = [(seen.episode, seen.right) for seen in one.seen if seen.kind == "stall"]
    # asked about; not asked about until the end; got out of it; one of 8 steps is none
    assert stalls == [(0, True), (2, False), (3, True)]


def test_one_that_is_inattentive_misses_asks_too() -> None:
    one = person(replace(PEOPLE["inattentive"], asked_only=True))
    came = ["stuck" in episode(one, STANDS, ask_at=9) for _ in range(300)]
    assert 0.6 <= np.mean(came) <= 0.8


def test_a_saved_one_goes_on_in_the_middle_of_being_late() -> None:
    def life(saved_at: int | None) -> list[str]:
        one, found = person(replace(PEOPLE["late"], misses=0.3), seed=4), []
        for step in range(30):
            if step == saved_at:
                memory = one.memory()
                one = person(replace(PEOPLE["late"], misses=0.3), seed=9)
                one.restore(memory)
            found.append((one.decide({"distance": np.ones(1)}, PROPOSED)[1], one.tag))
        return found

    assert life(None) == life(8) and any(tag for _, tag in life(None))


@pytest.mark.parametrize("name", ["person:wrong", "person:trigger-happy:asked"])
def test_every_stand_in_has_a_name(name: str) -> None:
    check_operator(name)
    [operator], _ = make_operators(name, make_env("reach"), 0)
    assert isinstance(operator, Steering) and isinstance(operator.inner, ScriptedPerson)
    assert operator.inner.flaws == flaws_of(name) and operator.inner.flaws.asked_only == name.endswith("asked")


def test_a_stand_in_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match="no operator 'person:lazy'; the stand-ins for a person are person:scripted, person:late"):
        check_operator("person:lazy")

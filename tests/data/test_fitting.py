"""Scales, constants and the range of the return, from demonstrations."""

import dataclasses

import numpy as np
import pytest

from tandem.data.fitting import constant_numbers, inferred_return_range, with_fitted_scales
from tandem.layouts import flatten
from tandem.types import Continuous, Entry, Spec, Transition

SPEC = Spec("drive", {"state": Entry((3,)), "force": Entry(()), "known": Entry((2,), scale=0.1)}, (Continuous("a", 1),), 10, 100)


def step(number: int, reward: float = 0.0, terminated: bool = False, truncated: bool = False, spike: float = 0.0) -> Transition:
    seen = {
        "state": np.array([10.0 * number, 0.04 * number, 7.0], np.float32),
        "force": np.array(number % 3 + spike, np.float32),
        "known": np.array([1e6, 1e6], np.float32),
    }
    return Transition(seen, np.zeros(1, np.float32), reward, seen, terminated, truncated, step=number)


def test_large_numbers_get_a_scale_of_their_own_and_small_ones_keep_theirs() -> None:
    spec, said = with_fitted_scales(SPEC, [step(number) for number in range(101)])
    assert spec.observation["state"].scale == (990.0, 1.0, 7.0), "the 99th percentile; within plus and minus 5; a constant"
    assert spec.observation["force"].scale == 1.0
    assert spec.observation["known"].scale == 0.1, "somebody declared it"
    assert said == ["scale of 'state', fitted on the demonstrations: 990, 1, 7"]
    assert np.abs(flatten(spec, step(100).observation)[-3:]).max() < 5, "and so nothing is clipped"


def test_a_few_outliers_do_not_set_the_scale() -> None:
    steps = [step(number % 3, spike=1e5 if number == 7 else 0.0) for number in range(400)]
    assert with_fitted_scales(SPEC, steps)[0].observation["force"].scale == 1.0


def test_no_demonstrations_fit_nothing() -> None:
    assert with_fitted_scales(SPEC, []) == (SPEC, []) and constant_numbers(SPEC, []) == []


def test_steps_recorded_without_scales_are_steps_of_a_run_that_has_them() -> None:
    fitted = dataclasses.replace(with_fitted_scales(SPEC, [step(number) for number in range(101)])[0], return_range=(0.0, 1.0))
    assert fitted.hash != SPEC.hash, "a policy sees other numbers"
    assert fitted.data_difference(SPEC) == []
    assert SPEC.data_difference(fitted) == ["return_range: None here, [0.0, 1.0] there"], "a reward that this side knows nothing of"
    wider = dataclasses.replace(SPEC, observation={**SPEC.observation, "state": Entry((4,))})
    assert len(fitted.data_difference(wider)) == 1, "another shape is another entry"
    dense = dataclasses.replace(SPEC, return_range=(-5.0, 1.0))
    assert fitted.data_difference(dense) == ["return_range: [0.0, 1.0] here, [-5.0, 1.0] there"]


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([step(0), step(1, 1.0, terminated=True), step(0), step(1, truncated=True)], (0.0, 1.0)),
        ([step(0), step(1, terminated=True)], None),
        ([step(0, 1.0), step(1, 1.0, terminated=True)], None),
        ([step(0), step(1, 1.0, truncated=True)], None),
        ([step(0, -0.1), step(1, 1.0, terminated=True)], None),
        ([], None),
    ],
    ids=["one that ends it", "no reward", "paid twice", "goes on after it", "a cost", "nothing"],
)
def test_the_range_is_inferred_only_where_a_reward_of_one_ends_the_episode(steps: list[Transition], found: object) -> None:
    assert inferred_return_range(steps) == found


def test_numbers_that_never_move_are_named() -> None:
    assert constant_numbers(SPEC, [step(number) for number in range(50)]) == ["known[0]", "known[1]", "state[2]"]

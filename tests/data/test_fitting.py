"""Scales, constants and the range of the return, from demonstrations."""

import dataclasses
import json

import numpy as np
import pytest

from tandem.data.fitting import constant_numbers, inferred_return_range, with_fitted_scales
from tandem.layouts import Layout
from tandem.types import Continuous, Entry, Spec, Transition

SPEC = Spec("drive", {"state": Entry((3,)), "force": Entry(()), "known": Entry((2,), scale=0.1)}, (Continuous("a", 1),), 10, 100)


def step(number: int, reward: float = 0.0, terminated: bool = False, truncated: bool = False, spike: float = 0.0) -> Transition:
    seen = {
        "state": np.array([10.0 * number, 0.04 * number, 7.0], np.float32),
        "force": np.array(number % 3 + spike, np.float32),
        "known": np.array([1e6, 1e6], np.float32),
    }
    return Transition(seen, np.zeros(1, np.float32), reward, seen, terminated, truncated, step=number)


def test_every_number_gets_a_scale_and_an_offset_by_its_range() -> None:
    steps = [step(number) for number in range(101)]
    spec, said = with_fitted_scales(SPEC, steps)
    state = spec.observation["state"]
    assert state.scale == (245.0, 12.25, 1.0), "a quarter of the range; a twentieth of the largest at least; a constant"
    assert state.offset == (500.0, 2.0, 7.0), "the middle of the range"
    assert (spec.observation["force"].scale, spec.observation["force"].offset) == (0.5, 1.0)
    assert (spec.observation["known"].scale, spec.observation["known"].offset) == (0.1, 0.0), "somebody declared it"
    assert said[0] == "'state', fitted on the demonstrations: offset 500, 2, 7, scale 245, 12.2, 1"
    flat = np.stack([Layout(spec).flatten(each.observation) for each in steps])[:, -3:]
    np.testing.assert_allclose((flat[:, 0].min(), flat[:, 0].max()), (-2.04, 2.04), rtol=0.01)
    assert (flat[:, 2] == 0).all(), "a constant says nothing"


def test_a_few_outliers_do_not_set_the_scale() -> None:
    steps = [step(number % 3, spike=1e5 if number == 7 else 0.0) for number in range(400)]
    assert with_fitted_scales(SPEC, steps)[0].observation["force"].scale == 0.5


def test_scales_and_offsets_travel_as_json_and_older_scales_are_bare_numbers() -> None:
    fitted = with_fitted_scales(SPEC, [step(number) for number in range(101)])[0]
    assert SPEC.with_scales(json.loads(json.dumps(fitted.scales()))).hash == fitted.hash
    assert Spec.from_json(json.loads(json.dumps(fitted.to_json()))) == fitted
    older = SPEC.with_scales({"state": [2.0, 3.0, 4.0], "force": 5.0})
    assert older.observation["state"].scale == (2.0, 3.0, 4.0) and older.observation["state"].offset == 0.0


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

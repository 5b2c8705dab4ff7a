"""A transition says what was seen, what was executed, and how the episode ended."""

import dataclasses

import numpy as np
import pytest
from data_samples import SPEC, observation

from tandem.data.episode import EpisodeRecorder
from tandem.data.validation import Validator
from tandem.types import Step

ACTION = np.array([0.5, -0.5], np.float32)


@pytest.fixture
def recorder():
    recorder = EpisodeRecorder(SPEC, source="robot")
    recorder.begin(observation(0))
    return recorder


def led_to(seen, terminated=False, truncated=False, success=False, executed=None, intervened=None) -> Step:
    """A step of one environment."""
    flags = (np.array([flag]) for flag in (terminated, truncated, success))
    batched = {name: np.asarray(values)[None] for name, values in seen.items()}
    executed = None if executed is None else np.asarray(executed)[None]
    return Step(batched, np.zeros(1), *flags, executed=executed, intervened=None if intervened is None else np.array([intervened]))


def step(recorder, number: int, action=ACTION, *, by_human=False, policy_version=-1, **led):
    return recorder.record(action, led_to(observation(number), **led), intervened=by_human, policy_version=policy_version)


def test_steps_are_chained_and_counted_through_episodes(recorder):
    steps = [step(recorder, 1), step(recorder, 2, truncated=True)]
    recorder.begin(observation(10))
    steps += [step(recorder, 11), step(recorder, 12, terminated=True)]
    assert [(s.episode, s.step, s.seq, s.last) for s in steps] == [(0, 0, 0, False), (0, 1, 1, True), (1, 0, 2, False), (1, 1, 3, True)]
    for made, (before, after) in zip(steps, [(0, 1), (1, 2), (10, 11), (11, 12)], strict=True):
        np.testing.assert_equal(made.observation, observation(before))
        np.testing.assert_equal(made.next_observation, observation(after))
        assert Validator(SPEC).reason(made) is None


def test_terminated_and_truncated_stay_apart(recorder):
    cut = step(recorder, 1, truncated=True)
    assert (cut.terminated, cut.truncated) == (False, True)
    recorder.begin(observation(0))
    both = step(recorder, 1, terminated=True, truncated=True)  # success on the very last step
    assert (both.terminated, both.truncated) == (True, True)


def test_the_action_of_an_intervention_replaces_the_proposed_one(recorder):
    made = step(recorder, 1, executed=[1.0, 0.25], intervened=True)
    np.testing.assert_array_equal(made.action, np.array([1.0, 0.25], np.float32))
    assert made.intervened and made.action.dtype == np.float32
    assert not step(recorder, 2).intervened
    assert step(recorder, 3, by_human=True).intervened  # the loop's own operator


def test_the_stored_action_is_the_executed_one_after_clipping(recorder):
    np.testing.assert_array_equal(step(recorder, 1, action=np.array([3.0, -0.5])).action, np.array([1.0, -0.5], np.float32))
    changed = step(recorder, 2, executed=[0.25, -2.0])
    np.testing.assert_array_equal(changed.action, np.array([0.25, -1], np.float32))
    assert not changed.intervened, "the environment changed it, no person did"


def test_one_row_of_many_is_recorded(recorder):
    both = {name: np.stack([values, values + 9]) for name, values in observation(1).items()}
    flags = np.array([False, True])
    made = Step(both, np.array([0.0, 0.5]), flags, ~flags, flags, executed=np.array([[0, 0], [0.1, 0.2]]), intervened=flags)
    stored = recorder.record(ACTION, made, row=1)
    np.testing.assert_equal(stored.next_observation["pose"], observation(1)["pose"] + 9)
    np.testing.assert_allclose(stored.action, [0.1, 0.2])
    assert (stored.reward, stored.terminated, stored.truncated, stored.success, stored.intervened) == (0.5, True, False, True, True)


def test_an_environment_may_write_over_its_observation(recorder):
    live = observation(1)
    made = recorder.record(ACTION, led_to(live))
    live["pose"][:] = 99.0
    np.testing.assert_equal(made.next_observation, observation(1))
    np.testing.assert_equal(step(recorder, 2).observation, observation(1))


def test_what_an_environment_gives_too_much_or_too_little_is_left_for_the_validator_to_name(recorder):
    made = recorder.record(ACTION, led_to({"pose": [0, 0, 0], "wrench": [1.0]}))
    assert Validator(SPEC).reason(made) == "next_observation entry 'touch' is missing"


def test_a_step_without_a_reset_is_refused(recorder):
    step(recorder, 1, terminated=True)
    with pytest.raises(ValueError, match="call begin"):
        step(recorder, 2)


def test_a_recorder_with_the_same_fields_goes_on_in_the_middle_of_an_episode(recorder):
    step(recorder, 1)
    other = EpisodeRecorder(**{field.name: getattr(recorder, field.name) for field in dataclasses.fields(recorder)})
    one, same = step(recorder, 2, policy_version=4), step(other, 2, policy_version=4)
    np.testing.assert_equal(dataclasses.asdict(one), dataclasses.asdict(same))
    assert (one.step, one.seq, one.policy_version) == (1, 1, 4)

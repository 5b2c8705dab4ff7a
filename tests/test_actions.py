"""One vector, named parts: every number has one place and one range."""

import dataclasses
import json

import numpy as np
import pytest

from tandem.codec import pack_transition, unpack_transition
from tandem.data.episode import EpisodeRecorder
from tandem.data.screening import Screen
from tandem.data.validation import Validator
from tandem.envs.spaces import action_space
from tandem.errors import ActionError, ConfigError
from tandem.layouts import ActionLayout
from tandem.learnable import require_continuous
from tandem.teleop.axes import axes_of, axis_names
from tandem.teleop.hand_action import blend, hand_action, still
from tandem.types import Continuous, Discrete, Entry, Spec, Step, Transition

ARM = Continuous("arm", 3, unit="m", scale=(0.01, 0.01, 0.02))
GRIPPER = Discrete("gripper", ("close", "hold", "open"), rest=1)
SPEC = Spec("grasp", {"pose": Entry((3,))}, (ARM, GRIPPER), control_hz=10, max_episode_steps=50)
LAYOUT = ActionLayout.of(SPEC)


def test_parts_and_vector_are_the_same_numbers() -> None:
    vector = LAYOUT.join({"arm": np.array([0.1, -0.2, 0.3]), "gripper": 2})
    np.testing.assert_allclose(vector, [0.1, -0.2, 0.3, 2.0], rtol=1e-6)
    assert vector.dtype == np.float32 and SPEC.action_dim == LAYOUT.size == 4
    parts = LAYOUT.split(vector)
    np.testing.assert_allclose(parts["arm"], [0.1, -0.2, 0.3], rtol=1e-6)
    assert parts["gripper"] == 2 and parts["gripper"].dtype == np.int64
    many = LAYOUT.split(np.stack([vector, vector]))
    assert many["arm"].shape == (2, 3) and many["gripper"].tolist() == [2, 2]
    with pytest.raises(ActionError, match="parts arm, gripper; got arm"):
        LAYOUT.join({"arm": np.zeros(3)})


def test_every_column_is_clipped_to_its_own_range() -> None:
    np.testing.assert_array_equal(LAYOUT.clip(np.array([3.0, -3.0, 0.5, 7.0])), [1.0, -1.0, 0.5, 2.0])
    np.testing.assert_array_equal(LAYOUT.clip(np.array([0.0, 0.0, 0.0, 1.4])), [0.0, 0.0, 0.0, 1.0])
    assert np.isnan(LAYOUT.clip(np.array([np.nan, 0.0, 0.0, 1.0]))[0]), "for the validation to refuse"
    space = action_space(SPEC)
    assert space.low.tolist() == [-1, -1, -1, 0] and space.high.tolist() == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ([0.0, 0.0, 0.0, 2.0], None),
        ([1.0 + 1e-7, 0.0, 0.0, 0.0], None),
        ([0.0, 1.5, 0.0, 0.0], "action at [1] is 1.5, outside [-1, 1]"),
        ([0.0, 0.0, 0.0, 3.0], "action at [3] is 3, no choice of 'gripper' (0: close, 1: hold, 2: open)"),
        ([0.0, 0.0, 0.0, -1.0], "action at [3] is -1, no choice of 'gripper' (0: close, 1: hold, 2: open)"),
        ([0.0, 0.0, 0.0, 0.5], "action at [3] is 0.5, no choice of 'gripper' (0: close, 1: hold, 2: open)"),
    ],
)
def test_what_may_be_stored_is_the_same_for_one_step_and_for_a_screen_of_many(action: list[float], reason: str | None) -> None:
    seen = {"pose": np.zeros(3, np.float32)}
    step = Transition(seen, np.array(action, np.float32), 0.0, seen, False, False)
    assert Validator(SPEC).reason(step) == reason
    [place] = Screen(SPEC).places([pack_transition(step)])
    assert (place is not None) == (reason is None)


def test_a_discrete_action_passes_recorder_codec_and_validation_unchanged() -> None:
    recorder = EpisodeRecorder(SPEC, "robot")
    recorder.begin({"pose": np.zeros(3, np.float32)})
    nothing = np.zeros(1, bool)
    made = recorder.record(np.array([2.0, 0.0, 0.0, 2.0]), Step({"pose": np.zeros((1, 3))}, np.zeros(1), nothing, nothing, nothing))
    back = unpack_transition(pack_transition(made), "robot", 0)
    np.testing.assert_array_equal(back.action, np.array([1.0, 0.0, 0.0, 2.0], np.float32))
    assert Validator(SPEC).reason(back) is None


def test_a_hand_at_rest_commands_rest_and_pushing_the_gripper_chooses() -> None:
    np.testing.assert_array_equal(LAYOUT.rest, [0, 0, 0, 1])
    np.testing.assert_array_equal(hand_action(LAYOUT, np.zeros(4)), LAYOUT.rest)
    np.testing.assert_allclose(hand_action(LAYOUT, np.array([0.5, -2.0, 0.0, 1.0])), [0.5, -1.0, 0.0, 2.0])
    np.testing.assert_allclose(hand_action(LAYOUT, np.array([0.0, 0.0, 0.0, -0.6])), [0, 0, 0, 0])
    np.testing.assert_allclose(blend(LAYOUT, 0.25, np.array([1.0, 1, 1, 2]), np.array([0.0, 0, 0, 0])), [0.25, 0.25, 0.25, 2.0])


def test_an_absolute_command_stays_where_it_stands_and_its_spec_says_so() -> None:
    spec = dataclasses.replace(SPEC, action=(Continuous("arm", 1), Continuous("gripper", 1, stands_at=1.0)))
    layout = ActionLayout.of(spec)
    np.testing.assert_array_equal(layout.rest, [0, 1])
    carried = np.array([0.3, -0.8], np.float32)
    np.testing.assert_allclose(still(layout, carried), [0, -0.8])
    np.testing.assert_allclose(hand_action(layout, np.array([0.2, 0.4]), carried), [0.2, -0.8])  # less than half a press
    np.testing.assert_allclose(hand_action(layout, np.array([0.2, 0.7]), carried), [0.2, 1.0])
    assert Spec.from_json(spec.to_json()).action == spec.action
    plain = dataclasses.replace(spec, action=(Continuous("arm", 1), Continuous("gripper", 1)))
    assert plain.hash == spec.hash, "it does not change what the numbers mean to a policy"


def test_random_actions_take_every_choice_and_leave_continuous_streams_as_they_were() -> None:
    drawn = LAYOUT.random(np.random.default_rng(0), 600)
    assert LAYOUT.valid(drawn).all() and sorted(set(drawn[:, 3].tolist())) == [0, 1, 2]
    assert min(np.bincount(drawn[:, 3].astype(int))) > 150
    alone = ActionLayout([ARM]).random(np.random.default_rng(7), 5)
    np.testing.assert_array_equal(alone, np.random.default_rng(7).uniform(-1, 1, (5, 3)).astype(np.float32))


def test_an_action_that_cannot_be_executed_is_refused_by_name() -> None:
    with pytest.raises(ActionError, match=r"'grasp' takes actions of shape \(2, 4\), got \(2, 3\)"):
        LAYOUT.checked(np.zeros((2, 3)), (2,), "grasp")
    with pytest.raises(ActionError, match=r"got nan at index \(1, 3\)"):
        LAYOUT.checked(np.array([[0, 0, 0, 0], [0, 0, 0, np.nan]]), (2,), "grasp")


def test_axes_have_the_names_that_people_know() -> None:
    assert axes_of(LAYOUT) == ("x", "y", "z", "gripper") and LAYOUT.unit == "m"
    assert axes_of(ActionLayout([Continuous("action", 6)])) == ("x", "y", "z", "roll", "pitch", "yaw")
    assert axes_of(ActionLayout([Continuous("arm", 6), GRIPPER])) == (*axis_names(6), "gripper")
    assert axes_of(ActionLayout([Continuous("left", 2), Continuous("lift", 1)])) == ("left 0", "left 1", "lift")


def test_a_learner_of_continuous_actions_refuses_a_choice_by_name() -> None:
    require_continuous(Spec("reach", {}, (ARM,), 10, 10), "RLPD")
    with pytest.raises(ConfigError, match=r"RLPD learns continuous actions only.*'grasp' has the discrete part 'gripper' \(0: close"):
        require_continuous(SPEC, "RLPD")


def test_parts_survive_json_and_count_in_the_hash() -> None:
    back = Spec.from_json(json.loads(json.dumps(SPEC.to_json())))
    assert back == SPEC and back.hash == SPEC.hash
    other = Spec("grasp", SPEC.observation, (ARM, Discrete("gripper", ("close", "open"))), 10, 50)
    assert other.hash != SPEC.hash and "action" in SPEC.difference(other)[0]


def test_a_spec_written_before_actions_had_parts_reads_as_one_continuous_part_with_the_same_hash() -> None:
    """The JSON and the hash are those of a run of an earlier version."""
    old = json.loads(
        '{"task": "reach", "observation": {"tcp_position": {"shape": [3], "dtype": "float32", "unit": "m", "scale": 0.1, "meaning": ""}, '
        '"tcp_velocity": {"shape": [3], "dtype": "float32", "unit": "m/s", "scale": 0.2, "meaning": ""}, '
        '"to_ball": {"shape": [3], "dtype": "float32", "unit": "m", "scale": 0.1, "meaning": ""}, '
        '"command_offset": {"shape": [3], "dtype": "float32", "unit": "m", "scale": 0.05, "meaning": ""}}, '
        '"action": {"shape": [3], "dtype": "float32", "unit": "m", "scale": [0.03, 0.03, 0.03], "meaning": "step"}, '
        '"control_hz": 10.0, "max_episode_steps": 30, "return_range": [0.0, 1.0]}'
    )
    spec = Spec.from_json(old)
    assert spec.action == (Continuous("action", 3, "m", (0.03, 0.03, 0.03), "step"),)
    assert spec.hash == "bb6912ece5cdee39"

"""A step that cannot be learned from is told, with the entry and the index at fault."""

import dataclasses

import numpy as np
import pytest
from data_samples import SPEC, observation, transition

from tandem.codec import pack_transition, unpack_transition
from tandem.data.validation import Validator


def with_pose(pose, which="observation"):
    return dataclasses.replace(transition(), **{which: observation(0) | {"pose": pose}})


def test_a_sound_step_has_no_reason_against_it():
    assert Validator(SPEC).reason(transition()) is None


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (with_pose(np.array([0, np.nan, 1], np.float32)), "observation entry 'pose' has nan at [1]"),
        (with_pose(np.array([0, 1, -np.inf], np.float32), "next_observation"), "next_observation entry 'pose' has -inf at [2]"),
        (with_pose(np.array([0, 1e300, 1])), "observation entry 'pose' has inf at [1]"),  # finite as float64, not as float32
        (with_pose(np.zeros(4, np.float32)), "observation entry 'pose' has shape (4,), the spec says (3,)"),
        (with_pose(np.zeros((1, 3), np.float32)), "observation entry 'pose' has shape (1, 3), the spec says (3,)"),
        (with_pose(np.zeros(3, np.complex64)), "observation entry 'pose' has dtype complex64, which cannot become float32"),
        (with_pose([0.0, 0.0, 0.0]), "observation entry 'pose' is a list, not an array"),
        (transition(observation={"pose": np.zeros(3, np.float32)}), "observation entry 'touch' is missing"),
        (
            transition(next_observation=observation(0) | {"wrench": np.zeros(6)}),
            "next_observation entry 'wrench' is not in the spec, which has ['pose', 'touch']",
        ),
        (transition(action=np.array([0, 1.001], np.float32)), "action at [1] is 1.001, outside [-1, 1]"),
        (transition(action=np.array([np.nan, 0], np.float32)), "action has nan at [0]"),
        (transition(action=np.zeros(3, np.float32)), "action has shape (3,), the spec says (2,)"),
        (transition(reward=float("nan")), "reward is nan"),
        (transition(tag="bored"), "tag is 'bored', expected one of stuck, danger, wrong way, just because"),
        (transition(reward=np.ones(2)), "reward is a ndarray, not a number"),
        (with_pose(np.float32(1)), "observation entry 'pose' is a float32, not an array"),
        (
            transition(next_observation=observation(0) | {"touch": np.float32(1)}),
            "next_observation entry 'touch' is a float32, not an array",
        ),
        (transition(reward=True), "reward is a bool, not a number"),
        (transition(terminated=1), "terminated is a int, neither True nor False"),
        (transition(intervened=None), "intervened is a NoneType, neither True nor False"),
        (transition(step=1.0), "step is a float, not a count"),
        (transition(policy_version=-2), "policy_version is -2, expected a count from -1"),
        (transition(episode=-1), "episode is -1, expected a count from 0"),
        (transition(step=2**64 - 1), "step is 18446744073709551615, expected a count from 0"),
    ],
)
def test_the_reason_names_entry_and_index(step, reason):
    assert Validator(SPEC).reason(step) == reason


@pytest.mark.parametrize(
    "step",
    [
        with_pose(np.zeros(3)),  # float64 becomes float32
        with_pose(np.zeros(3, np.int64)),
        transition(action=np.array([1 + 9e-7, -1], np.float64)),  # rounding
        transition(reward=np.float32(0.5)),
        transition(reward=1),
        transition(terminated=np.True_, step=np.int64(3)),
    ],
)
def test_what_can_be_cast_without_loss_of_meaning_is_accepted_and_can_be_stored(step):
    assert Validator(SPEC).reason(step) is None
    assert Validator(SPEC).reason(unpack_transition(pack_transition(step), "robot", 0)) is None

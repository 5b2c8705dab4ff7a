"""Flattening: scaled, clipped, in one order for everyone who does it."""

import dataclasses

import numpy as np
import pytest

from tandem.errors import ConfigError
from tandem.layouts import Layout
from tandem.learnable import require_roles
from tandem.types import Continuous, Entry, Spec

SPEC = Spec(
    task="peg",
    observation={
        "touch": Entry((), scale=2.0),
        "pose": Entry((2, 2), scale=(0.5, 0.25)),
        "image": Entry((2, 2, 3), dtype="uint8"),
    },
    action=(Continuous("arm", 2),),
    control_hz=10.0,
    max_episode_steps=50,
)
OBSERVATION = {
    "touch": np.array(3.0, np.float32),
    "pose": np.array([[1.0, 1.0], [-9.0, 0.5]], np.float32),
    "image": np.zeros((2, 2, 3), np.uint8),
}


def test_entries_are_scaled_clipped_and_put_in_the_order_of_their_names():
    # pose: 1/0.5, 1/0.25, -9/0.5 clipped to -5, 0.5/0.25; touch: 3/2
    np.testing.assert_array_equal(Layout(SPEC).flatten(OBSERVATION), np.array([2, 4, -5, 2, 1.5], np.float32))
    assert Layout(SPEC).flatten(OBSERVATION).dtype == np.float32


def test_specs_with_the_same_hash_have_the_same_vector():
    reordered = dataclasses.replace(SPEC, observation={name: SPEC.observation[name] for name in ("image", "pose", "touch")})
    assert reordered.hash == SPEC.hash
    np.testing.assert_array_equal(Layout(reordered).flatten(OBSERVATION), Layout(SPEC).flatten(OBSERVATION))


def test_axes_in_front_stay_in_front():
    many = {name: np.broadcast_to(array, (7, 3, *array.shape)) for name, array in OBSERVATION.items()}
    flat = Layout(SPEC).flatten(many)
    assert flat.shape == (7, 3, 5)
    np.testing.assert_array_equal(flat[6, 2], Layout(SPEC).flatten(OBSERVATION))


def test_the_observation_itself_is_not_changed():
    before = OBSERVATION["pose"].copy()
    one = dataclasses.replace(SPEC, observation={"pose": SPEC.observation["pose"]})
    Layout(one).flatten({"pose": OBSERVATION["pose"]})
    np.testing.assert_array_equal(OBSERVATION["pose"], before)


def test_entries_of_other_dtypes_are_left_out_and_named():
    layout = Layout(SPEC)
    assert (layout.names, layout.raw_names, layout.size) == (("pose", "touch"), ("image",), 5)
    only_image = Layout(dataclasses.replace(SPEC, observation={"image": SPEC.observation["image"]}))
    assert only_image.flatten({"image": np.zeros((4, 2, 2, 3), np.uint8)}).shape == (4, 0)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (Entry((4, 4, 3), "uint8"), r"RLPD cannot learn from the observation entry 'extra' of 'peg': its role is 'image'"),
        (Entry((4,), role="privileged"), r"'extra' of 'peg': its role is 'privileged'.*RLPD handles vector"),
        (Entry((4,), "uint8"), r"'extra' of 'peg' has dtype uint8"),
        (Entry((4,), "float64"), r"'extra' of 'peg' has dtype float64"),
    ],
)
def test_an_entry_that_a_learner_cannot_learn_from_is_refused_by_name(entry: Entry, says: str):
    floats = {name: part for name, part in SPEC.observation.items() if part.dtype == "float32"}
    require_roles(dataclasses.replace(SPEC, task="peg", observation=floats), "RLPD")
    with pytest.raises(ConfigError, match=says):
        require_roles(dataclasses.replace(SPEC, task="peg", observation=floats | {"extra": entry}), "RLPD")


def test_the_vector_can_be_made_without_the_entries_that_it_leaves_out():
    """A doctor looks at the numbers of a run with cameras and leaves the pictures where they are."""
    layout = Layout(dataclasses.replace(SPEC, observation={"a_camera": SPEC.observation["image"], **SPEC.observation}))
    assert layout.flatten({name: np.zeros((3, *SPEC.observation[name].shape), np.float32) for name in ("pose", "touch")}).shape == (3, 5)

"""Flattening: scaled, clipped, in one order for everyone who does it."""

import dataclasses

import numpy as np

from tandem.observations import Layout, flatten
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
    np.testing.assert_array_equal(flatten(SPEC, OBSERVATION), np.array([2, 4, -5, 2, 1.5], np.float32))
    assert flatten(SPEC, OBSERVATION).dtype == np.float32


def test_specs_with_the_same_hash_have_the_same_vector():
    reordered = dataclasses.replace(SPEC, observation={name: SPEC.observation[name] for name in ("image", "pose", "touch")})
    assert reordered.hash == SPEC.hash
    np.testing.assert_array_equal(flatten(reordered, OBSERVATION), flatten(SPEC, OBSERVATION))


def test_axes_in_front_stay_in_front():
    many = {name: np.broadcast_to(array, (7, 3, *array.shape)) for name, array in OBSERVATION.items()}
    flat = flatten(SPEC, many)
    assert flat.shape == (7, 3, 5)
    np.testing.assert_array_equal(flat[6, 2], flatten(SPEC, OBSERVATION))


def test_the_observation_itself_is_not_changed():
    before = OBSERVATION["pose"].copy()
    one = dataclasses.replace(SPEC, observation={"pose": SPEC.observation["pose"]})
    flatten(one, {"pose": OBSERVATION["pose"]})
    np.testing.assert_array_equal(OBSERVATION["pose"], before)


def test_entries_of_other_dtypes_are_left_out_and_named():
    layout = Layout(SPEC)
    assert (layout.names, layout.raw_names, layout.size) == (("pose", "touch"), ("image",), 5)
    only_image = Layout(dataclasses.replace(SPEC, observation={"image": SPEC.observation["image"]}))
    assert only_image.flatten({"image": np.zeros((4, 2, 2, 3), np.uint8)}).shape == (4, 0)

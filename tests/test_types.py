"""Specs tell what a task's numbers mean; two that disagree are told apart and the difference is named."""

import dataclasses
import json

import numpy as np
import pytest

from tandem.errors import ConfigError
from tandem.types import Continuous, Entry, Spec, Transition

SPEC = Spec(
    task="peg",
    observation={"pose": Entry((3,), unit="m", scale=(0.1, 0.1, 0.3)), "touch": Entry((), scale=2.0)},
    action=(Continuous("arm", 2, unit="m", scale=0.01),),
    control_hz=10.0,
    max_episode_steps=50,
    return_range=(0.0, 1.0),
)


def with_entry(name: str, entry: Entry) -> Spec:
    return dataclasses.replace(SPEC, observation={**SPEC.observation, name: entry})


def test_a_spec_survives_json_with_the_same_hash():
    back = Spec.from_json(json.loads(json.dumps(SPEC.to_json())))
    assert back == SPEC
    assert back.hash == SPEC.hash and SPEC.difference(back) == []


def test_prose_and_the_order_of_entries_do_not_count():
    reordered = dataclasses.replace(SPEC, observation={name: SPEC.observation[name] for name in ("touch", "pose")})
    described = with_entry("pose", dataclasses.replace(SPEC.observation["pose"], meaning="of the tool", unit="metre"))
    assert SPEC.hash == reordered.hash == described.hash


def test_a_scale_written_once_or_per_component_is_the_same():
    assert with_entry("pose", Entry((3,), scale=0.1)).hash == with_entry("pose", Entry((3,), scale=(0.1, 0.1, 0.1))).hash


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (with_entry("pose", Entry((4,), scale=0.1)), "observation entry 'pose': shape (3,)"),
        (with_entry("pose", Entry((3,), scale=0.1)), "observation entry 'pose': shape (3,) float32 scale [0.1, 0.1, 0.3] here"),
        (
            with_entry("pose", dataclasses.replace(SPEC.observation["pose"], role="privileged")),
            "scale [0.1, 0.1, 0.3] here, shape (3,) float32 scale [0.1, 0.1, 0.3] role privileged there",
        ),
        (with_entry("wrench", Entry((6,))), "observation entry 'wrench' (6,): only there"),
        (dataclasses.replace(SPEC, observation={"pose": SPEC.observation["pose"]}), "observation entry 'touch' (): only here"),
        (dataclasses.replace(SPEC, control_hz=20), "control_hz: 10.0 here, 20.0 there"),
    ],
)
def test_a_difference_changes_the_hash_and_is_named(other, says):
    assert other.hash != SPEC.hash
    [difference] = SPEC.difference(other)
    assert says in difference


def test_another_reward_is_named_but_keeps_the_hash():
    """A policy trained with one reward acts under the other; data recorded with one is not data of the other."""
    other = dataclasses.replace(SPEC, return_range=None)
    assert other.hash == SPEC.hash and SPEC.difference(other) == ["return_range: [0.0, 1.0] here, None there"]


def test_a_role_follows_from_dtype_and_shape_and_counts_in_the_hash_only_where_it_is_another():
    assert (Entry((3,)).role, Entry((4, 4, 3), "uint8").role, Entry((3,), "float64").role) == ("vector", "image", "vector")
    assert Entry((128,), "uint8").role == "vector"
    assert with_entry("pose", Entry((3,), scale=0.1, role="vector")).hash == with_entry("pose", Entry((3,), scale=0.1)).hash
    hidden = with_entry("pose", Entry((3,), scale=0.1, role="privileged"))
    assert hidden.hash != with_entry("pose", Entry((3,), scale=0.1)).hash
    back = Spec.from_json(json.loads(json.dumps(hidden.to_json())))
    assert back == hidden and back.observation["pose"].role == "privileged"
    before = SPEC.to_json()
    for entry in before["observation"].values():
        del entry["role"]  # as files without roles have it
    assert Spec.from_json(before) == SPEC


def test_a_role_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="role 'picture'; there are vector, image, privileged"):
        Entry((3,), role="picture")
    with pytest.raises(ConfigError, match=r"an image is \(height, width, channels\) uint8, got an entry of shape \(3,\) float32"):
        Entry((3,), role="image")


def test_an_entry_knows_its_size_and_scales():
    assert (SPEC.observation["touch"].size, SPEC.observation["pose"].size, Entry((2, 3)).size) == (1, 3, 6)
    np.testing.assert_allclose(SPEC.observation["pose"].scales(), [0.1, 0.1, 0.3])
    assert SPEC.action_dim == 2


def test_a_transition_is_last_when_the_episode_ended_either_way():
    def step(terminated: bool, truncated: bool) -> Transition:
        return Transition({}, np.zeros(1), 0.0, {}, terminated=terminated, truncated=truncated)

    assert [step(*ends).last for ends in ((False, False), (True, False), (False, True))] == [False, True, True]

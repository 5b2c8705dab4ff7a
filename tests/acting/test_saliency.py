"""What matters in a picture: the part that the action depends on is found, in the picture that people see."""

import dataclasses

import numpy as np

from tandem.acting.actor import Actor
from tandem.acting.saliency import SUFFIX, Saliency, camera_names, overlay, saliency
from tandem.layouts import Layout
from tandem.networks.numpy_policy import acting_policy
from tandem.teleop.operator import HandsOff
from tandem.types import Continuous, Entry, PolicySnapshot, Spec
from tests.acting.counter_env import Link, counters

EYE = Entry((4, 6, 8), "int8", role="features", encoder="e:1", picture=(64, 96, 3))
SPEC = Spec("t", {"eye": EYE, "pose": Entry((1,))}, (Continuous("arm", 1),), 10.0, 100)


def policy_that_looks_at(row: int, column: int) -> PolicySnapshot:
    """Its action is a function of the features of one part of the picture."""
    weight = np.zeros((4, 6, 8, 2), np.float32)
    weight[row, column, :, 0], weight[row, column, :, 1] = 0.3, -0.3
    parameters = {
        "activation": np.array(0),
        "std_range": np.array([1e-6, 1e-5], np.float32),
        "heads/eye/dense/weight": weight.reshape(-1, 2),
        "heads/eye/dense/bias": np.array([0.0, 0.5], np.float32),
        "heads/eye/norm/gain": np.ones(2, np.float32),
        "heads/eye/norm/shift": np.zeros(2, np.float32),
        "trunk/layers/0/weight": np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], np.float32),
        "trunk/layers/0/bias": np.zeros(2, np.float32),
        "mean/weight": np.array([[1.0], [-1.0]], np.float32),
        "mean/bias": np.zeros(1, np.float32),
        "log_std/weight": np.zeros((2, 1), np.float32),
        "log_std/bias": np.full(1, -12.0, np.float32),
    }
    return PolicySnapshot(1, 0, parameters)


def seen() -> dict[str, np.ndarray]:
    return {"eye": np.full((4, 6, 8), 30, np.int8), "pose": np.zeros(1, np.float32)}


def test_the_part_that_the_action_depends_on_is_found_and_no_other() -> None:
    matters = saliency(acting_policy(policy_that_looks_at(2, 5)), Layout(SPEC), seen(), "eye")
    assert matters.shape == (4, 6) and matters[2, 5] > 0.1
    matters[2, 5] = 0
    assert not matters.any()


def test_it_is_red_there_and_the_picture_elsewhere() -> None:
    picture, matters = np.full((64, 96, 3), 100, np.uint8), np.zeros((4, 6))
    matters[1, 2] = 0.5
    shown = overlay(picture, matters)
    assert shown.shape == picture.shape and shown[24, 40, 0] > 180 > 60 > shown[24, 40, 2], "the middle of its 16 x 16 pixels"
    assert (shown[60, 90] == 100).all() and np.array_equal(overlay(picture, np.zeros((4, 6))), picture)
    assert overlay(picture, matters / 50)[24, 40, 0] < 125, "what hardly matters is hardly red"


def test_a_page_can_ask_for_it_once_there_is_a_policy() -> None:
    env, _ = counters()
    actor = Actor(env, Link(), [HandsOff()], source="robot", seed=0, spec=dataclasses.replace(SPEC))
    assert camera_names(actor) == ["eye", "eye (what matters)"]
    over, pictures = Saliency(actor), {"eye": np.full((64, 96, 3), 100, np.uint8)}
    assert over.picture("eye" + SUFFIX, seen(), pictures) == {}, "no policy yet"
    actor.snapshot = policy_that_looks_at(0, 0)
    observation = {**seen(), "eye:picture": pictures["eye"]}
    [(name, shown)] = over.picture("eye" + SUFFIX, observation, pictures).items()
    assert name == "eye (what matters)" and shown[8, 8, 0] > 180 and shown[60, 60, 0] == 100
    assert over.picture("eye", observation, pictures) == over.picture("other (what matters)", observation, pictures) == {}

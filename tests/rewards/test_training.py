"""A classifier learns from labelled frames, and says of held-out episodes how good it is."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.errors import DataError, FileUnreadable, SpecMismatch
from tandem.rewards.classifier import Classifier, parse_classifier, read_classifier
from tandem.rewards.conditions import parse_conditions
from tandem.rewards.training import Frames, TrainingConfig, choose_threshold, split_episodes, train
from tandem.types import Entry
from tests.data.data_samples import SPEC

QUICK = TrainingConfig()


def frames(episodes: int = 20, length: int = 30, stages: int = 1, noise: float = 0.03, seed: int = 0) -> Frames:
    """The third number grows from 0 to 1 in an episode: stage k begins at k / (stages + 1). The others say nothing."""
    rng = np.random.default_rng(seed)
    progress = np.tile(np.linspace(0, 1, length), episodes)
    inputs = rng.normal(0, 1, (episodes * length, 4)).astype(np.float32)
    inputs[:, 2] = progress + rng.normal(0, noise, len(progress))
    stage = np.floor(progress * (stages + 1)).clip(0, stages).astype(int)
    return Frames(inputs, stage, np.repeat(np.arange(episodes), length), np.ones(4, np.float32))


def test_it_learns_and_keeps_its_false_positives_few() -> None:
    trained = train(frames(), ["success"], QUICK)
    figures = trained.figures["stages"]["success"]
    assert figures["precision"] >= 0.98 and figures["recall"] > 0.75 and figures["false_positives_per_1000"] < 10
    assert figures["calibration_error"] < 0.08, "what it says with 0.7 is true in seven of ten"
    new = frames(seed=1)
    said = trained.weights.probabilities(new.inputs)[:, 0] >= trained.thresholds[0]
    assert (said & (new.stage == 0)).sum() <= 3 and said[new.stage == 1].mean() > 0.75


def test_figures_are_of_episodes_that_it_has_not_seen() -> None:
    """Labels that are chance: whoever measures on what was learned finds something, here nothing can be found."""
    chance = frames(episodes=12, length=20)
    labels = np.repeat(np.random.default_rng(3).integers(0, 2, 12), 20)  # the same for a whole episode, which has a mark of its own
    marked = (chance.episode[:, None] == np.arange(12)).astype(np.float32)
    sample = dataclasses.replace(chance, inputs=marked, stage=labels, scale=np.ones(12, np.float32))
    trained = train(sample, ["success"], QUICK)
    right = ((trained.held_out[:, 0] > 0.5) == (labels == 1)).mean()
    known = ((trained.weights.logits(marked)[:, 0] > 0) == (labels == 1)).mean()
    assert right < 0.8 < known, "it knows the episodes it was trained on by their marks, and no other"


def test_every_episode_is_held_out_once_and_successes_are_in_every_round() -> None:
    sample = frames()
    rounds = split_episodes(sample.stage == 1, sample.episode)
    assert all(len(set(rounds[sample.episode == episode])) == 1 for episode in range(20)) and set(rounds) == set(range(5))
    assert all((sample.stage[rounds == number] == 1).any() for number in range(5))


def test_what_no_success_looked_like_has_no_value() -> None:
    """A network says anything far from its frames: without a bound a robot would learn to go there."""
    trained = train(frames(), ["success"], QUICK)
    spec = dataclasses.replace(SPEC, observation={"state": Entry((4,))})
    bounded = Classifier("seated", spec, ("success",), trained.thresholds, trained.weights, alike=trained.alike)
    far = {"state": np.array([[0, 0, 40, 0], [0, 0, 1, 0]], np.float32)}
    free = bounded.changed(alike=None).values(far)[:, 0]
    assert (free > trained.thresholds).all(), "40 is more than 1, says the network"
    assert bounded.values(far)[0, 0] == 0.0 and bounded.values(far)[1, 0] == free[1]


def test_what_is_near_the_frames_but_like_no_success_has_no_value_either() -> None:
    """Successes are near 0 in all inputs but the first, failures below: so above 0, says the network, is all the more a success, and a
    bound around all frames that leaves room for the successes leaves room for this, too."""
    rng = np.random.default_rng(0)
    stage, episode = np.tile([1, 0, 0, 0], 50), np.repeat(np.arange(50), 4)
    inputs = rng.uniform(-1, 0, (200, 8)).astype(np.float32)
    inputs[:, 0] = np.where(stage == 1, 2.0, -2.0) + rng.normal(0, 0.5, 200)
    inputs[stage == 1, 1:] *= 0.05
    trained = train(Frames(inputs, stage, episode, np.ones(8, np.float32)), ["success"], QUICK)
    spec = dataclasses.replace(SPEC, observation={"state": Entry((8,))})
    made = Classifier("seated", spec, ("success",), trained.thresholds, trained.weights, alike=trained.alike)
    seated, elsewhere = np.array([2.0] + [0.0] * 7, np.float32), np.array([1.8] + [0.05] * 7, np.float32)
    values = made.values({"state": np.stack([seated, elsewhere])})[:, 0]
    assert made.changed(alike=None).values({"state": elsewhere[None]})[0, 0] > trained.thresholds[0], "the network alone would pay"
    assert values[0] > trained.thresholds[0] and values[1] == 0.0
    again = parse_classifier(made.to_bytes(), "the file")
    assert np.array_equal(again.values({"state": np.stack([seated, elsewhere])})[:, 0], values)


def test_several_stages_have_a_threshold_each() -> None:
    trained = train(frames(stages=2, episodes=25), ["grasped", "seated"], QUICK)
    values = trained.weights.probabilities(np.array([[0, 0, 0.1, 0], [0, 0, 0.57, 0], [0, 0, 0.95, 0]], np.float32))
    assert (values >= trained.thresholds).tolist() == [[False, False], [True, False], [True, True]]
    assert set(trained.figures["stages"]) == {"grasped", "seated"}


def test_the_threshold_lets_through_as_many_failures_as_were_asked_for() -> None:
    values = np.array([0.1, 0.2, 0.6, 0.8, 0.7, 0.9, 0.95])
    success = np.array([False, False, False, False, True, True, True])
    assert choose_threshold(values, success, 0.0) == pytest.approx(0.85), "between the failure of 0.8 and the success of 0.9"
    assert choose_threshold(values, success, 0.25) == pytest.approx(0.65), "one of four failures may be above"
    assert choose_threshold(values, success, 1.0) == 0.5


def test_too_few_episodes_are_refused_with_their_number() -> None:
    sample = frames(episodes=1)
    with pytest.raises(DataError, match="of 1 episodes, those that have not of 1: at least two"):
        train(sample, ["success"], QUICK)


# ---- the file


def classifier(**settings: Any) -> Classifier:
    sample = frames(episodes=8)
    trained = train(sample, ["success"], dataclasses.replace(QUICK, updates=60))
    return Classifier(
        "seated", SPEC, ("success",), trained.thresholds, trained.weights, usual=trained.usual, figures=trained.figures, **settings
    )


def test_a_file_gives_back_the_same_classifier(tmp_path: Path) -> None:
    one = classifier(hold_s=0.5, conditions=parse_conditions(b"[[stage]]\nconditions=['touch > 1']", "file"))
    one.write(tmp_path / "seated.safetensors")
    again = read_classifier(tmp_path / "seated.safetensors")
    look = {"pose": np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32), "touch": np.arange(9, dtype=np.float32)}
    np.testing.assert_array_equal(one.values(look), again.values(look))
    assert (again.name, again.hold_s, again.stages) == (one.name, 0.5, ("success",))
    free = one.changed(conditions=None).values(look)
    assert free[:2].any() and not again.values(look)[:2].any(), "a touch of 0 or 1 is not allowed by the condition"
    np.testing.assert_array_equal(again.values(look)[2:], free[2:])
    assert again.changed(thresholds=(0.9,)).name != one.name


def test_a_damaged_file_is_refused_and_nothing_in_it_is_run(tmp_path: Path) -> None:
    data = classifier().to_bytes()
    for broken in (b"", b"\x80\x04cos\nsystem\n", data[: len(data) // 2], data.replace(b"thresholds", b"tresholds")):
        with pytest.raises(FileUnreadable, match="no reward classifier"):
            parse_classifier(broken, "the file")
    with pytest.raises(SpecMismatch, match="looks at 'pose', which 'peg' does not observe"):
        classifier().require(dataclasses.replace(SPEC, observation={"touch": SPEC.observation["touch"]}))

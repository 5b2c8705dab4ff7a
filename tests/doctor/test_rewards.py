"""What the doctor finds in the rewards of a classifier: drift, and people who contradict it; and nothing in a healthy run."""

from itertools import pairwise

import numpy as np

from tandem.doctor.checks import rewards
from tandem.doctor.records import JournalFigures, Records
from tandem.doctor.texts import LANGUAGES, describe
from tandem.rewards.classifier import Classifier
from tandem.rewards.labels import Label
from tandem.rewards.training import Frames, TrainingConfig, train
from tandem.types import Continuous, Entry, Spec, Transition

SPEC = Spec("t", {"pose": Entry((4,))}, (Continuous("arm", 1),), 10.0, 100, (0.0, 1.0))
SAID = "a person, who says that the reward was wrong"


def classifier() -> Classifier:
    inputs = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    frames = Frames(inputs, (inputs[:, 0] > 0).astype(int), np.repeat(np.arange(20), 20), np.ones(4, np.float32))
    made = train(frames, ["success"], TrainingConfig(updates=50))
    return Classifier("seated", SPEC, ("success",), made.thresholds, made.weights, usual=made.usual, figures=made.figures)


def records(shift: float = 0.0, labels: tuple[Label, ...] = ()) -> Records:
    looks = np.random.default_rng(1).normal(shift, 1, (301, 4)).astype(np.float32)
    steps = [Transition({"pose": a}, np.zeros(1, np.float32), 0.0, {"pose": b}, False, False) for a, b in pairwise(looks)]
    journal = JournalFigures(len(steps), 0, [], [], 1000, steps, [steps])
    return Records(now=0.0, task="t", spec=SPEC, journal=journal, classifier=classifier(), reward_labels=labels)


def test_drift_is_found_and_a_healthy_run_has_none() -> None:
    assert rewards.reward_drifted(records()) is None
    found = rewards.reward_drifted(records(shift=2.0))
    assert found is not None and found.facts["far"] > 0.5
    for lang in LANGUAGES:
        assert describe(found, lang, {"run": "RUN", "task": "t"}).evidence


def test_people_who_contradict_are_counted() -> None:
    wrong, missed = Label("failure", SAID), Label("success", "a person, during the run")
    failed = Label("failure", "a person, during the run")
    assert rewards.reward_contradicted(records(labels=(wrong, missed, failed))) is None, "two of them, and a failure that it saw too"
    found = rewards.reward_contradicted(records(labels=(wrong, wrong, missed)))
    assert found is not None and (found.facts["taken_back"], found.facts["missed"]) == (2, 1)

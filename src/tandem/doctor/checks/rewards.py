"""Checks on the reward of a run that a classifier gives: does it still see what it was trained on, and do people agree with it?"""

from __future__ import annotations

import numpy as np

from tandem.doctor import limits
from tandem.doctor.findings import WARNING, Finding, Share
from tandem.doctor.records import Records
from tandem.rewards.recompute import stacked


def reward_contradicted(records: Records) -> Finding | None:
    """A person has taken back successes of the classifier, or given ones that it missed."""
    if records.classifier is None or not records.reward_labels:
        return None
    taken_back = sum("wrong" in given.by for given in records.reward_labels)
    missed = sum(given.label != "failure" for given in records.reward_labels)
    if taken_back + missed < limits.CONTRADICTIONS:
        return None
    return Finding("reward_contradicted", WARNING, {"name": records.classifier.name, "taken_back": taken_back, "missed": missed})


def reward_drifted(records: Records) -> Finding | None:
    """What the robot observes now is farther from the frames of the training than those were from each other."""
    made, steps = records.classifier, records.journal.tail if records.journal is not None else ()
    if made is None or len(steps) < limits.ENOUGH_STEPS:
        return None
    distance = made.distance(stacked([step.next_observation for step in steps], list(made.entries)))
    far = float((distance > made.usual[1]).mean())
    if far < limits.REWARD_FAR:
        return None
    facts = {"name": made.name, "far": Share(far), "steps": len(steps), "now": float(np.median(distance)), "then": made.usual[0]}
    return Finding("reward_drifted", WARNING, facts)

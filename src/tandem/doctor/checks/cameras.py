"""Checks on what the cameras of a run show, by the features that its steps hold. In a run without cameras they find nothing.

An encoder is fitted on the demonstrations, where every feature varies with a standard deviation of 1: what does not vary now, or looks
like another camera did then, is not what it was fitted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tandem.doctor import limits
from tandem.doctor.findings import PROBLEM, WARNING, Finding, Share
from tandem.doctor.records import Records
from tandem.layouts import Layout
from tandem.networks.encoders import END_TO_END, FEATURE_SCALE
from tandem.types import Transition


def _cameras(records: Records) -> list[str]:
    return [name for name, entry in records.spec.observation.items() if entry.role == "features"]


def _tail(records: Records) -> Sequence[Transition]:
    return records.journal.tail if records.journal is not None else ()


def encoder_differs(records: Records) -> Finding | None:
    """The encoder in the run folder is not the one that made the features of its spec."""
    for name in _cameras(records):
        expected = records.spec.observation[name].encoder
        if records.encoder and records.encoder != expected:
            return Finding("encoder_differs", PROBLEM, {"camera": name, "expected": expected, "found": records.encoder})
    return None


def camera_frozen(records: Records) -> Finding | None:
    """The robot moves, and the picture does not."""
    steps = _tail(records)
    if len(steps) < limits.ENOUGH_STEPS or not _cameras(records):
        return None
    layout = Layout(records.spec)
    moved = [step for step in steps if layout.size and _motion(layout, step) > limits.CAMERA_MOVED]
    for name in _cameras(records):
        still = sum(np.array_equal(step.observation[name], step.next_observation[name]) for step in moved)
        if len(moved) >= limits.ENOUGH_STEPS // 2 and still > limits.CAMERA_FROZEN * len(moved):
            return Finding("camera_frozen", PROBLEM, {"camera": name, "still": still, "moved": len(moved)})
    return None


def camera_blind(records: Records) -> Finding | None:
    """Features that hardly vary: a black, covered or over-exposed camera."""
    steps = _tail(records)
    if len(steps) < limits.ENOUGH_STEPS:
        return None
    for name in _cameras(records):
        if records.spec.observation[name].encoder.startswith(END_TO_END):
            continue  # the pictures themselves: of a camera that stands, most of them never changes
        spread = float(_features(steps, name).std(axis=0).mean())
        if spread < limits.CAMERA_BLIND:
            return Finding("camera_blind", PROBLEM, {"camera": name, "spread": Share(spread), "steps": len(steps)})
    return None


def camera_late(records: Records) -> Finding | None:
    """What a camera shows changes with the motion of some steps ago."""
    steps, layout = _tail(records), Layout(records.spec)
    if len(steps) < limits.ENOUGH_STEPS or not layout.size or not _cameras(records):
        return None
    episodes: dict[tuple[str, int], list[Transition]] = {}
    for step in steps:
        episodes.setdefault((step.source, step.episode), []).append(step)
    moved = [[_motion(layout, step) for step in episode] for episode in episodes.values()]
    for name in _cameras(records):
        seen = [[_change(step, name) for step in episode] for episode in episodes.values()]
        agreement = [_agreement(moved, seen, lag) for lag in range(limits.CAMERA_LATE_MOST + 1)]
        lag = int(np.argmax(agreement))
        clear = agreement[lag] > limits.CAMERA_LATE_AGREES and agreement[lag] - agreement[0] > limits.CAMERA_LATE_CLEAR
        if lag >= limits.CAMERA_LATE and clear:
            seconds = lag / records.spec.control_hz
            return Finding("camera_late", WARNING, {"camera": name, "steps": lag, "ms": 1e3 * seconds, "agrees": agreement[lag]})
    return None


def _motion(layout: Layout, step: Transition) -> float:
    return float(np.abs(layout.flatten(step.next_observation) - layout.flatten(step.observation)).max())


def _change(step: Transition, name: str) -> float:
    before, after = (entries[name].astype(np.float32) for entries in (step.observation, step.next_observation))
    return float(np.sqrt(np.square(after - before).mean())) / FEATURE_SCALE


def _agreement(moved: Sequence[Sequence[float]], seen: Sequence[Sequence[float]], lag: int) -> float:
    """Correlation of motion and the change of pictures `lag` steps later, over all episodes."""
    pairs = [pair for motion, change in zip(moved, seen, strict=True) for pair in zip(motion, change[lag:], strict=False)]
    one, other = np.array(pairs, float).reshape(-1, 2).T
    if len(pairs) < limits.ENOUGH_STEPS // 2 or not one.std() or not other.std():
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def camera_exposed(records: Records) -> Finding | None:
    """Much of the picture is as white as it can be: nothing can be told apart there."""
    for name, pictures in (records.journal.pictures if records.journal is not None else {}).items():
        white = float(np.mean([(picture.min(axis=-1) >= 254).mean() for picture in pictures]))
        if white > limits.CAMERA_EXPOSED:
            return Finding("camera_exposed", WARNING, {"camera": name, "white": Share(white), "pictures": len(pictures)})
    return None


def cameras_swapped(records: Records) -> Finding | None:
    """At the start of an episode two cameras show what the other one showed in the demonstrations."""
    now = [step for step in _tail(records) if step.step == 0]
    shown = [step for file in records.demos or () for step in file.starts if file.spec and not records.spec.data_difference(file.spec)]
    if len(now) < limits.CAMERA_EPISODES or len(shown) < limits.CAMERA_EPISODES:
        return None
    for one, other in combinations(_cameras(records), 2):
        if records.spec.observation[one].shape != records.spec.observation[other].shape:
            continue
        own = _distance(now, one, shown, one) + _distance(now, other, shown, other)
        crossed = _distance(now, one, shown, other) + _distance(now, other, shown, one)
        if own > limits.CAMERA_SWAPPED * crossed:
            return Finding("cameras_swapped", WARNING, {"one": one, "other": other, "own": own, "crossed": crossed})
    return None


def _features(steps: Sequence[Transition], name: str) -> np.ndarray:
    """(n, features), in standard deviations of the demonstrations."""
    return np.stack([step.observation[name].reshape(-1) for step in steps]).astype(np.float32) / FEATURE_SCALE


def _distance(now: Sequence[Transition], camera: str, shown: Sequence[Transition], other: str) -> float:
    """Between the mean pictures, root mean square over the features."""
    return float(np.sqrt(np.square(_features(now, camera).mean(axis=0) - _features(shown, other).mean(axis=0)).mean()))

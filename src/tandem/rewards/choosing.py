"""Which frames a person should label: those that a classifier is least sure of; without one, the ends of episodes and some between."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tandem.errors import DataError
from tandem.rewards.classifier import Classifier
from tandem.rewards.labels import FAILURE, Frame, Label
from tandem.rewards.recompute import stacked
from tandem.rewards.stored import Stored, StoredEpisode
from tandem.types import Observation

LAST = 3
"""Frames at the end of an episode that are offered first: there success is seen, or missing."""
BETWEEN = 5
"""Frames of each episode between its start and its end, evenly spaced."""
APART = 3
"""Frames between two of an episode that are offered: neighbours look alike."""


@dataclass(frozen=True)
class Candidate:
    """A frame to be labelled."""

    frame: Frame
    observation: Observation
    number: int
    """Number of the episode, through all files from 0."""
    of: int
    """Frames of the episode."""
    values: Mapping[str, float]
    """How sure the classifier is of each stage; empty without one."""
    order: float
    """The lowest comes first."""
    cameras: tuple[str, ...] = ()
    """Whose pictures can be looked at."""
    look: Callable[[Frame], Observation] = field(default=lambda frame: {}, compare=False)
    """Reads pictures that are not in the observation: a run learns from features, and keeps its pictures for people."""

    def pictures(self) -> Observation:
        """What each of the cameras showed, (height, width, channels) uint8."""
        here = {name: values for name, values in self.observation.items() if is_picture(values)}
        return here or self.look(self.frame)


def is_picture(values: np.ndarray) -> bool:
    return values.dtype == np.uint8 and values.ndim == 3


def candidates(stored: Stored, known: Mapping[Frame, Label], classifier: Classifier | None, most: int) -> list[Candidate]:
    """At most so many frames that have no label yet, the most useful first."""
    if classifier is not None:
        classifier.require(stored.spec)
    found: list[Candidate] = []
    for number, episode in enumerate(stored.episodes()):
        labelled = {frame.frame % len(episode) for frame in known if (frame.source, frame.episode) == episode.name}
        found += _ends_first(episode, number, labelled) if classifier is None else _unsure_first(episode, number, labelled, classifier)
        found = sorted(found, key=lambda candidate: candidate.order)[:most]  # of a large file only these stay in memory
    if not found:
        return []
    seen = [dataclasses.replace(candidate, look=stored.pictures) for candidate in found]
    cameras = tuple(seen[0].pictures())
    return [dataclasses.replace(candidate, cameras=cameras) for candidate in seen]


def _ends_first(episode: StoredEpisode, number: int, labelled: set[int]) -> list[Candidate]:
    last = len(episode) - 1
    ends = [last - back for back in range(LAST) if last - back >= 0]
    between = np.linspace(0, last, BETWEEN + 2, dtype=int)[:-1].tolist()
    order = dict.fromkeys([*ends, *between])
    return [_candidate(episode, number, frame, {}, rank) for rank, frame in enumerate(order) if frame not in labelled]


def _unsure_first(episode: StoredEpisode, number: int, labelled: set[int], classifier: Classifier) -> list[Candidate]:
    values = classifier.values(stacked([episode.frame(frame) for frame in range(len(episode))], list(classifier.looks_at)))
    unsure = np.abs(_logit(values) - _logit(np.array(classifier.thresholds))).min(axis=1)
    chosen: list[int] = []
    for frame in np.argsort(unsure).tolist():
        if frame not in labelled and all(abs(frame - other) >= APART for other in chosen):
            chosen.append(frame)
    named = [dict(zip(classifier.stages, map(float, values[frame]), strict=True)) for frame in chosen]
    return [_candidate(episode, number, frame, value, float(unsure[frame])) for frame, value in zip(chosen, named, strict=True)]


def _logit(p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-6, 1 - 1e-6)
    return np.log(p / (1 - p))


def _candidate(episode: StoredEpisode, number: int, frame: int, values: Mapping[str, float], order: float) -> Candidate:
    return Candidate(Frame(*episode.name, frame), episode.frame(frame), number, len(episode), values, order)


def labels_by_success(stored: Stored, stage: str, last: int, every: int) -> dict[Frame, Label]:
    """Labels from the file's own success: the last frames of episodes that succeeded, and every so many of all others as failures.

    Where a success ends the episode at once, the frames just before it are almost one: `last` + 2 frames before it stay without a label.
    """
    found: dict[Frame, Label] = {}
    for episode in stored.episodes():
        end = len(episode)
        if episode.succeeded:
            found |= {Frame(*episode.name, frame): Label(stage, "success of the file") for frame in range(max(1, end - last), end)}
        until = end - last - 2 if episode.succeeded else end
        found |= {Frame(*episode.name, frame): Label(FAILURE, "success of the file") for frame in range(0, until, every)}
    return found


def labels_by_place(stored: Stored, places: list[tuple[int, int, int, str]]) -> dict[Frame, Label]:
    """Labels of frames first to last (with it) of episodes, by the number of the episode through all files."""
    found: dict[Frame, Label] = {}
    count = 0
    for number, episode in enumerate(stored.episodes()):
        count += 1
        for wanted, first, last, label in places:
            if wanted == number:
                if not 0 <= first <= last < len(episode):
                    raise DataError(f"episode {number} has frames 0 to {len(episode) - 1}; asked for {first} to {last}")
                found |= {Frame(*episode.name, frame): Label(label, "terminal") for frame in range(first, last + 1)}
    missing = sorted({wanted for wanted, *_ in places if wanted >= count})
    if missing:
        raise DataError(f"there is no episode {missing[0]}; the files have {count}, counted from 0")
    return found

"""The pictures of a file of demonstrations: black, frozen, or of the other camera?"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from tandem.data.figures import EpisodeFigures, Figures
from tandem.doctor import limits
from tandem.doctor.checks.demo_episodes import places
from tandem.doctor.checks.demo_numbers import measured, named
from tandem.doctor.findings import PROBLEM, WARNING, Finding, Share
from tandem.doctor.records import Records


def _cameras(figures: Figures) -> list[str]:
    return list(figures.episodes[0].pictures)


def demos_pictures_black(records: Records) -> Finding | None:
    for file, figures in measured(records):
        for camera in _cameras(figures):
            shown = [episode.pictures[camera] for episode in figures.episodes]
            black = [(each.brightness < limits.BLACK_BRIGHTNESS) & (each.contrast < limits.BLACK_CONTRAST) for each in shown]
            share, first = float(np.concatenate(black).mean()), sum(bool(each[0]) for each in black)
            if share > limits.BLACK_SHARE or first:
                facts = {"camera": camera, "share": Share(share), "first": first or None, "episodes": len(black)}
                return Finding("demos_pictures_black", PROBLEM if share > 0.5 else WARNING, {**named(file), **facts})
    return None


def demos_pictures_frozen(records: Records) -> Finding | None:
    """The robot moves, and the picture is the same to the last bit."""
    for file, figures in measured(records):
        for camera in _cameras(figures):
            moved = np.concatenate([_moved(episode, figures) for episode in figures.episodes])
            same = np.concatenate([np.diff(episode.pictures[camera].digests) == 0 for episode in figures.episodes])
            still = int((moved & same).sum())
            if moved.sum() >= limits.FROZEN_RUN and still > limits.PICTURE_STILL * moved.sum():
                per = [(_moved(episode, figures) & (np.diff(episode.pictures[camera].digests) == 0)).sum() for episode in figures.episodes]
                numbers = np.flatnonzero(per).tolist()
                facts = {"camera": camera, "share": Share(still / int(moved.sum())), "still": still, "moved": int(moved.sum())}
                return Finding("demos_pictures_frozen", WARNING, {**named(file), **facts, "places": places(numbers)})
    return None


def _moved(episode: EpisodeFigures, figures: Figures) -> np.ndarray:
    """Steps in which any number changes by more than noise, or, without numbers, in which a motion was commanded."""
    if not figures.channels:
        return np.asarray(np.any(np.abs(episode.actions[:, figures.moving]) > limits.COMMANDED, axis=1))
    reach = np.ptp(figures.numbers, axis=0)
    return (np.abs(episode.changes) > 0.01 * np.maximum(reach, 1e-9)).any(axis=1)


def demos_pictures_swapped(records: Records) -> Finding | None:
    """In some episodes each of two cameras shows what the other one shows in the rest."""
    for file, figures in measured(records):
        for one, other in combinations(_cameras(figures), 2):
            means = {name: np.stack([each.pictures[name].thumbnails.mean(axis=0) for each in figures.episodes]) for name in (one, other)}
            if means[one].shape != means[other].shape or len(figures.episodes) < limits.GROUP_EPISODES:
                continue
            usual = {name: np.median(values, axis=0) for name, values in means.items()}
            own = [np.linalg.norm(means[name] - usual[name], axis=1) for name in (one, other)]
            crossed = [np.linalg.norm(means[one] - usual[other], axis=1), np.linalg.norm(means[other] - usual[one], axis=1)]
            swapped = np.all([mine > limits.PICTURES_SWAPPED * theirs for mine, theirs in zip(own, crossed, strict=True)], axis=0)
            numbers = np.flatnonzero(swapped).tolist()
            if numbers:
                facts = {"one": one, "other": other, "count": len(numbers), "episodes": len(figures.episodes), "places": places(numbers)}
                return Finding("demos_pictures_swapped", WARNING, {**named(file), **facts, "these": ",".join(map(str, numbers))})
    return None

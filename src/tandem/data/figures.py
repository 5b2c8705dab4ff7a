"""A file of demonstrations in numbers: small enough to keep of a file of any size, and all that a check needs.

Of every step its numbers stay as they are. Of every picture stay a hash, its brightness and contrast, and a thumbnail of 8 by 8.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from tandem.data.frames import pictures_of
from tandem.layouts import ActionLayout
from tandem.types import Continuous, Observation, Spec, Transition

THUMBNAIL = 8
HOLDS = 0.5
HARDLY_EVER = 0.02
"""An axis that keeps its value from one step to the next in more than half of the steps, and is hardly ever 0, holds a command, as an
absolute gripper does."""


@dataclass(frozen=True)
class Pictures:
    """What one camera showed in an episode: T + 1 pictures, before the first step and after each."""

    digests: np.ndarray
    """(T + 1,) uint64"""
    brightness: np.ndarray
    """(T + 1,) mean, 0 to 255"""
    contrast: np.ndarray
    """(T + 1,) standard deviation"""
    thumbnails: np.ndarray
    """(T + 1, 8 * 8 * channels) float32"""


@dataclass(frozen=True)
class EpisodeFigures:
    """One episode of T steps."""

    name: tuple[str, int]
    """Source and number."""
    steps: np.ndarray
    """(T,) numbers of the steps"""
    numbers: np.ndarray
    """(T + 1, channels) float32: every number of the observations, after the last step too"""
    actions: np.ndarray
    """(T, action_dim)"""
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    success: np.ndarray
    intervened: np.ndarray
    """(T,) each"""
    joined: np.ndarray
    """(T,) whether the step leads to where the next one begins; true for the last"""
    copied: np.ndarray
    """(T,) whether everything after the step is exactly as before it, pictures too"""
    pictures: Mapping[str, Pictures] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def succeeded(self) -> bool:
        return bool(self.success.any())

    @property
    def changes(self) -> np.ndarray:
        """(T, channels): how much each number changes in each step."""
        return np.diff(self.numbers, axis=0)


@dataclass(frozen=True)
class Figures:
    """All episodes of a file."""

    spec: Spec
    channels: tuple[str, ...]
    """The name of every number of the observations: `tcp_pose[2]`, `touch`"""
    episodes: Sequence[EpisodeFigures]

    @cached_property
    def steps(self) -> int:
        return sum(len(episode) for episode in self.episodes)

    @cached_property
    def actions(self) -> np.ndarray:
        """(steps, action_dim)"""
        return np.concatenate([episode.actions for episode in self.episodes])

    @cached_property
    def numbers(self) -> np.ndarray:
        """(steps, channels): the observations that the actions answer to"""
        return np.concatenate([episode.numbers[:-1] for episode in self.episodes])

    @cached_property
    def rewards(self) -> np.ndarray:
        return np.concatenate([episode.rewards for episode in self.episodes])

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.array([len(episode) for episode in self.episodes])

    @cached_property
    def starts(self) -> np.ndarray:
        """(episodes, channels)"""
        return np.stack([episode.numbers[0] for episode in self.episodes])

    @cached_property
    def holding(self) -> np.ndarray:
        """(action_dim,): axes that hold a command, as an absolute gripper does: there 0 is a place and not "no motion"."""
        return holding_axes(self.spec, [episode.actions for episode in self.episodes])

    @cached_property
    def moving(self) -> np.ndarray:
        """(action_dim,): axes of which 0 is no motion."""
        return ~self.holding


def measure(spec: Spec, episodes: Iterable[Sequence[Transition]], *, pictures: bool = True) -> Figures:
    """The figures of these episodes, which are looked at one after the other and not kept."""
    names = [name for name, entry in spec.observation.items() if entry.role not in ("image", "features")]
    channels = tuple(channel for name in names for channel in _channels(name, spec.observation[name].shape))
    cameras = list(pictures_of(spec)) if pictures else []
    return Figures(spec, channels, [_episode(steps, names, cameras) for steps in episodes if steps])


def holding_axes(spec: Spec, actions: Sequence[np.ndarray]) -> np.ndarray:
    """Which axes hold a command, from the actions of each episode; a file does not always say what its axes are."""
    everything = np.concatenate(actions)
    always = (everything == 0).mean(axis=0) < HARDLY_EVER
    return gripper_axes(spec, actions) | (_kept(actions) & (everything != everything[:1]).any(axis=0) & always)


def gripper_axes(spec: Spec, actions: Sequence[np.ndarray]) -> np.ndarray:
    """Axes that are declared as absolute or discrete. Where nobody names the axes, the last of several is the gripper if it holds its
    commands, as in hil-serl; its idle frames may hold a 0 that was not executed."""
    layout = ActionLayout.of(spec)
    last = (np.arange(layout.size) == layout.size - 1) & (len(spec.action) == 1 and layout.size > 3)
    return layout.stays | layout.is_discrete | (last & _kept(actions))


def _kept(actions: Sequence[np.ndarray]) -> np.ndarray:
    before, after = (np.concatenate([each[part] for each in actions]) for part in (slice(None, -1), slice(1, None)))
    commanding = (before != 0) & (after != 0)
    return ((before == after) & commanding).sum(axis=0) > HOLDS * np.maximum(commanding.sum(axis=0), 1)


def idle_steps(actions: np.ndarray, holding: np.ndarray, within: float) -> np.ndarray:
    """(steps,): no axis moves by more than this. Where every axis holds a command, nobody can tell."""
    moving = ~holding
    return np.asarray(np.all(np.abs(actions[:, moving]) < within, axis=1)) if moving.any() else np.zeros(len(actions), bool)


def action_names(spec: Spec) -> list[str]:
    """What each column of an action is called."""
    named = []
    for part in spec.action:
        axes = part.axes if isinstance(part, Continuous) and len(part.axes) == part.size else ()
        named += list(axes) or ([part.name] if part.size == 1 else [f"{part.name}[{axis}]" for axis in range(part.size)])
    return named


def _channels(name: str, shape: tuple[int, ...]) -> list[str]:
    if not shape:
        return [name]
    return [f"{name}[{','.join(str(i) for i in place)}]" for place in np.ndindex(shape)]


def _episode(steps: Sequence[Transition], names: list[str], cameras: list[str]) -> EpisodeFigures:
    looks = [step.observation for step in steps] + [steps[-1].next_observation]
    numbers = [np.concatenate([np.reshape(look[name], -1) for name in names] or [np.zeros(0)]).astype(np.float32) for look in looks]
    return EpisodeFigures(
        name=(steps[0].source, steps[0].episode),
        steps=np.array([step.step for step in steps]),
        numbers=np.stack(numbers),
        actions=np.stack([step.action.reshape(-1) for step in steps]),
        rewards=np.array([step.reward for step in steps], float),
        terminated=np.array([step.terminated for step in steps], bool),
        truncated=np.array([step.truncated for step in steps], bool),
        success=np.array([bool(step.success) for step in steps]),
        intervened=np.array([step.intervened for step in steps], bool),
        joined=np.array([_equal(a.next_observation, b.observation) for a, b in pairwise(steps)] + [True]),
        copied=np.array([_equal(step.observation, step.next_observation) for step in steps]),
        pictures={name: _pictures([look[name] for look in looks]) for name in cameras},
    )


def _equal(one: Observation, other: Observation) -> bool:
    return all(one[name] is other[name] or np.array_equal(one[name], other[name]) for name in one)


def _pictures(looks: Sequence[np.ndarray]) -> Pictures:
    figures = [_picture(look) for look in looks]
    digests, brightness, contrast, thumbnails = zip(*figures, strict=True)
    return Pictures(np.array(digests, np.uint64), np.array(brightness), np.array(contrast), np.stack(thumbnails))


def _picture(picture: np.ndarray) -> tuple[int, float, float, np.ndarray]:
    digest = int.from_bytes(hashlib.blake2b(picture.tobytes(), digest_size=8).digest(), "little")
    height, width, channels = picture.shape
    tall, wide = min(height, THUMBNAIL), min(width, THUMBNAIL)
    rows, columns = height // tall, width // wide
    blocks = picture[: rows * tall, : columns * wide].reshape(tall, rows, wide, columns, channels)
    return digest, float(picture.mean()), float(picture.std()), blocks.mean(axis=(1, 3), dtype=np.float32).reshape(-1)

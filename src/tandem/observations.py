"""From named entries to the one vector that networks see. Replay, actors and evaluation all flatten here.

For entries `pose` (3,) with scale 0.1 and `touch` () with offset 3 and scale 2 the vector is
`[pose[0] / 0.1, pose[1] / 0.1, pose[2] / 0.1, (touch - 3) / 2]`, each clipped to plus and minus 5.
Entries are in the order of their names, not of the spec: two specs with the same hash have the same vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tandem.errors import ConfigError
from tandem.types import OBSERVATION_CLIP, Observation, Spec

LARGEST_BLOCK = 1000
"""Numbers of an entry with three axes; more of them are a picture, which a network without convolutions cannot learn from."""


def flatten(spec: Spec, observation: Observation) -> np.ndarray:
    """The scaled vector of an observation, `(..., D)` float32; for many of one spec keep a `Layout`."""
    return Layout(spec).flatten(observation)


def require_roles(spec: Spec, learner: str, handled: Sequence[str] = ("vector",)) -> None:
    """Refuse a task with an entry that this learner cannot learn from; an entry that is silently left out would look like learning."""
    for name, entry in spec.observation.items():
        if entry.role not in handled:
            raise ConfigError(
                f"{learner} cannot learn from the observation entry '{name}' of '{spec.task}': its role is '{entry.role}' (shape "
                f"{entry.shape} {entry.dtype}), and {learner} handles {', '.join(handled)}. {_why(entry.role)}Leave the entry out of the "
                f"environment, in a wrapper for example."
            )
        if len(entry.shape) == 3 and entry.size > LARGEST_BLOCK and entry.role == "vector":
            raise ConfigError(
                f"{learner} cannot learn from the observation entry '{name}' of '{spec.task}': its shape {entry.shape} {entry.dtype} is "
                f"that of a picture, and pictures are not learned from yet. Leave it out of the environment."
            )
        if entry.dtype != "float32":
            raise ConfigError(
                f"{learner} learns from float32 numbers, and the observation entry '{name}' of '{spec.task}' has dtype {entry.dtype}: "
                f"convert it in the environment, or leave it out."
            )


def _why(role: str) -> str:
    return "Pictures are not learned from yet. " if role == "image" else ""


class Layout:
    """Where the entries of a spec lie in the vector."""

    def __init__(self, spec: Spec):
        entries = {name: spec.observation[name] for name in sorted(spec.observation)}
        self.names = tuple(name for name, entry in entries.items() if entry.dtype == "float32")
        self.raw_names = tuple(name for name in entries if name not in self.names)
        """Entries that are kept as they are (images): a scale and a clip would only blow them up."""
        scales = [entries[name].scales().ravel() for name in self.names]
        self.scales = np.concatenate(scales, dtype=np.float32) if scales else np.zeros(0, np.float32)  # (D,)
        offsets = [entries[name].offsets().ravel() for name in self.names]
        self.offsets = np.concatenate(offsets, dtype=np.float32) if offsets else np.zeros(0, np.float32)  # (D,)
        self._centred = bool(np.any(self.offsets))
        self.size = len(self.scales)
        self._first = next(iter(entries), None)
        self._axes = {name: len(entry.shape) for name, entry in entries.items()}
        self._sizes = [(name, entries[name].size) for name in self.names]

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """Where these entries lie in the vector."""
        offsets = np.cumsum([0, *(size for _, size in self._sizes)])
        places = {name: np.arange(start, start + size) for (name, size), start in zip(self._sizes, offsets, strict=False)}
        for name in names:
            if name not in places:
                kept = " (it is not float32, and kept as it is)" if name in self.raw_names else ""
                raise ConfigError(f"no observation entry '{name}'{kept}; there are {', '.join(self.names) or 'none'}")
        return np.concatenate([places[name] for name in sorted(set(names))]) if names else np.zeros(0, int)

    def flatten(self, observation: Observation, clip: float = OBSERVATION_CLIP) -> np.ndarray:
        """`(..., D)` for entries of shape `(..., *shape)`, a new array."""
        lead = self._lead(observation)
        if not self.names:
            return np.zeros((*lead, 0), np.float32)
        flat = np.concatenate([observation[name].reshape(*lead, size) for name, size in self._sizes], axis=-1, dtype=np.float32)
        if self._centred:
            flat -= self.offsets
        flat /= self.scales
        if clip == np.inf:
            return flat
        np.maximum(flat, -clip, out=flat)
        return np.minimum(flat, clip, out=flat)

    def _lead(self, observation: Observation) -> tuple[int, ...]:
        """The axes in front of an entry's own: none for one robot, (N,) for N."""
        if self._first is None:
            return ()
        shape = observation[self._first].shape
        return shape[: len(shape) - self._axes[self._first]]

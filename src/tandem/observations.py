"""From named entries to the one vector that networks see. Replay, actors and evaluation all flatten here.

For entries `pose` (3,) with scale 0.1 and `touch` () with scale 2 the vector is
`[pose[0] / 0.1, pose[1] / 0.1, pose[2] / 0.1, touch / 2]`, each clipped to plus and minus 5.
Entries are in the order of their names, not of the spec: two specs with the same hash have the same vector.
"""

from __future__ import annotations

import numpy as np

from tandem.types import OBSERVATION_CLIP, Observation, Spec


def flatten(spec: Spec, observation: Observation) -> np.ndarray:
    """The scaled vector of an observation, `(..., D)` float32; for many of one spec keep a `Layout`."""
    return Layout(spec).flatten(observation)


class Layout:
    """Where the entries of a spec lie in the vector."""

    def __init__(self, spec: Spec):
        entries = {name: spec.observation[name] for name in sorted(spec.observation)}
        self.names = tuple(name for name, entry in entries.items() if entry.dtype == "float32")
        self.raw_names = tuple(name for name in entries if name not in self.names)
        """Entries that are kept as they are (images): a scale and a clip would only blow them up."""
        scales = [entries[name].scales().ravel() for name in self.names]
        self.scales = np.concatenate(scales, dtype=np.float32) if scales else np.zeros(0, np.float32)  # (D,)
        self.size = len(self.scales)
        self._first = next(iter(entries), None)
        self._axes = {name: len(entry.shape) for name, entry in entries.items()}
        self._sizes = [(name, entries[name].size) for name in self.names]

    def flatten(self, observation: Observation) -> np.ndarray:
        """`(..., D)` for entries of shape `(..., *shape)`."""
        lead = self._lead(observation)
        if not self.names:
            return np.zeros((*lead, 0), np.float32)
        flat = np.concatenate([observation[name].reshape(*lead, size) for name, size in self._sizes], axis=-1, dtype=np.float32)
        flat /= self.scales
        np.maximum(flat, -OBSERVATION_CLIP, out=flat)
        return np.minimum(flat, OBSERVATION_CLIP, out=flat)

    def _lead(self, observation: Observation) -> tuple[int, ...]:
        """The axes in front of an entry's own: none for one robot, (N,) for N."""
        if self._first is None:
            return ()
        shape = observation[self._first].shape
        return shape[: len(shape) - self._axes[self._first]]

"""Where the named values of a task lie in vectors: observations as networks see them, actions as they are stored and sent.

Observations: for entries `pose` (3,) with scale 0.1 and `touch` () with offset 3 and scale 2 the vector is
`[pose[0] / 0.1, pose[1] / 0.1, pose[2] / 0.1, (touch - 3) / 2]`, each clipped to plus and minus 5.
Entries are in the order of their names, not of the spec: two specs with the same hash have the same vector.
Replay, actors and evaluation all flatten here.

Actions: for the parts `arm` (continuous, 3 axes) and `gripper` (discrete: close, hold, open) the vector is
`[arm[0], arm[1], arm[2], index of the gripper's choice]`, float32: each continuous axis in [-1, 1], each choice in 0 ... choices - 1.
Clipping, validation, limits, teleoperation and export all ask the `ActionLayout`; nobody else knows which column is which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from tandem.errors import ActionError, ConfigError
from tandem.types import OBSERVATION_CLIP, ActionPart, Continuous, Discrete, Observation, Spec

TOLERANCE = 1e-6
"""How far beyond its range a stored number may lie: rounding, not meaning."""


class Layout:
    """Where the entries of a spec lie in the vector."""

    def __init__(self, spec: Spec, privileged: bool = False):
        """`privileged`: with the numbers that no policy sees, behind the others."""
        of_all = {name: entry for name, entry in sorted(spec.observation.items()) if entry.role != "privileged"}
        of_critics = {name: entry for name, entry in sorted(spec.observation.items()) if entry.role == "privileged" and privileged}
        entries = {**of_all, **of_critics}
        self.names = tuple(name for name, entry in entries.items() if entry.dtype == "float32")
        self.raw_names = tuple(name for name in entries if name not in self.names)
        """Entries that are kept as they are (images): a scale and a clip would only blow them up."""
        scales = [entries[name].scales().ravel() for name in self.names]
        self.scales = np.concatenate(scales, dtype=np.float32) if scales else np.zeros(0, np.float32)  # (D,)
        offsets = [entries[name].offsets().ravel() for name in self.names]
        self.offsets = np.concatenate(offsets, dtype=np.float32) if offsets else np.zeros(0, np.float32)  # (D,)
        self._centred = bool(np.any(self.offsets))
        self.size = len(self.scales)
        self._first = next(iter(self.names or entries), None)
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


class ActionLayout:
    """Where the parts of an action lie in its vector, and the range of every column."""

    def __init__(self, parts: Sequence[ActionPart]) -> None:
        self.parts = tuple(parts)
        ends = np.cumsum([0, *(part.size for part in self.parts)])
        self._columns = {part.name: slice(int(a), int(b)) for part, a, b in zip(self.parts, ends, ends[1:], strict=False)}
        self.size = int(ends[-1])
        self.shape = (self.size,)
        low, high, rest, scales = (np.zeros(self.size) for _ in range(4))
        for part, columns in zip(self.parts, self._columns.values(), strict=True):
            if isinstance(part, Discrete):
                high[columns], rest[columns], scales[columns] = len(part.choices) - 1, part.rest, 1.0
            else:
                low[columns], high[columns], scales[columns], rest[columns] = -1.0, 1.0, part.scales(), part.stands_at or 0.0
        self.low, self.high = low, high
        self.rest = rest.astype(np.float32)
        """No motion when an episode begins: 0 on every axis that moves, and each discrete part's choice of rest."""
        self.scales = scales.astype(np.float32)
        """What 1 does, in the unit of the part; 1 for a choice."""
        self.is_discrete = np.concatenate([np.full(part.size, isinstance(part, Discrete)) for part in self.parts] or [np.zeros(0, bool)])
        self.all_continuous = not self.is_discrete.any()
        absolute = [isinstance(part, Continuous) and part.stands_at is not None for part in self.parts]
        self.stays = np.repeat(absolute, [part.size for part in self.parts]).astype(bool)
        """Columns that a hand at rest leaves where they stand."""

    @classmethod
    def of(cls, spec: Spec) -> ActionLayout:
        return _layout_of(spec.action)

    @property
    def unit(self) -> str:
        """The units of all parts, in their order."""
        return ", ".join(part.unit for part in self.parts if isinstance(part, Continuous) and part.unit)

    # ---- vector and parts

    def split(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """`(..., size)` to the parts by name: axes `(..., n)`, choices as int64 `(...)`."""
        named = {}
        for part, columns in zip(self.parts, self._columns.values(), strict=True):
            values = np.asarray(vector)[..., columns]
            named[part.name] = np.rint(values[..., 0]).astype(np.int64) if isinstance(part, Discrete) else values.copy()
        return named

    def join(self, named: Mapping[str, np.ndarray | int]) -> np.ndarray:
        """The vector of these parts, float32."""
        if named.keys() != self._columns.keys():
            raise ActionError(f"an action has the parts {', '.join(self._columns)}; got {', '.join(named) or 'none'}")
        values = [np.asarray(named[part.name], np.float32) for part in self.parts]
        return np.concatenate([v[..., None] if isinstance(p, Discrete) else v for p, v in zip(self.parts, values, strict=True)], axis=-1)

    # ---- ranges

    def clip(self, vector: np.ndarray) -> np.ndarray:
        """Within the range of every column, choices as whole numbers. NaN stays NaN, for the validation to refuse."""
        if self.all_continuous:
            return np.minimum(np.maximum(vector, -1.0), 1.0)  # np.clip spends most of its time on its arguments
        clipped = np.minimum(np.maximum(vector, self.low), self.high)
        return np.where(self.is_discrete, np.rint(clipped), clipped).astype(np.asarray(vector).dtype)

    def checked(self, vector: np.ndarray, lead: tuple[int, ...], task: str) -> np.ndarray:
        """As an environment may execute it, float64 `(*lead, size)`. A wrong shape, NaN or infinity is the caller's bug, and named."""
        action = np.asarray(vector, dtype=np.float64)
        if action.shape != (*lead, self.size):
            raise ActionError(
                f"task '{task}' takes actions of shape {(*lead, self.size)}, got {action.shape}. Likely cause: a policy of another task."
            )
        if not np.isfinite(action).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(action))[0])
            raise ActionError(
                f"task '{task}' got {action[place]} at index {place} of the action. Likely cause: the policy's parameters are not "
                f"finite, or an observation was not; the environment was not stepped."
            )
        return self.clip(action)

    def valid(self, vectors: np.ndarray) -> np.ndarray:
        """`(n, size)` to `(n,)`: which of them may be stored. NaN compares false."""
        if self.all_continuous:
            return np.all(np.abs(vectors) <= 1.0 + TOLERANCE, axis=1)
        within = (vectors >= self.low - TOLERANCE) & (vectors <= self.high + TOLERANCE)
        whole = ~self.is_discrete | (np.abs(vectors - np.rint(vectors)) <= TOLERANCE)
        return np.all(within & whole, axis=1)

    def random(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        """`(rows, size)` float32, drawn evenly from the range of every column."""
        drawn = rng.uniform(-1, 1, (rows, self.size))
        if not self.all_continuous:
            choices = np.floor((drawn + 1) / 2 * (self.high + 1))  # [-1, 1) to 0 ... high
            drawn = np.where(self.is_discrete, np.minimum(choices, self.high), drawn)
        return drawn.astype(np.float32)


@lru_cache(maxsize=32)
def _layout_of(parts: tuple[ActionPart, ...]) -> ActionLayout:
    return ActionLayout(parts)

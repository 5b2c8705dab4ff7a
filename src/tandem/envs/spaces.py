"""The spaces of Gymnasium that belong to a `Spec`."""

from __future__ import annotations

import gymnasium
import numpy as np

from tandem.layouts import ActionLayout
from tandem.types import Entry, Spec


def observation_space(spec: Spec) -> gymnasium.spaces.Dict:
    """Unbounded boxes: observations are raw values in their units, scaling is left to the learner. Images are bytes."""
    return gymnasium.spaces.Dict({name: _box(entry) for name, entry in spec.observation.items()})


def _box(entry: Entry) -> gymnasium.spaces.Box:
    low, high = (0, 255) if entry.dtype == "uint8" else (-np.inf, np.inf)
    return gymnasium.spaces.Box(low, high, entry.shape, np.dtype(entry.dtype).type)


def action_space(spec: Spec) -> gymnasium.spaces.Box:
    """One box; a discrete part is a column that holds the index of its choice."""
    layout = ActionLayout.of(spec)
    return gymnasium.spaces.Box(layout.low.astype(np.float32), layout.high.astype(np.float32), dtype=np.float32)

"""Actions of a foreign environment in parts: a Dict or Tuple of Boxes and Discretes, and one vector for all of them.

    Dict(arm=Box(-0.1, 0.1, (3,)), gripper=Discrete(3, start=-1))      what the environment takes
    arm (3 axes in [-1, 1]), gripper (choices "-1", "0", "1")          the parts, in the order of the space
    [0.5, 0, 0, 2]  <->  {"arm": [0.05, 0, 0], "gripper": 1}           a vector, and what the environment gets for it

The choice that a hand at rest makes is the one of value 0, or the first where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from tandem.errors import ConfigError
from tandem.layouts import ActionLayout
from tandem.types import ActionPart, Continuous, Discrete

Parts = gymnasium.spaces.Dict | gymnasium.spaces.Tuple


def spaces_of(space: Parts) -> dict[str, gymnasium.Space]:
    """The spaces by the names of their parts; those of a Tuple are numbered."""
    if isinstance(space, gymnasium.spaces.Dict):
        return dict(space.spaces)
    return {f"part {number}": inner for number, inner in enumerate(space.spaces)}


def parts_of(name: str, space: Parts) -> tuple[ActionPart, ...]:
    """What can be learned of it; a space that cannot is refused by its name."""
    parts: list[ActionPart] = []
    for key, inner in spaces_of(space).items():
        if isinstance(inner, gymnasium.spaces.Discrete):
            values = [int(inner.start) + number for number in range(int(inner.n))]
            parts.append(Discrete(key, tuple(map(str, values)), rest=values.index(0) if 0 in values else 0))
        elif isinstance(inner, gymnasium.spaces.Box) and len(inner.shape) == 1 and np.isfinite([inner.low, inner.high]).all():
            parts.append(Continuous(key, inner.shape[0], scale=tuple(float(s) for s in (inner.high - inner.low) / 2)))
        else:
            raise ConfigError(
                f"environment '{name}' takes {inner} as the part '{key}' of its action; Tandem needs a flat, bounded Box or a Discrete. "
                f"Change it in a wrapper."
            )
    if not any(isinstance(part, Continuous) for part in parts):
        raise ConfigError(f"environment '{name}' takes choices only ({space}); Tandem needs at least one continuous axis beside them")
    return tuple(parts)


def to_space(space: Parts, layout: ActionLayout, vector: np.ndarray) -> Any:
    """What the environment gets for one action's vector."""
    spaces, taken = spaces_of(space), {}
    for key, value in layout.split(vector).items():
        inner = spaces[key]
        if isinstance(inner, gymnasium.spaces.Discrete):
            taken[key] = int(inner.start) + int(value)
        else:
            assert isinstance(inner, gymnasium.spaces.Box)
            taken[key] = (inner.low + (value + 1) * 0.5 * (inner.high - inner.low)).astype(inner.dtype)
    return taken if isinstance(space, gymnasium.spaces.Dict) else tuple(taken.values())


def to_vector(name: str, space: Parts, layout: ActionLayout, taken: Any) -> np.ndarray:
    """The vector of an action that the environment reports, in the form that it takes them."""
    spaces = spaces_of(space)
    if isinstance(taken, (tuple, list)) and isinstance(space, gymnasium.spaces.Tuple) and len(taken) == len(spaces):
        taken = dict(zip(spaces, taken, strict=True))
    if not isinstance(taken, Mapping) or taken.keys() != spaces.keys():
        raise ConfigError(f"environment '{name}' reports an executed action {taken!r:.200}; expected one of its own action space {space}")
    named: dict[str, np.ndarray | int] = {}
    for key, inner in spaces.items():
        value = np.asarray(taken[key], float)
        if isinstance(inner, gymnasium.spaces.Discrete):
            named[key] = int(value) - int(inner.start)
        else:
            assert isinstance(inner, gymnasium.spaces.Box)
            named[key] = np.clip(2 * (value - inner.low) / (inner.high - inner.low) - 1, -1, 1)
    return layout.clip(layout.join(named))

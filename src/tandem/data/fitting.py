"""What demonstrations say about an environment that declares little: scales and offsets, constant numbers, the range of the return.

Scales are fitted once, before a run begins, and frozen into its spec: a statistic that went on changing would shift every stored value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tandem.layouts import Layout
from tandem.types import Spec, Transition

PERCENTILES = 1.0, 99.0
"""The range between them counts: a few outliers, such as the force of an impact, do not set the scale."""
FINEST = 0.05
"""Smallest scale of a number, relative to the largest of its entry: what hardly moved would be blown up to noise."""
SHOWN = 6
"""Numbers of an entry that are listed in a line."""
CONSTANT_RANGE, CONSTANT_SHARE = 1e-4, 1e-3
"""A number that moves by less than this, in units of its scale, and by less than this share of itself, is constant but for noise."""


def with_fitted_scales(spec: Spec, steps: Sequence[Transition]) -> tuple[Spec, list[str]]:
    """The spec with a scale and an offset for every number, and a sentence for each entry that got them.

    With them the demonstrations reach from -2 to 2: a position of 0.6 m that moves by 2 cm would otherwise look constant to the
    networks. A constant gets the scale 1 and becomes 0. An entry with a scale other than 1 is left alone: somebody declared it.
    """
    scales, said = {}, []
    for name, entry in spec.observation.items():
        if not steps or entry.dtype != "float32" or (entry.scales() != 1).any():
            continue
        values = _values(steps, name).reshape(-1, entry.shape[-1] if entry.shape else 1)
        low, high = np.percentile(values.astype(float), PERCENTILES, axis=0)
        quarter = (high - low) / 4
        quarter = np.where(moving(values), np.maximum(quarter, FINEST * quarter.max()), 1.0)
        offset, scale = ([float(f"{number:.4g}") for number in numbers] for numbers in ((low + high) / 2, quarter))
        scales[name] = {"scale": scale, "offset": offset} if entry.shape else {"scale": scale[0], "offset": offset[0]}
        said.append(f"'{name}', fitted on the demonstrations: offset {_some(offset)}, scale {_some(scale)}")
    return spec.with_scales(scales), said


def _some(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers[:SHOWN]) + (", ..." if len(numbers) > SHOWN else "")


def inferred_return_range(steps: Sequence[Transition]) -> tuple[float, float] | None:
    """[0, 1] if every reward is 0 or 1 and a reward of 1 always ends the episode by termination; None where that is not so."""
    rewards = {step.reward for step in steps}
    pays_once = all(step.terminated for step in steps if step.reward == 1)
    return (0.0, 1.0) if rewards <= {0.0, 1.0} and 1.0 in rewards and pays_once else None


def constant_numbers(spec: Spec, steps: Sequence[Transition]) -> list[str]:
    """The numbers of the observation that never move, as `state[3]`."""
    layout = Layout(spec)
    if not steps or not layout.size:
        return []
    seen = np.concatenate([_values(steps, name).reshape(len(steps), -1) for name in layout.names], axis=1) / layout.scales
    return [column for column, moves in zip(columns(spec), moving(seen), strict=True) if not moves]


def moving(scaled: np.ndarray) -> np.ndarray:
    """Which columns of `(steps, D)` scaled observations move at all, (D,) bool."""
    range_of = scaled.max(axis=0) - scaled.min(axis=0)
    return range_of > np.maximum(CONSTANT_RANGE, CONSTANT_SHARE * np.abs(scaled).max(axis=0))


def columns(spec: Spec) -> list[str]:
    """The name of every column of the flat vector, as `state[3]`."""
    return [f"{name}[{index}]" for name in Layout(spec).names for index in range(spec.observation[name].size)]


def _values(steps: Sequence[Transition], name: str) -> np.ndarray:
    return np.stack([step.observation[name] for step in steps])

"""What demonstrations say about an environment that declares little: scales, constant numbers, the range of the return.

Scales are fitted once, before a run begins, and frozen into its spec: a statistic that went on changing would shift every stored value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tandem.layouts import Layout
from tandem.types import OBSERVATION_CLIP, Spec, Transition

PERCENTILE = 99.0
"""Of |value|: a few outliers, such as the force of an impact, do not set the scale."""
CONSTANT_RANGE, CONSTANT_SHARE = 1e-4, 1e-3
"""A number that moves by less than this, in units of its scale, and by less than this share of itself, is constant but for noise."""


def with_fitted_scales(spec: Spec, steps: Sequence[Transition]) -> tuple[Spec, list[str]]:
    """The spec with a scale for every number that goes beyond plus and minus 5, and a sentence for each entry that got one.

    The scale is the 99th percentile of |value|, rounded to three digits; numbers within plus and minus 5 keep the scale 1. An entry
    with a scale other than 1 is left alone: somebody declared it.
    """
    scales, said = {}, []
    for name, entry in spec.observation.items():
        if not steps or entry.dtype != "float32" or (entry.scales() != 1).any():
            continue
        values = _values(steps, name).reshape(-1, entry.shape[-1] if entry.shape else 1)
        large = np.percentile(np.abs(values), PERCENTILE, axis=0)
        if (large <= OBSERVATION_CLIP).all():
            continue
        fitted = [float(f"{high:.3g}") if high > OBSERVATION_CLIP else 1.0 for high in large]
        scales[name] = fitted if entry.shape else fitted[0]
        said.append(f"scale of '{name}', fitted on the demonstrations: {', '.join(f'{scale:g}' for scale in fitted[:12])}")
    return spec.with_scales(scales), said


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

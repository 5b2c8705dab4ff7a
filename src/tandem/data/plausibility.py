"""Which numbers a run can believe: beyond its range a step is kept as rejected, and never trained on.

    known range     what the environment's spaces declare, else what the networks can see of the entry: offset - 5 scale to offset + 5 scale
    believed        `MARGIN` times its width further on each side

A finite number is not yet a measurement: one damaged sensor, a wrong unit or a hostile sender writes 1e300 as easily as 0.1, and a few such
rewards end all learning. The margin is wide on purpose. Demonstrations show what goes well; a collision has a hundred times their force,
and its steps are those that a policy must learn from. A number that is wrongly believed does little harm, for the networks see every
observation clipped; a step that is wrongly rejected is lost. So this finds what is no measurement at all, and judges nothing else.

The ranges are decided once, when a run begins (`with_ranges`), and frozen into its spec: hub, trainer and every restart agree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tandem.types import OBSERVATION_CLIP, Entry, Spec, Transition, bounds

MARGIN = 100.0
"""Widths of the known range beyond it that are still believed."""
LARGEST_REWARD = 1e6
"""Where nobody knows the range of the reward: float32 critics cannot learn from larger ones, whose squares they cannot add up."""
FAILURE = 10.0
"""How many times the width of the demonstrations' rewards a failure may cost, which they do not show."""


def with_ranges(spec: Spec, steps: Sequence[Transition], *, all_known: bool) -> Spec:
    """The spec with a range for every number whose scale is known, and one for the reward where the demonstrations show one.

    `all_known`: every scale was declared on purpose (a task of Tandem's kind). Else a scale of exactly 1 says that nobody knows it.
    """
    entries = {name: _with_range(entry, all_known) for name, entry in spec.observation.items()}
    return dataclasses.replace(spec, observation=entries, reward_range=_reward_range(spec, steps))


def believed(entry: Entry) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest number that is believed, `(*shape)` each in the entry's dtype; the largest finite ones where nothing is known."""
    low, high = entry.lowest(), entry.highest()
    with np.errstate(invalid="ignore", over="ignore"):
        known = np.isfinite(low) & np.isfinite(high)
        beyond = np.where(known, MARGIN * (high - low), 0.0)
        low, high = np.where(known, low - beyond, -np.inf), np.where(known, high + beyond, np.inf)
    largest = np.finfo(entry.dtype).max
    return np.clip(low, -largest, largest).astype(entry.dtype), np.clip(high, -largest, largest).astype(entry.dtype)


def believed_rewards(spec: Spec) -> tuple[float, float]:
    """Lowest and highest reward of one step that is believed."""
    known = spec.reward_range or spec.return_range
    if known is None:
        return -LARGEST_REWARD, LARGEST_REWARD
    beyond = MARGIN * max(known[1] - known[0], abs(known[0]), abs(known[1]))  # a constant return has no width
    return known[0] - beyond, known[1] + beyond


def _with_range(entry: Entry, all_known: bool) -> Entry:
    if np.dtype(entry.dtype).kind != "f":
        return entry
    declared = np.isfinite(entry.lowest()) & np.isfinite(entry.highest())
    known = all_known | (entry.scales() != 1)
    reach = OBSERVATION_CLIP * entry.scales().astype(float)
    low = np.where(declared, entry.lowest(), np.where(known, entry.offsets() - reach, -np.inf))
    high = np.where(declared, entry.highest(), np.where(known, entry.offsets() + reach, np.inf))
    lowest, highest = bounds(low, high)
    return dataclasses.replace(entry, low=lowest, high=highest)


def _reward_range(spec: Spec, steps: Sequence[Transition]) -> tuple[float, float] | None:
    rewards = [float(step.reward) for step in steps]
    if spec.return_range is not None or not rewards or min(rewards) == max(rewards):
        return spec.reward_range
    beyond = FAILURE * (max(rewards) - min(rewards))
    return min(rewards) - beyond, max(rewards) + beyond

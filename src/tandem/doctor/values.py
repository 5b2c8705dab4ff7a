"""What the critics of a run say along its demonstrations, beside what really followed.

Two figures tell whether anything can be learned. *Q against the return that followed*: critics that say 0.68 where 0.26 came are far
too high. *The action gap*: by how much they value the demonstrated action above random ones, beside how much those differ among each other.
With small actions at a high rate the gap is almost nothing, and the actor has nothing to climb (docs/long-tasks.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tandem.data.demos import OpenDemos
from tandem.data.formats.kinds import open_any
from tandem.data.replay import Replay, discounted
from tandem.decisions import Decisions
from tandem.errors import ConfigError, TandemError
from tandem.layouts import ActionLayout
from tandem.networks.numpy_critic import NumpyCritics
from tandem.runs.checkpoint import AGENT_FILE
from tandem.runs.folder import RunFolder
from tandem.types import Spec, Transition

EPISODES = 3
"""Demonstrations that the doctor looks at."""
MOMENTS = 60
"""Steps of each, evenly spread."""
RANDOM_ACTIONS = 32
MIDDLE = (0.25, 0.75)
"""The part of a demonstration in which the gap is judged: not the start, where much is open, nor the end, which anything reaches."""


@dataclass(frozen=True)
class DemoValues:
    """One demonstration, at some of its steps."""

    steps: np.ndarray
    """Which steps, from 0."""
    length: int
    returns: np.ndarray
    """The discounted return that followed each; NaN if the episode was cut off."""
    q: np.ndarray
    """What the critics say of the demonstrated action, in the mean over them."""
    random_q: np.ndarray
    """The same in the mean over random actions."""
    spread: np.ndarray
    """Standard deviation over random actions."""

    @property
    def gap(self) -> np.ndarray:
        return self.q - self.random_q

    @property
    def middle(self) -> np.ndarray:
        """Which of the moments are in the middle."""
        low, high = (share * (self.length - 1) for share in MIDDLE)
        return (self.steps >= low) & (self.steps <= high)


def read_critics(run: RunFolder, settings: Mapping[str, Any]) -> NumpyCritics | None:
    """The critics of the newest checkpoint; None if there is none, or if the run has cameras."""
    from safetensors import SafetensorError, safe_open  # late: a run that has no checkpoint yet does not need it

    found = list(run.checkpoint_folders())
    if not found or run.encoder_file.exists():
        return None
    try:
        with safe_open(found[-1] / AGENT_FILE, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys() if name.startswith("critic/")}  # noqa: SIM118  not a dict
        return NumpyCritics(arrays, str((settings.get("agent") or {}).get("activation", "tanh")))
    except (OSError, SafetensorError, ValueError, TandemError):
        return None  # being replaced just now, or of another version


def values_of_run(run: RunFolder, spec: Spec, settings: Mapping[str, Any], files: Sequence[Path]) -> list[DemoValues]:
    """Along the first demonstrations of a run; none where there are no critics, or the files cannot be read."""
    critics = read_critics(run, settings)
    if critics is None or not files:
        return []
    try:
        with open_any(files[0], spec) as opened:
            return values_in(opened, critics, spec, settings, range(EPISODES))
    except (TandemError, OSError, ValueError):
        return []  # the checks of the demonstrations say what is wrong with them


def values_in(
    opened: OpenDemos, critics: NumpyCritics, spec: Spec, settings: Mapping[str, Any], numbers: Sequence[int]
) -> list[DemoValues]:
    """Along these episodes of a file."""
    discount, decisions = discount_of(settings), decisions_of(settings)
    last = max(numbers, default=-1) + 1
    chosen = [steps for number, steps in enumerate(itertools.islice(opened.episodes(), last)) if number in numbers and steps]
    return [values_along(critics, spec, steps, discount, decisions) for steps in chosen]


def discount_of(settings: Mapping[str, Any]) -> float:
    """The discount of one control step of a run."""
    return float((settings.get("agent") or {}).get("discount", 0.97))


def decisions_of(settings: Mapping[str, Any]) -> Decisions:
    """How often the policy of a run decides; runs of earlier versions say nothing of it."""
    steps = settings.get("decision_steps", 1)
    between = "interpolate" if settings.get("between_decisions") == "interpolate" else "hold"
    try:
        return Decisions(int(steps), between)
    except (ConfigError, ValueError):
        return Decisions()


def values_along(critics: NumpyCritics, spec: Spec, steps: Sequence[Transition], discount: float, decisions: Decisions) -> DemoValues:
    """Along one demonstration."""
    replay = Replay(spec, len(steps), 1, discount, decisions, sliding=True)
    replay.extend(steps)
    batch, axes = replay.rows(np.arange(len(steps))), ~ActionLayout.of(spec).is_discrete
    moments = np.unique(np.linspace(0, len(steps) - 1, MOMENTS).astype(int))
    observations, actions = batch.observations[moments], batch.actions[moments][:, axes]
    random = np.random.default_rng(0).uniform(-1, 1, (RANDOM_ACTIONS, *actions.shape)).astype(np.float32)
    drawn = critics(np.tile(observations, (RANDOM_ACTIONS, 1)), random.reshape(-1, actions.shape[1])).mean(axis=0)
    drawn = drawn.reshape(RANDOM_ACTIONS, len(moments))
    known = steps[-1].terminated
    returns = discounted([step.reward for step in steps], discount)[moments].astype(float) if known else np.full(len(moments), np.nan)
    q = critics(observations, actions).mean(axis=0)
    return DemoValues(moments, len(steps), returns, q, drawn.mean(axis=0), drawn.std(axis=0))


@dataclass(frozen=True)
class Summary:
    """Several demonstrations in four numbers, each a median."""

    gap: float
    """In the middle."""
    spread: float
    q: float
    q_at_start: float
    return_at_start: float | None


def summed_up(values: Sequence[DemoValues]) -> Summary | None:
    if not values:
        return None
    gap, spread, q = (np.concatenate([getattr(one, name)[one.middle] for one in values]) for name in ("gap", "spread", "q"))
    known = [float(one.returns[0]) for one in values if np.isfinite(one.returns[0])]
    start = float(np.median([one.q[0] for one in values]))
    return Summary(float(np.median(gap)), float(np.median(spread)), float(np.median(q)), start, float(np.median(known)) if known else None)

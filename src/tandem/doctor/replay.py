"""Opens the file that a run saved when it met a NaN: steps the simulation again from the saved states, or summarises the batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tandem.allowed import require_allowed
from tandem.errors import ActionError, FileUnreadable, SimulationDiverged
from tandem.layouts import Layout
from tandem.runs.broken import read_broken
from tandem.types import OBSERVATION_CLIP, Spec

SHOWN = 8
"""Number of steps before the failure that are printed."""


def replay(path: Path) -> Iterator[str]:
    """Report on the file, line by line."""
    found = read_broken(path)
    try:
        if found["kind"] == "simulation":
            require_allowed(found["task"], path)
        yield from _simulation(found) if found["kind"] == "simulation" else _batch(found)
    except KeyError as missing:
        raise FileUnreadable(f"{path} lacks {missing}: written by another version of Tandem?") from None


def _simulation(found: Mapping[str, Any]) -> Iterator[str]:
    """Step from the first saved state with the same actions. Tandem's own simulations repeat it to the last bit."""
    from tandem.envs.registry import make_batch  # late: MuJoCo

    state, actions = found["state"], found["actions"]
    yield f"{found['task']}: {found['problem']}"
    yield f"{len(state['physics'])} simulations, {len(actions)} steps"
    yield ""
    env = make_batch(found["task"], len(state["physics"]), reward=found["reward"])
    try:
        env.restore(state)
        yield f"{'step':>6}  {'largest value in the state':>28}  {'in simulation':>14}  {'largest action':>14}"
        for number, action in enumerate(actions):
            size = np.abs(env.state()["physics"]).max(axis=1)
            row = int(np.nanargmax(size)) if np.isfinite(size).any() else 0
            if number >= len(actions) - SHOWN:
                yield f"{number - len(actions) + 1:>6}  {size[row]:>28.4g}  {row:>14}  {np.abs(action).max():>14.3g}"
            try:
                env.step(action)
            except (SimulationDiverged, ActionError) as problem:
                yield ""
                when = "again at the same step" if number == len(actions) - 1 else "at an earlier step"
                yield f"It fails {when}: {problem}"
                return
        yield ""
        yield "It does not fail again: the cause is outside the saved states and actions (a sensor, another version, other parameters)."
    finally:
        env.close()


def _batch(found: Mapping[str, Any]) -> Iterator[str]:
    """Statistics of every array of the batch, and its suspicious entries."""
    spec = Spec.from_json(json.loads(found["spec"]))
    yield f"{spec.task}, learner step {found['learner_step']:,}: {found['problem']}"
    yield ""
    yield f"{'':20} {'shape':>16} {'low':>10} {'mean':>10} {'high':>10} {'not finite':>10}"
    for name, array in found["batch"].items():
        yield _figures(name, np.asarray(array))
    yield ""
    yield from _columns(spec, np.asarray(found["batch"]["observations"]))
    yield from _rewards(spec, np.asarray(found["batch"]["rewards"]))
    for name, value in found["metrics"].items():
        yield f"  {name:34} {value:.4g}"


def _figures(name: str, array: np.ndarray) -> str:
    finite = array[np.isfinite(array)]
    shown = (finite.min(), finite.mean(), finite.max()) if finite.size else (np.nan,) * 3
    numbers = " ".join(f"{value:>10.4g}" for value in shown)
    return f"{name:20} {'x'.join(map(str, array.shape)):>16} {numbers} {array.size - finite.size:>10}"


def _columns(spec: Spec, observations: np.ndarray) -> Iterator[str]:
    """Observation components that are clipped or not finite, by name."""
    layout = Layout(spec)
    names = [f"{name}[{index}]" for name in layout.names for index in range(spec.observation[name].size)]
    flat = observations.reshape(-1, len(names))
    for index, name in enumerate(names):
        clipped, bad = np.mean(np.abs(flat[:, index]) >= OBSERVATION_CLIP), np.sum(~np.isfinite(flat[:, index]))
        if bad or clipped > 0:
            yield f"{name}: {clipped:.1%} clipped at {OBSERVATION_CLIP:g} times the scale, {bad} not finite"


def _rewards(spec: Spec, rewards: np.ndarray) -> Iterator[str]:
    if spec.return_range is None:
        return
    low, high = spec.return_range
    outside = np.argwhere((rewards < low) | (rewards > high))
    if len(outside):
        place = tuple(int(i) for i in outside[0])
        yield f"{len(outside)} rewards are outside the return range of an episode ({low:g} to {high:g}): {rewards[place]:.4g} at {place}"

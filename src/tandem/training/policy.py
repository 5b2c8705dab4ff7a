"""A learned policy at work, outside of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tandem.networks.numpy_policy import acting_policy
from tandem.observations import Layout
from tandem.training.checkpoint import read_policy
from tandem.training.evaluate import Act, Evaluation
from tandem.types import Observation, PolicySnapshot, Spec


def load_policy(path: Path, which: str = "best", spec: Spec | None = None) -> tuple[PolicySnapshot, Spec]:
    """Of a run folder its best policy (the latest where none was evaluated), or a policy file; with `spec`, for that only."""
    if path.is_file():
        return read_policy(path, spec)
    found = path / "checkpoints" / f"{which}.safetensors"
    return read_policy(found if found.exists() else path / "checkpoints" / "latest.safetensors", spec)


def act_with(snapshot: PolicySnapshot, spec: Spec, stochastic_seed: int | None = None) -> Act:
    """The snapshot as a function of observations: its most likely action, or a drawn one."""
    policy, layout = acting_policy(snapshot.parameters), Layout(spec)
    if stochastic_seed is None:
        return lambda observation: policy.mode(layout.flatten(observation, policy.observation_clip))
    random = np.random.default_rng(stochastic_seed)
    return lambda observation: policy.sample(layout.flatten(observation, policy.observation_clip), random)


class PolicyOperator:
    """A policy where a person would be: to watch it, or to record what it does."""

    name = "policy"

    def __init__(self, snapshot: PolicySnapshot, spec: Spec) -> None:
        self._act = act_with(snapshot, spec)

    def reset(self) -> None:
        pass

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        del proposed
        return self._act({name: values[None] for name, values in observation.items()})[0], False


def describe(result: Evaluation, spec: Spec) -> dict[str, Any]:
    """An evaluation as numbers for a file."""
    return {
        "episodes": len(result.success),
        "successes": int(result.success.sum()),
        "success": result.rate.value,
        "success_low": result.rate.low,
        "success_high": result.rate.high,
        "return": float(result.returns.mean()),
        "length": float(result.length.mean()),
        "success_seconds": None if not result.success.any() else result.success_length / spec.control_hz,
    }

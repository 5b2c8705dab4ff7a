"""A learned policy at work, outside of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tandem.errors import ConfigError
from tandem.networks.numpy_policy import acting_policy
from tandem.networks.onnx_policy import OnnxPolicy, read_onnx
from tandem.observations import Layout
from tandem.training.checkpoint import read_policy
from tandem.training.evaluate import Act, Evaluation
from tandem.types import Observation, PolicySnapshot, Spec

Policy = PolicySnapshot | OnnxPolicy
"""Whatever can act: parameters that can also be trained on, or an exported file that cannot."""


def load_policy(path: Path, which: str = "best", spec: Spec | None = None) -> tuple[PolicySnapshot, Spec]:
    """Of a run folder its best policy (the latest where none was evaluated), or a policy file; with `spec`, for that only."""
    if path.suffix == ".onnx":
        raise ConfigError(f"{path} is an exported policy: it can act, but not be trained on. Give the run it came from.")
    return read_policy(policy_file(path, which), spec)


def load_any_policy(path: Path, which: str = "best", spec: Spec | None = None) -> tuple[Policy, Spec]:
    """The same, or an exported ONNX file: for whoever only wants it to act."""
    if path.suffix == ".onnx":
        policy = read_onnx(path, spec)
        return policy, policy.spec
    return load_policy(path, which, spec)


def policy_file(path: Path, which: str = "best") -> Path:
    """Where the policy of a run folder lies; a file is itself."""
    if path.is_file():
        return path
    found = path / "checkpoints" / f"{which}.safetensors"
    return found if found.exists() else path / "checkpoints" / "latest.safetensors"


def act_with(chosen: Policy, spec: Spec, stochastic_seed: int | None = None) -> Act:
    """The policy as a function of observations: its most likely action, or a drawn one."""
    random = np.random.default_rng(stochastic_seed)
    if isinstance(chosen, OnnxPolicy):
        return chosen.mode if stochastic_seed is None else lambda observation: chosen.sample(observation, random)
    policy, layout = acting_policy(chosen.parameters), Layout(spec)
    if stochastic_seed is None:
        return lambda observation: policy.mode(layout.flatten(observation, policy.observation_clip))
    return lambda observation: policy.sample(layout.flatten(observation, policy.observation_clip), random)


class PolicyOperator:
    """A policy where a person would be: to watch it, or to record what it does."""

    name = "policy"

    def __init__(self, policy: Policy, spec: Spec) -> None:
        self._act = act_with(policy, spec)

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

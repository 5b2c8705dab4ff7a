"""A learned policy at work, outside of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tandem.errors import ConfigError
from tandem.networks.numpy_policy import ActingPolicy, NumpyRecurrent, acting_policy, remembers
from tandem.observations import Layout
from tandem.training.checkpoint import read_policy
from tandem.training.evaluate import Evaluation
from tandem.types import Observation, PolicySnapshot, Spec


def load_policy(path: Path, which: str = "best", spec: Spec | None = None) -> tuple[PolicySnapshot, Spec]:
    """Of a run folder its best policy (the latest where none was evaluated), or a policy file; with `spec`, for that only."""
    if path.is_file():
        return read_policy(path, spec)
    found = path / "checkpoints" / f"{which}.safetensors"
    return read_policy(found if found.exists() else path / "checkpoints" / "latest.safetensors", spec)


def policy_to_start_from(path: Path, spec: Spec) -> PolicySnapshot:
    """The policy of another run, or a word on why RLPD cannot start with it."""
    snapshot = load_policy(path, spec=spec)[0]
    if remembers(snapshot.parameters):
        raise ConfigError(
            f"RLPD cannot start from the policy of {path}: it has recurrent layers (actor_rnn_type of its PPO run), and acts by what it "
            f"remembers. SAC's policy sees the present alone, so there is nothing it could be made of that does the same. Train PPO "
            f"without actor_rnn_type, or record what the policy does (`tandem record {spec.task} --operator policy:{path}`) and learn "
            f"from the demonstrations."
        )
    return snapshot


class Acting:
    """A policy at work: observations of N rows to actions (N, action_dim).

    Of a policy that remembers it keeps the memory, which lasts until `reset`: whoever begins new episodes says so.
    """

    def __init__(self, policy: ActingPolicy | NumpyRecurrent, spec: Spec, stochastic_seed: int | None) -> None:
        self._policy, self._layout = policy, Layout(spec)
        self._random = None if stochastic_seed is None else np.random.default_rng(stochastic_seed)
        self._memory: np.ndarray | None = None

    def reset(self) -> None:
        """New episodes begin: nothing is remembered of the last ones."""
        self._memory = None

    def __call__(self, observation: Observation) -> np.ndarray:
        x = self._layout.flatten(observation, self._policy.observation_clip)
        if not isinstance(self._policy, NumpyRecurrent):
            return self._policy.mode(x) if self._random is None else self._policy.sample(x, self._random)
        memory = self._policy.begin(len(x)) if self._memory is None else self._memory
        drawn = self._policy.mode(x, memory) if self._random is None else self._policy.sample(x, memory, self._random)
        actions, self._memory = drawn
        return actions


def act_with(snapshot: PolicySnapshot, spec: Spec, stochastic_seed: int | None = None) -> Acting:
    """The snapshot as a function of observations: its most likely action, or a drawn one."""
    parameters = snapshot.parameters
    return Acting(NumpyRecurrent(parameters) if remembers(parameters) else acting_policy(parameters), spec, stochastic_seed)


class PolicyOperator:
    """A policy where a person would be: to watch it, or to record what it does."""

    name = "policy"

    def __init__(self, snapshot: PolicySnapshot, spec: Spec) -> None:
        self._act = act_with(snapshot, spec)

    def reset(self) -> None:
        self._act.reset()

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

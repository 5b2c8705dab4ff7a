"""Loading a learned policy and acting with it, outside of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tandem.acting.evaluate import Evaluation
from tandem.decisions import DECIDES, Held, held_for
from tandem.errors import ConfigError, SpecMismatch
from tandem.layouts import ActionLayout, Layout
from tandem.networks.numpy_chunks import CHUNK, NumpyChunks
from tandem.networks.numpy_gaussian import NumpyGaussian
from tandem.networks.numpy_policy import NumpyPolicy, acting_policy, look
from tandem.networks.numpy_recurrent import NumpyRecurrent
from tandem.networks.onnx_file import read_onnx
from tandem.networks.onnx_policy import OnnxPolicy
from tandem.runs.checkpoint import read_policy
from tandem.runs.folder import RunFolder
from tandem.types import ForeignPolicy, Observation, PolicySnapshot, Spec

Policy = PolicySnapshot | OnnxPolicy
"""Parameters, which can also be trained on, or an exported file, which can only act."""
Actor = NumpyPolicy | NumpyGaussian | NumpyRecurrent | NumpyChunks | OnnxPolicy
"""A forward pass."""


def load_policy(path: Path, which: str = "best", spec: Spec | None = None) -> tuple[PolicySnapshot, Spec]:
    """The best policy of a run folder (the latest where none was evaluated), or a policy file; with `spec`, it must fit that."""
    if path.suffix == ".onnx":
        raise ConfigError(f"{path} is an exported policy: it can act, but not be trained on. Give the run it came from.")
    return read_policy(policy_file(path, which), spec)


def load_any_policy(path: Path, which: str = "best", spec: Spec | None = None) -> tuple[Policy, Spec]:
    """The same to act with, or an exported ONNX file, which can only act; returns also what it was trained with.

    It acts by the scales that it was trained with, so they may be others than those of `spec`.
    """
    policy = read_onnx(path) if path.suffix == ".onnx" else None
    chosen, own = (policy, policy.spec) if policy is not None else load_policy(path, which)
    if spec is not None:
        shown, given = own.without_encoder().with_scales(spec.scales()), spec.without_encoder()
        if shown.hash != given.hash:
            raise SpecMismatch(f"policy {path} was trained for another spec: {'; '.join(given.difference(shown))}")
    return chosen, own


def policy_file(path: Path, which: str = "best") -> Path:
    """The policy file of a run folder; a file is itself."""
    if path.is_file():
        return path
    return RunFolder(path).policy(which)


def policy_to_start_from(path: Path, spec: Spec) -> PolicySnapshot:
    """The policy of another run; an error says why RLPD cannot start with it."""
    snapshot = load_policy(path, spec=spec)[0]
    if CHUNK in snapshot.parameters:
        raise ConfigError(
            f"RLPD cannot start from the policy of {path}: it decides {int(snapshot.parameters[CHUNK])} actions at once, and SAC's policy "
            f"one. Clone the demonstrations without --chunk."
        )
    if snapshot.kind == "recurrent_gaussian":
        raise ConfigError(
            f"RLPD cannot start from the policy of {path}: it has recurrent layers (actor_rnn_type of its PPO run), and acts by its "
            f"memory. SAC's policy has none, so it cannot do the same. Train PPO "
            f"without actor_rnn_type, or record what the policy does (`tandem record {spec.task} --operator policy:{path}`) and learn "
            f"from the demonstrations."
        )
    return snapshot


def numpy_policy(snapshot: PolicySnapshot) -> NumpyPolicy | NumpyGaussian | NumpyRecurrent:
    """The forward pass of a policy that decides one action at a time, by its kind."""
    return NumpyRecurrent(snapshot.parameters) if snapshot.kind == "recurrent_gaussian" else acting_policy(snapshot)


class Acting:
    """A policy as a function: observations of N rows to actions (N, action_dim).

    It keeps the memory of a recurrent policy, of one that decides several actions at once, and what a policy decided that decides more
    rarely than it is asked, until `reset`: call it when new episodes begin.
    """

    def __init__(self, policy: Actor, spec: Spec, stochastic_seed: int | None) -> None:
        self._policy, self._layout = policy, Layout(spec)
        self._random = None if stochastic_seed is None else np.random.default_rng(stochastic_seed)
        self._memory: np.ndarray | None = None
        self.eyes: Callable[[Observation], Observation] | None = None
        """Turns pictures into features, for a policy that was trained with them."""
        self.held: Held | None = None
        """Executes its decisions, for a policy that decides every few control steps."""

    def reset(self, rows: np.ndarray | None = None) -> None:
        """New episodes begin, in all rows or in those of a mask: the memory of the last ones is cleared."""
        self._memory = None if rows is None or self._memory is None else np.where(rows[:, None], np.float32(0), self._memory)
        if self.held is not None:
            self.held.begin(rows)

    def __call__(self, observation: Observation) -> np.ndarray:
        if self.held is None:
            return self._decide(observation)
        return self.held(lambda: self._decide(observation), len(next(iter(observation.values()))))

    def _decide(self, observation: Observation) -> np.ndarray:
        policy, random = self._policy, self._random
        observation = observation if self.eyes is None else self.eyes(observation)
        # an exported policy flattens, scales and clips by itself
        seeing = policy.policy if isinstance(policy, NumpyChunks) else policy
        x: Any = observation if isinstance(seeing, OnnxPolicy) else look(seeing, self._layout, observation)
        if not isinstance(policy, (NumpyRecurrent, NumpyChunks, OnnxPolicy)):
            return policy.mode(x) if random is None else policy.sample(x, random)
        rows = len(next(iter(observation.values())))
        memory = policy.begin(rows) if self._memory is None else self._memory
        actions, self._memory = policy.mode(x, memory) if random is None else policy.sample(x, memory, random)
        return actions


def act_with(chosen: Policy, spec: Spec, stochastic_seed: int | None = None) -> Acting:
    """The policy as a function of observations: its most likely action, or a drawn one."""
    if isinstance(chosen, OnnxPolicy):
        exported = Acting(chosen, spec, stochastic_seed)
        exported.held = held_for(chosen.decisions.arrays(), ActionLayout.of(spec))
        return exported
    several = CHUNK in chosen.parameters
    acting = Acting(NumpyChunks(chosen.parameters) if several else numpy_policy(chosen), spec, stochastic_seed)
    if DECIDES in chosen.parameters:
        acting.held = held_for(chosen.parameters, ActionLayout.of(spec))
    if any(entry.picture for entry in spec.observation.values()):
        from tandem.acting.eyes import Eyes  # only policies with cameras need it
        from tandem.networks.encoders.encoder import Encoder

        flat = any(entry.picture and entry.role == "vector" for entry in spec.observation.values())
        acting.eyes = Eyes(Encoder.from_arrays(chosen.parameters), flat)
    return acting


@dataclass(frozen=True)
class OwnPolicy:
    """A policy that an actor was started with and keeps, whatever the learner publishes."""

    act: Acting
    known_as: ForeignPolicy


class PolicyOperator:
    """A policy as an operator: to watch it, or to record what it does."""

    name = "policy"

    def __init__(self, policy: Policy, spec: Spec) -> None:
        self._act = act_with(policy, spec)

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
        "success_known": result.success_known,
        "success_seconds": None if not result.success.any() else result.success_length / spec.control_hz,
    }

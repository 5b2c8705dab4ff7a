"""What the critics expect from where the robot is: the value of an observation, on the actor's machine and without JAX.

A run that notices (`--notice`) publishes two of its critics with every policy; all others publish none, and pay nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from tandem.layouts import ActionLayout, Layout
from tandem.networks.numpy_critic import ACTIVATION_NAMES, CRITICS, NumpyCritics
from tandem.networks.numpy_policy import ActingPolicy, acting_policy, look
from tandem.types import Observation, PolicySnapshot, Spec


class Acting(Protocol):
    """An actor, as far as its value is concerned."""

    snapshot: PolicySnapshot | None
    """The policy that it acts with."""

    @property
    def values(self) -> Mapping[str, float]:
        """How sure the rule that gives the rewards is of each stage; empty without a rule."""
        ...


class Expected:
    """The value of one robot's observation: by the critics, else by the classifier or the conditions that give its rewards."""

    def __init__(self, spec: Spec) -> None:
        self._layout, self._axes = Layout(spec), ~ActionLayout.of(spec).is_discrete
        self._version = -1
        self._policy: ActingPolicy | None = None
        self._critics: NumpyCritics | None = None

    def __call__(self, acting: Acting, observation: Observation) -> float | None:
        """None where nobody knows."""
        if acting.snapshot is not None and acting.snapshot.version != self._version:
            self._take(acting.snapshot)
        if self._policy is None or self._critics is None:
            stages = acting.values
            return sum(stages.values()) / len(stages) if stages else None
        seen = look(self._policy, self._layout, {name: values[None] for name, values in observation.items()})
        action = self._policy.mode(seen)[:, self._axes]
        value = float(self._critics(seen, action).mean())
        return value if np.isfinite(value) else None

    def _take(self, snapshot: PolicySnapshot) -> None:
        self._version = snapshot.version
        self._policy = self._critics = None
        if CRITICS in snapshot.parameters:
            self._policy = acting_policy(snapshot)
            self._critics = NumpyCritics(snapshot.parameters, ACTIVATION_NAMES[int(snapshot.parameters["activation"])])

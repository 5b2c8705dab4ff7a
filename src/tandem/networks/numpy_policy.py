"""RLPD's policy without JAX: the forward pass that an actor runs, from the parameters that the learner publishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tandem.errors import SpecMismatch
from tandem.layouts import Layout
from tandem.types import OBSERVATION_CLIP, Observation, PolicySnapshot

if TYPE_CHECKING:
    from tandem.networks.numpy_gaussian import NumpyGaussian
    from tandem.networks.numpy_heads import NumpyHeads

LAYER_NORM_EPSILON = 1e-6


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def swish(x: np.ndarray) -> np.ndarray:
    return x * (0.5 + 0.5 * np.tanh(0.5 * x))  # the sigmoid by tanh does not overflow


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


ACTIVATIONS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (np.tanh, relu, swish, elu)
"""Policy parameters hold the index in this list. Same order as `mlp.ACTIVATIONS`."""


class Clipping(Protocol):
    """All that is asked of a policy before it acts."""

    observation_clip: float


class ActingPolicy(Protocol):
    """Flat observations `(..., D)` to actions in [-1, 1]; learned by RLPD, PPO or cloning."""

    observation_clip: float
    """Scaled observations must be clipped to this bound (`Layout.flatten`)."""

    @property
    def observation_dim(self) -> int: ...

    @property
    def action_dim(self) -> int: ...

    def mode(self, x: np.ndarray) -> np.ndarray: ...

    def sample(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray: ...


def look(policy: Clipping, layout: Layout, observation: Observation) -> np.ndarray:
    """The input of a policy: the flat vector `(..., D)`, and what the heads of its cameras say, where it has any."""
    flat = layout.flatten(observation, policy.observation_clip)
    return flat if not isinstance(policy, NumpyPolicy) or policy.heads is None else policy.heads(flat, observation)


def acting_policy(snapshot: PolicySnapshot) -> NumpyPolicy | NumpyGaussian:
    """The forward pass of a policy without memory, by its kind; a policy with memory is refused."""
    if snapshot.kind == "recurrent_gaussian":
        raise SpecMismatch(
            "this policy has recurrent layers: its memory must be kept for it and reset at every episode (`NumpyRecurrent`), "
            "and this part of Tandem does not do that"
        )
    if "chunk" in snapshot.parameters:
        raise SpecMismatch(
            "this policy decides several actions at once (`tandem bc --chunk`), and this part of Tandem asks for one at a time. Act with "
            "it by `tandem eval`, `play`, `record --operator policy:RUN` or `actor --policy`."
        )
    if snapshot.kind == "gaussian":
        from tandem.networks.numpy_gaussian import NumpyGaussian  # it is built from the parts here

        return NumpyGaussian(snapshot.parameters)
    if "grasp/columns" in snapshot.parameters:
        from tandem.networks.numpy_grasp import NumpyHybrid  # it is built from the parts here

        return NumpyHybrid(snapshot.parameters)
    return NumpyPolicy(snapshot.parameters)


class Trunk:
    """The hidden layers of an `MLP`."""

    def __init__(self, parameters: Mapping[str, np.ndarray]) -> None:
        self._activation = ACTIVATIONS[int(parameters["activation"])]
        depth = sum(name.startswith("trunk/layers/") and name.endswith("/weight") for name in parameters)
        self._layers = [(parameters[f"trunk/layers/{i}/weight"], parameters[f"trunk/layers/{i}/bias"]) for i in range(depth)]
        self._norms = [
            (parameters[f"trunk/norms/{i}/gain"], parameters[f"trunk/norms/{i}/shift"]) if "trunk/norms/0/gain" in parameters else None
            for i in range(depth)
        ]
        self.inputs = self._layers[0][0].shape[0]

    def __call__(self, h: np.ndarray) -> np.ndarray:
        for (weight, bias), norm in zip(self._layers, self._norms, strict=True):
            h = h @ weight + bias
            if norm is not None:
                h = h - h.mean(axis=-1, keepdims=True)
                h = h / np.sqrt((h * h).mean(axis=-1, keepdims=True) + LAYER_NORM_EPSILON) * norm[0] + norm[1]
            h = self._activation(h)
        return h


class NumpyPolicy:
    """The forward pass of `TanhGaussian`. Observations `(D,)` or `(..., D)`, scaled and clipped; actions likewise."""

    observation_clip = OBSERVATION_CLIP

    def __init__(self, parameters: Mapping[str, np.ndarray]):
        try:
            self._log_std_range = np.log(parameters["std_range"])
            self._mean = parameters["mean/weight"], parameters["mean/bias"]
            self._log_std = parameters["log_std/weight"], parameters["log_std/bias"]
            self._trunk = Trunk(parameters)
            self.heads: NumpyHeads | None = None
            """What it makes of the features of its cameras; None without cameras."""
            if any(name.startswith("heads/") for name in parameters):
                from tandem.networks.numpy_heads import NumpyHeads  # only those with cameras need it

                self.heads = NumpyHeads(parameters)
        except (KeyError, IndexError) as problem:
            raise no_policy(parameters, problem) from problem

    @property
    def observation_dim(self) -> int:
        return self._trunk.inputs

    @property
    def action_dim(self) -> int:
        return self._mean[0].shape[1]

    def mode(self, x: np.ndarray) -> np.ndarray:
        """The action without exploration."""
        return np.tanh(self.gaussian(x)[0])

    def sample(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A random action, as drawn during training."""
        mean, std = self.gaussian(x)
        return np.tanh(mean + std * rng.standard_normal(mean.shape, dtype=np.float32))

    def seen(self, x: np.ndarray) -> np.ndarray:
        """Input of the first layer."""
        return checked(x, self.observation_dim)

    def gaussian(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std, before tanh."""
        h = self._trunk(self.seen(x))
        log_std = np.clip(h @ self._log_std[0] + self._log_std[1], *self._log_std_range)
        return h @ self._mean[0] + self._mean[1], np.exp(log_std)


def checked(x: np.ndarray, observation_dim: int) -> np.ndarray:
    """Observations as float32, of the size that a policy takes."""
    x = np.asarray(x, np.float32)
    if x.shape[-1:] != (observation_dim,):
        raise SpecMismatch(
            f"the policy takes observations of {observation_dim} numbers, got an array of shape {x.shape}: "
            f"it was trained for another task, or with other entries"
        )
    return x


def no_policy(parameters: Mapping[str, np.ndarray], problem: Exception) -> SpecMismatch:
    return SpecMismatch(
        f"these parameters are not a policy: {problem} is missing; there are {', '.join(sorted(parameters)) or 'none'}. "
        f"Expected those of `SAC.policy_parameters` or `PPO.policy_parameters`. Likely cause: a learner of another version."
    )

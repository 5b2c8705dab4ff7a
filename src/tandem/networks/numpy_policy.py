"""The policy without JAX: what an actor runs, on any computer, from the parameters that the learner publishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tandem.errors import SpecMismatch

LAYER_NORM_EPSILON = 1e-6


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def swish(x: np.ndarray) -> np.ndarray:
    return x * (0.5 + 0.5 * np.tanh(0.5 * x))  # the sigmoid by tanh: nothing overflows


ACTIVATIONS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (np.tanh, relu, swish)
"""A policy names its own by the place in this list, the order of `mlp.ACTIVATIONS`."""


class NumpyPolicy:
    """The forward pass of `TanhGaussian`. Observations `(D,)` or `(..., D)`, scaled and clipped; actions likewise."""

    def __init__(self, parameters: Mapping[str, np.ndarray]):
        try:
            self._activation = ACTIVATIONS[int(parameters["activation"])]
            self._log_std_range = np.log(parameters["std_range"])
            self._mean = parameters["mean/weight"], parameters["mean/bias"]
            self._log_std = parameters["log_std/weight"], parameters["log_std/bias"]
            depth = sum(name.startswith("trunk/layers/") and name.endswith("/weight") for name in parameters)
            self._layers = [(parameters[f"trunk/layers/{i}/weight"], parameters[f"trunk/layers/{i}/bias"]) for i in range(depth)]
            self._norms = [
                (parameters[f"trunk/norms/{i}/gain"], parameters[f"trunk/norms/{i}/shift"]) if "trunk/norms/0/gain" in parameters else None
                for i in range(depth)
            ]
        except (KeyError, IndexError) as problem:
            raise SpecMismatch(
                f"these parameters are no policy: {problem} is not among {', '.join(sorted(parameters)) or 'them'}. "
                f"Expected those of `SAC.policy_parameters`; is the learner of another version?"
            ) from problem

    @property
    def observation_dim(self) -> int:
        return self._layers[0][0].shape[0]

    @property
    def action_dim(self) -> int:
        return self._mean[0].shape[1]

    def mode(self, x: np.ndarray) -> np.ndarray:
        """The action without exploration."""
        return np.tanh(self._gaussian(x)[0])

    def sample(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action as it is drawn while learning."""
        mean, log_std = self._gaussian(x)
        return np.tanh(mean + np.exp(log_std) * rng.standard_normal(mean.shape, dtype=np.float32))

    def _gaussian(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        h = np.asarray(x, np.float32)
        if h.shape[-1:] != (self.observation_dim,):
            raise SpecMismatch(
                f"the policy sees observations of {self.observation_dim} numbers, got an array of shape {h.shape}: "
                f"it was trained for another task, or with other entries"
            )
        for (weight, bias), norm in zip(self._layers, self._norms, strict=True):
            h = h @ weight + bias
            if norm is not None:
                h = h - h.mean(axis=-1, keepdims=True)
                h = h / np.sqrt((h * h).mean(axis=-1, keepdims=True) + LAYER_NORM_EPSILON) * norm[0] + norm[1]
            h = self._activation(h)
        log_std = np.clip(h @ self._log_std[0] + self._log_std[1], *self._log_std_range)
        return h @ self._mean[0] + self._mean[1], log_std

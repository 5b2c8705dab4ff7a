"""PPO's policy without JAX: the forward pass of `Gaussian`, from the parameters that a PPO run saves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tandem.networks.normaliser import normalised
from tandem.networks.numpy_policy import ACTIVATIONS, checked, no_policy

LOG_STD_SOFTNESS = 0.5
"""Same as `gaussian.SOFTNESS["state"]`."""


class NumpyGaussian:
    """The forward pass of PPO's `Gaussian`, with the running normaliser it was trained through. Actions are clipped to [-1, 1]."""

    observation_clip = np.inf  # the policy clips by itself, after normalising

    def __init__(self, parameters: Mapping[str, np.ndarray]):
        try:
            self.observation_dim = int(parameters["observation_dim"])
            columns, mean, std = parameters["columns"], parameters["normaliser/mean"], parameters["normaliser/std"]
            clip = float(parameters["normaliser/clip"])
            # steps that change nothing are left out: they would take as long as a layer
            self._columns = None if np.array_equal(columns, np.arange(self.observation_dim)) else columns
            self._normaliser = None if not mean.any() and (std == 1).all() and clip == np.inf else (mean, std, clip)
            self._activation = ACTIVATIONS[int(parameters["activation"])]
            depth = sum(name.startswith("trunk/layers/") and name.endswith("/weight") for name in parameters)
            self._layers = [(parameters[f"trunk/layers/{i}/weight"], parameters[f"trunk/layers/{i}/bias"]) for i in range(depth)]
            self._mean = parameters["mean/weight"], parameters["mean/bias"]
            self._std = parameters.get("std")
            self._std_head = None if "std" in parameters else (parameters["raw_std/weight"], parameters["raw_std/bias"])
            self._log_std_range = np.log(parameters["std_range"])
        except (KeyError, IndexError) as problem:
            raise no_policy(parameters, problem) from problem

    @property
    def action_dim(self) -> int:
        return self._mean[0].shape[1]

    def mode(self, x: np.ndarray) -> np.ndarray:
        """The action without exploration."""
        return np.clip(self.gaussian(x)[0], -1, 1)

    def sample(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A random action, as drawn during training and then clipped for the environment."""
        mean, std = self.gaussian(x)
        return np.clip(mean + std * rng.standard_normal(mean.shape, dtype=np.float32), -1, 1)

    def seen(self, x: np.ndarray) -> np.ndarray:
        """Input of the first layer: the policy's own entries, normalised."""
        x = checked(x, self.observation_dim)
        x = x if self._columns is None else x[..., self._columns]
        return x if self._normaliser is None else normalised(x, *self._normaliser)

    def gaussian(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std, neither squashed nor clipped."""
        return self.dense(self.seen(x))

    def dense(self, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std, from the input of the first dense layer."""
        for weight, bias in self._layers:
            h = self._activation(h @ weight + bias)
        mean = h @ self._mean[0] + self._mean[1]
        if self._std_head is None:
            return mean, np.full(mean.shape, self._std, np.float32)
        low, high = self._log_std_range
        below_high = high - LOG_STD_SOFTNESS * np.logaddexp(0, (high - (h @ self._std_head[0] + self._std_head[1])) / LOG_STD_SOFTNESS)
        return mean, np.exp(low + LOG_STD_SOFTNESS * np.logaddexp(0, (below_high - low) / LOG_STD_SOFTNESS)).astype(np.float32)

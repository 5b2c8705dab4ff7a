"""PPO's policy without JAX: the forward pass of `Gaussian`, from the parameters that a PPO run saves."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tandem.networks.choices import Choices
from tandem.networks.normaliser import normalised
from tandem.networks.numpy_policy import ACTIVATIONS, checked, no_policy

LOG_STD_SOFTNESS = 0.5
"""Same as `gaussian.SOFTNESS["state"]`."""
Outputs = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Mean and std of the axes, and the logits of all choices."""


class NumpyGaussian:
    """The forward pass of PPO's `Gaussian`, with the running normaliser it was trained through.

    Axes are clipped to [-1, 1]; a choice is given by its number.
    """

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
            self.choices = Choices.from_arrays(parameters)
            self._logits = (parameters["choices/weight"], parameters["choices/bias"]) if self.choices.columns else None
        except (KeyError, IndexError) as problem:
            raise no_policy(parameters, problem) from problem

    @property
    def action_dim(self) -> int:
        return self._mean[0].shape[1] + len(self.choices.columns)

    def mode(self, x: np.ndarray) -> np.ndarray:
        """The action without exploration."""
        return self.likeliest(self.outputs(x))

    def sample(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A random action, as drawn during training and then clipped for the environment."""
        outputs = self.outputs(x)
        return self.clipped(self.drawn(outputs, rng.standard_normal((*outputs[0].shape[:-1], self.action_dim), dtype=np.float32)))

    def likeliest(self, outputs: Outputs) -> np.ndarray:
        """The most likely action of these means, stds and logits."""
        mean, _, logits = outputs
        axes = np.clip(mean, -1, 1)
        return self.choices.joined(axes, self.choices.likeliest(logits)) if self.choices.columns else axes

    def drawn(self, outputs: Outputs, noise: np.ndarray) -> np.ndarray:
        """Actions, not clipped. A choice is drawn by where its noise lies in the normal distribution."""
        mean, std, logits = outputs
        if not self.choices.columns:
            return mean + std * noise
        place = noise[..., np.array(self.choices.columns)]
        uniform = np.array([0.5 * math.erfc(-z / math.sqrt(2)) for z in place.ravel().tolist()]).reshape(place.shape)
        return self.choices.joined(mean + std * noise[..., self.choices.axes(self.action_dim)], self.choices.drawn(logits, uniform))

    def clipped(self, action: np.ndarray) -> np.ndarray:
        """Axes within [-1, 1]; choices as they are."""
        if not self.choices.columns:
            return np.clip(action, -1, 1)
        return np.where(np.isin(np.arange(self.action_dim), self.choices.columns), action, np.clip(action, -1, 1))

    def seen(self, x: np.ndarray) -> np.ndarray:
        """Input of the first layer: the policy's own entries, normalised."""
        x = checked(x, self.observation_dim)
        x = x if self._columns is None else x[..., self._columns]
        return x if self._normaliser is None else normalised(x, *self._normaliser)

    def gaussian(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std of the axes, neither squashed nor clipped."""
        return self.outputs(x)[:2]

    def outputs(self, x: np.ndarray) -> Outputs:
        return self.dense(self.seen(x))

    def dense(self, h: np.ndarray) -> Outputs:
        """Mean, std and logits, from the input of the first dense layer."""
        for weight, bias in self._layers:
            h = self._activation(h @ weight + bias)
        logits = np.zeros((*h.shape[:-1], 0), np.float32) if self._logits is None else h @ self._logits[0] + self._logits[1]
        return (*self._axes(h), logits)

    def _axes(self, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = h @ self._mean[0] + self._mean[1]
        if self._std_head is None:
            return mean, np.full(mean.shape, self._std, np.float32)
        low, high = self._log_std_range
        below_high = high - LOG_STD_SOFTNESS * np.logaddexp(0, (high - (h @ self._std_head[0] + self._std_head[1])) / LOG_STD_SOFTNESS)
        return mean, np.exp(low + LOG_STD_SOFTNESS * np.logaddexp(0, (below_high - low) / LOG_STD_SOFTNESS)).astype(np.float32)

"""The heads of `networks/heads.py` without JAX."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tandem.errors import SpecMismatch
from tandem.networks.encoders import FEATURE_SCALE
from tandem.types import Observation

_EPSILON = 1e-6  # that of LayerNorm


class NumpyHeads:
    """The numbers that a policy makes of its cameras' features."""

    def __init__(self, parameters: Mapping[str, np.ndarray]) -> None:
        self.cameras = sorted({name.split("/")[1] for name in parameters if name.startswith("heads/")})
        parts = ("dense/weight", "dense/bias", "norm/gain", "norm/shift")
        self._layers = {camera: [parameters[f"heads/{camera}/{part}"] for part in parts] for camera in self.cameras}

    def __call__(self, flat: np.ndarray, observation: Observation) -> np.ndarray:
        """The vector `(..., D)` followed by what each camera shows, cameras in the order of their names."""
        return np.concatenate([flat, *(self._seen(camera, observation, flat.shape[:-1]) for camera in self.cameras)], axis=-1)

    def _seen(self, camera: str, observation: Observation, lead: tuple[int, ...]) -> np.ndarray:
        weight, bias, gain, shift = self._layers[camera]
        features = observation.get(camera)
        if features is None or features.dtype != np.int8 or features.size != np.prod(lead, dtype=int) * len(weight):
            found = "nothing" if features is None else f"{features.dtype} {features.shape}"
            raise SpecMismatch(f"the policy takes {len(weight)} int8 features of the camera '{camera}', got {found}: of another encoder?")
        h = features.reshape(*lead, -1).astype(np.float32) / np.float32(FEATURE_SCALE) @ weight + bias
        h = h - h.mean(axis=-1, keepdims=True)
        return np.tanh(h / np.sqrt((h * h).mean(axis=-1, keepdims=True) + _EPSILON) * gain + shift)

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
        self._convs = {camera: convolutions(parameters, camera) for camera in self.cameras}
        self._sums = {camera: parameters.get(f"heads/{camera}/kernel") for camera in self.cameras}

    def __call__(self, flat: np.ndarray, observation: Observation) -> np.ndarray:
        """The vector `(..., D)` followed by what each camera shows, cameras in the order of their names."""
        return np.concatenate([flat, *(self._seen(camera, observation, flat.shape[:-1]) for camera in self.cameras)], axis=-1)

    def _seen(self, camera: str, observation: Observation, lead: tuple[int, ...]) -> np.ndarray:
        weight, bias, gain, shift = self._layers[camera]
        features = observation.get(camera)
        if features is None or features.dtype != np.int8:
            raise _wrong(camera, len(weight), features)
        x = features.astype(np.float32) / np.float32(FEATURE_SCALE)
        if self._convs[camera]:
            x = _convolved(x.reshape(-1, *features.shape[-3:]), self._convs[camera])
        kernel = self._sums[camera]
        if kernel is not None:
            if features.shape[-3:] != kernel.shape[:3]:
                raise _wrong(camera, int(np.prod(kernel.shape[:3])), features)
            x = np.einsum("bhwc,hwck->bck", x.reshape(-1, *kernel.shape[:3]), kernel)
        if x.size != np.prod(lead, dtype=int) * len(weight):
            raise _wrong(camera, len(weight), features)
        h = x.reshape(*lead, -1) @ weight + bias
        h = h - h.mean(axis=-1, keepdims=True)
        return np.tanh(h / np.sqrt((h * h).mean(axis=-1, keepdims=True) + _EPSILON) * gain + shift)


def convolutions(parameters: Mapping[str, np.ndarray], camera: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weight (3, 3, inputs, outputs) and bias of each convolution of a head that learned to see; none of any other."""
    count = sum(name.startswith(f"heads/{camera}/convs/") and name.endswith("/weight") for name in parameters)
    names = [f"heads/{camera}/convs/{number}" for number in range(count)]
    return [(parameters[f"{name}/weight"], parameters[f"{name}/bias"]) for name in names]


def _convolved(x: np.ndarray, convs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """(n, height, width, channels), stride 2 but for the last, ReLU after each."""
    for number, (weight, bias) in enumerate(convs):
        stride = 1 if number == len(convs) - 1 else 2
        sizes = x.shape[1:3]
        pads = [max(0, (-(-size // stride) - 1) * stride + 3 - size) for size in sizes]  # SAME: the odd pixel is at the end
        padded = np.pad(x, ((0, 0), *((pad // 2, pad - pad // 2) for pad in pads), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::stride, ::stride]
        x = np.maximum(np.tensordot(windows, weight.transpose(2, 0, 1, 3), axes=3) + bias, 0).astype(np.float32)
    return x


def _wrong(camera: str, count: int, features: np.ndarray | None) -> SpecMismatch:
    found = "nothing" if features is None else f"{features.dtype} {features.shape}"
    return SpecMismatch(f"the policy takes {count} int8 features of the camera '{camera}', got {found}: of another encoder?")

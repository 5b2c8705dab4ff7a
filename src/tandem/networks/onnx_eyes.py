"""The cameras of a policy as ONNX nodes: from pictures to the numbers beside its vector. Trunk, projection, heads, in one file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tandem.networks.encoders import FEATURE_SCALE
from tandem.networks.encoders.encoder import Encoder, add_encoder
from tandem.networks.numpy_heads import convolutions
from tandem.networks.onnx_graph import Graph, camera_names

_EPSILON = 1e-6  # that of LayerNorm


def add_eyes(graph: Graph, parameters: Mapping[str, np.ndarray], vector: str) -> str:
    """The vector followed by what each camera shows."""
    encoder, seen = Encoder.from_arrays(parameters), [vector]
    for camera in camera_names(parameters):
        features = add_encoder(graph, camera, encoder)
        scaled = graph.node("Div", features, graph.number(f"{camera}/feature_scale", FEATURE_SCALE))
        convs = convolutions(parameters, camera)
        if convs:
            scaled = _convolved(graph, f"heads/{camera}", scaled, convs)
        kernel = parameters.get(f"heads/{camera}/kernel")
        if kernel is not None:
            scaled = _summed(graph, f"heads/{camera}/kernel", scaled, kernel)
        h = graph.node("Gemm", graph.node("Flatten", scaled, axis=1), *graph.weights(parameters, f"heads/{camera}/dense"))
        learned = [graph.number(f"heads/{camera}/norm/{part}", parameters[f"heads/{camera}/norm/{part}"]) for part in ("gain", "shift")]
        seen.append(graph.node("Tanh", graph.node("LayerNormalization", h, *learned, axis=-1, epsilon=_EPSILON)))
    return graph.node("Concat", *seen, axis=1)


def _summed(graph: Graph, name: str, x: str, kernel: np.ndarray) -> str:
    """Learned sums over all places of each channel: a convolution of each channel by itself, as large as the map."""
    height, width, channels, sums = kernel.shape
    weight = graph.number(name, kernel.transpose(2, 3, 0, 1).reshape(channels * sums, 1, height, width))
    return graph.node("Conv", graph.node("Transpose", x, perm=[0, 3, 1, 2]), weight, group=channels)


def _convolved(graph: Graph, name: str, x: str, convs: list[tuple[np.ndarray, np.ndarray]]) -> str:
    """As `numpy_heads` does; the sizes are even at every stride of 2, for a picture's sides are multiples of 16."""
    x = graph.node("Transpose", x, perm=[0, 3, 1, 2])
    for number, (weight, bias) in enumerate(convs):
        last = number == len(convs) - 1
        weights = graph.number(f"{name}/{number}/weight", weight.transpose(3, 2, 0, 1)), graph.number(f"{name}/{number}/bias", bias)
        stride, pads = (1, [1, 1, 1, 1]) if last else (2, [0, 0, 1, 1])
        x = graph.node("Relu", graph.node("Conv", x, *weights, strides=[stride, stride], pads=pads))
    return graph.node("Transpose", x, perm=[0, 2, 3, 1])

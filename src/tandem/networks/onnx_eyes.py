"""The cameras of a policy as ONNX nodes: from pictures to the numbers beside its vector. Trunk, projection, heads, in one file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tandem.networks.encoders import FEATURE_SCALE
from tandem.networks.encoders.encoder import Encoder, add_encoder
from tandem.networks.onnx_graph import Graph, camera_names

_EPSILON = 1e-6  # that of LayerNorm


def add_eyes(graph: Graph, parameters: Mapping[str, np.ndarray], vector: str) -> str:
    """The vector followed by what each camera shows."""
    encoder, seen = Encoder.from_arrays(parameters), [vector]
    for camera in camera_names(parameters):
        features = graph.node("Flatten", add_encoder(graph, camera, encoder), axis=1)
        scaled = graph.node("Div", features, graph.number(f"{camera}/feature_scale", FEATURE_SCALE))
        h = graph.node("Gemm", scaled, *graph.weights(parameters, f"heads/{camera}/dense"))
        learned = [graph.number(f"heads/{camera}/norm/{part}", parameters[f"heads/{camera}/norm/{part}"]) for part in ("gain", "shift")]
        seen.append(graph.node("Tanh", graph.node("LayerNormalization", h, *learned, axis=-1, epsilon=_EPSILON)))
    return graph.node("Concat", *seen, axis=1)

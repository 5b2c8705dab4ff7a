"""ResNet-10 as hil-serl and LeRobot use it (He et al. 2016; GroupNorm of 4 groups), up to where a pixel of its map stands for 16 pixels of
the picture: 256 channels, 8 x 8 for a picture of 128 x 128. Their last block, of stride 32, is left out.

The weights are the user's (`data/resnet_file.py` reads both formats). What was read once lies in a folder of this machine under the hash
of its numbers, so that actors, `eval` and `export` find it by the hash that an encoder carries.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from tandem.errors import FileMissing, FileUnreadable
from tandem.files import write_atomically
from tandem.networks.onnx_graph import Graph

CHANNELS = 256
GROUPS, EPSILON = 4, 1e-5
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's pictures, red, green and blue from 0 to 1."""
FOLDER_VARIABLE = "TANDEM_TRUNKS"
_WIDTHS = (64, 128, 256)
Weights = Mapping[str, np.ndarray]


def shapes() -> dict[str, tuple[int, ...]]:
    """What the network has, by our names: convolutions (out, in, k, k), and scale and bias of the norm behind each."""
    convolutions: dict[str, tuple[int, ...]] = {"init": (64, 3, 7, 7)}
    before = 64
    for number, width in enumerate(_WIDTHS):
        convolutions |= {f"{number}/first": (width, before, 3, 3), f"{number}/second": (width, width, 3, 3)}
        if width != before:
            convolutions[f"{number}/shortcut"] = (width, before, 1, 1)
        before = width
    found = {}
    for name, shape in convolutions.items():
        found |= {f"{name}/weight": shape, f"{name}/scale": shape[:1], f"{name}/bias": shape[:1]}
    return found


def weights_hash(weights: Weights) -> str:
    digest = hashlib.sha256()
    for name in shapes():
        digest.update(name.encode() + np.asarray(weights[name], "<f4", order="C").tobytes())
    return digest.hexdigest()


def keep(weights: Weights) -> str:
    """Store the weights on this machine; returns the hash under which they are found again."""
    found = weights_hash(weights)
    path = _folder() / f"{found}.safetensors"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, safetensors.numpy.save({name: np.ascontiguousarray(weights[name], np.float32) for name in shapes()}))
    return found


def kept(weights: str) -> dict[str, np.ndarray]:
    """The weights with this hash. Other numbers under its name are refused."""
    path = _folder() / f"{weights}.safetensors"
    try:
        arrays = safetensors.numpy.load(path.read_bytes())
        if weights_hash(arrays) == weights:
            return arrays
    except FileNotFoundError:
        raise FileMissing(
            f"this policy sees through a ResNet-10 whose weights have the hash {weights[:16]}, and this machine does not have them: copy "
            f"{path.name} from ~/.cache/tandem/trunks of the machine where it was trained to {path.parent} (or set {FOLDER_VARIABLE} to "
            f"their folder)"
        ) from None
    except (OSError, SafetensorError, KeyError, ValueError) as problem:
        raise FileUnreadable(
            f"the weights of ResNet-10, {path}, cannot be read: {problem}. Remove the file, and train or copy again."
        ) from None
    raise FileUnreadable(f"the weights of ResNet-10, {path}, are not those that its name says. Remove the file, and train or copy again.")


def _folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "tandem" / "trunks"


def add_resnet(graph: Graph, picture: str, weights: Weights) -> str:
    """Nodes from pictures (n, height, width, 3) in 0 ... 255 to the map (n, 256, height / 16, width / 16)."""
    x = graph.node("Transpose", graph.node("Cast", picture, to=1), perm=[0, 3, 1, 2])
    mean, std = (255 * np.array(numbers, np.float32).reshape(1, 3, 1, 1) for numbers in (MEAN, STD))
    x = graph.node("Div", graph.node("Sub", x, graph.shared("resnet/mean", mean)), graph.shared("resnet/std", std))
    x = graph.node("Relu", _normed(graph, "init", x, weights, stride=2, pads=[3, 3, 3, 3]))
    x = graph.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])
    for number in range(len(_WIDTHS)):
        stride = 2 if number else 1
        before = _normed(graph, f"{number}/shortcut", x, weights, stride, [0] * 4) if number else x
        # the padding that TensorFlow calls SAME: at stride 2 of an even size the odd pixel is at the end
        x = graph.node("Relu", _normed(graph, f"{number}/first", x, weights, stride, [0, 0, 1, 1] if number else [1] * 4))
        x = _normed(graph, f"{number}/second", x, weights, 1, [1] * 4)
        x = graph.node("Relu", graph.node("Add", x, before))
    return x


def _normed(graph: Graph, name: str, x: str, weights: Weights, stride: int, pads: list[int]) -> str:
    """A convolution without bias, and GroupNorm: each group of channels of a picture by its own mean and variance."""
    weight = graph.shared(f"resnet/{name}/weight", weights[f"{name}/weight"])
    x = graph.node("Conv", x, weight, pads=pads, strides=[stride, stride])
    ones, zeros = graph.shared("resnet/ones", np.ones(GROUPS)), graph.shared("resnet/zeros", np.zeros(GROUPS))
    grouped = graph.node("Reshape", x, graph.constant(f"resnet/{len(graph.nodes)}/groups", np.array([0, GROUPS, -1], np.int64)))
    grouped = graph.node("InstanceNormalization", grouped, ones, zeros, epsilon=EPSILON)
    x = graph.node("Reshape", grouped, graph.node("Shape", x))
    scale, bias = (graph.shared(f"resnet/{name}/{part}", weights[f"{name}/{part}"].reshape(1, -1, 1, 1)) for part in ("scale", "bias"))
    return graph.node("Add", graph.node("Mul", x, scale), bias)

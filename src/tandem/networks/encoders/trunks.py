"""The frozen image networks by name, and what an encoder must know of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tandem.errors import ConfigError
from tandem.networks.encoders import COLOURS, END_TO_END, efficientnet, resnet
from tandem.networks.onnx_graph import Graph

NAMES = ("efficientnet-lite0", "random-lite0", "resnet10", END_TO_END)
"""Trained on ImageNet; the same network with random weights, for comparison; the user's own weights; none. Policy parameters hold the
index."""
_PLAIN = tuple(name for name in NAMES if name != "resnet10")
FROM_FILE = "resnet10:"


@dataclass(frozen=True)
class Network:
    """A network and its weights."""

    name: str
    weights: str = ""
    """Hash of the weights where they are the user's."""

    def __post_init__(self) -> None:
        if self.name not in NAMES or (self.name == "resnet10") != bool(self.weights):
            raise ConfigError(f"no image network is called '{self.name}'; there are {', '.join(_PLAIN)} and {FROM_FILE}FILE")

    @property
    def channels(self) -> int:
        return resnet.CHANNELS if self.weights else COLOURS if self.name == END_TO_END else efficientnet.CHANNELS

    @property
    def stride(self) -> int:
        """Pixels of the picture, along a side, that one place of the map stands for."""
        return 2 if self.name == END_TO_END else efficientnet.STRIDE

    @property
    def known_by(self) -> str:
        """What makes it this network and no other; part of an encoder's hash."""
        return f"{self.name} {self.weights or efficientnet.SHA256}"

    def add(self, graph: Graph, picture: str) -> str:
        """Nodes from pictures (n, height, width, 3) in 0 ... 255 to the map (n, channels, height / stride, width / stride)."""
        if self.name == END_TO_END:
            x = graph.node("Transpose", graph.node("Cast", picture, to=1), perm=[0, 3, 1, 2])
            return graph.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
        if self.weights:
            return resnet.add_resnet(graph, picture, _kept(self.weights))
        layers = efficientnet.pretrained() if self.name == "efficientnet-lite0" else efficientnet.random_weights(0)
        return efficientnet.add_trunk(graph, picture, layers)


def check_name(asked: str) -> None:
    """Refuse a setting that names no network."""
    if asked not in _PLAIN and not (asked.startswith(FROM_FILE) and len(asked) > len(FROM_FILE)):
        raise ConfigError(f"no encoder is called '{asked}'; there are {', '.join(_PLAIN)} and {FROM_FILE}FILE, a file of your own")


@lru_cache(maxsize=1)
def _kept(weights: str) -> dict:
    return resnet.kept(weights)

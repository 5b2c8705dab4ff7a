"""The frozen image networks by name, and what an encoder must know of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tandem.errors import ConfigError
from tandem.networks.encoders import efficientnet, resnet
from tandem.networks.onnx_graph import Graph

NAMES = ("efficientnet-lite0", "random-lite0", "resnet10")
"""Trained on ImageNet; the same network with random weights, for comparison; the user's own weights. Policy parameters hold the index."""
FROM_FILE = "resnet10:"


@dataclass(frozen=True)
class Network:
    """A network and its weights."""

    name: str
    weights: str = ""
    """Hash of the weights where they are the user's."""

    def __post_init__(self) -> None:
        if self.name not in NAMES or (self.name == "resnet10") != bool(self.weights):
            raise ConfigError(f"no image network is called '{self.name}'; there are {', '.join(NAMES[:2])} and {FROM_FILE}FILE")

    @property
    def channels(self) -> int:
        return resnet.CHANNELS if self.weights else efficientnet.CHANNELS

    @property
    def known_by(self) -> str:
        """What makes it this network and no other; part of an encoder's hash."""
        return f"{self.name} {self.weights or efficientnet.SHA256}"

    def add(self, graph: Graph, picture: str) -> str:
        """Nodes from pictures (n, height, width, 3) in 0 ... 255 to the map (n, channels, height / 16, width / 16)."""
        if self.weights:
            return resnet.add_resnet(graph, picture, _kept(self.weights))
        layers = efficientnet.pretrained() if self.name == "efficientnet-lite0" else efficientnet.random_weights(0)
        return efficientnet.add_trunk(graph, picture, layers)


def check_name(asked: str) -> None:
    """Refuse a setting that names no network."""
    if asked not in NAMES[:2] and not (asked.startswith(FROM_FILE) and len(asked) > len(FROM_FILE)):
        raise ConfigError(f"no encoder is called '{asked}'; there are {', '.join(NAMES[:2])} and {FROM_FILE}FILE, a file of your own")


@lru_cache(maxsize=1)
def _kept(weights: str) -> dict:
    return resnet.kept(weights)

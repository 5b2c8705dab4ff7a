"""The encoder of a run: a frozen image network, then a projection that was fitted on the run's demonstrations.

    picture (128, 128, 3) ─► trunk ─► (8, 8, 80) ─► 32 principal components ─► / std, rounded ─► (8, 8, 32) int8

A picture is encoded once in its life. The components keep what varies in the demonstrations and make the features small: 2 kB a picture,
which a replay buffer can hold and a learner can read again and again without running the trunk. Each component is divided by its own
standard deviation, so one step of int8 means the same share of every component: `SPAN` standard deviations are 127, and the rounding is
1 % of a standard deviation.

The projection travels with every policy (10 kB, `arrays`), the trunk does not: it is known by its name, and its weights by their hash.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from tandem.errors import ConfigError, DataError, FileUnreadable
from tandem.files import write_atomically
from tandem.networks.encoders import COLOURS, END_TO_END, FEATURE_SCALE, LARGEST, SPAN
from tandem.networks.encoders.efficientnet import STRIDE
from tandem.networks.encoders.trunks import NAMES, Network
from tandem.networks.onnx_graph import IR_VERSION, OPSET, Graph, packages
from tandem.types import Entry, Spec

COMPONENTS = 32
PREFIX = "encoder/"
_CHUNK = 64
"""Pictures at once: enough for speed, little memory."""


class Trunk:
    """A frozen network as a function: pictures (n, height, width, 3) uint8 to maps (n, height / 16, width / 16, channels) float32."""

    def __init__(self, network: Network) -> None:
        graph = Graph()
        graph.node("Transpose", network.add(graph, "picture"), perm=[0, 2, 3, 1], output="map")
        self._session = _session(graph, "map", packages()[0].TensorProto.FLOAT)

    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        return self._session.run(["map"], {"picture": pictures})[0]


@dataclass(frozen=True)
class Encoder:
    """A trunk and a projection; `fit_encoder` makes one, `from_arrays` reads one again."""

    trunk: str
    """Its name, one of `trunks.NAMES`."""
    mean: np.ndarray
    """(80,) of the trunk's channels, over the demonstrations."""
    components: np.ndarray
    """(80, 32), the directions of largest variance, the largest first."""
    std: np.ndarray
    """(32,) of each component."""
    weights: str = ""
    """Hash of the trunk's weights, where they are the user's."""

    @property
    def network(self) -> Network:
        return Network(self.trunk, self.weights)

    @cached_property
    def hash(self) -> str:
        """Equal for equal features: weights, cut, projection and rounding count."""
        digest = hashlib.sha256(f"{self.network.known_by} stride {STRIDE} span {SPAN}".encode())
        for array in (self.mean, self.components, self.std):
            digest.update(np.asarray(array, np.float32, order="C").tobytes())
        return digest.hexdigest()[:16]

    @cached_property
    def _session(self) -> Any:
        graph = Graph()
        features = add_encoder(graph, "picture", self)
        graph.node("Cast", features, to=packages()[0].TensorProto.INT8, output="features")
        return _session(graph, "features", packages()[0].TensorProto.INT8)

    def encode(self, pictures: np.ndarray) -> np.ndarray:
        """(n, height, width, 3) uint8 to (n, height / 16, width / 16, 32) int8."""
        return self._session.run(["features"], {"picture": pictures})[0]

    def spec(self, spec: Spec, flat: bool = False, privileged: bool = False) -> Spec:
        """What a run observes through this encoder: features for images (`flat`: as numbers). `privileged`: what is for critics too."""
        entries = {
            name: self._entry(name, entry, flat) if entry.role == "image" else entry
            for name, entry in spec.observation.items()
            if entry.role != "privileged" or privileged
        }
        return dataclasses.replace(spec, observation=entries)

    def _entry(self, name: str, entry: Entry, flat: bool) -> Entry:
        height, width, _ = require_picture(name, entry)
        stride = self.network.stride
        shape = (height // stride, width // stride, self.components.shape[1])
        known_as = f"{self.trunk}:{self.hash}"
        if flat:
            size = int(np.prod(shape))
            return Entry((size,), "float32", "", FEATURE_SCALE, entry.meaning, "vector", encoder=known_as, picture=entry.shape)
        return Entry(shape, "int8", "", FEATURE_SCALE, entry.meaning, "features", encoder=known_as, picture=entry.shape)

    def arrays(self) -> dict[str, np.ndarray]:
        """By name, as a policy carries them."""
        named = {"trunk": np.array(NAMES.index(self.trunk), np.int32), "mean": self.mean, "components": self.components, "std": self.std}
        if self.weights:
            named["weights"] = np.frombuffer(bytes.fromhex(self.weights), np.uint8)
        return {f"{PREFIX}{name}": array for name, array in named.items()}

    def to_bytes(self) -> bytes:
        """As a file, and as actors of other machines get it."""
        return safetensors.numpy.save(self.arrays())

    def write(self, path: Path) -> None:
        write_atomically(path, self.to_bytes())

    @classmethod
    def read(cls, path: Path) -> Encoder:
        try:
            return cls.from_bytes(path.read_bytes(), str(path))
        except OSError as problem:
            raise FileUnreadable(f"the encoder of a run with cameras, {path}, cannot be read: {problem.strerror}") from None

    @classmethod
    def from_bytes(cls, data: bytes, what: str) -> Encoder:
        try:
            return cls.from_arrays(safetensors.numpy.load(data))
        except (SafetensorError, ValueError) as problem:
            raise FileUnreadable(f"{what} is no encoder, or it is damaged ({problem})") from None

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Encoder:
        try:
            trunk = NAMES[int(arrays[f"{PREFIX}trunk"])]
            weights = np.asarray(arrays.get(f"{PREFIX}weights", ()), np.uint8).tobytes().hex()
            channels = Network(trunk, weights).channels
            mean, components, std = (np.asarray(arrays[f"{PREFIX}{name}"], np.float32) for name in ("mean", "components", "std"))
        except (KeyError, IndexError, ValueError, ConfigError) as problem:
            raise FileUnreadable(
                f"there is no encoder among these arrays ({type(problem).__name__}: {problem}): another version?"
            ) from None
        if mean.shape != (channels,) or components.shape != (channels, len(std)) or not (std > 0).all():
            raise FileUnreadable(f"an encoder has arrays of shapes {mean.shape}, {components.shape} and {std.shape}: it is damaged")
        return cls(trunk, mean, components, std, weights)


def require_picture(name: str, entry: Entry) -> tuple[int, int, int]:
    """Height, width and channels of an image that can be encoded."""
    height, width, channels = entry.shape
    if channels != 3 or height % STRIDE or width % STRIDE or min(height, width) < 2 * STRIDE:
        raise ConfigError(
            f"the image '{name}' has the shape {entry.shape}; an encoder takes (height, width, 3) with a height and a width that are "
            f"multiples of {STRIDE}, at least {2 * STRIDE}, such as (128, 128, 3). Say how to crop and resize it in the file of the "
            f"environment (docs/your-environment.md): [pictures.{name}] size = [128, 128]"
        )
    return height, width, channels


def fit_encoder(pictures: Iterable[np.ndarray], network: Network | None = None) -> Encoder:
    """The encoder whose projection keeps most of what varies in these pictures, each (n, height, width, 3) uint8."""
    network = network or Network(NAMES[0])
    if network.name == END_TO_END:  # nothing to fit: bytes from 0 to 255 become -128 to 127
        grey = np.full(COLOURS, 128, np.float32), np.eye(COLOURS, dtype=np.float32), np.full(COLOURS, FEATURE_SCALE, np.float32)
        return Encoder(network.name, *grey)
    run, first, alike, channels = Trunk(network), None, True, network.channels
    count, total, products = 0, np.zeros(channels), np.zeros((channels, channels))
    for some in pictures:
        first = some[0] if first is None else first
        alike = alike and some.shape[1:] == first.shape and bool((some == first).all())
        for start in range(0, len(some), _CHUNK):
            maps = run(some[start : start + _CHUNK]).reshape(-1, channels).astype(float)
            count, total, products = count + len(maps), total + maps.sum(axis=0), products + maps.T @ maps
    if not count:
        raise DataError(
            "there are no pictures to fit an encoder on. Record demonstrations first, with --scripted-demos or `tandem record`."
        )
    if alike:
        raise DataError(
            "the pictures of the demonstrations are all alike: nothing can be learned from them. Is a camera black, covered or frozen?"
        )
    mean = total / count
    variances, directions = np.linalg.eigh(products / count - np.outer(mean, mean))
    chosen = np.argsort(variances)[::-1][:COMPONENTS]
    components, variances = directions[:, chosen], np.maximum(variances[chosen], 0.0)
    # the sign of a component is arbitrary; a component that hardly varies is not blown up to noise
    components *= np.sign(components[np.abs(components).argmax(axis=0), np.arange(components.shape[1])])
    std = np.sqrt(np.maximum(variances, 1e-4 * variances[0]))
    mean, components, std = (np.ascontiguousarray(array, np.float32) for array in (mean, components, std))
    return Encoder(network.name, mean, components, std, network.weights)


def add_encoder(graph: Graph, picture: str, encoder: Encoder) -> str:
    """Nodes from pictures to features (n, height / 16, width / 16, 32), whole numbers as floats."""
    maps = encoder.network.add(graph, picture)
    weight = (encoder.components * (LARGEST / (SPAN * encoder.std))).T[:, :, None, None]
    bias = -(encoder.mean @ encoder.components) * (LARGEST / (SPAN * encoder.std))
    # An export has a projection for each camera; the names of its constants must differ.
    name = f"projection/{len(graph.nodes)}"
    projected = graph.node("Conv", maps, graph.number(f"{name}/weight", weight), graph.number(f"{name}/bias", bias))
    rounded = graph.node("Round", graph.clip(projected, name, -LARGEST, LARGEST))
    return graph.node("Transpose", rounded, perm=[0, 2, 3, 1])


def _session(graph: Graph, output: str, kind: int) -> Any:
    """ONNX Runtime with one thread that does not spin: an actor has other things to do with its core."""
    onnx, runtime = packages()
    helper = onnx.helper
    taken = [helper.make_tensor_value_info("picture", onnx.TensorProto.UINT8, ["batch", "height", "width", 3])]
    given = [helper.make_tensor_value_info(output, kind, ["batch", None, None, None])]
    made = helper.make_graph(graph.nodes, "encoder", taken, given, graph.constants)
    model = helper.make_model(made, producer_name="tandem", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

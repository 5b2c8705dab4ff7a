"""Run an exported policy with ONNX Runtime, without JAX and without its run folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tandem.decisions import Decisions
from tandem.errors import ConfigError, FileUnreadable, SpecMismatch
from tandem.layouts import ActionLayout
from tandem.networks.choices import Choices
from tandem.networks.onnx_graph import MEMORY_IN, MEMORY_OUT, OPSET, OUTPUTS, VALUES, packages
from tandem.types import Observation, Spec

FORMAT = "tandem-onnx-1"
MAX_NODES, MAX_AXIS = 500, 16_384
"""Operators and weights in a file, and units of a layer: what an exported policy computes stays small."""
MAX_CHANNELS, MAX_SIDE = 1024, 2048
"""Channels of a convolution, and pixels of a picture's side."""
OPSETS = range(13, OPSET + 1)
OPERATORS = {
    "Add", "ArgMax", "AveragePool", "Cast", "Clip", "Concat", "Conv", "Div", "Elu", "Exp", "Expand", "Flatten", "Gather", "Gemm",
    "InstanceNormalization", "LayerNormalization", "MatMul", "MaxPool", "Mul", "Relu", "Reshape", "Round", "Shape", "Sigmoid", "Slice",
    "Softplus", "Sqrt", "Sub", "Tanh", "Transpose",
}  # fmt: skip
"""All operators of an exported policy: no loops, no files, no extensions of a runtime."""
_SQUASH: dict[str, Callable[[np.ndarray], np.ndarray]] = {"tanh": np.tanh, "clip": lambda x: np.clip(x, -1, 1)}


class OnnxPolicy:
    """Observations by name, `(N, *shape)` each and unscaled, to actions `(N, action_dim)`: axes in [-1, 1], choices by their number.

    The caller keeps the memory (hidden state) of a recurrent policy, as with `NumpyRecurrent`; for any other it has size 0.
    """

    def __init__(self, data: bytes, metadata: dict[str, str], what: str) -> None:
        _, runtime = packages()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # waking threads takes longer than a small network
        options.log_severity_level = 3
        try:
            self._session: Any = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # its errors share no base class but this one
            raise FileUnreadable(f"{what} cannot be run by ONNX Runtime {runtime.__version__}: {problem}") from problem
        self.metadata, self._what = metadata, what
        self.spec = Spec.from_json(json.loads(metadata["spec"]))
        self.version, self.learner_step = int(metadata["policy_version"]), int(metadata["learner_step"])
        self.hash, self.kind = metadata["policy_hash"], metadata["kind"]
        taken = {entry.name: entry.shape for entry in self._session.get_inputs()}
        self._pictures = {entry.name for entry in self._session.get_inputs() if entry.type == "tensor(uint8)"}
        self.memory_size = int(taken.pop(MEMORY_IN, [0, 0])[1])
        """Size of the hidden state of a row."""
        self.inputs = tuple(taken)
        given = {entry.name for entry in self._session.get_outputs()}
        self._outputs = (*OUTPUTS, *(name for name in (MEMORY_OUT, VALUES) if name in given))
        self._is_axis, self._choices = ~ActionLayout.of(self.spec).is_discrete, Choices.of(ActionLayout.of(self.spec))
        self._by_chance = metadata["squash"] == "clip"
        """Whether choices are drawn in training: PPO's have probabilities, RLPD's are the best ones."""
        self.axes = int(self._is_axis.sum())
        """Numbers of the action that are not choices."""
        self._squash = _SQUASH[metadata["squash"]]
        steps, _, between = metadata.get("decisions", "1 hold").partition(" ")
        self.decisions = Decisions(int(steps), "interpolate" if between == "interpolate" else "hold")
        """How often it decides; its action is executed until the next decision."""

    def begin(self, rows: int) -> np.ndarray:
        """The hidden state at the first step of an episode, `(rows, memory_size)`."""
        return np.zeros((rows, self.memory_size), np.float32)

    def run(self, observation: Observation, memory: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """All outputs by name."""
        feed = {name: np.asarray(observation[name], np.uint8 if name in self._pictures else np.float32) for name in self.inputs}
        if self.memory_size:
            feed[MEMORY_IN] = self.begin(len(next(iter(feed.values())))) if memory is None else memory
        try:
            return dict(zip(self._outputs, self._session.run(self._outputs, feed), strict=True))
        except Exception as problem:  # its errors share no base class but this one
            raise FileUnreadable(f"{self._what} cannot act: ONNX Runtime says {problem!s:.300}") from problem

    def mode(self, observation: Observation, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The actions without exploration, and the new hidden state."""
        outputs = self.run(observation, memory)
        return outputs["action"], outputs.get(MEMORY_OUT, memory)

    def sample(self, observation: Observation, memory: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Random actions, as drawn during training, and the new hidden state. Choices of RLPD are the best ones."""
        outputs = self.run(observation, memory)
        drawn = outputs["action"].copy()
        noise = rng.standard_normal(outputs["mean"].shape, dtype=np.float32)
        drawn[:, self._is_axis] = self._squash(outputs["mean"] + outputs["std"] * noise)
        if self._choices.columns and self._by_chance:
            uniform = rng.random((len(drawn), len(self._choices.columns)))
            drawn[:, ~self._is_axis] = self._choices.drawn(outputs[VALUES], uniform)
        return drawn, outputs.get(MEMORY_OUT, memory)


def from_bytes(data: bytes, what: str) -> OnnxPolicy:
    """A policy from the bytes of a file. Everything is checked before it is used; what comes from outside is tried first (`onnx_file`)."""
    metadata = check(data, what)
    try:
        policy = OnnxPolicy(data, metadata, what)
    except (KeyError, ValueError, TypeError, ConfigError) as problem:
        raise FileUnreadable(f"the metadata of {what} cannot be read ({type(problem).__name__}: {problem})") from problem
    if policy.spec.hash != metadata.get("spec_hash"):
        raise FileUnreadable(
            f"{what} has a spec with hash {policy.spec.hash}, its metadata says {metadata.get('spec_hash')}: it is damaged"
        )
    _check_inputs(policy, what)
    return policy


def check(data: bytes, what: str) -> dict[str, str]:
    """The metadata of a file that has only what `tandem export` writes. Nothing of it is run."""
    onnx, _ = packages()
    try:
        model = onnx.load_model_from_string(data)
    except Exception as problem:  # protobuf's own error is not part of its interface
        raise FileUnreadable(f"{what} is not an ONNX file, or it is damaged ({type(problem).__name__}: {problem})") from problem
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    if metadata.get("format") != FORMAT:
        raise FileUnreadable(
            f"{what} is an ONNX file, but not of Tandem's (format {metadata.get('format')!r}, expected {FORMAT!r}): the metadata "
            f"of `tandem export` are missing, so the meaning of its inputs is unknown"
        )
    _refuse_foreign_parts(model, what)
    if metadata.get("graph_hash") != graph_hash(model):
        raise FileUnreadable(f"{what} was changed after the export: the hash of its network differs from its metadata. Export it again.")
    return metadata


def graph_hash(model: Any) -> str:
    """Hash of operators and weights, without the metadata."""
    return hashlib.sha256(model.graph.SerializeToString(deterministic=True)).hexdigest()[:16]


def _refuse_foreign_parts(model: Any, what: str) -> None:
    """Allow only plain operators of a known opset, with all weights inside the file."""
    opsets = {(opset.domain, opset.version) for opset in model.opset_import}
    known = {("", version) for version in OPSETS}
    if len(opsets) != 1 or not opsets <= known or len(model.functions):
        named = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(opsets))
        raise FileUnreadable(f"{what} uses the operators of {named or 'no opset'}; only ai.onnx {OPSETS[0]} to {OPSETS[-1]} are supported")
    _refuse_too_much(model.graph, what)
    for tensor in model.graph.initializer:
        if tensor.external_data or tensor.data_location:
            raise FileUnreadable(f"{what} keeps '{tensor.name}' in another file. An exported policy is one file; that one was not opened.")
    for node in model.graph.node:
        plain = all(attribute.type in (1, 2, 7) for attribute in node.attribute)  # a float, an integer, integers
        if node.domain or node.op_type not in OPERATORS or not plain:
            raise FileUnreadable(f"{what} has an operator '{node.op_type}' that Tandem never exports; it was not run")


def _refuse_too_much(graph: Any, what: str) -> None:
    """A small file can ask for any amount of work: by many operators, by weights that are broadcast, by a shape to expand to."""
    if len(graph.node) > MAX_NODES or len(graph.initializer) > MAX_NODES or len(graph.sparse_initializer):
        raise FileUnreadable(
            f"{what} has {len(graph.node):,} operators and {len(graph.initializer):,} weights; an exported policy has at most {MAX_NODES}"
        )
    for tensor in graph.initializer:
        convolution = len(tensor.dims) == 4 and max(tensor.dims) <= MAX_CHANNELS
        if (len(tensor.dims) > 2 and not convolution) or any(not 0 <= size <= MAX_AXIS for size in tensor.dims):
            shape = f"{tuple(tensor.dims)!s:.80}"
            raise FileUnreadable(
                f"{what}: '{tensor.name}' has the shape {shape}; weights have two axes of at most {MAX_AXIS}, or the four of a "
                f"convolution, at most {MAX_CHANNELS}"
            )
    shapes = {output for node in graph.node if node.op_type == "Shape" for output in node.output}
    for node in graph.node:
        if node.op_type == "Expand" and not (len(node.input) == 2 and node.input[1] in shapes):
            raise FileUnreadable(f"{what} expands a value to a shape of its own; an exported policy only to the shape of its actions")


def _check_inputs(policy: OnnxPolicy, what: str) -> None:
    """The inputs of the network must be those of its spec."""
    for entry in policy._session.get_inputs():
        if entry.name == MEMORY_IN:
            continue
        described = policy.spec.observation.get(entry.name)
        shape = tuple(entry.shape[1:])
        known = () if described is None else described.picture or tuple(described.shape)
        if described is None or known != shape or (described.picture and max(known) > MAX_SIDE):
            expected = "nothing of that name" if described is None else str(known)
            raise SpecMismatch(f"{what} takes '{entry.name}' of shape {shape}, its spec describes {expected}")

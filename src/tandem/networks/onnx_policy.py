"""A policy that was exported, at work: ONNX Runtime computes it, and neither JAX nor the run it came from is needed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tandem.errors import FileMissing, FileUnreadable, SpecMismatch
from tandem.networks.onnx_graph import MEMORY_IN, MEMORY_OUT, OPSET, OUTPUTS, packages
from tandem.types import Observation, Spec

FORMAT = "tandem-onnx-1"
MAX_BYTES = 256 * 2**20
"""A policy for observations of numbers has a few megabytes at most; what is larger is none, and is not read into memory."""
OPSETS = range(13, OPSET + 1)
OPERATORS = {
    "Add", "Clip", "Concat", "Div", "Elu", "Exp", "Expand", "Flatten", "Gather", "Gemm", "LayerNormalization", "MatMul", "Mul", "Relu",
    "Shape", "Sigmoid", "Slice", "Softplus", "Sub", "Tanh",
}  # fmt: skip
"""All that an exported policy is made of: no loops, no files, nothing that a runtime was extended with."""
_SQUASH: dict[str, Callable[[np.ndarray], np.ndarray]] = {"tanh": np.tanh, "clip": lambda x: np.clip(x, -1, 1)}


class OnnxPolicy:
    """Observations by name, `(N, *shape)` each and unscaled, to actions `(N, action_dim)` in [-1, 1].

    Of a policy that remembers, the memory is the caller's, as with `NumpyRecurrent`; of any other it has no numbers.
    """

    def __init__(self, data: bytes, metadata: dict[str, str], what: str) -> None:
        _, runtime = packages()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # waking threads takes longer than such a small network
        options.log_severity_level = 3
        try:
            self._session: Any = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # its errors share no base class but this one
            raise FileUnreadable(f"{what} cannot be run by ONNX Runtime {runtime.__version__}: {problem}") from problem
        self.metadata = metadata
        self.spec = Spec.from_json(json.loads(metadata["spec"]))
        self.version, self.learner_step = int(metadata["policy_version"]), int(metadata["learner_step"])
        self.hash, self.kind = metadata["policy_hash"], metadata["kind"]
        taken = {entry.name: entry.shape for entry in self._session.get_inputs()}
        self.memory_size = int(taken.pop(MEMORY_IN, [0, 0])[1])
        """Numbers that it remembers of a row."""
        self.inputs = tuple(taken)
        self._outputs = (*OUTPUTS, MEMORY_OUT) if self.memory_size else OUTPUTS
        self._squash = _SQUASH[metadata["squash"]]

    def begin(self, rows: int) -> np.ndarray:
        """What it remembers before anything was seen, `(rows, memory_size)`."""
        return np.zeros((rows, self.memory_size), np.float32)

    def run(self, observation: Observation, memory: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """All outputs by name."""
        feed = {name: np.asarray(observation[name], np.float32) for name in self.inputs}
        if self.memory_size:
            feed[MEMORY_IN] = self.begin(len(next(iter(feed.values())))) if memory is None else memory
        return dict(zip(self._outputs, self._session.run(self._outputs, feed), strict=True))

    def mode(self, observation: Observation, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The actions without exploration, and what is remembered after them."""
        told = self.run(observation, memory)
        return told["action"], told.get(MEMORY_OUT, memory)

    def sample(self, observation: Observation, memory: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions as they were drawn while learning, and what is remembered after them."""
        told = self.run(observation, memory)
        drawn = self._squash(told["mean"] + told["std"] * rng.standard_normal(told["mean"].shape, dtype=np.float32))
        return drawn, told.get(MEMORY_OUT, memory)


def read_onnx(path: Path, spec: Spec | None = None) -> OnnxPolicy:
    """A file that `tandem export` wrote; with `spec`, one for another task is refused with the difference."""
    if not path.exists():
        raise FileMissing(f"there is no policy {path} (looked in {path.absolute().parent})")
    if path.stat().st_size > MAX_BYTES:
        raise FileUnreadable(f"{path} has {path.stat().st_size:,} bytes; an exported policy has at most {MAX_BYTES:,}. It was not read.")
    policy = from_bytes(path.read_bytes(), str(path))
    if spec is not None and policy.spec.hash != spec.hash:
        raise SpecMismatch(f"policy {path} was trained for another spec: {'; '.join(spec.difference(policy.spec))}")
    return policy


def from_bytes(data: bytes, what: str) -> OnnxPolicy:
    """The same from memory, after everything about it was checked."""
    onnx, _ = packages()
    try:
        model = onnx.load_model_from_string(data)
    except Exception as problem:  # protobuf's own error is not part of its interface
        raise FileUnreadable(f"{what} is no ONNX file, or damaged ({type(problem).__name__}: {problem})") from problem
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    if metadata.get("format") != FORMAT:
        raise FileUnreadable(
            f"{what} is an ONNX file, but not of Tandem's (format {metadata.get('format')!r}, expected {FORMAT!r}): without what "
            f"`tandem export` writes beside the network nobody knows what its numbers mean"
        )
    _refuse_foreign_parts(model, what)
    if metadata.get("graph_hash") != graph_hash(model):
        raise FileUnreadable(f"{what} is not as it was exported: its network has another hash than its metadata says. Export it again.")
    try:
        policy = OnnxPolicy(data, metadata, what)
    except (KeyError, ValueError, TypeError) as problem:
        raise FileUnreadable(f"the metadata of {what} cannot be read ({type(problem).__name__}: {problem})") from problem
    if policy.spec.hash != metadata.get("spec_hash"):
        raise FileUnreadable(
            f"{what} has a spec with hash {policy.spec.hash}, its metadata says {metadata.get('spec_hash')}: it is damaged"
        )
    _check_inputs(policy, what)
    return policy


def graph_hash(model: Any) -> str:
    """Of operators and weights; the names in front of them do not count."""
    return hashlib.sha256(model.graph.SerializeToString(deterministic=True)).hexdigest()[:16]


def _refuse_foreign_parts(model: Any, what: str) -> None:
    """Nothing but plain operators of a known opset, with all weights inside the file."""
    opsets = {(opset.domain, opset.version) for opset in model.opset_import}
    known = {("", version) for version in OPSETS}
    if len(opsets) != 1 or not opsets <= known or len(model.functions):
        named = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(opsets))
        raise FileUnreadable(
            f"{what} uses the operators of {named or 'no opset'}; known here are ai.onnx {OPSETS[0]} to {OPSETS[-1]} alone"
        )
    for tensor in model.graph.initializer:
        if tensor.external_data or tensor.data_location:
            raise FileUnreadable(f"{what} keeps '{tensor.name}' in another file. Exported policies are whole; it was not opened.")
    for node in model.graph.node:
        plain = all(attribute.type in (1, 2, 7) for attribute in node.attribute)  # a float, an integer, integers
        if node.domain or node.op_type not in OPERATORS or not plain:
            raise FileUnreadable(f"{what} has the operator '{node.op_type}' as no export of Tandem's has it; it was not run")


def _check_inputs(policy: OnnxPolicy, what: str) -> None:
    """What the network takes is what its spec describes."""
    for entry in policy._session.get_inputs():
        if entry.name == MEMORY_IN:
            continue
        described = policy.spec.observation.get(entry.name)
        shape = tuple(entry.shape[1:])
        if described is None or tuple(described.shape) != shape:
            expected = "nothing of that name" if described is None else str(tuple(described.shape))
            raise SpecMismatch(f"{what} takes '{entry.name}' of shape {shape}, its spec describes {expected}")

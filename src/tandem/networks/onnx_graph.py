"""A policy as an ONNX graph: inputs are the robot's measurements, by name and in their own units; the output is an action.

Scales, clips and the normaliser are part of the graph, in the same order as in `numpy_policy`. The operators are those of opset 17 (2022),
which every runtime supports:

    tcp_position (batch, 3) ─► Flatten ─┐
    to_ball (batch, 3) ──────► Flatten ─┴► Concat ─► Div ─► Clip ─► Gemm ─► LayerNormalization ─► Tanh ─► Gemm ─► Tanh ─► action

Outputs: `action` in [-1, 1], without exploration; `command`, the same in the unit of the task's action; `mean` and `std`, to draw actions
as in training: the squash (tanh or a clip, see the metadata) of mean + std * noise.
Where the action has discrete parts, mean and std are those of its axes, `action` holds the number of each choice, and the output `values`
what every choice is worth to the grasp critic (`agents/grasp.py`); for two parts with three choices each it has nine columns. In a policy
of PPO `values` are the logits of every choice of every part, here six columns: softmax of a part's own are the probabilities.
A recurrent policy also has the input `memory_in` and the output `memory_out`, `(batch, size)`: the hidden state, zeros at the first step of
an episode. Its layers are written out in the formulas of `networks/recurrent.py`, not as ONNX's own LSTM, so that one vector is all that
the caller keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tandem.errors import ConfigError
from tandem.layouts import ActionLayout, Layout
from tandem.networks.choices import Choices
from tandem.networks.numpy_gaussian import LOG_STD_SOFTNESS
from tandem.networks.numpy_policy import LAYER_NORM_EPSILON
from tandem.networks.numpy_recurrent import NumpyRecurrent
from tandem.types import OBSERVATION_CLIP, PolicyKind, PolicySnapshot, Spec

OPSET = 17
IR_VERSION = 8
"""The format of opset 17; a newer one would be refused by runtimes that support all the operators."""
OUTPUTS = ("action", "command", "mean", "std")
MEMORY_IN, MEMORY_OUT = "memory_in", "memory_out"
VALUES = "values"
Parameters = Mapping[str, np.ndarray]


def packages() -> tuple[Any, Any]:
    """The modules `onnx` and `onnxruntime`, an optional extra."""
    try:
        import onnx
        import onnxruntime
    except ImportError as problem:
        raise ConfigError(
            f"ONNX files need the packages onnx and onnxruntime, and '{problem.name}' is not installed: `pip install 'tandem-rl[export]'`"
        ) from None
    return onnx, onnxruntime


def squash_of(kind: PolicyKind) -> str:
    """How mean + std * noise becomes an action: policies of RLPD and cloning are squashed by tanh, those of PPO clipped to [-1, 1]."""
    return "tanh" if kind == "tanh_gaussian" else "clip"


def input_names(parameters: Parameters, spec: Spec) -> tuple[str, ...]:
    """The observation entries that the policy uses, in the order of their names."""
    layout = Layout(spec)
    columns = set(_columns(parameters, layout).tolist())
    return tuple(name for name in layout.names if columns & set(layout.columns([name]).tolist()))


def camera_names(parameters: Parameters) -> tuple[str, ...]:
    """The cameras whose pictures the policy uses, in the order of their names."""
    return tuple(sorted({name.split("/")[1] for name in parameters if name.startswith("heads/")}))


def policy_graph(snapshot: PolicySnapshot, spec: Spec, metadata: Mapping[str, str]) -> Any:
    """The whole policy as an `onnx.ModelProto`, with this metadata."""
    onnx, _ = packages()
    graph, parameters, squash = Graph(), snapshot.parameters, squash_of(snapshot.kind)
    seen = _seen(graph, parameters, spec, squash)
    cameras = camera_names(parameters)
    if cameras:
        from tandem.networks.onnx_eyes import add_eyes  # only policies with cameras need it

        seen = add_eyes(graph, parameters, seen)
    h = _recurrent(graph, parameters, seen) if snapshot.kind == "recurrent_gaussian" else seen
    h = _trunk(graph, parameters, h)
    mean = graph.node("Gemm", h, *graph.weights(parameters, "mean"), output="mean")
    _std(graph, parameters, h, mean, squash)
    choices = Choices.from_arrays(parameters)
    _action(graph, squash, mean, spec, _likeliest(graph, parameters, choices, h) if choices.columns else _choices(graph, parameters, seen))

    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    names = input_names(parameters, spec)
    taken = sorted({*names, *cameras} & {*OUTPUTS, MEMORY_IN, MEMORY_OUT, VALUES})
    if taken:
        raise ConfigError(
            f"task '{spec.task}' has an observation entry '{taken[0]}', which is a reserved name in the file: rename the entry"
        )
    pictures = [*cameras, *(name for name in names if spec.observation[name].picture)]
    inputs = [
        helper.make_tensor_value_info(name, number, ["batch", *spec.observation[name].shape]) for name in names if name not in pictures
    ]
    for name in pictures:
        inputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, ["batch", *spec.observation[name].picture]))
    sizes: dict[str, int] = {name: spec.action_dim for name in OUTPUTS}
    sizes["mean"] = sizes["std"] = parameters["mean/weight"].shape[1]
    if "grasp/sizes" in parameters:
        sizes[VALUES] = int(np.prod(parameters["grasp/sizes"]))
    if choices.columns:
        sizes[VALUES] = choices.total
    outputs = [helper.make_tensor_value_info(name, number, ["batch", size]) for name, size in sizes.items()]
    if snapshot.kind == "recurrent_gaussian":
        shape = ["batch", NumpyRecurrent(parameters).memory_size]
        inputs.append(helper.make_tensor_value_info(MEMORY_IN, number, shape))
        outputs.append(helper.make_tensor_value_info(MEMORY_OUT, number, shape))
    made = helper.make_graph(graph.nodes, f"tandem policy for {spec.task}", inputs, outputs, graph.constants)
    model = helper.make_model(made, producer_name="tandem", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model, full_check=True)
    return model


class Graph:
    """Nodes and constants so far. Every method returns the name of the tensor that it added."""

    def __init__(self) -> None:
        self.onnx, _ = packages()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._shared: dict[str, str] = {}

    def constant(self, name: str, values: Any) -> str:
        name = f"tandem/{name}"  # an observation entry may be called like a parameter
        array = np.asarray(values)
        self.constants.append(self.onnx.numpy_helper.from_array(np.array(array, array.dtype, order="C"), name))
        return name

    def shared(self, name: str, values: np.ndarray) -> str:
        """A constant that several parts of the graph use; it is there once."""
        if name not in self._shared:
            self._shared[name] = self.number(name, values)
        return self._shared[name]

    def number(self, name: str, values: Any) -> str:
        return self.constant(name, np.asarray(values, np.float32))

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or f"tandem/{len(self.nodes)}_{operator}"
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [output], name=f"{len(self.nodes)}_{operator}", **attributes))
        return output

    def weights(self, parameters: Parameters, layer: str) -> tuple[str, str]:
        return self.number(f"{layer}/weight", parameters[f"{layer}/weight"]), self.number(f"{layer}/bias", parameters[f"{layer}/bias"])

    def columns(self, x: str, start: int, count: int) -> str:
        """Some numbers of every row."""
        bounds = [
            self.constant(f"{len(self.nodes)}/{which}", np.array([at], np.int64))
            for which, at in (("start", start), ("end", start + count), ("axis", 1))
        ]
        return self.node("Slice", x, *bounds)

    def clip(self, x: str, name: str, low: float, high: float, output: str | None = None) -> str:
        return self.node("Clip", x, self.number(f"{name}/low", low), self.number(f"{name}/high", high), output=output)


def _columns(parameters: Parameters, layout: Layout) -> np.ndarray:
    """The columns of the observation vector that the policy uses."""
    return np.asarray(parameters["columns"]) if "columns" in parameters else np.arange(layout.size)


def _seen(graph: Graph, parameters: Parameters, spec: Spec, squash: str) -> str:
    """From named entries to the input of the first layer: concatenated, scaled, and clipped or normalised."""
    layout, names = Layout(spec), input_names(parameters, spec)
    columns, there = _columns(parameters, layout), layout.columns(names)
    flat = [graph.node("Flatten", _entry(graph, parameters, spec, name), axis=1) for name in names]
    x = graph.node("Concat", *flat, axis=1) if len(flat) > 1 else flat[0]
    if not np.array_equal(columns, there):  # a part of an entry, or another order
        places = np.array([int(np.flatnonzero(there == column)[0]) for column in columns], np.int64)
        x = graph.node("Gather", x, graph.constant("columns", places), axis=1)
    if np.any(layout.offsets):
        x = graph.node("Sub", x, graph.number("offsets", layout.offsets[columns]))
    x = graph.node("Div", x, graph.number("scales", layout.scales[columns]))
    if squash == "tanh":
        return graph.clip(x, "observation_clip", -OBSERVATION_CLIP, OBSERVATION_CLIP)
    x = graph.node("Sub", x, graph.number("normaliser/mean", parameters["normaliser/mean"]))
    x = graph.node("Div", x, graph.number("normaliser/std", parameters["normaliser/std"]))
    clip = float(parameters["normaliser/clip"])
    return graph.clip(x, "normaliser/clip", -clip, clip) if np.isfinite(clip) else x


def _entry(graph: Graph, parameters: Parameters, spec: Spec, name: str) -> str:
    """An entry as the policy takes it: numbers, or what PPO makes of a picture."""
    if not spec.observation[name].picture:
        return name
    from tandem.networks.encoders.encoder import Encoder, add_encoder  # only policies with cameras need it

    return add_encoder(graph, name, Encoder.from_arrays(parameters))


def _recurrent(graph: Graph, parameters: Parameters, h: str) -> str:
    """Output of the last recurrent layer. The hidden states of all layers are one vector, in order."""
    step, memories, start = (_lstm_step, _gru_step)[int(parameters["rnn_type"])], [], 0
    depth = sum(name.startswith("rnn/") and name.endswith("/hidden_weight") for name in parameters)
    for i in range(depth):
        units = len(parameters[f"rnn/{i}/hidden_weight"])
        weights = [graph.number(f"rnn/{i}/{part}", parameters[f"rnn/{i}/{part}"]) for part in ("input_weight", "bias", "hidden_weight")]
        from_input, hidden_bias = graph.node("Gemm", h, *weights[:2]), parameters.get(f"rnn/{i}/hidden_bias")
        memory, start = step(
            graph, from_input, weights[2], units, start, None if hidden_bias is None else graph.number(f"rnn/{i}/hidden_bias", hidden_bias)
        )
        h = memory[0]
        memories += memory
    graph.node("Concat", *memories, axis=1, output=MEMORY_OUT)
    return h


def _lstm_step(graph: Graph, from_input: str, weight: str, units: int, start: int, hidden_bias: str | None) -> tuple[list[str], int]:
    """h and c after the step, from those at position `start` of the hidden state; and the position of the next layer."""
    del hidden_bias
    h, c = (graph.columns(MEMORY_IN, start + k * units, units) for k in (0, 1))
    gates = graph.node("Add", from_input, graph.node("MatMul", h, weight))
    i, f, g, o = (graph.columns(gates, k * units, units) for k in range(4))
    kept = graph.node("Mul", graph.node("Sigmoid", f), c)
    c = graph.node("Add", kept, graph.node("Mul", graph.node("Sigmoid", i), graph.node("Tanh", g)))
    return [graph.node("Mul", graph.node("Sigmoid", o), graph.node("Tanh", c)), c], start + 2 * units


def _gru_step(graph: Graph, from_input: str, weight: str, units: int, start: int, hidden_bias: str | None) -> tuple[list[str], int]:
    assert hidden_bias is not None
    h = graph.columns(MEMORY_IN, start, units)
    from_hidden = graph.node("MatMul", h, weight)
    r, z = (
        graph.node("Sigmoid", graph.node("Add", *(graph.columns(part, k * units, units) for part in (from_input, from_hidden))))
        for k in (0, 1)
    )
    past = graph.node("Mul", r, graph.node("Add", graph.columns(from_hidden, 2 * units, units), hidden_bias))
    n = graph.node("Tanh", graph.node("Add", graph.columns(from_input, 2 * units, units), past))
    return [graph.node("Add", n, graph.node("Mul", z, graph.node("Sub", h, n)))], start + units


def _trunk(graph: Graph, parameters: Parameters, h: str, of: str = "") -> str:
    """Output of the last hidden layer of the network whose parameters begin with `of`."""
    layers = f"{of}trunk/layers/"
    depth = sum(name.startswith(layers) and name.endswith("/weight") for name in parameters)
    for i in range(depth):
        h = graph.node("Gemm", h, *graph.weights(parameters, f"{layers}{i}"))
        norm = f"{of}trunk/norms/{i}"
        if f"{norm}/gain" in parameters:
            learned = [graph.number(f"{norm}/{part}", parameters[f"{norm}/{part}"]) for part in ("gain", "shift")]
            h = graph.node("LayerNormalization", h, *learned, axis=-1, epsilon=LAYER_NORM_EPSILON)
        h = _activation(graph, int(parameters["activation"]), h)
    return h


def _choices(graph: Graph, parameters: Parameters, seen: str) -> str | None:
    """The discrete parts of the action, `(batch, parts)`: the place in the table with the highest mean value; None without such parts."""
    if "grasp/sizes" not in parameters:
        return None
    said = []
    for member in range(len(parameters["grasp/head/bias"])):
        mark = f"grasp/{member}/"
        learned = {name: array for name, array in parameters.items() if name.startswith(("grasp/trunk/", "grasp/head/"))}
        own = {name.replace("grasp/", mark, 1): array[member] for name, array in learned.items()}
        h = _trunk(graph, own | {"activation": parameters["activation"]}, seen, mark)
        said.append(graph.node("Gemm", h, *graph.weights(own, f"{mark}head")))
    worth = _worth(graph, parameters, said)
    sizes = parameters["grasp/sizes"].tolist()
    table = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=-1)
    return graph.node("Gather", graph.number("grasp/choices", table), graph.node("ArgMax", worth, axis=1, keepdims=0), axis=0)


def _worth(graph: Graph, parameters: Parameters, said: list[str]) -> str:
    """The mean of what the members say, less the doubt about the advantage over rest (`NumpyHybrid.values`)."""
    members, doubt = graph.number("grasp/members", len(said)), float(parameters.get("grasp/doubt", 0.0))

    def mean(tensors: list[str], output: str | None = None) -> str:
        total = tensors[0]
        for tensor in tensors[1:]:
            total = graph.node("Add", total, tensor)
        return graph.node("Div", total, members, output=output)

    if not doubt:
        return mean(said, output=VALUES)
    better = [graph.node("Sub", values, graph.columns(values, int(parameters["grasp/rest"]), 1)) for values in said]
    middle = mean(better)
    apart = [graph.node("Sub", values, middle) for values in better]
    spread = graph.node("Sqrt", mean([graph.node("Mul", values, values) for values in apart]))
    return graph.node("Sub", mean(said), graph.node("Mul", graph.number("grasp/doubt", doubt), spread), output=VALUES)


def _likeliest(graph: Graph, parameters: Parameters, choices: Choices, h: str) -> str:
    """The same of a policy of PPO: of every part the choice with the largest logit."""
    logits = graph.node("Gemm", h, *graph.weights(parameters, "choices"), output=VALUES)
    best = [
        graph.node("ArgMax", graph.columns(logits, part.start, size), axis=1)
        for part, size in zip(choices.parts, choices.sizes, strict=True)
    ]
    return graph.node("Cast", graph.node("Concat", *best, axis=1), to=graph.onnx.TensorProto.FLOAT)


def _activation(graph: Graph, which: int, x: str) -> str:
    """By the index in `numpy_policy.ACTIVATIONS`."""
    name = ("Tanh", "Relu", "swish", "Elu")[which]
    return graph.node("Mul", x, graph.node("Sigmoid", x)) if name == "swish" else graph.node(name, x)


def _std(graph: Graph, parameters: Parameters, h: str, mean: str, squash: str) -> None:
    """The std: one for all observations, or the bounded output of a layer."""
    if "std" in parameters:
        graph.node("Expand", graph.number("std", parameters["std"]), graph.node("Shape", mean), output="std")
        return
    low, high = np.log(parameters["std_range"])
    if squash == "tanh":
        raw = graph.node("Gemm", h, *graph.weights(parameters, "log_std"))
        graph.node("Exp", graph.clip(raw, "log_std_range", low, high), output="std")
        return
    raw = graph.node("Gemm", h, *graph.weights(parameters, "raw_std"))
    graph.node("Exp", _smooth_clip(graph, raw, low, high), output="std")


def _smooth_clip(graph: Graph, x: str, low: float, high: float) -> str:
    """The function of `networks/gaussian.py`, on the logarithm of the std."""
    softness, bottom, top = graph.number("softness", LOG_STD_SOFTNESS), graph.number("log_std/low", low), graph.number("log_std/high", high)
    bent = graph.node("Mul", softness, graph.node("Softplus", graph.node("Div", graph.node("Sub", top, x), softness)))
    above = graph.node("Sub", graph.node("Sub", top, bent), bottom)
    return graph.node("Add", bottom, graph.node("Mul", softness, graph.node("Softplus", graph.node("Div", above, softness))))


def _action(graph: Graph, squash: str, mean: str, spec: Spec, choices: str | None) -> None:
    layout, output = ActionLayout.of(spec), "action" if choices is None else None
    action = graph.node("Tanh", mean, output=output) if squash == "tanh" else graph.clip(mean, "action", -1, 1, output=output)
    if choices is not None:
        places = np.argsort(np.argsort(layout.is_discrete, kind="stable"))  # axes come first, then the choices
        joined = graph.node("Concat", action, choices, axis=1)
        action = graph.node("Gather", joined, graph.constant("action/columns", places.astype(np.int64)), axis=1, output="action")
    graph.node("Mul", action, graph.number("action_scale", layout.scales), output="command")

"""Exported policies that are not as `tandem export` wrote them, for `benchmarks.fuzz_files`.

Bytes are changed as in any other file. Most of that is noticed by the hash of the network, which is no secret: so here the network is
changed too and gets the hash that it then has, as somebody would do who means harm.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from benchmarks.fuzz import mutated
from tandem.networks.onnx_policy import OPERATORS, graph_hash

FOREIGN = ("If", "Loop", "Scan", "Constant", "ConstantOfShape", "Range", "Tile", "Resize", "Pow", "LSTM", "StringNormalizer", "Nothing")
HUGE = (-(2**63), -(2**31), -1, 0, 1, 7, 16_384, 16_385, 2**31 - 1, 2**40, 2**63 - 1)
TYPES = range(25)
TEXTS = ("", "{}", "[]", "null", "nan", "-1", "9" * 5000, "\x1b[2J\n", "tanh", "x" * 10_000, "[" * 100_000, '{"task": 1}')


def mutated_policy(r: random.Random, data: bytes) -> bytes:
    """Three of four: bytes. The others: the network or the metadata, with the right hash."""
    if r.random() < 0.75:
        return mutated(r, data)
    return changed_network(r, data)


def changed_network(r: random.Random, data: bytes) -> bytes:
    model = onnx.load_model_from_string(data)
    for _ in range(r.choice((1, 1, 2))):
        r.choice(CHANGES)(r, model)
    for entry in model.metadata_props:
        if entry.key == "graph_hash":
            entry.value = graph_hash(model)
    return model.SerializeToString()


def _dims(r: random.Random, model: Any) -> None:
    weights = r.choice(model.graph.initializer)
    weights.dims[:] = [r.choice((*HUGE, *weights.dims)) for _ in range(r.choice((0, 1, 2, 2, 4, 9)))]


def _numbers(r: random.Random, model: Any) -> None:
    """Fewer or more than the shape says, of another type, or in another field."""
    weights, kind = r.choice(model.graph.initializer), r.randrange(4)
    if kind == 0:
        weights.raw_data = weights.raw_data[: r.randrange(len(weights.raw_data) + 1)]
    elif kind == 1:
        weights.data_type = r.choice(TYPES)
    elif kind == 2:
        weights.float_data.extend([float("nan")] * r.randrange(1, 100))
    else:
        weights.raw_data = np.full(len(weights.raw_data) // 4, r.choice((np.nan, np.inf, 3e38, -1)), np.float32).tobytes()


def _elsewhere(r: random.Random, model: Any) -> None:
    weights = r.choice(model.graph.initializer)
    weights.data_location = r.choice((0, 1))
    weights.external_data.add(key="location", value=r.choice(("/etc/passwd", "../x", "/dev/zero", "")))


def _operator(r: random.Random, model: Any) -> None:
    node = r.choice(model.graph.node)
    node.op_type = r.choice((*sorted(OPERATORS), *sorted(OPERATORS), *FOREIGN))
    if r.random() < 0.2:
        node.domain = r.choice(("com.microsoft", "ai.onnx.ml", "x"))


def _attribute(r: random.Random, model: Any) -> None:
    node, kind = r.choice(model.graph.node), r.randrange(4)
    if kind == 0 and node.attribute:
        attribute = r.choice(node.attribute)
        attribute.i = r.choice(HUGE)
        attribute.ints[:] = [r.choice(HUGE) for _ in range(r.choice((0, 1, 2, 4)))]
    elif kind == 1:
        node.attribute.append(onnx.helper.make_attribute(r.choice(("axis", "pads", "perm", "transA", "group", "to")), r.choice(HUGE)))
    elif kind == 2:
        name = r.choice(("strides", "pads", "dilations", "kernel_shape", "perm"))
        node.attribute.append(onnx.helper.make_attribute(name, [r.choice(HUGE) for _ in range(r.choice((1, 2, 4)))]))
    else:
        node.attribute.append(onnx.helper.make_attribute("body", _nested(r.choice((1, 5, 25)))))
        node.attribute[-1].type = r.choice((2, 5, 5))


def _nested(depth: int) -> Any:
    """A graph in a graph in a graph."""
    graph = onnx.helper.make_graph([], "x", [], [])
    for _ in range(depth):
        node = onnx.helper.make_node("If", ["x"], ["y"], then_branch=graph)
        graph = onnx.helper.make_graph([node], "x", [], [])
    return graph


def _wiring(r: random.Random, model: Any) -> None:
    """Another input or output of a node: loops, missing and doubled names."""
    graph, node = model.graph, r.choice(model.graph.node)
    names = [*(name for each in graph.node for name in each.output), *(each.name for each in graph.initializer), "", "nowhere"]
    wires = r.choice((node.input, node.input, node.output))
    wires[r.randrange(len(wires))] = r.choice(names)
    if r.random() < 0.2:
        wires.append(r.choice(names))


def _ends(r: random.Random, model: Any) -> None:
    """What goes in and comes out: names, types, shapes, fewer, more."""
    kind, ends = r.randrange(5), r.choice((model.graph.input, model.graph.output))
    if not ends or kind == 0:
        ends.append(onnx.helper.make_tensor_value_info(r.choice(("memory_in", "mean", "more")), 1, ["batch", r.choice(HUGE[4:])]))
        return
    end = r.choice(ends)
    if kind == 1:
        end.name = r.choice(("", "nowhere", "memory_in", "wrench"))
    elif kind == 2:
        end.type.tensor_type.elem_type = r.choice(TYPES)
    elif kind == 3:
        r.choice(end.type.tensor_type.shape.dim).dim_value = r.choice(HUGE)
    else:
        ends.remove(end)


def _notes(r: random.Random, model: Any) -> None:
    entry = r.choice(model.metadata_props)
    if r.random() < 0.3:
        model.metadata_props.remove(entry)
    elif r.random() < 0.5:
        entry.value = r.choice(TEXTS)
    else:
        at = r.randrange(len(entry.value) + 1)
        entry.value = entry.value[:at] + r.choice(TEXTS)[:1000] + entry.value[at + r.randrange(5) :]


def _version(r: random.Random, model: Any) -> None:
    model.opset_import[0].version, model.ir_version = r.choice((1, 12, 13, 16, 17, 18, 2**40)), r.choice((0, 3, 8, 9, 99))


def _large(r: random.Random, model: Any) -> None:
    """Little to write down, much to do: two weights that together make a table, doubled or multiplied by itself again and again."""
    size, graph = r.choice((64, 2048, 16_384)), model.graph
    for name, shape in (("high", (size, 1)), ("wide", (1, size))):
        graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name))
    nodes, what = [onnx.helper.make_node("Add", ["high", "wide"], ["large0"])], r.choice(("MatMul", "Concat", "Mul"))
    times = r.choice((1, 3, 30, 300))
    for number in range(times):
        axis: dict[str, Any] = {"axis": 1} if what == "Concat" else {}
        nodes.append(onnx.helper.make_node(what, [f"large{number}"] * 2, [f"large{number + 1}"], **axis))
    flat = graph.node[0].output[0]
    nodes.append(onnx.helper.make_node("MatMul", [f"large{times}", "high"], ["much"]))
    for node in graph.node:  # what is not used is not computed
        node.input[:] = ["seen" if name == flat else name for name in node.input]
    nodes.append(onnx.helper.make_node("Gather", ["much", "first"], ["one"], axis=0))
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([0], np.int64), "first"))
    nodes.append(onnx.helper.make_node("Add", [flat, "one"], ["seen"]))
    kept = [graph.node[0], *nodes, *graph.node[1:]]
    del graph.node[:]
    graph.node.extend(kept)


CHANGES: tuple[Callable[[random.Random, Any], None], ...] = (
    _dims, _numbers, _elsewhere, _operator, _operator, _attribute, _attribute, _wiring, _ends, _notes, _version, _large,
)  # fmt: skip

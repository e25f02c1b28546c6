"""Small random ONNX models: branches, views, activations that run in place, sums that do not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from opweave.problems.graph import OpGraph  # noqa: E402
from opweave.problems.placement.spec import Schedule  # noqa: E402

WIDTH = 16


def net(text: str, *, opset: int = 17, **held: object) -> onnx.ModelProto:
    """A model from the text of its graph, ``(float[n] x) => (float[] y) { y = Relu(x) }``, and its weights by name.

    A tuple stands for zeros of that shape, numbers for themselves.
    """
    domains = ", ".join(f'"{name}": {opset if not name else 1}' for name in ("", "mine"))
    model = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{domains}]> net {text}")
    for name, value in held.items():
        array = np.zeros(value, np.float32) if isinstance(value, tuple) else np.asarray(value)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def bytes_of(graph: OpGraph) -> dict[str, int]:
    """The bytes of every tensor."""
    return {tensor.id: tensor.bytes for tensor in graph.tensors}


def random_net(seed: int, size: int = 20, *, rows: int | str = 8, named: bool = True) -> onnx.ModelProto:
    """A net of ``size`` nodes and a joining one, with up to two further outputs from its midst."""
    draw = random.Random(seed)
    arrays = np.random.default_rng(seed)
    weights = [numpy_helper.from_array(np.array([-1, WIDTH, 1], np.int64), "tall")]
    nodes, tails = [], ["x"]
    for index in range(size):
        kind = draw.choice(("Relu", "Sigmoid", "Exp", "Add", "Mul", "Sub", "MatMul", "Softmax", "There", "Neg"))
        out, name = f"t{index}", f"n{index}" if named else ""
        one, two = draw.choice(tails[-4:]), draw.choice(tails)
        if kind == "MatMul":
            weights.append(numpy_helper.from_array(arrays.standard_normal((WIDTH, WIDTH)).astype("f") / 4, f"w{index}"))
            nodes.append(helper.make_node("MatMul", [one, f"w{index}"], [out], name=name))
        elif kind in ("Add", "Mul", "Sub"):
            nodes.append(helper.make_node(kind, [one, two], [out], name=name))
        elif kind == "There":  # a view, and the way back
            nodes.append(helper.make_node("Reshape", [one, "tall"], [f"v{index}"], name=name and f"{name}v"))
            nodes.append(helper.make_node("Squeeze", [f"v{index}", "last"], [f"s{index}"], name=name and f"{name}s"))
            nodes.append(helper.make_node("Sigmoid", [f"s{index}"], [out], name=name))
        else:
            nodes.append(helper.make_node(kind, [one], [out], name=name))
        tails.append(out)
    weights.append(numpy_helper.from_array(np.array([-1], np.int64), "last"))
    read = {name for node in nodes for name in node.input}
    loose = [name for name in tails if name not in read]
    nodes.append(helper.make_node("Concat", loose, ["y"], name="join" if named else "", axis=1))
    made = ["y", *draw.sample([name for node in nodes for name in node.output if name != "y"], seed % 3)]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in made]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, WIDTH])]
    graph = helper.make_graph(nodes, f"net {seed}", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    for place, value in enumerate(inferred.output):
        model.graph.output[place].CopyFrom(value)
    return model


def random_order(graph: OpGraph, seed: int) -> tuple[str, ...]:
    """Any topological order."""
    draw = random.Random(seed)
    left = {index: len(graph.arrays.predecessors[index]) for index in range(len(graph.operators))}
    order = []
    while left:
        index = draw.choice([index for index, count in left.items() if not count])
        del left[index]
        order.append(graph.operators[index].id)
        for reader in graph.arrays.successors[index].tolist():
            left[reader] -= 1
    return tuple(order)


def random_schedule(graph: OpGraph, seed: int, devices: str = "abc") -> Schedule:
    """Any devices, in any order."""
    draw = random.Random(seed)
    order = random_order(graph, seed)
    return Schedule(
        device={name: draw.choice(devices) for name in order},
        start={name: float(step) for step, name in enumerate(order)},
    )


def saved(model: onnx.ModelProto, path: Path) -> Path:
    """Write a model as it is."""
    path.write_bytes(model.SerializeToString())
    return path

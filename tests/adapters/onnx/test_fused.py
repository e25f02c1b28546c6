"""Operators that ONNX Runtime fuses: their shapes, their operations, and its own optimised models."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from opweave.adapters.onnx.kinds import node_flops  # noqa: E402
from opweave.adapters.onnx.read import from_onnx  # noqa: E402

MS = "com.microsoft"


TABLES = tomllib.loads(Path(__file__).with_name("operations.toml").read_text())
FUSED, BY_HAND = TABLES["fused"], TABLES["by_hand"]


@pytest.mark.frameworks
def test_shapes_and_operations() -> None:
    """All at once, each between two other operators, so that shapes must travel through it."""
    pytest.importorskip("onnxruntime")
    value, nodes, given, weights = helper.make_tensor_value_info, [], [], {}
    weights |= {"s": np.ones((), np.float32), "z": np.zeros((), np.uint8)}
    for number, (kind, inputs, attributes, shape, _) in enumerate(FUSED):
        names = []
        for place, word in enumerate(inputs.split()):
            if word in "sz":
                names.append(word)
                continue
            dims, byte = [int(size) for size in word.lstrip("u").split(",")], word[0] == "u"
            names.append(f"{number}/{place}")
            if place:
                weights[names[-1]] = np.zeros(dims, np.uint8 if byte else np.float32)
                continue
            given.append(value(f"{names[0]}/x", TensorProto.UINT8 if byte else TensorProto.FLOAT, dims))
            nodes.append(helper.make_node("Abs" if not byte else "Transpose", [f"{names[0]}/x"], [names[0]]))
            if byte:
                nodes[-1].attribute.append(helper.make_attribute("perm", list(range(len(dims)))))
        nodes.append(helper.make_node(kind, names, [f"{number}/m"], f"{number}", **{"domain": MS} | attributes))
        nodes.append(helper.make_node("Transpose", [f"{number}/m"], [f"{number}/y"], perm=[*range(len(shape))][::-1]))
    outputs = [value(f"{number}/y", 2 if row[1][0] == "u" else 1, None) for number, row in enumerate(FUSED)]
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    opsets = [helper.make_opsetid(name, 17 if not name else 1) for name in ("", MS, f"{MS}.nchwc")]
    made = helper.make_graph(nodes, "net", given, outputs, held)
    graph = from_onnx(helper.make_model(made, opset_imports=opsets, ir_version=10))
    shapes = {tensor.id: tensor.shape for tensor in graph.tensors}
    flops = {op.id: op.flops for op in graph.operators}
    for number, (kind, *_, shape, count) in enumerate(FUSED):
        assert (kind, shapes[f"{number}/y"], flops[f"{number}"]) == (kind, tuple(shape[::-1]), count)


@pytest.mark.parametrize(("kind", "inputs", "made", "attributes", "flops"), BY_HAND)
def test_operations_by_hand(kind: str, inputs: str, made: str, attributes: dict[str, object], flops: str) -> None:
    shapes = [tuple(map(int, word.split(","))) if word != "-" else () for word in (made, *inputs.split())]
    node = helper.make_node(kind, [f"x{index}" for index in range(len(shapes) - 1)], ["y"], **attributes)
    assert node_flops(node, shapes[1:], shapes[0]) == eval(flops)

"""Small nets in ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def residual_net(path: Path, blocks: int = 6, width: int = 64, rows: int = 32) -> Path:
    """Dense layers with skips over two of them, so that tensors pass several stages."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng, nodes, weights, last = np.random.default_rng(0), [], [], "x"
    for k in range(blocks):
        weight = (rng.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{k}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{k}"], [f"m{k}"], name=f"dense_{k}"))
        nodes.append(helper.make_node("Tanh", [f"m{k}"], [f"a{k}"], name=f"tanh_{k}"))
        last = f"a{k}"
        if k > 1:
            nodes.append(helper.make_node("Add", [last, f"a{k - 2}"], [f"s{k}"], name=f"add_{k}"))
            last = f"s{k}"
    nodes.append(helper.make_node("Identity", [last], ["y"], name="out"))
    shape = [rows, width]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "residual", [given], [made], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def half_net(path: Path) -> Path:
    """Convolutions of half precision, which the runtime computes in single precision."""
    text = """
    <ir_version: 9, opset_import: ["" : 17]>
    half (float16[1, 8, 12, 12] x) => (float16[1, 8, 12, 12] y) <int64[4] shape = {8, 8, 3, 3}> {
        flat = ConstantOfShape<value = float[1] {0.03}>(shape)
        weight = Cast<to = 10>(flat)
        a = Conv<pads = [1, 1, 1, 1]>(x, weight)
        b = Relu(a)
        c = Conv<pads = [1, 1, 1, 1]>(b, weight)
        y = Relu(c)
    }
    """
    return _parsed(text, path)


def sequence_net(path: Path) -> Path:
    """A sequence of tensors crosses every cut between its maker and its reader."""
    text = """
    <ir_version: 9, opset_import: ["" : 17]>
    sequence (float[4, 4] x) => (float[4, 4] y) {
        a = Relu(x)
        rows = SplitToSequence<axis = 0>(a)
        b = Neg(x)
        c = ConcatFromSequence<axis = 0>(rows)
        y = Add(b, c)
    }
    """
    return _parsed(text, path)


def _parsed(text: str, path: Path) -> Path:
    import onnx
    from onnx.parser import parse_model

    onnx.save(parse_model(text), path)
    return path

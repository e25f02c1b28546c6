"""A small residual net in ONNX."""

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

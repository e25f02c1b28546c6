"""Operators that ONNX Runtime fuses: their shapes, their operations, and its own optimised models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from opweave.adapters.load import load  # noqa: E402
from opweave.adapters.onnx.kinds import node_flops  # noqa: E402
from opweave.adapters.onnx.read import from_onnx  # noqa: E402
from opweave.problems.errors import InvalidInputError  # noqa: E402
from opweave.problems.graph import OpGraph  # noqa: E402

MS = "com.microsoft"


def graph_of(nodes: Sequence[onnx.NodeProto], x: Sequence[int], opset: int = 17, **weights: tuple[int, ...]) -> OpGraph:
    made = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in weights.items()],
    )
    domains = ["", MS, f"{MS}.nchwc"]
    return from_onnx(
        helper.make_model(made, opset_imports=[helper.make_opsetid(d, opset if not d else 1) for d in domains])
    )


def one(
    kind: str, inputs: str, x: Sequence[int], opset: int = 17, domain: str = MS, **more: object
) -> tuple[object, float]:
    """Shape and operations of one operator between two others, so that shapes must travel through it."""
    weights = {name: value for name, value in more.items() if isinstance(value, tuple)}
    attributes = {name: value for name, value in more.items() if name not in weights}
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node(kind, inputs.split(), ["b"], domain=domain, **attributes),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    graph = graph_of(nodes, x, opset, **weights)
    return {tensor.id: tensor.shape for tensor in graph.tensors}["y"], graph.operators[1].flops


@pytest.mark.parametrize(
    ("found", "shape", "flops"),
    [
        (one("FusedConv", "a w", (1, 3, 8, 8), w=(4, 3, 3, 3), activation="Relu"), (1, 4, 6, 6), 2 * 144 * 27 + 144),
        (one("NhwcFusedConv", "a w", (1, 8, 8, 3), w=(4, 3, 3, 3)), (1, 6, 6, 4), 2 * 144 * 27),
        (one("FusedGemm", "a w c", (2, 8), w=(5, 8), c=(5,), transB=1, activation="Relu"), (2, 5), 2 * 80 + 10),
        (one("FusedMatMul", "a w", (3, 8, 2), w=(3, 8, 5), transA=1), (3, 2, 5), 2 * 30 * 8),
        (one("SkipLayerNormalization", "a a g", (1, 4, 8), g=(8,)), (1, 4, 8), 8 * 32),
        (one("SimplifiedLayerNormalization", "a g", (1, 4, 8), domain="", g=(8,)), (1, 4, 8), 8 * 32),
        (one("LayerNormalization", "a g", (1, 4, 8), opset=13, domain="", g=(8,)), (1, 4, 8), 8 * 32),
        (one("Gelu", "a", (4, 8)), (4, 8), 32),
        (one("BiasGelu", "a g", (4, 8), g=(8,)), (4, 8), 64),
        (one("Attention", "a w g", (2, 4, 8), w=(8, 48), g=(48,), num_heads=2), (2, 4, 16), 16 * 8 * 48 + 32 * 4 * 16),
        (one("MultiHeadAttention", "a a a", (2, 4, 8), num_heads=2), (2, 4, 8), 4 * 8 * 4 * 8),
        (one("Conv", "a w", (1, 8, 6, 6), domain=f"{MS}.nchwc", w=(16, 8, 1, 1)), (1, 16, 6, 6), 2 * 576 * 8),
        (one("ReorderOutput", "a", (1, 16, 6, 6), domain=f"{MS}.nchwc", channels=10), (1, 10, 6, 6), 0),
        (one("ReorderInput", "a", (1, 6, 6, 8), domain=f"{MS}.nchwc", channels_last=1), (1, 8, 6, 6), 0),
        (one("MatMulNBits", "a", (2, 8), K=8, N=5, bits=4, block_size=16), (2, 5), 2 * 10 * 8),
        (one("FusedMatMul", "a w", (2, 3, 8), w=(3, 8, 5), transBatchA=1), (3, 2, 5), 2 * 30 * 8),
        (one("FusedMatMul", "a w", (8, 3, 2), w=(3, 8, 5), transBatchA=1, transA=1), (3, 2, 5), 2 * 30 * 8),
        (one("QAttention", "a w g", (2, 4, 8), w=(8, 48), g=(48,), num_heads=2), (2, 4, 16), 16 * 8 * 48 + 32 * 4 * 16),
        (one("QLinearAdd", "a s z a s z s z", (4, 8), s=(), z=()), (4, 8), 32),
        (one("QLinearConv", "a s z w s z s z", (1, 8, 8, 3), s=(), z=(), w=(4, 3, 3, 3), channels_last=1), (1, 6, 6, 4),
         2 * 144 * 27),
        (one("QLinearAveragePool", "a s z s z", (1, 3, 8, 8), s=(), z=(), kernel_shape=[2, 2]), (1, 3, 7, 7), 147 * 4),
        (one("QLinearGlobalAveragePool", "a s z s z", (1, 8, 8, 3), s=(), z=(), channels_last=1), (1, 1, 1, 3), 192),
        (one("DynamicQuantizeLSTM", "a w r", (7, 2, 4), w=(1, 4, 20), r=(1, 5, 20), hidden_size=5), (7, 1, 2, 5),
         2 * 14 * 20 * 9),
    ],
)  # fmt: skip
def test_shapes_and_operations(found: tuple[object, float], shape: tuple[int, ...], flops: float) -> None:
    assert found == (shape, flops)


@pytest.mark.parametrize(
    ("kind", "shapes", "made", "attributes", "flops"),
    [
        ("ConvTranspose", [(1, 3, 4, 4), (3, 5, 2, 2)], (1, 5, 8, 8), {}, 2 * 48 * 20),
        ("Conv", [(1, 6, 4, 4), (6, 1, 3, 3)], (1, 6, 2, 2), {"group": 6}, 2 * 24 * 9),
        ("LSTM", [(7, 2, 4), (1, 20, 4), (1, 20, 5)], (7, 1, 2, 5), {"hidden_size": 5}, 2 * 14 * 20 * 9),
        ("GRU", [(7, 2, 4), (2, 15, 4), (2, 15, 5)], (7, 2, 2, 5), {"hidden_size": 5}, 2 * 14 * 2 * 15 * 9),
        ("Einsum", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), {"equation": "bij,bjk->bik"}, 2 * 2 * 3 * 4 * 5),
        ("Einsum", [(7, 2, 3), (7, 3, 5)], (7, 2, 5), {"equation": "...ij, ...jk"}, 2 * 7 * 2 * 3 * 5),
        ("Attention", [(1, 2, 6, 4), (1, 2, 9, 4), (1, 2, 9, 4)], (1, 2, 6, 4), {}, 4 * 2 * 6 * 9 * 4),
        # eight query heads share two heads of keys and values, whose earlier steps are three; the mask is no past
        ("Attention", [(1, 6, 32), (1, 9, 8), (1, 9, 8)], (1, 6, 32), {"q_num_heads": 8}, 4 * 6 * 9 * 32),
        (
            "Attention",
            [(1, 8, 6, 4), (1, 2, 9, 4), (1, 2, 9, 5), (6, 12), (1, 2, 3, 4), (1, 2, 3, 5)],
            (1, 8, 6, 5),
            {},
            2 * 48 * 12 * 9,
        ),
        ("Attention", [(1, 2, 6, 4), (1, 2, 4, 4), (1, 2, 4, 4), (1, 2, 6, 4)], (1, 2, 6, 4), {}, 4 * 12 * 4 * 4),
        (
            "Attention",
            [(2, 4, 8), (8, 24), (24,), (), (2, 2, 2, 3, 4)],
            (2, 4, 8),
            {"num_heads": 2},
            2 * 8 * (8 * 24 + 7 * 16),
        ),
        (
            "QAttention",
            [(2, 4, 8), (8, 24), (24,), *[()] * 5, (2, 2, 2, 3, 4)],
            (2, 4, 8),
            {"num_heads": 2},
            2 * 8 * (8 * 24 + 7 * 16),
        ),
        ("MultiHeadAttention", [(2, 4, 8), (2, 2, 9, 4), (2, 2, 9, 4)], (2, 4, 8), {"num_heads": 2}, 4 * 8 * 9 * 8),
        ("MultiHeadAttention", [(2, 4, 8), (2, 9, 2, 2, 4)], (2, 4, 8), {"num_heads": 2}, 4 * 8 * 9 * 8),
        ("MultiHeadAttention", [(2, 4, 2, 3, 4)], (2, 4, 8), {"num_heads": 2}, 4 * 8 * 4 * 8),
        (
            "MultiHeadAttention",
            [(2, 4, 8), (2, 4, 8), (2, 4, 8), (), (), (), (2, 2, 5, 4)],
            (2, 4, 8),
            {"num_heads": 2},
            4 * 8 * 9 * 8,
        ),
        ("GroupQueryAttention", [(2, 4, 16), (), (), (2, 1, 5, 4)], (2, 4, 8), {"num_heads": 2}, 4 * 8 * 9 * 8),
        ("QLinearConv", [(1, 3, 4, 4), (), (), (5, 3, 3, 3)], (1, 5, 2, 2), {}, 2 * 20 * 27),
        ("ConvInteger", [(1, 3, 4, 4), (5, 3, 3, 3)], (1, 5, 2, 2), {}, 2 * 20 * 27),
        ("MatMulInteger", [(2, 3), (3, 4)], (2, 4), {}, 48),
        ("QLinearMatMul", [(2, 3), (), (), (3, 4)], (2, 4), {}, 48),
        ("QGemm", [(3, 2), (), (), (3, 4)], (2, 4), {"transA": 1}, 48),
        ("QLinearSigmoid", [(4, 8)], (4, 8), {}, 32),
        ("QuantizeLinear", [(4, 8), ()], (4, 8), {}, 64),
        ("EmbedLayerNormalization", [(1, 4), (1, 4), (99, 8)], (1, 4, 8), {}, 8 * 32),
        ("MaxPool", [(1, 3, 4, 4)], (1, 3, 2, 2), {"kernel_shape": [2, 2]}, 12 * 4),
        ("GlobalAveragePool", [(1, 3, 4, 4)], (1, 3, 1, 1), {}, 48),
        ("ReduceMean", [(4, 8)], (4, 1), {}, 32),
        ("Softmax", [(4, 8)], (4, 8), {}, 160),
        ("Add", [(4, 8), (8,)], (4, 8), {}, 32),
        ("Transpose", [(4, 8)], (8, 4), {}, 0),
        ("LSTM", [(7, 2, 4)], (7, 1, 2, 5), {}, 0),
    ],
)
def test_operations_by_hand(
    kind: str, shapes: list[tuple[int, ...]], made: tuple[int, ...], attributes: dict[str, object], flops: float
) -> None:
    node = helper.make_node(kind, [f"x{index}" for index in range(len(shapes))], ["y"], **attributes)
    assert node_flops(node, shapes, made) == flops


def test_an_unknown_fused_operator_is_named() -> None:
    node = helper.make_node("Mystery", ["x"], ["m"], name="odd", domain=MS)
    with pytest.raises(InvalidInputError, match=r"node 'odd' \(Mystery\) makes 'm' of unknown shape"):
        graph_of([node, helper.make_node("Neg", ["m"], ["y"])], (2,))


@pytest.mark.frameworks
@pytest.mark.parametrize("level", ["ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
def test_what_onnx_runtime_saves_loads(tmp_path: Path, level: str) -> None:
    ort = pytest.importorskip("onnxruntime")
    draw = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(draw.normal(size=shape).astype(np.float32), name)

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "v"], ["d"], pads=[1] * 4),
        node("Add", ["d", "r"], ["s"]),
        node("Relu", ["s"], ["t"]),
        node("GlobalAveragePool", ["t"], ["p"]),
        node("Flatten", ["p"], ["f"]),
        node("Gemm", ["f", "g", "h"], ["k"]),
        node("Relu", ["k"], ["y"]),
    ]
    made = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [weight("w", 16, 8, 3, 3), weight("v", 16, 16, 3, 3), weight("g", 16, 10), weight("h", 10)],
    )
    proto = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    options.log_severity_level = 3
    ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    fused, plain = load(tmp_path / "fused.onnx"), from_onnx(proto)
    assert len(fused.operators) < len(plain.operators)
    assert sum(op.flops for op in fused.operators) == pytest.approx(sum(op.flops for op in plain.operators), rel=0.02)
    assert {tensor.id: tensor.shape for tensor in fused.tensors}["y"] == (1, 10)

"""The operators that calibration measures: every common ONNX kind, at sizes drawn from those in real networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import ModelProto

COPIES = 3
"""Copies of every case in one model, each on data of its own, so that caches are not warmer than in real use."""

OPSET = 20

_IN_PLACE = ("Flatten", "Reshape")
"""Kinds that need a copy at a model's inputs and outputs, which are not its own memory, but not between operators."""

MICROSOFT = "com.microsoft"

_LIKE = {
    "Conv": "FusedConv NhwcConv NhwcFusedConv",
    "DynamicQuantizeMatMul": "MatMulInteger MatMulIntegerToFloat QAttention QGemm QLinearMatMul",
    "Gelu": "BiasGelu FastGelu QuickGelu",
    "Gemm": "FusedGemm",
    "GlobalAveragePool": "QLinearGlobalAveragePool",
    "LSTM": "DynamicQuantizeLSTM RNN",
    "LayerNormalization": "SimplifiedLayerNormalization",
    "MatMul": "Attention FusedMatMul GroupQueryAttention MultiHeadAttention TransposeMatMul",
    "MaxPool": "NhwcMaxPool",
    "QLinearConv": "ConvInteger",
    "SkipLayerNormalization": "SkipSimplifiedLayerNormalization",
}
LIKE = {other: kind for kind, others in _LIKE.items() for other in others.split()}
"""Kinds that ONNX Runtime's optimiser and quantisers write, and the measured kinds that are most like them."""

_UNARY = "Relu Sigmoid Tanh Exp Erf Gelu Sqrt HardSigmoid LeakyRelu Clip Neg Elu"
_BINARY = "Add Mul Sub Div Pow"


@dataclass(frozen=True, slots=True)
class Case:
    """One operator to measure.

    Attributes
    ----------
    kind
        ONNX operator type.
    inputs
        Shapes of the inputs that the caller feeds.
    weights
        Shapes of the constants that follow; an array is used as it is.
    attributes
        Attributes of the node.
    outputs
        Number of outputs.
    domain
        Domain of the operator.
    """

    kind: str
    inputs: Sequence[tuple[int, ...]]
    weights: Sequence[tuple[int, ...] | np.ndarray] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = ""


def cases(seed: int = 0, each: int = 10) -> list[Case]:
    """Draw the cases; the same seed draws the same cases.

    Parameters
    ----------
    seed
        Seed of the generator.
    each
        Cases for each elementwise kind; convolutions and matrix products get several times as many.
    """
    draw = np.random.default_rng(seed)
    found: list[Case] = []
    for kind in _UNARY.split():
        found += [Case(kind, [_map(draw)]) for _ in range(each)]
    for kind in _BINARY.split():
        found += [Case(kind, [shape := _map(draw), shape]) for _ in range(each // 2)]
        found += [Case(kind, [(1, _steps(draw), width := _width(draw))], [(width,)]) for _ in range(each // 2)]
    for maker, count in _MAKERS.items():
        found += [maker(draw) for _ in range(count * each // 10)]
    return found


def case_model(case: Case) -> ModelProto:
    """A model that contains only the case, ``COPIES`` times; the weights are random, but the same every time."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0)
    nodes, inputs, outputs, weights = [], [], [], []
    for copy in range(COPIES):
        names = [f"x{copy}_{position}" for position in range(len(case.inputs))]
        inputs += [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(names, case.inputs, strict=True)
        ]
        if case.kind in _IN_PLACE:
            nodes.append(helper.make_node("Relu", names, [f"before{copy}"], name=f"before_{copy}"))
            names = [f"before{copy}"]
        for position, shape in enumerate(case.weights):
            value = shape if isinstance(shape, np.ndarray) else draw.random(shape, np.float32) + np.float32(0.1)
            weights.append(numpy_helper.from_array(value, f"w{copy}_{position}"))
            names.append(weights[-1].name)
        if case.kind == "Gather":
            names.reverse()  # the table first, then the indices
            names[1] = weights[-2].name
        made = [f"y{copy}_{position}" for position in range(case.outputs)]
        nodes.append(
            helper.make_node(case.kind, names, made, name=f"case_{copy}", domain=case.domain, **case.attributes)
        )
        if case.kind in _IN_PLACE:
            nodes.append(helper.make_node("Relu", made, [f"after{copy}"], name=f"after_{copy}"))
            made = [f"after{copy}"]
        written = TensorProto.UINT8 if case.kind.startswith("QLinear") else TensorProto.FLOAT
        outputs += [helper.make_tensor_value_info(name, written, None) for name in made]
    graph = helper.make_graph(nodes, case.kind, inputs, outputs, weights)
    domains = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


def _pick(draw: np.random.Generator, *choices: int) -> int:
    return int(draw.choice(choices))


def _side(draw: np.random.Generator) -> int:
    return _pick(draw, 7, 10, 14, 20, 28, 40, 56, 80, 112)


def _channels(draw: np.random.Generator, side: int) -> int:
    """Feature maps with many channels are small and large ones have few, as in networks; at most 3 MB."""
    return int(min(2 ** draw.uniform(4, 10.5), 800_000 // side**2) // 8 * 8) or 8


def _map(draw: np.random.Generator) -> tuple[int, ...]:
    side = _side(draw)
    return (1, _channels(draw, side), side, side)


def _width(draw: np.random.Generator) -> int:
    return _pick(draw, 256, 384, 512, 640, 1024, 1280, 2048)


def _steps(draw: np.random.Generator) -> int:
    return _pick(draw, 16, 64, 128, 192, 320, 512)


def _pointwise(draw: np.random.Generator) -> Case:
    side = _pick(draw, 7, 10, 14, 20, 28, 40, 56, 80)
    wide, narrow = _channels(draw, side), _channels(draw, side)
    return Case("Conv", [(1, wide, side, side)], [(narrow, wide, 1, 1)])


def _spatial(draw: np.random.Generator) -> Case:
    side = _pick(draw, 7, 10, 14, 20, 28, 40, 56, 80)
    wide = min(_channels(draw, side), 512)
    stride = _pick(draw, 1, 1, 1, 2)
    kernel = _pick(draw, 3, 3, 3, 5)
    sizes = {"pads": [kernel // 2] * 4, "strides": [stride] * 2}
    return Case("Conv", [(1, wide, side, side)], [(min(wide * stride, 512), wide, kernel, kernel)], sizes)


def _first(draw: np.random.Generator) -> Case:
    side, kernel = _pick(draw, 128, 160, 192, 256), _pick(draw, 3, 5, 7)
    sizes = {"pads": [kernel // 2] * 4, "strides": [2, 2]}
    return Case("Conv", [(1, 3, side, side)], [(_pick(draw, 16, 32, 64), 3, kernel, kernel)], sizes)


def _depthwise(draw: np.random.Generator) -> Case:
    side, kernel, stride = _pick(draw, 7, 14, 28, 56, 80, 112), _pick(draw, 3, 3, 3, 5), _pick(draw, 1, 1, 2)
    wide = _channels(draw, side)
    sizes = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": wide}
    return Case("Conv", [(1, wide, side, side)], [(wide, 1, kernel, kernel)], sizes)


def _dense(draw: np.random.Generator) -> Case:
    wide, narrow = _width(draw), _width(draw) * _pick(draw, 1, 2, 4)
    return Case("MatMul", [(1, _steps(draw), wide)], [(wide, narrow)])


def _batched(draw: np.random.Generator) -> Case:
    heads, steps, width = _pick(draw, 4, 8, 12, 16), _pick(draw, 64, 128, 192, 320, 384), _pick(draw, 32, 64, 80)
    shapes = [(1, heads, steps, width), (1, heads, width, steps)]
    if draw.random() < 0.5:
        shapes = [(1, heads, steps, steps), (1, heads, steps, width)]
    return Case("MatMul", shapes)


def _gemm(draw: np.random.Generator) -> Case:
    wide, narrow = _width(draw), _pick(draw, 10, 100, 1000, 2048)
    return Case("Gemm", [(_pick(draw, 1, 1, 4, 32), wide)], [(wide, narrow), (narrow,)])


def _transposed(draw: np.random.Generator) -> Case:
    side = _pick(draw, 7, 14, 28, 56)
    wide = min(_channels(draw, side), 256)
    return Case("ConvTranspose", [(1, wide, side, side)], [(wide, max(wide // 2, 8), 2, 2)], {"strides": [2, 2]})


def _batch_norm(draw: np.random.Generator) -> Case:
    shape = _map(draw)
    return Case("BatchNormalization", [shape], [(shape[1],)] * 4)


def _layer_norm(draw: np.random.Generator) -> Case:
    width = _width(draw)
    return Case("LayerNormalization", [(1, _steps(draw), width)], [(width,), (width,)], {"axis": -1})


def _added_norm(draw: np.random.Generator) -> Case:
    width = _width(draw)
    shape = (1, _steps(draw), width)
    return Case("SkipLayerNormalization", [shape, shape], [(width,), (width,)], domain=MICROSOFT)


def _softmax(draw: np.random.Generator) -> Case:
    if draw.random() < 0.3:
        return Case("Softmax", [(_pick(draw, 1, 8, 32), _pick(draw, 10, 100, 1000, 4000))])
    steps = _pick(draw, 32, 64, 128, 192, 320, 384)
    return Case("Softmax", [(1, _pick(draw, 4, 8, 12, 16), steps, steps)])


def _pool(kind: str) -> Callable[[np.random.Generator], Case]:
    def make(draw: np.random.Generator) -> Case:
        kernel = _pick(draw, 2, 3, 3)
        return Case(
            kind, [_map(draw)], attributes={"kernel_shape": [kernel] * 2, "strides": [_pick(draw, 1, 2, 2)] * 2}
        )

    return make


def _global_pool(draw: np.random.Generator) -> Case:
    side = _pick(draw, 4, 7, 8, 10, 14)
    return Case("GlobalAveragePool", [(1, _channels(draw, side), side, side)])


def _transpose(draw: np.random.Generator) -> Case:
    order = [[0, 2, 1, 3], [0, 2, 3, 1]][_pick(draw, 0, 1)]
    return Case(
        "Transpose", [(1, _steps(draw), _pick(draw, 4, 8, 12, 16), _pick(draw, 32, 64, 80))], attributes={"perm": order}
    )


def _concat(draw: np.random.Generator) -> Case:
    return Case("Concat", [_map(draw)] * _pick(draw, 2, 2, 3, 4), attributes={"axis": 1})


def _split(draw: np.random.Generator) -> Case:
    shape, parts = _map(draw), _pick(draw, 2, 4)
    return Case("Split", [shape], attributes={"axis": 1, "num_outputs": parts}, outputs=parts)


def _gather(draw: np.random.Generator) -> Case:
    rows = np.random.default_rng(0).integers(0, 20_000, (1, _steps(draw)))
    return Case("Gather", [], [rows, (20_000, _width(draw))])


def _reshape(draw: np.random.Generator) -> Case:
    shape = _map(draw)
    return Case("Reshape", [shape], [np.array([1, -1], np.int64)])


def _flatten(draw: np.random.Generator) -> Case:
    return Case("Flatten", [(1, _pick(draw, 320, 512, 1280), _pick(draw, 1, 7), 1)])


def _mean(draw: np.random.Generator) -> Case:
    return Case("ReduceMean", [(1, _steps(draw), _width(draw))], [np.array([-1], np.int64)])


def _recurrent(kind: str, gates: int) -> Callable[[np.random.Generator], Case]:
    def make(draw: np.random.Generator) -> Case:
        wide, hidden = _pick(draw, 64, 128, 256, 512), _pick(draw, 64, 128, 256, 512)
        weights = [(1, gates * hidden, wide), (1, gates * hidden, hidden)]
        return Case(kind, [(_pick(draw, 1, 1, 4, 16, 64), 1, wide)], weights, {"hidden_size": hidden})

    return make


def _integer_product(draw: np.random.Generator) -> Case:
    weight = draw.integers(0, 255, (_width(draw), _width(draw)), np.uint8)
    shape = (1, _pick(draw, 1, 1, 16, 64, 128, 320), len(weight))
    return Case("DynamicQuantizeMatMul", [shape], [weight, _SCALE], domain=MICROSOFT)


def _integer_convolution(draw: np.random.Generator) -> Case:
    """Channels last, as the optimiser leaves it."""
    side, kernel = _pick(draw, 7, 14, 28, 56), _pick(draw, 1, 3)
    wide = min(_channels(draw, side), 512)
    image = draw.integers(0, 255, (1, side, side, wide), np.uint8)
    weight = draw.integers(0, 255, (min(_channels(draw, side), 512), wide, kernel, kernel), np.uint8)
    weights = [image, _SCALE, _ZERO, weight, _SCALE, _ZERO, _SCALE, _ZERO]
    return Case("QLinearConv", [], weights, {"pads": [kernel // 2] * 4, "channels_last": 1}, domain=MICROSOFT)


_SCALE, _ZERO = np.array(0.01, np.float32), np.array(128, np.uint8)

_MAKERS: dict[Callable[[np.random.Generator], Case], int] = {
    _pointwise: 30,
    _spatial: 30,
    _first: 4,
    _depthwise: 20,
    _dense: 24,
    _batched: 16,
    _gemm: 12,
    _transposed: 8,
    _batch_norm: 12,
    _layer_norm: 10,
    _softmax: 12,
    _pool("MaxPool"): 10,
    _pool("AveragePool"): 10,
    _global_pool: 10,
    _transpose: 12,
    _concat: 10,
    _split: 8,
    _gather: 8,
    _reshape: 8,
    _flatten: 6,
    _mean: 8,
    _added_norm: 8,
    _recurrent("LSTM", 4): 10,
    _recurrent("GRU", 3): 10,
    _integer_product: 16,
    _integer_convolution: 12,
}
"""How often each kind is drawn when elementwise kinds get ten cases."""

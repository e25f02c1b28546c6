"""The operators that calibration measures: every common ONNX kind, at sizes drawn from those in real networks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opweave.adapters.costs.case_models import MICROSOFT, POOLS, ROWS, SCALE, Case

_LIKE = {
    "Conv": "FusedConv NhwcConv NhwcFusedConv",
    "DynamicQuantizeMatMul": "DynamicQuantizeLSTM MatMulInteger MatMulIntegerToFloat QAttention QGemm QLinearMatMul",
    "Gelu": "BiasGelu FastGelu",
    "Gemm": "FusedGemm",
    "LSTM": "RNN",
    "LayerNormalization": "SimplifiedLayerNormalization",
    "MatMul": "Attention FusedMatMul GroupQueryAttention MultiHeadAttention TransposeMatMul",
    "NhwcQLinearConv": "ConvInteger",
    "QLinearAdd": "QLinearMul",
    "QuantizeLinear": "DynamicQuantizeLinear QLinearLeakyRelu QLinearSigmoid",
    "SkipLayerNormalization": "SkipSimplifiedLayerNormalization",
    "Softmax": "QLinearSoftmax",
}
LIKE = {other: kind for kind, others in _LIKE.items() for other in others.split()}
"""Kinds that ONNX Runtime's optimiser and quantisers write, and the measured kinds that are most like them."""

_UNARY = "Relu Sigmoid Tanh Exp Erf Gelu Sqrt HardSigmoid LeakyRelu Clip Neg Elu"
_BINARY = "Add Mul Sub Div Pow"

IMAGES = POOLS | {"Conv"}
"""Kinds that the optimiser of a runtime turns into others, which work on images in another layout."""


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


def _pick(draw: np.random.Generator, *choices: int) -> int:
    return int(draw.choice(choices))


def _side(draw: np.random.Generator) -> int:
    return _pick(draw, 7, 10, 14, 20, 28, 40, 56, 80, 112)


def _channels(draw: np.random.Generator, side: int) -> int:
    """Feature maps with many channels are small and large ones have few, as in networks; at most 3 MB."""
    return int(min(2 ** draw.uniform(3, 10.5), 800_000 // side**2) // 8 * 8) or 8


def _map(draw: np.random.Generator) -> tuple[int, ...]:
    side = _side(draw)
    return (1, _channels(draw, side), side, side)


def _width(draw: np.random.Generator) -> int:
    return _pick(draw, 256, 384, 512, 640, 1024, 1280, 2048)


def _steps(draw: np.random.Generator) -> int:
    return _pick(draw, 16, 64, 128, 192, 320, 512)


def _pointwise(draw: np.random.Generator) -> Case:
    side = _pick(draw, 7, 8, 10, 14, 16, 20, 28, 32, 40, 56, 80)
    wide, narrow = _channels(draw, side), _channels(draw, side)
    return Case("Conv", [(1, wide, side, side)], [(narrow, wide, 1, 1)])


def _spatial(draw: np.random.Generator) -> Case:
    side = _pick(draw, 7, 8, 10, 14, 16, 20, 28, 32, 40, 56, 80)
    wide = min(_channels(draw, side), 512)
    stride = _pick(draw, 1, 1, 1, 2)
    high, broad = ((3, 3), (3, 3), (3, 3), (5, 5), (1, 7), (7, 1), (1, 3))[_pick(draw, *range(7))]
    sizes = {"pads": [high // 2, broad // 2] * 2, "strides": [stride] * 2}
    return Case("Conv", [(1, wide, side, side)], [(min(wide * stride, 512), wide, high, broad)], sizes)


def _grouped(draw: np.random.Generator) -> Case:
    side, groups, width = _pick(draw, 7, 8, 14, 16, 28, 32, 56), _pick(draw, 2, 4, 8, 16, 32), _pick(draw, 8, 16, 24)
    sizes = {"pads": [1] * 4, "group": groups}
    return Case("Conv", [(1, groups * width, side, side)], [(groups * width, width, 3, 3)], sizes)


def _first(draw: np.random.Generator) -> Case:
    side, kernel = _pick(draw, 32, 64, 128, 160, 192, 256), _pick(draw, 3, 5, 7)
    sizes = {"pads": [kernel // 2] * 4, "strides": [2, 2]}
    return Case("Conv", [(1, 3, side, side)], [(_pick(draw, 16, 32, 64), 3, kernel, kernel)], sizes)


def _first_of_integers(*, last: bool) -> Callable[[np.random.Generator], Case]:
    def make(draw: np.random.Generator) -> Case:
        case, zero = _first(draw), np.array(128, np.uint8)
        filters = draw.integers(-127, 127, case.weights[0], np.int8)
        weights: list[tuple[int, ...] | np.ndarray] = [SCALE, zero, filters, SCALE, np.array(0, np.int8), SCALE, zero]
        if not last:
            return Case("QLinearConv", case.inputs, weights, case.attributes, element="uint8")
        batch, channels, *area = case.inputs[0]
        given = case.attributes | {"channels_last": 1}
        return Case("QLinearConv", [(batch, *area, channels)], weights, given, domain=MICROSOFT, element="uint8")

    return make


def _depthwise(draw: np.random.Generator) -> Case:
    side, kernel, stride = _pick(draw, 7, 8, 14, 16, 28, 32, 56, 80, 112), _pick(draw, 3, 3, 3, 5), _pick(draw, 1, 1, 2)
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
    return Case("Gemm", [(_pick(draw, 1, 1, 4, 32, 128, 512), wide)], [(wide, narrow), (narrow,)])


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
    return Case("Gather", [(1, _steps(draw))], [(ROWS, _width(draw))], element="int64", order=(1, 0))


def _where(draw: np.random.Generator) -> Case:
    heads, steps = _pick(draw, 1, 4, 8, 12), _pick(draw, 64, 128, 256, 384)
    condition = draw.random((1, 1, steps, steps)) < 0.5
    return Case("Where", [(1, heads, steps, steps)], [np.array(-1e4, np.float32), condition], order=(2, 0, 1))


def _quick_gelu(draw: np.random.Generator) -> Case:
    return Case("QuickGelu", [_map(draw)], attributes={"alpha": 1.0}, domain=MICROSOFT)  # SiLU


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
    weight = draw.integers(-127, 127, (_width(draw), _width(draw)), np.int8)
    shape = (1, _pick(draw, 1, 1, 16, 64, 128, 320), len(weight))
    return Case("DynamicQuantizeMatMul", [shape], [weight, SCALE], domain=MICROSOFT)


def _integer_convolution(element: str, *, separable: bool, last: bool) -> Callable[[np.random.Generator], Case]:
    """Channels last, as the optimiser leaves it, or first, as in files."""

    def make(draw: np.random.Generator) -> Case:
        side, kernel = _pick(draw, 7, 14, 28, 56), _pick(draw, 1, 3)
        wide = min(_channels(draw, side), 512)
        shape = (wide, 1, 3, 3) if separable else (min(_channels(draw, side), 512), wide, kernel, kernel)
        zero, none = np.array(128 if element == "uint8" else 0, element), np.array(0, np.int8)
        weights = [SCALE, zero, draw.integers(-127, 127, shape, np.int8), SCALE, none, SCALE, zero]
        stride = _pick(draw, 1, 1, 2) if separable else 1
        sizes = {"pads": [shape[2] // 2] * 4, "group": wide if separable else 1, "strides": [stride] * 2}
        if not last:
            return Case("QLinearConv", [(1, wide, side, side)], weights, sizes, element=element)
        image = (1, side, side, wide)
        return Case("QLinearConv", [image], weights, sizes | {"channels_last": 1}, domain=MICROSOFT, element=element)

    return make


def _pool_of_bytes(element: str, *, last: bool) -> Callable[[np.random.Generator], Case]:
    def make(draw: np.random.Generator) -> Case:
        plain = _pool("MaxPool")(draw)
        if not last:
            return Case("MaxPool", plain.inputs, attributes=plain.attributes, element=element)
        batch, channels, *area = plain.inputs[0]
        image = (batch, *area, channels)
        return Case("NhwcMaxPool", [image], attributes=plain.attributes, domain=MICROSOFT, element=element)

    return make


def _joined_bytes(element: str) -> Callable[[np.random.Generator], Case]:
    """Each input has its scale and zero; those of the result come first, and its scale is another one."""

    def make(draw: np.random.Generator) -> Case:
        count, zero = _pick(draw, 2, 2, 3, 4), np.array(128 if element == "uint8" else 0, element)
        order = [count + 2, count + 1, *(each for place in range(count) for each in (place, count, count + 1))]
        constants = [SCALE, zero, np.array(0.02, np.float32)]
        return Case("QLinearConcat", [_map(draw)] * count, constants, {"axis": 1}, 1, MICROSOFT, element, order)

    return make


def _added_bytes(element: str) -> Callable[[np.random.Generator], Case]:
    def make(draw: np.random.Generator) -> Case:
        shape, zero = _map(draw), np.array(128 if element == "uint8" else 0, element)
        order = (0, 2, 3, 1, 2, 3, 2, 3)
        return Case("QLinearAdd", [shape, shape], [SCALE, zero], {}, 1, MICROSOFT, element, order)

    return make


def _global_pool_of_bytes(draw: np.random.Generator) -> Case:
    image, zero = _global_pool(draw).inputs, np.array(128, np.uint8)
    order = (0, 1, 2, 1, 2)
    return Case("QLinearGlobalAveragePool", image, [SCALE, zero], {}, 1, MICROSOFT, "uint8", order)


def _transposed_bytes(element: str) -> Callable[[np.random.Generator], Case]:
    """Between images with channels first and last."""

    def make(draw: np.random.Generator) -> Case:
        order = [[0, 2, 3, 1], [0, 3, 1, 2]][_pick(draw, 0, 1)]
        return Case("Transpose", [_map(draw)], attributes={"perm": order}, element=element)

    return make


def _quantize(draw: np.random.Generator) -> Case:
    return Case("QuantizeLinear", [_map(draw)], [SCALE, np.array(128, np.uint8)])


def _dequantize(draw: np.random.Generator) -> Case:
    return Case("DequantizeLinear", [_map(draw)], [SCALE, np.array(128, np.uint8)], element="uint8")


_MAKERS: dict[Callable[[np.random.Generator], Case], int] = {
    _pointwise: 30,
    _spatial: 30,
    _first: 8,
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
    **{
        _integer_convolution(element, separable=separable, last=last): 10
        for element in ("uint8", "int8")
        for separable in (False, True)
        for last in (False, True)
    },
    **{_first_of_integers(last=last): 6 for last in (False, True)},
    **{_pool_of_bytes(element, last=last): 8 for element in ("uint8", "int8") for last in (False, True)},
    **{
        maker(element): 8 for element in ("uint8", "int8") for maker in (_joined_bytes, _added_bytes, _transposed_bytes)
    },
    _global_pool_of_bytes: 6,
    _quantize: 10,
    _dequantize: 10,
    _grouped: 14,
    _where: 8,
    _quick_gelu: 10,
}
"""How often each kind is drawn when elementwise kinds get ten cases."""

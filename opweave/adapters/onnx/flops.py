"""Floating-point operations of ONNX operators from shapes alone, including operators that ONNX Runtime fuses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.adapters.graphs.element_flops import element_flops

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto

Shape = tuple[int, ...]

_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool", "NhwcMaxPool", "QLinearAveragePool"})


def node_flops(node: NodeProto, shapes: Sequence[Shape], made: Shape) -> float:
    """Count the floating-point operations of an operator.

    Parameters
    ----------
    node
        The operator.
    shapes
        Shapes of its inputs by position; () also for omitted inputs.
    made
        Shape of its first output.

    Returns
    -------
    float
        Two for a multiply-accumulate. Matrix products, convolutions, recurrent layers and attention are counted by
        their formulas, with one more per output element for a fused activation; pools by their windows; everything else
        by :func:`~opweave.adapters.graphs.element_flops.element_flops`. Operators on integers count as if on floats.

    Examples
    --------
    >>> from onnx import helper
    >>> node_flops(helper.make_node("MatMul", ["a", "b"], ["c"]), [(2, 3), (3, 4)], (2, 4))
    48.0
    """
    attributes = {attribute.name: attribute for attribute in node.attribute}
    outputs = math.prod(made)
    formula = _FORMULAS.get(node.op_type)
    if formula is not None:
        fused = outputs if "activation" in attributes else 0
        try:
            return float(formula(_Call(attributes, shapes, made)) + fused)
        except IndexError:  # an input that the formula needs is missing, so the file violates its schema
            return 0.0
    if node.op_type in _POOLS:
        window = attributes.get("kernel_shape")
        return float(outputs * math.prod(window.ints if window is not None else (1,)))
    return element_flops(node.op_type, math.prod(shapes[0]) if shapes else 0, outputs)


@dataclass(frozen=True, slots=True)
class _Call:
    """The inputs of the formulas: attributes by name, input shapes by position, shape of the first output."""

    attributes: Mapping[str, AttributeProto]
    shapes: Sequence[Shape]
    made: Shape


Formula = Callable[[_Call], float]


def _convolution(weight: int) -> Formula:
    return lambda call: 2.0 * math.prod(call.made) * math.prod(call.shapes[weight][1:])


def _convolution_transposed(call: _Call) -> float:
    return 2.0 * math.prod(call.shapes[0]) * math.prod(call.shapes[1][1:])


def _product(call: _Call) -> float:
    """Rows times columns times the summed dimension: the last one of A, or the one before if A is transposed."""
    transposed = "transA" in call.attributes and call.attributes["transA"].i
    return 2.0 * math.prod(call.made) * call.shapes[0][-2 if transposed else -1]


def _einsum(call: _Call) -> float:
    terms = call.attributes["equation"].s.decode().replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    rest = 1
    for term, shape in zip(terms, call.shapes, strict=False):
        before, dots, after = term.partition("...")
        sizes |= dict(zip(before, shape, strict=False))
        sizes |= dict(zip(reversed(after), reversed(shape), strict=False))
        if dots:
            rest = max(rest, math.prod(shape[len(before) : len(shape) - len(after)]))
    return (2.0 if len(terms) > 1 else 1.0) * rest * math.prod(sizes.values())


def _recurrent(call: _Call) -> float:
    """Both weight matrices of every direction, once for each step of each sequence."""
    return 2.0 * math.prod(call.shapes[0][:2]) * (math.prod(call.shapes[1]) + math.prod(call.shapes[2]))


def _attention(call: _Call) -> float:
    """Input projection and attention of ONNX Runtime, or the standard operator on queries, keys and values."""
    if (
        "num_heads" not in call.attributes
        or len(call.shapes[0]) == 4
        or (len(call.shapes) > 2 and len(call.shapes[2]) > 2)
    ):
        return _attention_alone(call)
    batch, steps, width = call.shapes[0]
    projected = math.prod(call.shapes[1][1:])
    past = call.shapes[4][3] if len(call.shapes) > 4 and len(call.shapes[4]) == 5 else 0
    value = call.made[-1]
    scores = (projected - value) // 2 + value  # width of the queries plus width of the values
    return 2.0 * batch * steps * (width * projected + (steps + past) * scores)


def _attention_alone(call: _Call) -> float:
    """Queries times keys, and scores times values; three dimensions (batch, steps, width) or four (with heads)."""
    query = call.shapes[0]
    keys = call.shapes[1] if len(call.shapes) > 1 and len(call.shapes[1]) > 2 else query
    values = call.shapes[2] if len(call.shapes) > 2 and len(call.shapes[2]) > 2 else keys
    length = keys[-2]
    past = next((shape for shape in call.shapes[3:] if len(shape) == 4 and shape[-1] == query[-1]), None)
    if past is not None and len(query) == 4 and len(keys) == 4:
        length += past[-2]
    width = query[-1] + (values[-1] if len(values) == len(query) else query[-1])
    return 2.0 * math.prod(query[:-1]) * length * width


def _grouped_attention(call: _Call) -> float:
    past = call.shapes[3][-2] if len(call.shapes) > 3 and len(call.shapes[3]) == 4 else 0
    return 4.0 * math.prod(call.made) * (call.shapes[0][-2] + past)


_PRODUCTS = """
    DynamicQuantizeMatMul FusedGemm FusedMatMul Gemm GemmFastGelu MatMul MatMulInteger MatMulIntegerToFloat MatMulNBits
    QGemm QLinearMatMul TransposeMatMul
"""
_CONVOLUTIONS = "Conv ConvInteger DeformConv FusedConv NhwcConv NhwcFusedConv"

_FORMULAS: dict[str, Formula] = {
    "Attention": _attention,
    "ConvTranspose": _convolution_transposed,
    "Einsum": _einsum,
    "GroupQueryAttention": _grouped_attention,
    "MultiHeadAttention": _attention_alone,
    "QLinearConv": _convolution(3),
    **dict.fromkeys(_CONVOLUTIONS.split(), _convolution(1)),
    **dict.fromkeys(_PRODUCTS.split(), _product),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
}

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

_QUANTIZED = "QLinear"
"""Start of the names of operators that compute on integers what the rest of the name says."""


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
    kind = node.op_type.removeprefix(_QUANTIZED)
    return element_flops(kind, math.prod(shapes[0]) if shapes else 0, outputs)


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
    """Rows times columns times the summed dimension: the last one of A, or the rows of a transposed A.

    The rows of A precede its columns, or all batches if these were swapped as well.
    """
    turned, swapped = (name in call.attributes and call.attributes[name].i for name in ("transA", "transBatchA"))
    return 2.0 * math.prod(call.made) * call.shapes[0][(0 if swapped else -2) if turned else -1]


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


def _attention(past: int) -> Formula:
    """Attention with its input projection; ``past`` is the position of earlier keys and values, of five dimensions."""

    def count(call: _Call) -> float:
        batch, steps, width = call.shapes[0]
        projected = math.prod(call.shapes[1][1:])
        value = call.made[-1]
        scores = (projected - value) // 2 + value  # width of the queries plus width of the values
        return 2.0 * batch * steps * (width * projected + (steps + _past(call, past, 5)) * scores)

    return count


def _standard_attention(call: _Call) -> float:
    """Queries times keys, and scores times values; (batch, steps, width) or (batch, heads, steps, width)."""
    if "num_heads" in call.attributes:  # ONNX Runtime's operator of this name
        return _attention(4)(call)
    query, keys = call.shapes[:2]
    return 2.0 * math.prod(query[:-1]) * (keys[-2] + _past(call, 4, 4)) * (query[-1] + call.made[-1])


def _multi_head_attention(call: _Call) -> float:
    """Keys are (batch, steps, width), (batch, heads, steps, width), packed with values, or packed with queries."""
    query, keys = call.shapes[0], call.shapes[1] if len(call.shapes) > 1 else ()
    length = keys[2] if len(keys) == 4 else keys[1] if keys else query[1]
    width = query[-1] if len(query) == 3 else call.made[-1]
    return 2.0 * math.prod(call.made[:2]) * (length + _past(call, 6, 4)) * (width + call.made[-1])


def _grouped_attention(call: _Call) -> float:
    return 4.0 * math.prod(call.made) * (call.shapes[0][-2] + _past(call, 3, 4))


def _past(call: _Call, position: int, rank: int) -> int:
    """Steps of the earlier keys, the last dimension but one of that input; 0 if it is omitted."""
    shape = call.shapes[position] if position < len(call.shapes) else ()
    return shape[-2] if len(shape) == rank else 0


_PRODUCTS = """
    DynamicQuantizeMatMul FusedGemm FusedMatMul Gemm GemmFastGelu MatMul MatMulBnb4 MatMulFpQ4 MatMulInteger
    MatMulIntegerToFloat MatMulNBits QGemm QLinearMatMul TransposeMatMul
"""
_CONVOLUTIONS = "Conv ConvInteger DeformConv FusedConv NhwcConv NhwcFusedConv"

_FORMULAS: dict[str, Formula] = {
    "Attention": _standard_attention,
    "DecoderMaskedSelfAttention": _attention(4),
    "ConvTranspose": _convolution_transposed,
    "Einsum": _einsum,
    "GroupQueryAttention": _grouped_attention,
    "MultiHeadAttention": _multi_head_attention,
    "QAttention": _attention(8),
    "QLinearConv": _convolution(3),
    **dict.fromkeys(_CONVOLUTIONS.split(), _convolution(1)),
    **dict.fromkeys(_PRODUCTS.split(), _product),
    **dict.fromkeys(("DynamicQuantizeLSTM", "GRU", "LSTM", "RNN"), _recurrent),
}

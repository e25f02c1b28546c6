"""Floating-point operations of OpenVINO's operators, from shapes alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from opweave.adapters.graphs.element_flops import formula_flops

Shape = tuple[int, ...]

_COMMON = """
    AvgPool=average Clamp=clamp Elu=elu Gather=gather HSigmoid=hardsigmoid HSwish=hardswish LogicalAnd=and
    LogicalNot=not LogicalOr=or LogicalXor=xor MaxPool=max MVN=layernorm NormalizeL2=lpnormalization NotEqual=ne
    Power=pow ReduceL1=reducel1 Select=where SoftMax=softmax SoftPlus=softplus SquaredDifference=squareddifference
"""
COMMON = dict(pair.split("=") for pair in _COMMON.split())
"""Words that other frameworks use for a kind."""


def layer_flops(kind: str, shapes: Sequence[Shape], made: Shape) -> float:
    """Count the floating-point operations of a layer.

    Parameters
    ----------
    kind
        Its type.
    shapes
        Shapes of its inputs.
    made
        Shape of its first output.

    Returns
    -------
    float
        Two for a multiply-accumulate. Convolutions, products, recurrent layers and attention are counted by their
        formulas, everything else by :func:`~opweave.adapters.graphs.element_flops.element_flops`; pools count one
        operation per output element, whatever their windows.

    Examples
    --------
    >>> layer_flops("MatMul", [(2, 3), (3, 4)], (2, 4))
    48.0
    """
    return formula_flops(_FORMULAS.get(kind), COMMON.get(kind, kind), shapes, made)


Formula = Callable[[Sequence[Shape], Shape], float]


def _forwards(first: int) -> Formula:
    """Weights are (groups, output channels, input channels, window), with groups or without them."""
    return lambda shapes, made: 2.0 * math.prod(made) * math.prod(shapes[1][first:])


def _backwards(first: int) -> Formula:
    """Weights are (groups, input channels, output channels, window), with groups or without them."""
    return lambda shapes, _: 2.0 * math.prod(shapes[0]) * math.prod(shapes[1][first:])


def _product(shapes: Sequence[Shape], made: Shape) -> float:
    if len(shapes[0]) < 2 or len(made) < 2:
        return 2.0 * math.prod(made) * shapes[0][-1]
    return 2.0 * math.prod(made) * (math.prod(shapes[0][-2:]) // made[-2] if made[-2] else 0)


def _sequence(weights: int) -> Formula:
    """Both weight matrices of every direction, once for each step of each sequence."""
    return lambda shapes, _: (
        2.0 * math.prod(shapes[0][:2]) * (math.prod(shapes[weights]) + math.prod(shapes[weights + 1]))
    )


def _cell(weights: int) -> Formula:
    return lambda shapes, _: 2.0 * shapes[0][0] * (math.prod(shapes[weights]) + math.prod(shapes[weights + 1]))


def _attention(shapes: Sequence[Shape], made: Shape) -> float:
    """Queries times keys, and scores times values."""
    return 2.0 * (math.prod(shapes[0]) + math.prod(made)) * shapes[1][-2]


_FORMULAS: Mapping[str, Formula] = {
    "Convolution": _forwards(1),
    "ConvolutionBackpropData": _backwards(1),
    "DeformableConvolution": lambda shapes, made: 2.0 * math.prod(made) * math.prod(shapes[2][1:]),
    "GRUCell": _cell(2),
    "GRUSequence": _sequence(3),
    "GroupConvolution": _forwards(2),
    "GroupConvolutionBackpropData": _backwards(2),
    "LSTMCell": _cell(3),
    "LSTMSequence": _sequence(4),
    "MatMul": _product,
    "RNNCell": _cell(2),
    "RNNSequence": _sequence(3),
    "ScaledDotProductAttention": _attention,
}

"""Floating-point operations of TensorFlow Lite's operators, from shapes alone; channels come last."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from opweave.adapters.graphs.element_flops import formula_flops
from opweave.adapters.tflite.words import COMMON

Shape = tuple[int, ...]


def operator_flops(kind: str, shapes: Sequence[Shape], made: Shape) -> float:
    """Count the floating-point operations of an operator.

    Parameters
    ----------
    kind
        Its kind.
    shapes
        Shapes of its inputs by position; () also for omitted inputs.
    made
        Shape of its first output.

    Returns
    -------
    float
        Two for a multiply-accumulate. Convolutions, products and recurrent layers are counted by their formulas, and
        everything else by :func:`~opweave.adapters.graphs.element_flops.element_flops`. Activations that are fused into
        another operator are not counted; pools count one operation per output element, whatever their windows.

    Examples
    --------
    >>> operator_flops("FULLY_CONNECTED", [(1, 8), (4, 8), (4,)], (1, 4))
    64.0
    """
    return formula_flops(_FORMULAS.get(kind), COMMON.get(kind, kind), shapes, made)


Formula = Callable[[Sequence[Shape], Shape], float]


def _convolution(shapes: Sequence[Shape], made: Shape) -> float:
    """Weights are (output channels, height, width, input channels)."""
    return 2.0 * math.prod(made) * math.prod(shapes[1][1:])


def _depthwise(shapes: Sequence[Shape], made: Shape) -> float:
    return 2.0 * math.prod(made) * math.prod(shapes[1][1:3])


def _convolution_3d(shapes: Sequence[Shape], made: Shape) -> float:
    """Weights are (depth, height, width, input channels, output channels)."""
    return 2.0 * math.prod(made) * math.prod(shapes[1][:4])


def _transposed(image: int) -> Formula:
    """Weights are the input at position 1: (output channels, window, input channels), or channels last in 3D."""
    return lambda shapes, _: 2.0 * math.prod(shapes[image]) * math.prod(shapes[1][:-1])


def _dense(shapes: Sequence[Shape], made: Shape) -> float:
    return 2.0 * math.prod(made) * shapes[1][-1]


def _product(shapes: Sequence[Shape], made: Shape) -> float:
    """The summed dimension is what is left of a matrix of the first factor without the rows of the result."""
    rows = made[-2]
    return 2.0 * math.prod(made) * (math.prod(shapes[0][-2:]) // rows if rows else 0)


def _recurrent(weights: slice) -> Formula:
    """All weight matrices of the layer, once for each step of each sequence."""

    def count(shapes: Sequence[Shape], _: Shape) -> float:
        matrices = [shape for shape in shapes[weights] if len(shape) == 2]
        steps = math.prod(shapes[0][:-1])
        return 2.0 * steps * sum(map(math.prod, matrices))

    return count


_FORMULAS: Mapping[str, Formula] = {
    "BATCH_MATMUL": _product,
    "BIDIRECTIONAL_SEQUENCE_LSTM": _recurrent(slice(1, 35)),
    "BIDIRECTIONAL_SEQUENCE_RNN": _recurrent(slice(1, 8)),
    "CONV_2D": _convolution,
    "CONV_3D": _convolution_3d,
    "CONV_3D_TRANSPOSE": _transposed(2),
    "Convolution2DTransposeBias": _transposed(0),
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _dense,
    "LSTM": _recurrent(slice(1, 18)),
    "RNN": _recurrent(slice(1, 3)),
    "SVDF": _recurrent(slice(1, 3)),
    "TRANSPOSE_CONV": _transposed(2),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _recurrent(slice(1, 18)),
    "UNIDIRECTIONAL_SEQUENCE_RNN": _recurrent(slice(1, 3)),
}

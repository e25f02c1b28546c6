"""What OpenVINO's layers do: views, element types, and floating-point operations, from shapes alone."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from opweave.adapters.graphs.element_flops import Formula, formula_flops

Shape = tuple[int, ...]

VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze"})
"""Layers whose output shares the storage of their first input."""

NOT_FOLDED = frozenset({"Multinomial", "RandomUniform", "ReadValue"})
"""Layers that are not computed in advance although their inputs are constant."""

_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

BITS = {name: int(bits) for bits, names in _DATA["bits"].items() for name in names.split()}
"""Bits of one element; elements smaller than a byte are packed."""

COMMON = dict(pair.split("=") for pair in _DATA["common"].split())
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


def _product(shapes: Sequence[Shape], made: Shape) -> float:
    if len(shapes[0]) < 2 or len(made) < 2:
        return 2.0 * math.prod(made) * shapes[0][-1]
    return 2.0 * math.prod(made) * (math.prod(shapes[0][-2:]) // made[-2] if made[-2] else 0)


def _sequence(weights: int) -> Callable[[Sequence[Shape], Shape], float]:
    """Both weight matrices of every direction, once for each step of each sequence."""
    return lambda shapes, _: (
        2.0 * math.prod(shapes[0][:2]) * (math.prod(shapes[weights]) + math.prod(shapes[weights + 1]))
    )


def _cell(weights: int) -> Callable[[Sequence[Shape], Shape], float]:
    return lambda shapes, _: 2.0 * shapes[0][0] * (math.prod(shapes[weights]) + math.prod(shapes[weights + 1]))


def _attention(shapes: Sequence[Shape], made: Shape) -> float:
    """Queries times keys, and scores times values."""
    return 2.0 * (math.prod(shapes[0]) + math.prod(made)) * shapes[1][-2]


_FORMULAS: Mapping[str, Formula] = {
    "Convolution": (None, 1, 1, None),  # weights are (groups, output channels, input channels, window)
    "ConvolutionBackpropData": (0, 1, 1, None),
    "DeformableConvolution": (None, 2, 1, None),
    "GRUCell": _cell(2),
    "GRUSequence": _sequence(3),
    "GroupConvolution": (None, 1, 2, None),
    "GroupConvolutionBackpropData": (0, 1, 2, None),
    "LSTMCell": _cell(3),
    "LSTMSequence": _sequence(4),
    "MatMul": _product,
    "RNNCell": _cell(2),
    "RNNSequence": _sequence(3),
    "ScaledDotProductAttention": _attention,
}

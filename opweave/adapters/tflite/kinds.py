"""Operators and element types of TensorFlow Lite (the names stand in ``kinds.toml``), and floating-point operations."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from opweave.adapters.graphs.element_flops import Formula, formula_flops

Shape = tuple[int, ...]

_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

KINDS = tuple(_DATA["kinds"].split())
"""Builtin operators by number."""

CUSTOM = KINDS.index("CUSTOM")

TYPES = tuple(_DATA["types"].split())
"""Element types by number."""

BITS = {name: int(bits) for bits, names in _DATA["bits"].items() for name in names.split()}
"""Bits of one element. Elements smaller than a byte are packed; of a resource or a variant, only the handle counts."""

VIEWS = frozenset({"BITCAST", "EXPAND_DIMS", "RESHAPE", "SQUEEZE"})
"""Operators whose output shares the storage of their first input."""

FOLDED = frozenset({"DENSIFY", "DEQUANTIZE"})
"""Operators that the interpreter runs once if their input is constant, and whose output then stays."""

CALLS: Mapping[str, Sequence[int]] = _DATA["calls"]
"""Operators that run other subgraphs, and the fields of their options that name these."""

LOOKS = frozenset({"HASHTABLE_FIND", "HASHTABLE_SIZE", "READ_VARIABLE"})
"""Operators that read the variable or table whose handle is their first input."""

CHANGES = frozenset({"ASSIGN_VARIABLE", "HASHTABLE_IMPORT"})
"""Operators that change it."""

COMMON = dict(pair.split("=") for pair in _DATA["common"].split())
"""Words that other frameworks use for a kind."""


def kind_of(code: int) -> str:
    """Name of a builtin operator; one that is newer than this list has a number.

    Examples
    --------
    >>> kind_of(3), kind_of(100_000)
    ('CONV_2D', 'BUILTIN_100000')
    """
    return KINDS[code] if 0 <= code < len(KINDS) else f"BUILTIN_{code}"


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


def _product(shapes: Sequence[Shape], made: Shape) -> float:
    """The summed dimension is what is left of a matrix of the first factor without the rows of the result."""
    rows = made[-2]
    return 2.0 * math.prod(made) * (math.prod(shapes[0][-2:]) // rows if rows else 0)


def _recurrent(weights: slice) -> Callable[[Sequence[Shape], Shape], float]:
    """All weight matrices of the layer, once for each step of each sequence."""

    def count(shapes: Sequence[Shape], _: Shape) -> float:
        matrices = [shape for shape in shapes[weights] if len(shape) == 2]
        return 2.0 * math.prod(shapes[0][:-1]) * sum(map(math.prod, matrices))

    return count


_FORMULAS: Mapping[str, Formula] = {
    "BATCH_MATMUL": _product,
    "BIDIRECTIONAL_SEQUENCE_LSTM": _recurrent(slice(1, 35)),
    "BIDIRECTIONAL_SEQUENCE_RNN": _recurrent(slice(1, 8)),
    "CONV_2D": (None, 1, 1, None),  # weights are (output channels, height, width, input channels)
    "CONV_3D": (None, 1, 0, 4),  # (depth, height, width, input channels, output channels)
    "CONV_3D_TRANSPOSE": (2, 1, 0, -1),
    "Convolution2DTransposeBias": (0, 1, 0, -1),
    "DEPTHWISE_CONV_2D": (None, 1, 1, 3),
    "FULLY_CONNECTED": (None, 1, -1, None),
    "TRANSPOSE_CONV": (2, 1, 0, -1),
    **dict.fromkeys(("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"), _recurrent(slice(1, 18))),
    **dict.fromkeys(("RNN", "SVDF", "UNIDIRECTIONAL_SEQUENCE_RNN"), _recurrent(slice(1, 3))),
}

"""Operations per element of operators that are not matrix products, by the same rule for every framework.

The count of a real kernel depends on how it approximates ``exp`` or ``tanh``. The numbers here count the operations of
the textbook formula, each elementary function once. Kinds that are in no table only move data and count 0. All of this
is small compared with convolutions and matrix products, but it distinguishes an elementwise operator from a view. For
that reason, overwriting existing memory (``copy_``, ``fill_``) counts one operation per element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from opweave.adapters.graphs.in_place import INPLACE_KINDS, KINDS, short_kind

_NOTHING = frozenset({"dropout"})

PER_OUTPUT = {name: float(count) for count, names in KINDS["per_output"].items() for name in names.split()}
"""Operations per output element by short name (see :func:`~opweave.adapters.graphs.in_place.short_kind`)."""

PER_INPUT = frozenset(KINDS["per_input"]["1"].split())
"""Short names of reductions: one operation per element of their first input."""


def element_flops(kind: str, inputs: float, outputs: float) -> float:
    """Count the operations of an operator that is not a matrix product.

    Parameters
    ----------
    kind
        The operator kind as its framework names it.
    inputs, outputs
        Number of elements of its first input, and of its first output.

    Examples
    --------
    >>> element_flops("aten.relu_.default", 10, 10), element_flops("Softmax", 4, 4), element_flops("ReduceMean", 8, 1)
    (10.0, 20.0, 8.0)
    >>> element_flops("Transpose", 8, 8)
    0.0
    """
    name = short_kind(kind)
    if name in PER_INPUT:
        return float(inputs)
    if name in PER_OUTPUT:
        return PER_OUTPUT[name] * outputs
    return float(outputs) if name in INPLACE_KINDS and name not in _NOTHING else 0.0


Macs = tuple[int | None, int, int, int | None]
"""Multiply-accumulates as data: for each element of the result (None) or of the input at a position, as many as some
dimensions of the weights have: position of the weights, first dimension, and the one at which they end."""

Formula = Macs | Callable[[Sequence[tuple[int, ...]], tuple[int, ...]], float]


def macs(rule: Macs, shapes: Sequence[tuple[int, ...]], made: tuple[int, ...]) -> float:
    """Count two operations for each multiply-accumulate.

    Examples
    --------
    A convolution with weights (filters, channels, height, width):

    >>> macs((None, 1, 1, None), [(1, 3, 4, 4), (8, 3, 3, 3)], (1, 8, 2, 2))
    1728.0
    """
    over, weights, begin, end = rule
    return 2.0 * math.prod(made if over is None else shapes[over]) * math.prod(shapes[weights][begin:end])


def formula_flops(
    formula: Formula | None, kind: str, shapes: Sequence[tuple[int, ...]], made: tuple[int, ...]
) -> float:
    """Count by a formula of input shapes and result shape; without one, by :func:`element_flops`.

    Where an input that the formula needs is missing, the count is 0.
    """
    if formula is None:
        return element_flops(kind, math.prod(shapes[0]) if shapes else 0, math.prod(made))
    try:
        return macs(formula, shapes, made) if isinstance(formula, tuple) else float(formula(shapes, made))
    except IndexError:
        return 0.0

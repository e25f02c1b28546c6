"""Scratch memory of ONNX Runtime's CPU kernels, with one thread: what they take from the arena while they run.

The formulas are those of the kernels' sources (MLAS, ``convolve.cpp``; ``conv_transpose.cc``; ``deep_cpu_lstm.cc`` and
``deep_cpu_gru.cc``), and were checked against the arena's counters of ONNX Runtime 1.31: convolutions and transposed
convolutions to the byte, apart from the arena's own rounding; recurrent layers are understated by up to a third.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto

Shape = tuple[int, ...]

FLOAT_BYTES = 4

SEGMENT_BYTES = 128 * 128 * FLOAT_BYTES
"""A convolution that is unfolded piece by piece needs one such piece for each thread."""


def kernel_scratch(node: NodeProto, shapes: Sequence[Shape], made: Shape) -> int:
    """Bytes that the kernel of a node takes while it runs, beyond its inputs and outputs.

    Parameters
    ----------
    node
        The node, which computes with 32-bit floats.
    shapes
        Shapes of its inputs by position.
    made
        Shape of its first output.

    Returns
    -------
    int
        0 for kinds without a formula here.

    Examples
    --------
    >>> from onnx import helper
    >>> node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    >>> kernel_scratch(node, [(1, 256, 14, 14), (512, 256, 3, 3)], (1, 512, 14, 14))
    1806336
    """
    formula = _FORMULAS.get(node.op_type) if node.domain in ("", "com.microsoft") else None
    if formula is None:
        return 0
    try:
        return formula({each.name: each for each in node.attribute}, shapes, made)
    except IndexError:  # an input that the formula needs is missing
        return 0


Formula = Callable[[Mapping[str, "AttributeProto"], Sequence[Shape], Shape], int]


def _convolution(given: Mapping[str, AttributeProto], shapes: Sequence[Shape], made: Shape) -> int:
    """Nothing for pointwise ones; where there are more filters than positions, all of the unfolded image."""
    filters, depth, *window = shapes[1]
    positions, groups = math.prod(made[2:]), given["group"].i if "group" in given else 1
    steps = given["strides"].ints if "strides" in given else ()
    padded = "pads" in given and any(given["pads"].ints)
    if math.prod(window) == 1 and all(step == 1 for step in steps) and not padded:
        return 0
    if filters // max(groups, 1) > positions:
        return positions * depth * math.prod(window) * FLOAT_BYTES
    return SEGMENT_BYTES


def _transposed(_: Mapping[str, AttributeProto], shapes: Sequence[Shape], __: Shape) -> int:
    """All products of weights and positions, of one image and group, before they are added up."""
    return math.prod(shapes[1][1:]) * math.prod(shapes[0][2:]) * FLOAT_BYTES


def _recurrent(_: Mapping[str, AttributeProto], shapes: Sequence[Shape], __: Shape) -> int:
    """The gates of all steps, of every direction."""
    directions, rows = shapes[1][:2]
    return math.prod(shapes[0][:2]) * directions * rows * FLOAT_BYTES


_FORMULAS: dict[str, Formula] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "FusedConv": _convolution,
    "GRU": _recurrent,
    "LSTM": _recurrent,
}

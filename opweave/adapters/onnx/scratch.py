"""Scratch memory of ONNX Runtime's CPU kernels, with one thread: what they take from the arena while they run.

The formulas follow the kernels' sources (MLAS ``convolve.cpp``, ``conv_transpose.cc``, ``uni_directional_lstm.cc``,
``deep_cpu_gru.cc``, ``qlinearconv.cc``, ``where_op.cc`` and others) and were checked against the arena's counters of
ONNX Runtime 1.31 on x86-64, operator by operator and to the byte. Not counted: ``Einsum``, the index tables of
``Resize``, and kernels of attention other than ``com.microsoft.Attention``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.adapters.onnx.sizes import Sized

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto

Shape = tuple[int, ...]

FLOAT_BYTES = 4
POINTER_BYTES = 8

SEGMENT_BYTES = 128 * 128 * FLOAT_BYTES
"""A convolution that is unfolded piece by piece needs one such piece for each thread."""

LANES, LANE_BYTES = 16, 4
"""Filters and channels that 8-bit kernels multiply at a time."""


def kernel_scratch(node: NodeProto, sizes: Sequence[Sized | None], made: Sized) -> int:
    """Bytes that the kernel of a node takes while it runs, beyond its inputs and outputs.

    Parameters
    ----------
    node
        The node.
    sizes
        Shape and element type of its inputs by position; None for an omitted input.
    made
        Those of its first output.

    Returns
    -------
    int
        0 for kinds without a formula here.

    Examples
    --------
    >>> from onnx import helper
    >>> node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    >>> shapes = (1, 256, 14, 14), (512, 256, 3, 3), (1, 512, 14, 14)
    >>> image, weights, made = (Sized(shape, "float32", 4 * math.prod(shape)) for shape in shapes)
    >>> kernel_scratch(node, [image, weights], made)
    1806336
    """
    formula = _FORMULAS.get(node.op_type) if node.domain in ("", "com.microsoft") else None
    if formula is None:
        return 0
    given = {each.name: each for each in node.attribute}
    try:
        return formula(_Call(given, sizes, made, tuple(map(bool, node.output))))
    except (IndexError, ValueError):  # the file breaks the operator's schema
        return 0


@dataclass(frozen=True, slots=True)
class _Call:
    """What the formulas read: attributes by name, sizes of inputs and of the first output, and which outputs exist."""

    given: Mapping[str, AttributeProto]
    sizes: Sequence[Sized | None]
    made: Sized
    writes: Sequence[bool]

    def shape(self, position: int) -> Shape:
        """Shape of an input; () for an omitted one."""
        size = self.sizes[position]
        return () if size is None else size.shape

    def has(self, position: int) -> bool:
        """Whether an input is there."""
        return position < len(self.sizes) and self.sizes[position] is not None

    def is_float(self) -> bool:
        """Whether the kernel computes with 32-bit floats."""
        return self.made.dtype == "float32"

    def number(self, name: str, default: int) -> int:
        """An attribute that is a whole number."""
        return self.given[name].i if name in self.given else default

    def groups(self) -> int:
        """Groups of a convolution."""
        return max(self.number("group", 1), 1)

    def is_plain(self) -> bool:
        """Whether a convolution has neither strides nor padding."""
        steps = self.given["strides"].ints if "strides" in self.given else ()
        return all(step == 1 for step in steps) and not ("pads" in self.given and any(self.given["pads"].ints))


Formula = Callable[[_Call], int]


def _convolution(call: _Call) -> int:
    """Nothing for pointwise ones; where there are more filters than positions, all of the unfolded image."""
    filters, depth, *window = call.shape(1)
    if not call.is_float() or (math.prod(window) == 1 and call.is_plain()):
        return 0
    positions = math.prod(call.made.shape[2:])
    whole = filters // call.groups() > positions
    return positions * depth * math.prod(window) * FLOAT_BYTES if whole else SEGMENT_BYTES


def _transposed(call: _Call) -> int:
    """All products of weights and positions, of one image and group, before they are added up."""
    return call.is_float() * math.prod(call.shape(1)[1:]) * math.prod(call.shape(0)[2:]) * FLOAT_BYTES


def _integer_convolution(call: _Call) -> int:
    """The unfolded image of one group."""
    _, depth, *window = call.shape(1)
    if math.prod(window) == 1 and call.is_plain():
        return 0
    return depth * math.prod(window) * math.prod(call.made.shape[2:])


def _quantized_convolution(call: _Call) -> int:
    """Images with their channels last, products in 32 bits, and the unfolded image or the addresses of its rows."""
    filters, depth, *window = call.shape(3)
    last = call.number("channels_last", 0)
    area, width = call.made.shape[1:-1] if last else call.made.shape[2:], math.prod(window)
    in_one_step, separable = _in_one_step(call), depth == 1 and filters == call.groups()
    turned = 0 if last else math.prod(call.shape(0)) + math.prod(call.made.shape)
    products = 0 if in_one_step else math.prod(call.made.shape) * FLOAT_BYTES
    if width == 1 and call.is_plain() and not separable:
        return products + turned
    return products + turned + math.prod(area) * width * (POINTER_BYTES if in_one_step or separable else depth)


def _in_one_step(call: _Call) -> bool:
    """Whether a kernel multiplies and scales in one step: of unsigned images and signed weights, with whole lanes.

    (``MlasConvSymPackWSize``, on x86-64.)
    """
    image, weights = call.sizes[0], call.sizes[3]
    if image is None or weights is None or (image.dtype, weights.dtype) != ("uint8", "int8"):
        return False
    filters, depth = weights.shape[:2]
    if call.groups() > 1:
        return depth == 1 and filters == call.groups() and filters % LANES == 0
    return depth % LANE_BYTES == 0 and filters >= LANES and filters % (LANES // 2) == 0


def _lstm(call: _Call) -> int:
    """Of every direction: two states, three of the batch, the gates of all steps, four biases and the lengths."""
    steps, batch, _ = call.shape(0)
    hidden = call.shape(2)[-1] * FLOAT_BYTES
    once = hidden * (2 + 3 * batch + 4 * batch * steps + 4 * call.has(3))
    left_out = sum(not written for written in (*call.writes, False, False, False)[1:3])
    return left_out * call.shape(1)[0] * batch * hidden + _directions(call, once)


def _gru(call: _Call) -> int:
    """Of every direction: two states of the batch, the gates of all steps, the biases and the lengths."""
    steps, batch, _ = call.shape(0)
    hidden = batch * call.shape(2)[-1] * FLOAT_BYTES
    afterwards = call.number("linear_before_reset", 0)
    return _directions(call, hidden * (2 + 3 * steps + (3 + bool(afterwards)) * call.has(3) + afterwards))


def _directions(call: _Call, once: int) -> int:
    """Blocks of all directions; a backward one also reverses its input and its output."""
    steps, batch, wide = call.shape(0)
    once += 0 if call.has(4) else batch * FLOAT_BYTES
    reverse = steps * batch * (wide + call.shape(2)[-1]) * FLOAT_BYTES
    way = call.given["direction"].s.decode() if "direction" in call.given else "forward"
    return call.is_float() * {"bidirectional": 2 * once + reverse, "reverse": once + reverse}.get(way, once)


def _rnn(call: _Call) -> int:
    """The states of all steps."""
    return math.prod(call.shape(0)[:2]) * call.shape(2)[-1] * FLOAT_BYTES


def _choice(call: _Call) -> int:
    """What is taken of the one input and what of the other, each as large as it and the condition need."""
    element = call.made.bytes // max(math.prod(call.made.shape), 1)
    return element * sum(_spread(call.shape(0), call.shape(place)) for place in (1, 2))


def _spread(*shapes: Shape) -> int:
    """Elements of what several shapes are broadcast to."""
    rank = max(map(len, shapes))
    return math.prod(map(max, *((1,) * (rank - len(shape)) + shape for shape in shapes)))


def _along(call: _Call) -> int:
    """The input and the output with another axis last, if the axis is not the last one."""
    axis, rank = call.number("axis", -1), len(call.made.shape)
    return 0 if axis % max(rank, 1) == rank - 1 else 2 * call.made.bytes


def _attention(call: _Call) -> int:
    """Queries, keys and values, the scores of all heads, and the result before heads are joined."""
    batch, steps, _ = call.shape(0)
    if not call.is_float() or not call.has(1) or "num_heads" not in call.given:
        return 0
    scores = call.given["num_heads"].i * steps
    return batch * steps * (call.shape(1)[-1] + scores) * FLOAT_BYTES + call.made.bytes


def _products(call: _Call) -> int:
    """The products in 32 bits."""
    return math.prod(call.made.shape) * FLOAT_BYTES


_FORMULAS: dict[str, Formula] = {
    "Attention": _attention,
    "ConvInteger": _integer_convolution,
    "ConvTranspose": _transposed,
    "DynamicQuantizeMatMul": lambda call: math.prod(call.shape(0)),
    "GRU": _gru,
    "LSTM": _lstm,
    "QLinearConv": _quantized_convolution,
    "RNN": _rnn,
    "Where": _choice,
    **dict.fromkeys(("BiasGelu", "FastGelu", "HardSwish"), lambda call: call.made.bytes),
    **dict.fromkeys(("Conv", "FusedConv"), _convolution),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), _along),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), lambda call: call.made.bytes * (len(call.sizes) > 2)),
    **dict.fromkeys(("QGemm", "QLinearMatMul"), _products),
}

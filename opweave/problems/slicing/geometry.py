"""How an operator's output rows and channels read its inputs. This decides where it can be cut and what parts need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from opweave.problems.graph import Operator, Tensor
from opweave.problems.limits import MAX_BYTES
from opweave.problems.spec import Count, Spec, _plain_number

if TYPE_CHECKING:
    from opweave.problems.slicing.spec import Slicing


Layout = Literal["channels_first", "channels_last"]
Whole = Annotated[int, BeforeValidator(_plain_number), Field(ge=0, le=2**31)]

_ELEMENTWISE = (
    "abs add addv2 batch_norm batchnorm batchnormalization celu clip div dropout elu erf exp gelu hardsigmoid "
    "hardswish hardtanh identity leaky_relu leakyrelu log maximum minimum mish mul multiply neg pow prelu "
    "reciprocal relu relu6 round rsqrt selu sigmoid silu softplus softsign sqrt sub subtract swish tanh"
)
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
"""Kinds whose output cells each read the same cell of their inputs, in the spelling of any framework."""


class Geometry(Spec):
    """How a part of an operator's output reads the inputs; rows are the height of a feature map.

    It may describe an operator with several outputs of as many rows, such as one that splits channels; such an operator
    can be cut into rows.

    Attributes
    ----------
    kernel, stride, padding, dilation
        The window along the height; ``padding`` is the number of rows above the first one. Output row r reads the input
        rows from r * stride - padding to r * stride - padding + dilation * (kernel - 1), as far as they exist.
    groups
        Groups of a grouped convolution: an output channel reads the input channels of its group.
    channels
        ``"mixed"``: every output channel reads all input channels (of its group), as in a convolution or dense layer.
        ``"own"``: it reads the input channel with its own number, as in pooling or addition. ``"joined"``: the inputs
        are concatenated along the channels.
    rows
        ``"window"``: output rows read a window of input rows, as above. ``"all"``: every output row reads all input
        rows (global pooling, dense layers), so the operator cannot be cut into rows.

    Examples
    --------
    >>> Geometry(kernel=3, padding=1).window(4, 8, rows=56)
    (3, 9)
    """

    kernel: Count = 1
    stride: Count = 1
    padding: Whole = 0
    dilation: Count = 1
    groups: Count = 1
    channels: Literal["mixed", "own", "joined"] = "mixed"
    rows: Literal["window", "all"] = "window"

    @model_validator(mode="after")
    def _check(self) -> Geometry:
        if self.groups > 1 and self.channels != "mixed":
            raise ValueError(f"groups need channels 'mixed', not {self.channels!r}")
        if self.reach > MAX_BYTES:
            raise ValueError(f"a window of kernel {self.kernel:,} and dilation {self.dilation:,} reaches too far")
        return self

    @property
    def reach(self) -> int:
        """Number of input rows from the first to the last that one output row reads."""
        return self.dilation * (self.kernel - 1) + 1

    def window(self, first: int, end: int, *, rows: int) -> tuple[int, int]:
        """Input rows [first, end) that the output rows [first, end) read; the input has ``rows`` rows."""
        begin = max(0, first * self.stride - self.padding)
        stop = min(rows, (end - 1) * self.stride - self.padding + self.reach)
        return begin, max(begin, stop)


@dataclass(frozen=True, slots=True)
class Extent:
    """A tensor as ``channels`` x ``rows`` cells of ``cell_bytes`` bytes each; one cell if it cannot be divided."""

    channels: int
    rows: int
    cell_bytes: int

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.channels * self.rows


def extent_of(tensor: Tensor, layout: Layout) -> Extent:
    """Channels and rows of a tensor by its shape.

    The first of four dimensions is the batch. One or two dimensions are channels only. A tensor is a single cell if its
    shape is unknown or has another number of dimensions, or if its bytes are not a multiple of the number of cells.
    """
    channels, rows = _sides(tensor.shape, layout)
    if channels * rows == 0 or tensor.bytes % (channels * rows):
        channels = rows = 1
    return Extent(channels, rows, tensor.bytes // (channels * rows))


def _sides(shape: tuple[int, ...] | None, layout: Layout) -> tuple[int, int]:
    if shape is None or not 1 <= len(shape) <= 4:
        return 1, 1
    if len(shape) <= 2:
        return shape[-1], 1
    inner = shape[-3:]
    return (inner[0], inner[1]) if layout == "channels_first" else (inner[2], inner[0])


def default_geometry(op: Operator) -> Geometry | None:
    """The geometry of an elementwise operator, recognised by its kind; None for other kinds."""
    words = op.kind.lower().split(".")
    word = words[1] if words[0] == "aten" and len(words) > 1 else words[-1]
    return Geometry(channels="own") if word.rstrip("_") in ELEMENTWISE else None


GEOMETRY_UNKNOWN = "its geometry is not known"
"""Why an operator stays whole that might be cut if the user gave more."""


@dataclass(frozen=True, slots=True)
class Cutting:
    """Along which dimensions an operator can be cut, and how its parts read the inputs.

    Attributes
    ----------
    geometry
        None for an operator that stays whole, because it needs all of its inputs.
    lengths
        Length of every dimension along which it can be cut, rows first; empty for an operator that stays whole.
    why_whole
        Why it cannot be cut; None when it can.
    """

    geometry: Geometry | None
    lengths: dict[str, int]
    why_whole: str | None = None


def cutting_of(problem: Slicing, op: Operator) -> Cutting:
    """Derive how an operator can be cut.

    Raises
    ------
    ValueError
        When the geometry that the user gave does not fit the shapes.
    """
    given = problem.geometry.get(op.id)
    geometry = given or default_geometry(op)
    if geometry is None:
        return Cutting(None, {}, GEOMETRY_UNKNOWN)
    if not op.outputs:
        return Cutting(None, {}, "it has no outputs")
    made, *others = (problem.extents[name] for name in op.outputs)
    if made.cells == 1:
        return Cutting(None, {}, f"the shape of {op.outputs[0]!r} is not known or has one cell only")
    if any(each.rows != made.rows for each in others):
        return Cutting(None, {}, f"its {len(op.outputs)} outputs differ in their rows")
    complaint = misfit(problem.extents, op, geometry)
    if complaint is not None:
        if given is not None:
            raise ValueError(f"the geometry of operator {op.id!r} does not fit: {complaint}")
        return Cutting(None, {}, complaint)
    lengths = {}
    if geometry.rows == "window" and made.rows > 1:
        lengths["rows"] = made.rows
    if made.channels > 1 and not others:
        lengths["channels"] = made.channels
    return Cutting(geometry, lengths, None if lengths else "it has one row only, and one channel or several outputs")


def misfit(extents: Mapping[str, Extent], op: Operator, geometry: Geometry) -> str | None:
    """Say why a geometry does not fit the inputs and the first output of an operator; None when it fits."""
    made = extents[op.outputs[0]]
    inputs = [(name, extents[name]) for name in op.inputs]
    known = [(name, extent) for name, extent in inputs if extent.cells > 1]
    if geometry.channels == "joined":
        if len(set(op.inputs)) < len(op.inputs):
            return "it joins a tensor with itself"
        total = sum(extent.channels for _, extent in inputs)
        if total != made.channels:
            return f"its inputs have {total:,} channels together, its output {made.channels:,}"
    for name, extent in known:
        if geometry.channels == "own" and extent.channels not in (1, made.channels):
            return f"input {name!r} has {extent.channels:,} channels, the output {made.channels:,}"
        if extent.channels % geometry.groups or made.channels % geometry.groups:
            return f"{extent.channels:,} channels of {name!r} do not divide into {geometry.groups:,} groups"
        if geometry.rows == "window" and extent.rows > 1:
            last = (made.rows - 1) * geometry.stride - geometry.padding
            if last >= extent.rows:
                return f"output row {made.rows - 1:,} reads from row {last:,} of {name!r}, which has {extent.rows:,}"
    return None


@dataclass(frozen=True, slots=True)
class Ruling:
    """The rule's decision for one operator: its dimension, and the largest number of parts (None for any number)."""

    dimension: str
    most_parts: int | None


def rulings(problem: Slicing, order: Sequence[str]) -> dict[str, Ruling]:
    """Apply the rule to every operator of an order."""
    limits = list(problem.memory_limits.values())
    room = None if None in limits else sum(limit for limit in limits if limit is not None)
    weights = {op.id: problem.weight_bytes(op.id) for op in problem.graph.operators}
    resident = sum(weights.values()) if problem.weights == "resident" else 0
    found = {}
    for name, live in zip(order, _live_bytes(problem, order), strict=True):
        op = problem.graph.operators[problem.graph.operator_index[name]]
        inputs = sum(problem.tensor_bytes[tensor] for tensor in set(op.inputs))
        outputs = sum(problem.tensor_bytes[tensor] for tensor in op.outputs)
        others = live - inputs - outputs + (resident - weights[name] if resident else 0)
        free = None if room is None else room - others - outputs
        by_rows, by_channels = _parts(free, inputs, weights[name]), _parts(free, weights[name], inputs)
        if free is None:
            channels, most = weights[name] > inputs, None
        else:
            channels = by_rows is not None and (by_channels is None or by_rows < by_channels)
            most = None if by_rows is None or by_channels is None else max(by_rows, by_channels)
        lengths = problem.cuttings[name].lengths
        wanted = "channels" if channels else "rows"
        dimension = wanted if wanted in lengths else next(iter(lengths), "whole")
        found[name] = Ruling(dimension, most)
    return found


def _parts(free: int | None, once: int, each: int) -> int | None:
    """Largest number of parts of ``each`` bytes in addition to ``once`` bytes; None for any number."""
    if free is None or (each == 0 and free >= once):
        return None
    return max(0, (free - once) // each) if each else 0


def _live_bytes(problem: Slicing, order: Sequence[str]) -> list[int]:
    """Bytes of all tensors that are live while each operator of an order runs, without cuts."""
    graph, size = problem.graph, problem.tensor_bytes
    operators = [graph.operators[graph.operator_index[name]] for name in order]
    last = {tensor: step for step, op in enumerate(operators) for tensor in (*op.outputs, *op.inputs)}
    last |= {tensor: len(order) for tensor in graph.outputs}
    change = [0] * (len(order) + 2)
    made = {tensor: step for step, op in enumerate(operators) for tensor in op.outputs}
    for tensor, end in last.items():
        change[made.get(tensor, 0)] += size[tensor]
        change[end + 1] -= size[tensor]
    return list(accumulate(change[: len(order)]))

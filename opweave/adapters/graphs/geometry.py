"""How operators read their inputs, from their settings: the same rules for every framework.

A reader says what an operator's settings are (:class:`Reading`); a table says of what sort its kind is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from opweave.problems.graph import Operator, OpGraph
from opweave.problems.slicing.geometry import Geometry, Layout, extent_of, misfit

Shape = tuple[int, ...]

OWN = Geometry(channels="own")
JOINED = Geometry(channels="joined")
SPLIT = Geometry()
"""Channels handed on as they are, to several outputs or in part."""
DENSE = Geometry(rows="all")
GLOBAL_POOL = Geometry(channels="own", rows="all")


class Reading(NamedTuple):
    """The settings of an operator that say how it reads its input.

    Attributes
    ----------
    shape
        Shape of the first computed input.
    alone
        Whether the operator has no other inputs than it should: beside weights one computed input, or, where inputs are
        joined, no weights.
    kernel, stride, dilation, groups
        Those of a window, along the rows. Without a kernel, there is no geometry.
    padding
        Rows above the first; ``"same"``, or ``"same_lower"``, which adds an odd row above.
    axes
        Dimensions that are joined, split or reduced.
    rows
        Number of output rows to which a window is adapted.
    """

    shape: Shape
    alone: bool = True
    kernel: int | None = None
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    padding: int | str = 0
    axes: Sequence[int] = ()
    rows: int = 1


def geometry_of(sort: str | None, reading: Reading, layout: Layout) -> Geometry | None:
    """The geometry of an operator, by the word for its kind in the table of its framework; None if it has none."""
    rank = len(reading.shape)
    axes = sorted(axis % rank for axis in reading.axes) if rank else []
    channels = axes == [channel_axis(rank, layout)]
    match sort:
        case "convolution":
            return _window(reading, layout, {"groups": reading.groups}) if reading.alone else None
        case "pooling":
            return _window(reading, layout, {"channels": "own"})
        case "adapted":
            return _adapted(reading, layout)
        case "global" | "reduction":
            return GLOBAL_POOL if rank == 4 and (sort == "global" or axes == [2, 3]) else None
        case "dense":
            return dense_on(reading.shape, layout) if reading.alone else None
        case "joined":
            return JOINED if channels and reading.alone else None
        case "split":
            return SPLIT if channels else None
    return OWN if sort == "own" else None


def _window(reading: Reading, layout: Layout, channels: Mapping[str, object]) -> Geometry | None:
    """A window along the rows; none for negative padding, which crops the input."""
    padding = reading.padding
    if reading.kernel is None:
        return None
    if isinstance(padding, str):
        rows = reading.shape[-2 if layout == "channels_first" else -3]
        above, below = same_padding(rows, reading.kernel, reading.stride, reading.dilation)
        padding = below if padding == "same_lower" else above
    window = {"kernel": reading.kernel, "stride": reading.stride, "padding": padding, "dilation": reading.dilation}
    try:
        return Geometry.model_validate({**window, **channels})
    except ValidationError:
        return None


def _adapted(reading: Reading, layout: Layout) -> Geometry | None:
    """Pooling to one row is global; if the rows divide evenly, each output row is the mean of its own window."""
    if reading.rows == 1:
        return GLOBAL_POOL
    if reading.rows < 1 or len(reading.shape) < 2 or reading.shape[-2] % reading.rows:
        return None
    size = reading.shape[-2] // reading.rows
    return _window(reading._replace(kernel=size, stride=size), layout, {"channels": "own"})


def shapes_of(graph: OpGraph) -> Mapping[str, Shape]:
    """Shapes of all tensors whose shapes are known."""
    return {tensor.id: tensor.shape or () for tensor in graph.tensors}


def channel_axis(rank: int, layout: Layout) -> int | None:
    """The dimension of a tensor that slicing uses as its channels; None if it cannot divide the tensor.

    Examples
    --------
    >>> channel_axis(4, "channels_first"), channel_axis(4, "channels_last"), channel_axis(5, "channels_first")
    (1, 3, None)
    """
    if layout == "channels_last" or rank <= 2:
        return rank - 1 if 1 <= rank <= 4 else None
    return rank - 3 if rank <= 4 else None


def same_padding(rows: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Rows of padding above and below that keep every ``stride``-th row; an odd row is added below.

    Examples
    --------
    >>> same_padding(8, 3, 2), same_padding(8, 3, 1), same_padding(9, 3, 2)
    ((0, 1), (1, 1), (1, 1))
    """
    made = -(-rows // stride)
    total = max((made - 1) * stride + dilation * (kernel - 1) + 1 - rows, 0)
    return total // 2, total - total // 2


def dense_on(shape: Shape, layout: Layout) -> Geometry | None:
    """How a weight matrix reads a tensor along its last dimension.

    With channels first, the positions of a sequence are its rows if the batch is 1. A part of a larger batch would be
    taken for a part of the channels, with a share of the weights.
    """
    if len(shape) == 2:
        return DENSE
    if layout == "channels_last":
        return Geometry() if len(shape) in (3, 4) else None
    return OWN if len(shape) == 3 and shape[0] == 1 else None


def fitting(found: Mapping[str, Geometry | None], graph: OpGraph, layout: Layout) -> dict[str, Geometry]:
    """Keep the geometries that fit the shapes of their operators, in the graph's order."""
    extents = {tensor.id: extent_of(tensor, layout) for tensor in graph.tensors}

    def fits(op: Operator, geometry: Geometry) -> bool:
        described = len(op.outputs) == 1 or geometry == SPLIT  # pooling may also return where its maxima lie
        return bool(op.outputs) and described and misfit(extents, op, geometry) is None

    kept = dict[str, Geometry]()
    for op in graph.operators:
        geometry = found.get(op.id)
        if geometry is not None and fits(op, geometry):
            kept[op.id] = geometry
    return kept

"""Code that all readers of geometries share: the channel axis, "same" padding, and the check against the shapes."""

from __future__ import annotations

from collections.abc import Mapping

from opweave.problems.graph import Operator, OpGraph
from opweave.problems.slicing.geometry import Geometry, Layout, extent_of, misfit

OWN = Geometry(channels="own")
JOINED = Geometry(channels="joined")
SPLIT = Geometry()
"""Channels handed on as they are, to several outputs or in part."""
DENSE = Geometry(rows="all")
GLOBAL_POOL = Geometry(channels="own", rows="all")

Shapes = Mapping[str, tuple[int, ...]]


def shapes_of(graph: OpGraph) -> Shapes:
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


def along_channels(axis: int, rank: int, layout: Layout) -> bool:
    """Whether ``axis`` (counted from the end if negative) is that of the channels."""
    return rank > 0 and axis % rank == channel_axis(rank, layout)


def window(
    kernel: int, stride: int, padding: int, *, dilation: int = 1, groups: int = 1, pooling: bool = False
) -> Geometry | None:
    """Make the geometry of a convolution or of pooling; None for negative padding, which crops the input."""
    if padding < 0:
        return None
    channels = {"channels": "own"} if pooling else {"groups": groups}
    return Geometry.model_validate(
        {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, **channels}
    )


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


def dense_on(shape: tuple[int, ...], layout: Layout) -> Geometry | None:
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

    return {
        op.id: geometry for op in graph.operators if (geometry := found.get(op.id)) is not None and fits(op, geometry)
    }

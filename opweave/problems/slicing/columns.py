"""A slicing problem and its plans as columns, which the referee and solvers read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.slicing.geometry import Geometry

if TYPE_CHECKING:
    from opweave.problems.slicing.spec import Slices, Slicing

DIMENSIONS = ("whole", "rows", "channels")
"""Dimensions along which operators are cut; columns state their positions."""

WHOLE, ROWS, CHANNELS = range(len(DIMENSIONS))

READINGS = ("mixed", "own", "joined")
"""What :attr:`Geometry.channels` says; columns state its position."""

EXACT = 2**62
"""Sums and products of sizes up to this are exact in 64 bits; larger ones are computed with Python's integers."""

NO_GEOMETRY = Geometry.model_construct()  # no validator is built by an import


@dataclass(frozen=True, slots=True, eq=False)
class SlicingColumns:
    """A problem's operators, tensors, and flows, each of which is an input of an operator.

    Attributes
    ----------
    operator, tensor, producer
        Positions of a flow's operator, its tensor, and the operator that makes it (-1 for graph inputs). (flows,)
    offset
        Channels of the operator's inputs before this one. (flows,)
    channels, rows, cell
        Size of every tensor, and bytes of a cell. (tensors,)
    known
        Whether an operator's geometry is known. (operators,)
    stride, padding, reach, groups, reading
        The geometry. (operators,)
    length
        Length of an operator along every dimension, 0 if it cannot be cut along it. (operators, dimensions)
    seconds, fixed
        Seconds of a whole operator, NaN if unknown, and the part of them that does not shrink. (operators, devices)
    weight, workspace
        Bytes of an operator. (operators,)
    number
        The type of sizes: 64-bit integers, or objects if sums might exceed :data:`EXACT`.
    """

    operator: IntArray
    tensor: IntArray
    producer: IntArray
    offset: IntArray
    channels: IntArray
    rows: IntArray
    cell: IntArray
    known: BoolArray
    stride: IntArray
    padding: IntArray
    reach: IntArray
    groups: IntArray
    reading: IntArray
    length: IntArray
    seconds: FloatArray
    fixed: FloatArray
    weight: IntArray
    workspace: IntArray
    number: type[Any]


def columns_of(problem: Slicing) -> SlicingColumns:
    """Write a problem as columns."""
    graph, arrays = problem.graph, problem.graph.arrays
    cuttings, extents = problem.cuttings.values(), problem.extents.values()  # in the graph's order
    whole = {"whole": 1}
    known = [cut.lengths or whole for cut in cuttings]
    lengths = np.asarray([[each.get(word, 0) for word in DIMENSIONS] for each in known], dtype=np.int64).reshape(-1, 3)
    channels, rows, cell = _numbers(((each.channels, each.rows, each.cell_bytes) for each in extents), 3)
    forms = [cut.geometry or NO_GEOMETRY for cut in cuttings]
    windows = ((each.stride, each.padding, each.reach, each.groups, READINGS.index(each.channels)) for each in forms)
    stride, padding, reach, groups, reading = _numbers(windows, 5)
    tensor, operator = arrays.reads.items, arrays.reads.heads()
    before = np.concatenate(([0], np.cumsum(channels[tensor])))
    summed = np.concatenate(([0], np.cumsum(graph.parameter_sizes[graph.uses.items], dtype=object)))
    weights = (summed[graph.uses.start[1:]] - summed[graph.uses.start[:-1]]).tolist()
    spaces = graph.workspace_sizes.tolist()
    read = int((arrays.tensor_bytes[tensor].astype(np.float64)).sum())
    longest = int(lengths.max(initial=1)) * len(problem.cluster.devices)
    largest = max([*weights, *spaces, int(groups.max(initial=1))]) * longest
    number = np.int64 if max(largest, 2 * (read + sum(weights) + sum(spaces))) < EXACT else object
    seconds = problem.costs.array(graph.operator_ids, [each.name for each in problem.cluster.devices])
    return SlicingColumns(
        operator=operator,
        tensor=tensor,
        producer=arrays.producer[tensor],
        offset=before[:-1] - before[arrays.reads.start[operator]],
        channels=channels,
        rows=rows,
        cell=cell,
        known=np.asarray([cut.geometry is not None for cut in cuttings], dtype=bool),
        stride=stride,
        padding=padding,
        reach=reach,
        groups=groups,
        reading=reading,
        length=lengths,
        seconds=seconds,
        fixed=np.minimum([each.launch_seconds for each in problem.cluster.devices], seconds),
        weight=np.asarray(weights, dtype=number),
        workspace=np.asarray(spaces, dtype=number),
        number=number,
    )


def _numbers(found: Iterable[tuple[int, ...]], count: int) -> Iterable[IntArray]:
    """Several numbers of many objects as columns; every object is looked at once."""
    table = np.fromiter(chain.from_iterable(found), dtype=np.int64).reshape(-1, count)
    return np.ascontiguousarray(table.T)


class PlanColumns(NamedTuple):
    """A plan by the positions of operators in the graph.

    Attributes
    ----------
    order
        Operators in running order. (operators,)
    dimension
        Position in :data:`DIMENSIONS`. (operators,)
    cuts
        As in the plan. (operators, devices + 1)
    """

    order: IntArray
    dimension: IntArray
    cuts: IntArray


def plan_columns(problem: Slicing, solution: Slices) -> PlanColumns:
    """A plan of all operators as columns."""
    slices = [solution.slices[name] for name in problem.graph.operator_ids]
    return PlanColumns(
        problem.graph.positions(solution.order),
        np.asarray([DIMENSIONS.index(cut.dimension) for cut in slices], dtype=np.int64),
        np.asarray([cut.cuts for cut in slices], dtype=np.int64).reshape(len(slices), len(problem.cluster.devices) + 1),
    )


class CellBlocks(NamedTuple):
    """Channels and rows [first, end) of tensors; empty blocks consist of zeros. Each of shape (blocks, devices)."""

    first_channel: IntArray
    end_channel: IntArray
    first_row: IntArray
    end_row: IntArray

    @property
    def cells(self) -> IntArray:
        """Number of cells."""
        return (self.end_channel - self.first_channel) * (self.end_row - self.first_row)

    def shared(self, other: CellBlocks) -> IntArray:
        """Number of cells that both blocks contain."""
        wide = np.minimum(self.end_channel, other.end_channel) - np.maximum(self.first_channel, other.first_channel)
        high = np.minimum(self.end_row, other.end_row) - np.maximum(self.first_row, other.first_row)
        both: IntArray = np.maximum(wide, 0) * np.maximum(high, 0)
        return both

    def at(self, rows: IntArray) -> CellBlocks:
        """Some rows."""
        return CellBlocks(*(side[rows] for side in self))

    def only(self, there: BoolArray) -> CellBlocks:
        """The same, without the blocks that are not there or have no cell."""
        there = there & (self.first_channel < self.end_channel) & (self.first_row < self.end_row)
        return CellBlocks(*(np.where(there, side, 0) for side in self))

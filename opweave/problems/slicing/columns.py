"""A slicing problem and its plans as columns, which the referee and solvers read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.slicing.geometry import Cutting, Geometry

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

SIDES = attrgetter("channels", "rows", "cell_bytes")
WINDOW = attrgetter("stride", "padding", "kernel", "dilation", "groups")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
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


def columns_of(problem: Slicing) -> Columns:
    """Write a problem as columns."""
    graph, arrays = problem.graph, problem.graph.arrays
    cuttings, extents = problem.cuttings.values(), problem.extents.values()  # in the graph's order
    lengths = _lengths(cuttings)
    channels, rows, cell = _numbers(map(SIDES, extents), 3)
    forms = [cut.geometry or NO_GEOMETRY for cut in cuttings]
    stride, padding, kernel, dilation, groups = _numbers(map(WINDOW, forms), 5)
    reading = {word: position for position, word in enumerate(READINGS)}
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
    return Columns(
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
        reach=dilation * (kernel - 1) + 1,
        groups=groups,
        reading=np.asarray([reading[each.channels] for each in forms], dtype=np.int64),
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


def _lengths(cuttings: Iterable[Cutting]) -> IntArray:
    """Length of every operator along every dimension. Shape (operators, dimensions)."""
    whole = {DIMENSIONS[WHOLE]: 1}
    known = [cut.lengths or whole for cut in cuttings]
    table = [tuple(map(each.get, DIMENSIONS, repeat(0))) for each in known]
    return np.fromiter(chain.from_iterable(table), dtype=np.int64).reshape(-1, len(DIMENSIONS))


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


def plan_columns(problem: Slicing, solution: Slices) -> PlanColumns | None:
    """A plan as columns; None if it lacks an operator or a cut, or is not one of these operators and devices."""
    names, wide = problem.graph.operator_ids, len(problem.cluster.devices) + 1
    known, slices = problem.graph.operator_index.keys(), dict(solution.slices.items())
    if len(solution.order) != len(names) or set(solution.order) != known or slices.keys() != known:
        return None
    rows = [slices[name].cuts for name in names]
    if not {wide}.issuperset(map(len, rows)):
        return None
    try:
        cuts = np.asarray(rows, dtype=np.int64).reshape(len(names), wide)
    except OverflowError:
        return None
    word = {dimension: position for position, dimension in enumerate(DIMENSIONS)}
    return PlanColumns(
        problem.graph.positions(solution.order),
        np.asarray([word[slices[name].dimension] for name in names], dtype=np.int64),
        cuts,
    )


def is_sound(problem: Slicing, plan: PlanColumns) -> bool:
    """Whether every operator comes after its producers and is cut into parts that its devices can compute."""
    columns, arrays = problem.columns, problem.graph.arrays
    step = np.empty(len(plan.order), dtype=np.int64)
    step[plan.order] = np.arange(len(plan.order))
    first, end = plan.cuts[:, :-1], plan.cuts[:, 1:]
    length = np.take_along_axis(columns.length, plan.dimension[:, None], axis=1)[:, 0]
    return not (
        (step[arrays.successors.heads()] > step[arrays.successors.items]).any()
        or (length == 0).any()
        or plan.cuts[:, 0].any()
        or (plan.cuts[:, -1] != length).any()
        or (first > end).any()
        or ((first < end) & np.isnan(columns.seconds)).any()
    )


class Blocks(NamedTuple):
    """Channels and rows [first, end) of tensors; empty blocks consist of zeros. Each of shape (blocks, devices)."""

    first_channel: IntArray
    end_channel: IntArray
    first_row: IntArray
    end_row: IntArray

    @property
    def cells(self) -> IntArray:
        """Number of cells."""
        return (self.end_channel - self.first_channel) * (self.end_row - self.first_row)

    def shared(self, other: Blocks) -> IntArray:
        """Number of cells that both blocks contain."""
        wide = np.minimum(self.end_channel, other.end_channel) - np.maximum(self.first_channel, other.first_channel)
        high = np.minimum(self.end_row, other.end_row) - np.maximum(self.first_row, other.first_row)
        both: IntArray = np.maximum(wide, 0) * np.maximum(high, 0)
        return both

    def at(self, rows: IntArray) -> Blocks:
        """Some rows."""
        return Blocks(*(side[rows] for side in self))

    def only(self, there: BoolArray) -> Blocks:
        """The same, without the blocks that are not there or have no cell."""
        there = there & (self.first_channel < self.end_channel) & (self.first_row < self.end_row)
        return Blocks(*(np.where(there, side, 0) for side in self))

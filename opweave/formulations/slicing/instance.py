"""Slicing as arrays over operators, devices and flows, for searches, bounds and formulations.

Operators are numbered in running order. A *flow* is one (operator, input tensor) pair. An operator has two *modes*,
rows (0) and channels (1); an operator that stays whole has only the first, with length 1. For a flow whose tensor has C
channels and H rows, a part [a, b) of the operator needs

* in mode rows: all channels, rows [max(0, a * stride - padding), min(H, (b - 1) * stride - padding + reach));
* in mode channels: all rows, channels [a // wide * deep - offset, ceil(b / wide) * deep - offset), cut to [0, C].

The part of a tensor that a device holds follows from the producer's mode and part alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opweave.formulations.expressions import taken_in
from opweave.formulations.on_cluster import capacity_of, left_to_run_on, unless_short
from opweave.formulations.order_arcs import ContradictionError, with_order_arcs
from opweave.formulations.slicing.shortage import binding_limits, rules_by_memory, shortage
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.constraints import Constraint, Forbid, MemoryCap, Pin
from opweave.problems.graph_arrays import Adjacency, in_order, topological_order
from opweave.problems.slicing.columns import DIMENSIONS, READINGS, WHOLE
from opweave.problems.slicing.geometry import rulings
from opweave.problems.slicing.spec import Slice, Slices, Slicing
from opweave.problems.spec import FrozenDict

ROWS, CHANNELS = 0, 1
OUTSIDE = -1
"""Producer of a graph input that comes from outside."""

TAKEN_IN: tuple[type[Constraint], ...] = (Pin, Forbid, MemoryCap)
"""Side constraints that :func:`lower` writes into the arrays, besides those with an ``"order_arcs"`` expression."""

SUPPORTS = ("cuts", "order_arcs")
"""Expressions of side constraints that :func:`lower` handles."""


@dataclass(frozen=True, slots=True, eq=False)
class SlicingInstance:
    """Arrays indexed by operator v, mode m, device k, flow e or tensor t.

    Attributes
    ----------
    names, devices
        Operator ids in running order; device names.
    whole
        Operators that stay whole. Shape (operators,).
    length
        Length along each mode; 0 if the operator lacks the mode. Shape (operators, 2).
    intercept, slope
        Seconds of a part: intercept + slope * share; inf if the device may not compute a part. (operators, devices)
    flow_start
        Flows of operator v: flow_start[v] to flow_start[v + 1].
    tensor, producer
        Tensor and producer of every flow; ``OUTSIDE`` for inputs from outside.
    stride, padding, reach, wide, deep, offset
        Parameters of every flow, as above.
    channels, rows, cell
        Size of every tensor, and bytes of a cell.
    made_start, made
        Tensors that every operator writes.
    last
        The last operator that reads a tensor (its producer if there is none); the number of operators for graph
        outputs.
    weight, workspace
        Bytes of every operator.
    resident
        Whether weights stay on their devices.
    capacity, rate, latency
        Properties of every device; the capacity is ``NO_LIMIT`` if everything fits at once.
    most_parts
        Largest number of parts of every operator.
    printed
        Whether transfers from rows to rows are the paper's.
    consumers
        Operators that read the results of each operator.
    """

    names: tuple[str, ...]
    devices: tuple[str, ...]
    whole: BoolArray
    length: IntArray
    intercept: FloatArray
    slope: FloatArray
    flow_start: IntArray
    tensor: IntArray
    producer: IntArray
    stride: IntArray
    padding: IntArray
    reach: IntArray
    wide: IntArray
    deep: IntArray
    offset: IntArray
    channels: IntArray
    rows: IntArray
    cell: IntArray
    made_start: IntArray
    made: IntArray
    last: IntArray
    weight: IntArray
    workspace: IntArray
    resident: bool
    capacity: IntArray
    rate: FloatArray
    latency: FloatArray
    most_parts: IntArray
    printed: bool
    consumers: Adjacency

    @property
    def operators(self) -> int:
        """Number of operators."""
        return len(self.length)

    def order_matters(self, problem: Slicing) -> bool:
        """Whether another order of the operators could make another solution legal."""
        follows = all(v + 1 in self.consumers[v] for v in range(self.operators - 1))
        limited = bool((self.capacity < NO_LIMIT).any() or (self.most_parts < len(self.devices)).any())
        return problem.order is None and (limited or rules_by_memory(problem)) and not follows

    def solution(self, mode: IntArray, cuts: IntArray) -> Slices:
        """Convert modes and cuts to a solution. Shapes (operators,) and (operators, devices + 1).

        Operators that are cut alike share one slice, which is immutable.
        """
        words = ("rows", "channels")
        which = np.where(self.whole, len(words), mode).tolist()
        chosen = list(zip(which, map(tuple, cuts.tolist()), strict=True))
        known = tuple(dict.fromkeys(chosen))
        slices = Slice.made_of_rows(
            dimension=[(*words, "whole")[dimension] for dimension, _ in known], cuts=[row for _, row in known]
        )
        slice_of = dict(zip(known, slices, strict=True))
        named = FrozenDict(zip(self.names, map(slice_of.__getitem__, chosen), strict=True))
        return Slices.made_of(devices=self.devices, slices=named, order=self.names)

    def plan(self, solution: Slices) -> tuple[IntArray, IntArray]:
        """Modes and cuts of a solution that can be replayed."""
        slices = [solution.slices[name] for name in self.names]
        mode = np.asarray([cut.dimension == "channels" for cut in slices], dtype=np.int64)
        cuts = np.asarray([cut.cuts for cut in slices], dtype=np.int64)
        return mode, cuts.reshape(len(slices), len(self.devices) + 1)


def ruled_modes(problem: Slicing, instance: SlicingInstance) -> IntArray:
    """The mode of every operator by the paper's rule."""
    rule = rulings(problem, instance.names)
    return np.asarray([rule[name].dimension == "channels" for name in instance.names], dtype=np.int64)


def plain_order(problem: Slicing) -> tuple[str, ...]:
    """The problem's order, or the first order that data and order arcs allow.

    Raises
    ------
    ContradictionError
        If order arcs close a cycle, or the problem's order violates one.
    """
    before = with_order_arcs(problem, problem.graph.arrays.predecessors)
    names = problem.graph.operator_ids
    if problem.order is not None:
        index = problem.graph.operator_index
        step = {index[name]: position for position, name in enumerate(problem.order)}
        for v in range(len(names)):
            for u in before[v].tolist():
                if step[u] > step[v]:
                    message = f"the problem's order runs {names[v]!r} before {names[u]!r}, which precedes it"
                    raise ContradictionError(message)
        return problem.order
    plain = before is problem.graph.arrays.predecessors
    order = problem.graph.listed_order if plain else topological_order(before.reversed(len(names)))
    return in_order(names, order)


def lower(problem: Slicing, order: Sequence[str] | None = None) -> SlicingInstance:
    """Write a problem as arrays, for one order of its operators (None: :func:`plain_order`).

    Raises
    ------
    ContradictionError
        If side constraints leave an operator no device, or close a cycle.
    """
    names = plain_order(problem) if order is None else tuple(order)
    graph, arrays, columns = problem.graph, problem.graph.arrays, problem.columns
    rows, count = graph.positions(names), len(names)
    step = np.zeros(count, dtype=np.int64)
    step[rows] = np.arange(count)
    reader, flow = Adjacency(arrays.reads.start, np.arange(len(arrays.reads.items))).entries(rows)
    tensor = columns.tensor[flow]
    producer = np.append(step, OUTSIDE)[arrays.producer[tensor]]
    last = np.append(step, -1)[arrays.producer]  # the last operator that touches every tensor
    np.maximum.at(last, tensor, reader)
    last[[graph.tensor_index[name] for name in graph.outputs]] = count
    stride, padding, reach, wide, deep, offset = _windows(problem, flow)
    listing, written = arrays.writes.entries(rows)
    devices = tuple(device.name for device in problem.cluster.devices)
    inner = producer >= 0
    known = ~np.isnan(columns.seconds)
    able = left_to_run_on(graph, devices, known, np.arange(count), problem.constraints)[rows]
    whole = np.asarray(columns.length[rows, WHOLE] > 0)
    length, most_parts = _ruled(problem, names, whole, columns.length[rows, 1:])
    return SlicingInstance(
        names=names,
        devices=devices,
        whole=whole,
        length=length,
        intercept=np.where(able, columns.fixed[rows], np.inf),
        slope=np.where(able, columns.seconds[rows] - columns.fixed[rows], 0.0),
        flow_start=np.searchsorted(reader, np.arange(count + 1)),
        tensor=tensor,
        producer=producer,
        stride=stride,
        padding=padding,
        reach=reach,
        wide=wide,
        deep=deep,
        offset=offset,
        channels=columns.channels,
        rows=columns.rows,
        cell=columns.cell,
        made_start=np.searchsorted(listing, np.arange(count + 1)),
        made=written,
        last=last,
        weight=columns.weight[rows].astype(np.int64),
        workspace=columns.workspace[rows].astype(np.int64),
        resident=problem.weights == "resident",
        capacity=capacity_of(binding_limits(problem)),
        rate=np.asarray(problem.rates, dtype=np.float64),
        latency=np.asarray(problem.latencies, dtype=np.float64),
        most_parts=most_parts,
        printed=problem.transfers == "paper",
        consumers=Adjacency.from_pairs(count, producer[inner], reader[inner]),
    )


def _windows(problem: Slicing, flow: IntArray) -> IntArray:
    """How every flow is read: stride, padding, reach, wide, deep, offset. Shape (6, flows)."""
    columns, arrays = problem.columns, problem.graph.arrays
    v, tensor = columns.operator[flow], columns.tensor[flow]
    cut = columns.length[v, WHOLE] == 0
    channels, rows, groups = columns.channels[tensor], columns.rows[tensor], columns.groups[v]
    by_row = cut & (columns.length[v, 1 + ROWS] > 0) & (rows > 1)
    some = cut & (channels > 1) & (problem.transfers != "paper")
    mixed = some & (columns.reading[v] == READINGS.index("mixed"))
    joined = some & (columns.reading[v] == READINGS.index("joined"))
    made = np.append(columns.channels[arrays.writes.items], 1)[arrays.writes.start[v]]
    read = (
        np.where(by_row, columns.stride[v], 0),
        np.where(by_row, columns.padding[v], 0),
        np.where(by_row, columns.reach[v], rows),
        np.where(mixed, made // groups, np.where(cut & ~some, made, 1)),
        np.where(mixed, channels // groups, np.where(some, 1, channels)),
        np.where(joined, columns.offset[flow], 0),
    )
    return np.stack(read)


def _ruled(problem: Slicing, names: Sequence[str], whole: BoolArray, cut: IntArray) -> tuple[IntArray, IntArray]:
    """Lengths along each mode, and the most parts, of every operator, as the paper's rule allows them."""
    length, devices = np.where(whole[:, None], (1, 0), cut), len(problem.cluster.devices)
    if problem.dimension != "rule":
        return length, np.full(len(names), devices, dtype=np.int64)
    rule = list(rulings(problem, tuple(names)).values())
    word = [DIMENSIONS.index(each.dimension) - 1 for each in rule]
    other = np.arange(2) != np.asarray(word, dtype=np.int64)[:, None]
    most = [devices if each.most_parts is None else min(each.most_parts, devices) for each in rule]
    return np.where(other & ~whole[:, None], 0, length), np.asarray(most, dtype=np.int64)


lower_unless_short = unless_short(lower, lambda problem, *_: shortage(problem))
"""As :func:`lower`, after the cheap proofs that nothing fits."""

taken_in("cuts", TAKEN_IN)

"""Slicing as arrays over operators, devices and flows, for searches, bounds and formulations.

Operators are numbered in running order. A *flow* is one (operator, input tensor) pair. An operator has two *modes*,
rows (0) and channels (1); an operator that stays whole has only the first, with length 1. For a flow whose tensor has C
channels and H rows, a part [a, b) of the operator needs

* in mode rows: all channels, rows [max(0, a * stride - padding), min(H, (b - 1) * stride - padding + reach));
* in mode channels: all rows, channels [a // wide * deep - offset, ceil(b / wide) * deep - offset), cut to [0, C].

The part of a tensor that a device holds follows from the producer's mode and part alone. The input device and the
gathering of the outputs are additional operators at the beginning and the end, tied to their device and without cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opweave.formulations.expressions import taken_in
from opweave.formulations.on_cluster import capacity_of, nowhere_to_run, permitted
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
        Operator ids in running order, without the added operators; device names.
    first
        Number of added operators in front: 1 with an input device, else 0.
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
    broadcast_airtime
        Whether the router carries only one thing at a time.
    printed
        Whether transfers from rows to rows are the paper's.
    consumers
        Operators that read the results of each operator.
    """

    names: tuple[str, ...]
    devices: tuple[str, ...]
    first: int
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
    broadcast_airtime: bool
    printed: bool
    consumers: Adjacency

    @property
    def operators(self) -> int:
        """Number of operators, including the additional ones."""
        return len(self.length)

    @property
    def limited(self) -> bool:
        """Whether anything besides time can rule a solution out."""
        return bool((self.capacity < NO_LIMIT).any() or (self.most_parts < len(self.devices)).any())

    def order_matters(self, problem: Slicing) -> bool:
        """Whether another order of the operators could make another solution legal."""
        follows = all(v + 1 in self.consumers[v] for v in range(self.first, self.first + len(self.names) - 1))
        return problem.order is None and (self.limited or rules_by_memory(problem)) and not follows

    def blank_cuts(self) -> IntArray:
        """Cuts that give every operator to the first device that may run it, and additional ones to their own."""
        cuts = np.zeros((self.operators, len(self.devices) + 1), dtype=np.int64)
        for v in range(self.operators):
            cuts[v, int(np.isfinite(self.intercept[v]).argmax()) + 1 :] = 1
        return cuts

    def solution(self, mode: IntArray, cuts: IntArray) -> Slices:
        """Convert modes and cuts to a solution. Shapes (operators,) and (operators, devices + 1).

        Operators that are cut alike share one slice, which is immutable.
        """
        words = ("rows", "channels")
        inner = slice(self.first, self.first + len(self.names))
        which = np.where(self.whole[inner], len(words), mode[inner]).tolist()
        chosen = list(zip(which, map(tuple, cuts[inner].tolist()), strict=True))
        known = tuple(dict.fromkeys(chosen))
        slices = Slice.made_of_rows(
            dimension=[(*words, "whole")[dimension] for dimension, _ in known], cuts=[row for _, row in known]
        )
        slice_of = dict(zip(known, slices, strict=True))
        named = FrozenDict(zip(self.names, map(slice_of.__getitem__, chosen), strict=True))
        return Slices.made_of(devices=self.devices, slices=named, order=self.names)

    def plan(self, solution: Slices) -> tuple[IntArray, IntArray]:
        """Modes and cuts of a solution that can be replayed."""
        mode = np.zeros(self.operators, dtype=np.int64)
        cuts = self.blank_cuts()
        for v, name in enumerate(self.names, start=self.first):
            cut = solution.slices[name]
            mode[v] = CHANNELS if cut.dimension == "channels" else ROWS
            cuts[v] = cut.cuts
        return mode, cuts


def ruled_modes(problem: Slicing, instance: SlicingInstance) -> IntArray:
    """The mode of every operator by the paper's rule."""
    rule = rulings(problem, instance.names)
    mode = np.zeros(instance.operators, dtype=np.int64)
    for v, name in enumerate(instance.names, start=instance.first):
        mode[v] = CHANNELS if rule[name].dimension == "channels" else ROWS
    return mode


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


def lower_unless_short(problem: Slicing, order: Sequence[str] | None = None) -> SlicingInstance:
    """As :func:`lower`, after the cheap proofs that nothing fits.

    Raises
    ------
    ContradictionError
        If there is no solution; the message names the device that is short of bytes, or the contradiction.
    """
    reason = shortage(problem)
    if reason is not None:
        raise ContradictionError(reason)
    return lower(problem, order)


def lower(problem: Slicing, order: Sequence[str] | None = None) -> SlicingInstance:
    """Write a problem as arrays, for one order of its operators (None: :func:`plain_order`).

    Raises
    ------
    ContradictionError
        If side constraints leave an operator no device, or close a cycle.
    """
    names = plain_order(problem) if order is None else tuple(order)
    return _Writer(problem, names).write()


class _Writer:
    """Puts a problem's columns into running order, between the added operators."""

    def __init__(self, problem: Slicing, order: tuple[str, ...]) -> None:
        self._problem, self._order = problem, order
        self._columns = problem.columns
        self._devices = tuple(device.name for device in problem.cluster.devices)
        self._head, self._tail = problem.input_device, problem.output_device
        self._shift = 0 if self._head is None else 1
        self._count = self._shift + len(order) + (0 if self._tail is None else 1)
        self._rows = problem.graph.positions(order)
        self._step = np.zeros(len(order), dtype=np.int64)
        self._step[self._rows] = np.arange(self._shift, self._shift + len(order))

    def write(self) -> SlicingInstance:
        """Put everything together."""
        problem, columns = self._problem, self._columns
        reader, tensor, producer = self._inputs()
        stride, padding, reach, wide, deep, offset = self._windows()
        listing, written = problem.graph.arrays.writes.entries(self._rows)
        fed = np.flatnonzero(problem.graph.arrays.producer < 0)[: None if self._shift else 0]
        made = np.concatenate([np.zeros(len(fed), dtype=np.int64), listing + self._shift])
        intercept, slope = self._times()
        inner = producer >= 0
        pad = (self._shift, self._count - self._shift - len(self._order))
        return SlicingInstance(
            names=self._order,
            devices=self._devices,
            first=self._shift,
            whole=np.pad(self._stays, pad, constant_values=True),
            length=self._lengths(),
            intercept=intercept,
            slope=slope,
            flow_start=_starts(reader, self._count),
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
            made_start=_starts(made, self._count),
            made=np.concatenate([fed, written]),
            last=self._last(reader, tensor),
            weight=np.pad(columns.weight[self._rows], pad).astype(np.int64),
            workspace=np.pad(columns.workspace[self._rows], pad).astype(np.int64),
            resident=problem.weights == "resident",
            capacity=capacity_of(binding_limits(problem)),
            rate=np.asarray(problem.rates, dtype=np.float64),
            latency=np.asarray(problem.latencies, dtype=np.float64),
            most_parts=self._most_parts(),
            broadcast_airtime=problem.channel == "shared",
            printed=problem.transfers == "paper",
            consumers=Adjacency.from_pairs(self._count, producer[inner], reader[inner]),
        )

    @property
    def _stays(self) -> BoolArray:
        """Whether every operator of the order stays whole."""
        return np.asarray(self._columns.length[self._rows, WHOLE] > 0)

    @cached_property
    def _flows(self) -> tuple[IntArray, IntArray]:
        """Position in the order, and flow of the problem, of every flow without the gathered ones."""
        reads = self._problem.graph.arrays.reads
        return Adjacency(reads.start, np.arange(len(reads.items))).entries(self._rows)

    @cached_property
    def _gathered(self) -> IntArray:
        """Outputs that the operator at the end reads."""
        graph, index = self._problem.graph, self._problem.graph.tensor_index
        names = graph.outputs if self._tail is not None else ()
        there = [index[name] for name in names if name in graph.producer or self._head is not None]
        return np.asarray(there, dtype=np.int64)

    def _inputs(self) -> tuple[IntArray, IntArray, IntArray]:
        """Reader, tensor and producer of every flow."""
        position, flow = self._flows
        tensor = np.concatenate([self._columns.tensor[flow], self._gathered])
        reader = np.concatenate([position + self._shift, np.full_like(self._gathered, self._count - 1)])
        source = np.append(self._step, OUTSIDE if self._head is None else 0)
        return reader, tensor, source[self._problem.graph.arrays.producer[tensor]]

    def _windows(self) -> IntArray:
        """How every flow is read: stride, padding, reach, wide, deep, offset. Shape (6, flows)."""
        columns, arrays = self._columns, self._problem.graph.arrays
        flow = self._flows[1]
        v, tensor = columns.operator[flow], columns.tensor[flow]
        cut = columns.length[v, WHOLE] == 0
        channels, rows, groups = columns.channels[tensor], columns.rows[tensor], columns.groups[v]
        by_row = cut & (columns.length[v, 1 + ROWS] > 0) & (rows > 1)
        some = cut & (channels > 1) & (self._problem.transfers != "paper")
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
        whole = np.zeros((6, len(self._gathered)), dtype=np.int64)
        whole[2], whole[3], whole[4] = columns.rows[self._gathered], 1, columns.channels[self._gathered]
        return np.concatenate([np.stack(read), whole], axis=1)

    def _lengths(self) -> IntArray:
        length = np.zeros((self._count, 2), dtype=np.int64)
        length[:, ROWS] = 1
        inner = np.where(self._stays[:, None], (1, 0), self._columns.length[self._rows, 1:])
        if self._problem.dimension == "rule":
            rule = rulings(self._problem, self._order)
            word = [DIMENSIONS.index(rule[name].dimension) - 1 for name in self._order]
            other = np.arange(2) != np.asarray(word, dtype=np.int64)[:, None]
            inner = np.where(other & ~self._stays[:, None], 0, inner)
        length[self._shift : self._shift + len(self._order)] = inner
        return length

    def _most_parts(self) -> IntArray:
        most = np.full(self._count, len(self._devices), dtype=np.int64)
        if self._problem.dimension == "rule":
            for step, ruling in enumerate(rulings(self._problem, self._order).values(), start=self._shift):
                if ruling.most_parts is not None:
                    most[step] = min(ruling.most_parts, len(self._devices))
        return most

    def _last(self, reader: IntArray, tensor: IntArray) -> IntArray:
        """The last operator that touches every tensor."""
        graph = self._problem.graph
        unread = -1 if self._head is None else 0
        last = np.append(self._step, unread)[graph.arrays.producer]
        np.maximum.at(last, tensor, reader)
        last[[graph.tensor_index[name] for name in graph.outputs]] = self._count
        return last

    def _times(self) -> tuple[FloatArray, FloatArray]:
        problem, columns, rows = self._problem, self._columns, self._rows
        intercept = np.full((self._count, len(self._devices)), np.inf)
        slope = np.zeros_like(intercept)
        row = dict(zip(self._order, range(len(self._order)), strict=True))
        able = permitted(row, self._devices, problem.constraints) & ~np.isnan(columns.seconds[rows])
        inner = slice(self._shift, self._shift + len(rows))
        intercept[inner] = np.where(able, columns.fixed[rows], np.inf)
        slope[inner] = np.where(able, columns.seconds[rows] - columns.fixed[rows], 0.0)
        for v, tied in ((0, self._head), (self._count - 1, self._tail)):
            if tied is not None:
                intercept[v, self._devices.index(tied)] = 0.0
        for v in np.flatnonzero(np.isinf(intercept).all(axis=1)).tolist():
            known = ~np.isnan(columns.seconds[rows[v - self._shift]])
            name = self._order[v - self._shift]
            raise ContradictionError(nowhere_to_run([name], self._devices, known, problem.constraints))
        return intercept, slope


def _starts(rows: IntArray, count: int) -> IntArray:
    """Where every row begins among ascending entries. Shape (count + 1,)."""
    start = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=count), out=start[1:])
    return start


taken_in("cuts", TAKEN_IN)

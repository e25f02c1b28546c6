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

import numpy as np

from opweave.formulations.expressions import express
from opweave.formulations.on_cluster import capacity_of, permitted
from opweave.formulations.order_arcs import ContradictionError, with_order_arcs
from opweave.formulations.slicing.shortage import binding_limits, rules_by_memory, shortage
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.constraints import Constraint, Forbid, MemoryCap, Pin
from opweave.problems.graph import Operator
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.slicing.paper_rule import rulings
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
        """Convert modes and cuts to a solution. Shapes (operators,) and (operators, devices + 1)."""
        words = ("rows", "channels")
        slices = {}
        for v, name in enumerate(self.names, start=self.first):
            word = "whole" if self.whole[v] else words[int(mode[v])]
            slices[name] = Slice(dimension=word, cuts=tuple(cuts[v].tolist()))  # type: ignore[arg-type]
        return Slices(devices=self.devices, slices=FrozenDict(slices), order=self.names)

    def plan(self, solution: Slices) -> tuple[IntArray, IntArray]:
        """Modes and cuts of a solution that can be replayed."""
        mode = np.zeros(self.operators, dtype=np.int64)
        cuts = self.blank_cuts()
        for v, name in enumerate(self.names, start=self.first):
            cut = solution.slices[name]
            mode[v] = CHANNELS if cut.dimension == "channels" else ROWS
            cuts[v] = cut.cuts
        return mode, cuts


def plain_order(problem: Slicing) -> tuple[str, ...]:
    """The problem's order, or the first order that data and order arcs allow.

    Raises
    ------
    ContradictionError
        If order arcs close a cycle, or the problem's order violates one.
    """
    before = with_order_arcs(problem, problem.graph.arrays.predecessors)
    names = [op.id for op in problem.graph.operators]
    if problem.order is not None:
        index = problem.graph.operator_index
        step = {index[name]: position for position, name in enumerate(problem.order)}
        for v in range(len(names)):
            for u in before[v].tolist():
                if step[u] > step[v]:
                    message = f"the problem's order runs {names[v]!r} before {names[u]!r}, which precedes it"
                    raise ContradictionError(message)
        return problem.order
    return tuple(names[v] for v in topological_order(before.reversed(len(names))))


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
    names = plain_order(problem)
    names = names if order is None else tuple(order)
    return _Writer(problem, names).write()


class _Writer:
    """Collects the rows of an instance."""

    def __init__(self, problem: Slicing, order: tuple[str, ...]) -> None:
        self._problem = problem
        self._order = order
        graph = problem.graph
        self._devices = tuple(device.name for device in problem.cluster.devices)
        self._operators = [graph.operators[graph.operator_index[name]] for name in order]
        self._head, self._tail = problem.input_device, problem.output_device
        self._shift = 0 if self._head is None else 1
        self._step = {name: self._shift + position for position, name in enumerate(order)}
        self._count = self._shift + len(order) + (0 if self._tail is None else 1)

    def write(self) -> SlicingInstance:
        """Put everything together."""
        problem, graph = self._problem, self._problem.graph
        tensor_of = graph.tensor_index
        extents = [problem.extents[tensor.id] for tensor in graph.tensors]
        flows = [self._flows(v) for v in range(self._count)]
        flat = np.asarray([row for rows in flows for row in rows], dtype=np.int64).reshape(-1, 8)
        starts = np.zeros(self._count + 1, dtype=np.int64)
        np.cumsum([len(rows) for rows in flows], out=starts[1:])
        made = Adjacency.from_lists([[tensor_of[name] for name in self._makes(v)] for v in range(self._count)])
        intercept, slope = self._times()
        readers = np.repeat(np.arange(self._count), np.diff(starts))
        inner = flat[:, 1] >= 0
        extra = (self._count - self._shift - len(self._order),)
        pad = (self._shift, extra[0])
        stays = [not problem.cuttings[name].lengths for name in self._order]
        return SlicingInstance(
            names=self._order,
            devices=self._devices,
            first=self._shift,
            whole=np.pad(np.asarray(stays, dtype=bool), pad, constant_values=True),
            length=self._lengths(),
            intercept=intercept,
            slope=slope,
            flow_start=starts,
            tensor=flat[:, 0].copy(),
            producer=flat[:, 1].copy(),
            stride=flat[:, 2].copy(),
            padding=flat[:, 3].copy(),
            reach=flat[:, 4].copy(),
            wide=flat[:, 5].copy(),
            deep=flat[:, 6].copy(),
            offset=flat[:, 7].copy(),
            channels=np.asarray([extent.channels for extent in extents], dtype=np.int64),
            rows=np.asarray([extent.rows for extent in extents], dtype=np.int64),
            cell=np.asarray([extent.cell_bytes for extent in extents], dtype=np.int64),
            made_start=made.start,
            made=made.items,
            last=self._last(),
            weight=np.pad([problem.weight_bytes(name) for name in self._order], pad).astype(np.int64),
            workspace=np.pad([op.workspace_bytes for op in self._operators], pad).astype(np.int64),
            resident=problem.weights == "resident",
            capacity=capacity_of(binding_limits(problem)),
            rate=np.asarray(problem.rates, dtype=np.float64),
            latency=np.asarray(problem.latencies, dtype=np.float64),
            most_parts=self._most_parts(),
            broadcast_airtime=problem.channel == "shared",
            printed=problem.transfers == "paper",
            consumers=Adjacency.from_pairs(self._count, flat[inner, 1], readers[inner]),
        )

    def _operator(self, v: int) -> Operator | None:
        position = v - self._shift
        return self._operators[position] if 0 <= position < len(self._operators) else None

    def _makes(self, v: int) -> Sequence[str]:
        op = self._operator(v)
        return op.outputs if op is not None else self._problem.graph.inputs if v < self._shift else ()

    def _flows(self, v: int) -> list[tuple[int, ...]]:
        """(tensor, producer, stride, padding, reach, wide, deep, offset) of every input."""
        op = self._operator(v)
        if op is None:
            return [] if v < self._shift else [self._flow(name, None, 0) for name in self._gathered()]
        flows, offset = [], 0
        for name in dict.fromkeys(op.inputs):
            flows.append(self._flow(name, op, offset))
            offset += self._problem.extents[name].channels
        return flows

    def _gathered(self) -> list[str]:
        graph = self._problem.graph
        return [name for name in graph.outputs if name in graph.producer or self._head is not None]

    def _flow(self, name: str, op: Operator | None, offset: int) -> tuple[int, ...]:
        problem = self._problem
        producer = problem.graph.producer.get(name)
        source = self._step[producer] if producer is not None else OUTSIDE if self._head is None else 0
        read = problem.extents[name]
        cutting = None if op is None else problem.cuttings[op.id]
        geometry = None if cutting is None else cutting.geometry
        head = (problem.graph.tensor_index[name], source)
        if op is None or cutting is None or geometry is None or not cutting.lengths:
            return (*head, 0, 0, read.rows, 1, read.channels, 0)
        made = problem.extents[op.outputs[0]].channels
        by_window = "rows" in cutting.lengths and read.rows > 1
        rows = (geometry.stride, geometry.padding, geometry.reach) if by_window else (0, 0, read.rows)
        if read.channels == 1 or problem.transfers == "paper":
            return (*head, *rows, made, read.channels, 0)
        if geometry.channels == "mixed":
            return (*head, *rows, made // geometry.groups, read.channels // geometry.groups, 0)
        return (*head, *rows, 1, 1, offset if geometry.channels == "joined" else 0)

    def _lengths(self) -> IntArray:
        length = np.zeros((self._count, 2), dtype=np.int64)
        length[:, ROWS] = 1
        rule = rulings(self._problem, self._order) if self._problem.dimension == "rule" else None
        for name in self._order:
            lengths = self._problem.cuttings[name].lengths
            if lengths:
                kept = lengths if rule is None else {rule[name].dimension: lengths[rule[name].dimension]}
                length[self._step[name]] = kept.get("rows", 0), kept.get("channels", 0)
        return length

    def _most_parts(self) -> IntArray:
        most = np.full(self._count, len(self._devices), dtype=np.int64)
        if self._problem.dimension == "rule":
            for name, ruling in rulings(self._problem, self._order).items():
                if ruling.most_parts is not None:
                    most[self._step[name]] = min(ruling.most_parts, len(self._devices))
        return most

    def _last(self) -> IntArray:
        graph = self._problem.graph
        last = np.full(len(graph.tensors), -1, dtype=np.int64)
        for v in range(self._count):
            op = self._operator(v)
            for name in (*self._makes(v), *(() if op is None else op.inputs)):
                last[graph.tensor_index[name]] = v
        for name in graph.outputs:
            last[graph.tensor_index[name]] = self._count
        return last

    def _times(self) -> tuple[FloatArray, FloatArray]:
        """Intercept and slope; inf if the time is unknown or a constraint forbids the device."""
        problem = self._problem
        intercept = np.full((self._count, len(self._devices)), np.inf)
        slope = np.zeros_like(intercept)
        row = {name: position for position, name in enumerate(self._order)}
        allowed = permitted(row, self._devices, problem.constraints)
        for name in self._order:
            for k, device in enumerate(self._devices):
                if device in problem.known_seconds[name] and allowed[row[name], k]:
                    fixed = problem.intercept(name, device)
                    intercept[self._step[name], k] = fixed
                    slope[self._step[name], k] = problem.known_seconds[name][device] - fixed
        for v, tied in ((0, self._head), (self._count - 1, self._tail)):
            if tied is not None:
                intercept[v, self._devices.index(tied)] = 0.0
        nowhere = np.flatnonzero(np.isinf(intercept).all(axis=1))
        if len(nowhere):
            op = self._operator(int(nowhere[0]))
            assert op is not None
            raise ContradictionError(f"operator {op.id!r} has no device left to run on")
        return intercept, slope


for _kind in TAKEN_IN:

    @express(_kind, "cuts")
    def _taken_in(_problem: Slicing, _constraint: Constraint) -> None:
        """Add nothing: :func:`lower` has written the constraint into the arrays."""

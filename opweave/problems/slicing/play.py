"""The referee of slicing: which cells of every tensor each device holds and needs, and what it must receive.

Operators run one after the other, and a device holds of a tensor what it has computed itself. Therefore what a part
receives follows from its own cut and the producer's, and everything is computed for all operators at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.on_cluster import wrong_order
from opweave.problems.slicing.columns import (
    CHANNELS,
    DIMENSIONS,
    READINGS,
    ROWS,
    WHOLE,
    CellBlocks,
    PlanColumns,
    SlicingColumns,
    plan_columns,
)
from opweave.problems.slicing.geometry import rulings
from opweave.problems.solution import Details, Violation, broken
from opweave.problems.spec import Duration, FrozenDict, Many, Name, Table
from opweave.problems.timeline import BEFORE, LARGEST, NEVER, ActivityKind, Names, Recorder, Timeline, devices_and_ports

if TYPE_CHECKING:
    from opweave.problems.slicing.spec import Slice, Slices, Slicing


class SlicedStep(Details):
    """One operator of a plan. Mappings by device omit devices without a part.

    Attributes
    ----------
    operator, dimension
        The operator, and the dimension along which it is cut.
    start, end
        Seconds.
    shares
        Share of the operator that each device computes, by device.
    transfer_seconds, compute_seconds, bytes_in
        Seconds that each device receives data and computes, and bytes that it receives, by device.
    slowest
        The device that the others wait for.
    """

    operator: Name
    dimension: str
    start: Duration
    end: Duration
    shares: Table[Name, float]
    transfer_seconds: Table[Name, Duration]
    compute_seconds: Table[Name, Duration]
    bytes_in: Table[Name, int]
    slowest: Name


class SlicingDetails(Details):
    """How a plan uses devices and router.

    Attributes
    ----------
    latency
        Seconds from the beginning to the end of the last operator.
    steps
        The operators in the plan's order.
    memory_bytes
        The most that every device holds.
    """

    latency: Duration
    steps: Many[SlicedStep]
    memory_bytes: Table[Name, int]


class PartMoves(NamedTuple):
    """What the operators receive and compute. Shapes (operators, devices).

    Attributes
    ----------
    there
        Whether the device computes a part.
    received, moved
        Bytes that the device must hold in addition, and bytes that travel to it.
    waits, compute
        Seconds.
    """

    there: BoolArray
    received: Any
    moved: Any
    waits: FloatArray
    compute: FloatArray


class PlayedSlices:
    """A plan that has been played; columns are by the positions of operators and tensors in the graph."""

    def __init__(self, problem: Slicing, solution: Slices) -> None:
        plan = plan_columns(problem, solution)
        self._problem, self._solution, self._plan, self._columns = problem, solution, plan, problem.columns
        self._devices = [device.name for device in problem.cluster.devices]
        self._size = self._columns.cell.astype(self._columns.number)[:, None]
        self._shares = (plan.cuts[:, 1:] - plan.cuts[:, :-1]) / plan.cuts[:, -1:]
        self._held = _held(problem, plan)
        self._moves = self._receive()
        self._ends = np.where(self._moves.there, self._moves.waits + self._moves.compute, -np.inf)
        end = np.cumsum(self._ends.max(axis=1, initial=0.0)[plan.order])
        self._begin, self._end = np.empty(len(end)), np.empty(len(end))
        self._begin[plan.order], self._end[plan.order] = np.concatenate(([0.0], end[:-1])), end
        self.objective = float(end[-1]) if len(end) else 0.0
        """Seconds until the last operator has ended."""
        self._measure()

    def _receive(self) -> PartMoves:
        """What every operator receives, and how long that and its parts take."""
        problem, columns, plan = self._problem, self._columns, self._plan
        count, devices = len(plan.order), len(self._devices)
        v, source = columns.operator, columns.producer
        need, held = _needed(problem, plan), self._held.at(columns.tensor)
        unit = self._size[columns.tensor]
        lacking = (need.cells - need.shared(held)).astype(columns.number) * unit
        sent = lacking
        if problem.transfers == "paper":
            both = (source >= 0) & (plan.dimension[v] == ROWS) & (plan.dimension[source] == ROWS)
            above, below = plan.cuts[source, :-1], plan.cuts[source, 1:]
            edge = np.maximum(need.end_row - below, 0) + np.maximum(above - need.first_row, 0)
            printed = edge.astype(columns.number) * columns.channels[columns.tensor][:, None] * unit
            sent = np.where(both[:, None], printed, lacking)
        sent = np.where((source < 0)[:, None] | (need.cells == 0), 0, sent)
        rates, latencies = (np.asarray(each, dtype=np.float64) for each in (problem.rates, problem.latencies))
        with np.errstate(divide="ignore", invalid="ignore"):
            seconds = np.where(sent > 0, latencies + sent.astype(np.float64) / rates, 0.0)
        there = plan.cuts[:, :-1] < plan.cuts[:, 1:]
        compute = columns.fixed + (columns.seconds - columns.fixed) * self._shares
        return PartMoves(
            there=there,
            received=_added(v, lacking, np.zeros((count, devices), dtype=columns.number)),
            moved=_added(v, sent, np.zeros((count, devices), dtype=columns.number)),
            waits=_added(v, seconds, np.zeros((count, devices))),
            compute=np.where(there, compute, 0.0),
        )

    def _measure(self) -> None:
        """The most that every device holds, and when: before the operators, or during one."""
        problem, columns, plan, arrays = self._problem, self._columns, self._plan, self._problem.graph.arrays
        parts = plan.cuts[:, 1:] - plan.cuts[:, :-1]
        shares = np.where((plan.dimension == CHANNELS)[:, None], parts, plan.cuts[:, -1:])
        weights = np.where(parts > 0, _share(columns.weight, shares, plan), 0)
        self._resident = weights if problem.weights == "resident" else np.zeros_like(weights)
        self._working = self._moves.received + _share(columns.workspace, parts, plan) + weights - self._resident
        step = np.empty(len(plan.order), dtype=np.int64)
        step[plan.order] = np.arange(len(plan.order))
        self._last = np.append(step, -1)[arrays.producer]
        np.maximum.at(self._last, columns.tensor, step[columns.operator])
        outputs = [problem.graph.tensor_index[name] for name in problem.graph.outputs]
        self._last[outputs] = len(step)
        self._bytes = self._held.cells.astype(columns.number) * self._size
        made, made_by = np.flatnonzero(arrays.producer >= 0), arrays.producer[arrays.producer >= 0]
        change = np.zeros((len(step) + 2, len(self._devices)), dtype=columns.number)
        np.add.at(change, step[made_by] + 1, self._bytes[made])
        gone = np.flatnonzero(self._last < len(step))
        np.subtract.at(change, self._last[gone] + 2, self._bytes[gone])
        held = change.cumsum(axis=0) + self._resident.sum(axis=0)
        held[1:-1] += self._working[plan.order]
        self.peak = dict(zip(self._devices, held.max(axis=0).tolist(), strict=True))
        """The most bytes that every device holds."""
        runs = np.concatenate(([-1], plan.order, [-1]))[held.argmax(axis=0)].tolist()
        names = (None if row < 0 else problem.graph.operator_ids[row] for row in runs)
        self.peak_at = dict(zip(self._devices, names, strict=True))
        """The operator during which it does; None before the first and after the last."""

    def violations(self) -> Iterator[Violation]:
        """Another order than the problem's, cuts against the rule, full memory."""
        problem, order = self._problem, self._solution.order
        if problem.order is not None and problem.order != order:
            yield broken("order", "the plan runs the operators in another order than the problem's")
        if problem.dimension == "rule":
            yield from self._against_rule()
        for device, limit in problem.memory_limits.items():
            used, operator = self.peak[device], self.peak_at[device]
            if limit is not None and used > limit:
                when = "before the first operator" if operator is None else f"at {operator!r}"
                excess = used - limit
                message = f"device {device!r} holds {used:,} bytes {when}: {excess:,} over its memory of {limit:,}"
                yield broken("memory", message, float(excess))

    def _against_rule(self) -> Iterator[Violation]:
        """Check the dimension that the rule prescribes, and (cv6) that there are no more parts than it allows."""
        parts = dict(zip(self._problem.graph.operator_ids, self._moves.there.sum(axis=1).tolist(), strict=True))
        for name, ruling in rulings(self._problem, self._solution.order).items():
            dimension = self._solution.slices[name].dimension
            if dimension != ruling.dimension:
                message = f"{name!r} is cut along {dimension!r}, but the rule says {ruling.dimension!r}"
                yield broken("dimension", message)
            if ruling.most_parts is not None and parts[name] > ruling.most_parts:
                message = f"{name!r} has {parts[name]} parts; memory allows {ruling.most_parts} by the rule"
                yield broken("parts", message, float(parts[name] - ruling.most_parts))

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Start and end of every operator in seconds, in running order."""
        order, operators = self._plan.order, self._problem.graph.operators
        times = zip(self._begin[order].tolist(), self._end[order].tolist(), strict=True)
        return {operators[row].id: pair for row, pair in zip(order.tolist(), times, strict=True)}

    def details(self) -> SlicingDetails:
        """Seconds and bytes of every operator on every device."""
        steps, memory = tuple(self._steps()), FrozenDict(self.peak)
        return SlicingDetails(latency=self.objective, steps=steps, memory_bytes=memory)

    def _steps(self) -> Iterator[SlicedStep]:
        """Every operator in running order."""
        moves, names = self._moves, self._devices
        columns = (self._shares, moves.waits, moves.compute, moves.moved)
        for row in self._plan.order.tolist():
            parts = np.flatnonzero(moves.there[row]).tolist()
            by_device = [
                FrozenDict({names[k]: each[k] for k in parts}) for each in (column[row].tolist() for column in columns)
            ]
            yield SlicedStep.made_of(
                operator=self._problem.graph.operator_ids[row],
                dimension=DIMENSIONS[self._plan.dimension[row]],
                start=float(self._begin[row]),
                end=float(self._end[row]),
                shares=by_device[0],
                transfer_seconds=by_device[1],
                compute_seconds=by_device[2],
                bytes_in=by_device[3],
                slowest=names[int(self._ends[row].argmax())],
            )

    def timeline(self) -> Timeline:
        """For each operator, devices receive and then run."""
        graph, recorder = self._problem.graph, Recorder()
        self._record_activities(recorder)
        self._record_lifetimes(recorder)
        resources = devices_and_ports(self._problem.cluster, ("receive_port",))
        return Timeline("seconds", resources, Names.of(graph), recorder.activities(), recorder.lifetimes())

    def _record_activities(self, recorder: Recorder) -> None:
        graph, moves, devices = self._problem.graph, self._moves, len(self._devices)
        producer, shift = graph.arrays.producer.tolist(), len(graph.operators)
        runs: list[list[int]] = [[] for _ in range(shift + 1)]  # none of the last, which stands for graph inputs
        waits = self._ends - moves.compute
        for v in self._plan.order.tolist():
            begin, end = float(self._begin[v]), float(self._end[v])
            made = [(row, t + shift) for t in graph.arrays.reads[v].tolist() for row in runs[producer[t]]]
            for k in np.flatnonzero(moves.there[v]).tolist():
                after, ready, size = made, begin + float(waits[v, k]), min(int(moves.moved[v, k]), LARGEST)
                if size:
                    row = recorder.activity(ActivityKind.RECEIVE, devices + k, v, begin, ready, size=size, after=made)
                    after = [*made, (row, -1)]
                stop = min(end, ready + float(moves.compute[v, k]))
                runs[v].append(recorder.activity(ActivityKind.RUN, k, v, ready, stop, after=after))

    def _record_lifetimes(self, recorder: Recorder) -> None:
        arrays, count, begin, end = self._problem.graph.arrays, len(self._plan.order), self._begin, self._end
        every = np.arange(count)
        ends = np.concatenate((end[self._plan.order], [NEVER, 0.0]))  # the last entry: inputs that nothing reads
        since = np.append(begin, BEFORE)[arrays.producer]
        for storage, starts, stops, sizes in (
            (every, np.full(count, BEFORE), np.full(count, NEVER), self._resident),
            (count + np.arange(len(since)), since, ends[self._last], self._bytes),
            (every, begin, end, self._working),
        ):
            for row, k in zip(*(each.tolist() for each in np.nonzero(sizes)), strict=True):
                recorder.lifetime(int(storage[row]), k, float(starts[row]), float(stops[row]), int(sizes[row, k]))


def _needed(problem: Slicing, plan: PlanColumns) -> CellBlocks:
    """Cells of every input that the parts read, as one block from the first to the last cell. By flow and device."""
    columns = problem.columns
    v, tensor = columns.operator, columns.tensor
    first, end = plan.cuts[v, :-1], plan.cuts[v, 1:]
    channels, rows = columns.channels[tensor][:, None], columns.rows[tensor][:, None]
    known, dimension = columns.known[v], plan.dimension[v]
    by_rows = (known & (dimension == ROWS))[:, None] & (rows > 1)
    begin = np.maximum(first * columns.stride[v][:, None] - columns.padding[v][:, None], 0)
    stop = (end - 1) * columns.stride[v][:, None] - (columns.padding - columns.reach)[v][:, None]
    stop = np.maximum(begin, np.minimum(rows, stop))
    by_channels = (known & (dimension == CHANNELS) & (problem.transfers != "paper"))[:, None] & (channels > 1)
    from_channel, to_channel = _channels_read(columns, plan, first, end - 1)
    return CellBlocks(
        np.where(by_channels, np.maximum(from_channel, 0), 0),
        np.where(by_channels, np.minimum(to_channel + 1, channels), channels),
        np.where(by_rows, begin, 0),
        np.where(by_rows, stop, rows),
    ).only(first < end)


def _channels_read(columns: SlicingColumns, plan: PlanColumns, first: IntArray, last: IntArray) -> tuple[Any, Any]:
    """First and last channel of every input that the output channels ``first`` to ``last`` read. By flow and device."""
    v = columns.operator
    length, groups = plan.cuts[v, -1:], columns.groups[v][:, None].astype(columns.number)
    deep = columns.channels[columns.tensor][:, None] // groups
    group, group_of_last = first * groups // length, last * groups // length
    joins = (columns.reading[v] == READINGS.index("joined"))[:, None]
    offset = np.where(joins, columns.offset[:, None], 0)
    mixed = (columns.reading[v] == READINGS.index("mixed"))[:, None]
    found = (
        np.where(mixed, group * deep, first - offset),
        np.where(mixed, (group_of_last + 1) * deep - 1, last - offset),
    )
    return found[0].astype(np.int64), found[1].astype(np.int64)


def _held(problem: Slicing, plan: PlanColumns) -> CellBlocks:
    """Cells of every tensor that the devices hold once it is made. By tensor and device."""
    columns, producer, devices = problem.columns, problem.graph.arrays.producer, problem.cluster.devices
    cuts = np.vstack([plan.cuts, np.zeros((1, len(devices) + 1), dtype=np.int64)])[producer]
    first, end = cuts[:, :-1], cuts[:, 1:]
    dimension = np.append(plan.dimension, WHOLE)[producer][:, None]
    along = [dimension == ROWS, dimension == CHANNELS]
    channels, rows = columns.channels[:, None], columns.rows[:, None]
    return CellBlocks(
        np.where(along[1], first, 0),
        np.where(along[1], end, channels),
        np.where(along[0], first, 0),
        np.where(along[0], end, rows),
    ).only(first < end)


def _share(size: Any, parts: IntArray, plan: PlanColumns) -> Any:
    """Bytes of every part of an operator's length, rounded up. Shape (operators, devices)."""
    return -(-size[:, None] * parts // plan.cuts[:, -1:])


def _added(row: IntArray, values: Any, total: Any) -> Any:
    """``total`` with the values added to its rows, one after the other."""
    np.add.at(total, row, values)
    return total


def unusable(problem: Slicing, solution: Slices) -> Iterator[Violation]:
    """Say which operators do not appear once, after their producers, and cut into one part for each device."""
    names = tuple(device.name for device in problem.cluster.devices)
    if solution.devices != names:
        message = f"the plan is for devices {', '.join(solution.devices)}; the cluster has {', '.join(names)}"
        yield broken("unknown", message)
        return
    yield from wrong_order(problem.graph, solution.order)
    for name in solution.slices:
        if name not in problem.graph.operator_index:
            yield broken("unknown", f"{name!r} is cut, but is not an operator of the graph")
    for name in problem.graph.operator_ids:
        if name in solution.slices:
            yield from _wrong_cuts(problem, name, solution.slices[name])
        else:
            yield broken("missing", f"{name!r} has no slice")


def _wrong_cuts(problem: Slicing, name: str, cut: Slice) -> Iterator[Violation]:
    """(8) to (10) of the paper, cv1 to cv5, and parts only on devices whose time is known."""
    cutting, devices, cuts = problem.cuttings[name], [device.name for device in problem.cluster.devices], cut.cuts
    lengths = cutting.lengths or {"whole": 1}
    if cut.dimension not in lengths:
        ways, why = " or ".join(map(repr, lengths)), f": {cutting.why_whole}" if cutting.why_whole else ""
        yield broken("dimension", f"{name!r} cannot be cut along {cut.dimension!r}, only along {ways}{why}")
        return
    length = lengths[cut.dimension]
    if len(cuts) != len(devices) + 1:
        yield broken("cuts", f"{name!r} has {len(cuts)} cuts; {len(devices)} devices need {len(devices) + 1}")
        return
    for rule, which, at, needed in (("cut_start", "first", cuts[0], 0), ("cut_end", "last", cuts[-1], length)):
        if at != needed:
            yield broken(rule, f"the {which} cut of {name!r} is {at}, not {needed}", float(abs(at - needed)))
    for device, first, end in zip(devices, cuts, cuts[1:], strict=False):
        if first > end:
            message = f"the part of {name!r} on {device!r} runs backwards, from {first} to {end}"
            yield broken("cut_order", message, float(first - end))
        if first < end and device not in problem.known_seconds[name]:
            yield broken("device", f"{name!r} cannot run on {device!r}: its time there is not known")

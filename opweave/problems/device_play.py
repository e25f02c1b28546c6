"""The parts of playing a plan that placement and batched mapping share: runs on devices and transfers between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.cluster import Cluster
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.on_cluster import MEMORY, ClusterProblem, held
from opweave.problems.rules import causes_first, lasts_as_long, one_at_a_time, over_memory
from opweave.problems.solution import TIME_TOLERANCE, Details, Violation, broken
from opweave.problems.spec import FrozenDict, Name, Seconds, Table
from opweave.problems.timeline import Activities, ActivityKind, Names, Timeline, devices_and_ports, joined


class DeviceDetails(Details):
    """What a schedule takes; :attr:`Evaluation.timeline` says how it uses every device.

    Attributes
    ----------
    makespan
        Latest end of all runs, in seconds; 0 for a graph without operators.
    memory_bytes
        Bytes that every device holds.
    """

    makespan: Seconds
    memory_bytes: Table[Name, int]


class Runs(NamedTuple):
    """Operators on devices, by position. Each array has shape (runs,).

    Attributes
    ----------
    operator, device
        Each run's operator and device.
    start, end
        Seconds.
    inputs
        Number of inputs that run together.
    """

    operator: IntArray
    device: IntArray
    start: FloatArray
    end: FloatArray
    inputs: IntArray


class Moves(NamedTuple):
    """Transfers that a plan needs, or that happen. Each array has shape (transfers,).

    Attributes
    ----------
    tensor
        Position in the graph.
    reader
        The operator that needs the tensor; -1 if one transfer serves all readers on the target.
    source, target
        Devices.
    inputs
        Number of inputs.
    start, end
        Seconds: as a plan states them, or as early as possible.
    need
        The need that the transfer meets; -1 for none.
    maker, taker
        The run that makes the tensor, and one that waits for it; -1 if nothing needs the transfer.
    seconds
        How long it lasts; NaN if nothing needs it, or no link or chain of links leads from source to target.
    """

    tensor: IntArray
    reader: IntArray
    source: IntArray
    target: IntArray
    inputs: IntArray
    start: FloatArray
    end: FloatArray
    need: IntArray
    maker: IntArray
    taker: IntArray
    seconds: FloatArray

    def at(self, rows: IntArray) -> Moves:
        """Some of them."""
        chosen: Any = (column[rows] for column in self)
        return Moves(*chosen)


class Reads(NamedTuple):
    """Run ``reader`` reads ``tensor``, which run ``maker`` has made. Each array has shape (reads,).

    ``need`` is the transfer between the two runs; -1 when both are on one device.
    """

    reader: IntArray
    tensor: IntArray
    maker: IntArray
    need: IntArray


def codes(graph: OpGraph, cluster: Cluster, moved: Moves, reader: IntArray | None = None) -> IntArray:
    """Encode the tensor, reader (or another one), source and target of each transfer as one number."""
    devices, reader = len(cluster.devices), moved.reader if reader is None else reader
    return ((moved.tensor * (len(graph.operators) + 1) + reader + 1) * devices + moved.source) * devices + moved.target


def positions_in(known: IntArray, wanted: IntArray) -> IntArray:
    """Position of each wanted number among the known ones, -1 if absent. The known numbers are all different."""
    if not len(known):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    return np.where(known[order[place]] == wanted, order[place], -1)


def _needs(
    problem: ClusterProblem, runs: Runs, run_of: IntArray, *, for_all: bool, per_input: bool
) -> tuple[Reads, Moves]:
    """Follow every input along every tensor."""
    graph, cluster, batch = problem.graph, problem.cluster, run_of.shape[1]
    arrays, devices = graph.arrays, len(cluster.devices)
    inner = np.flatnonzero(arrays.producer[arrays.reads.items] >= 0)
    reader, tensor = arrays.reads.heads()[inner], arrays.reads.items[inner]
    made, read = run_of[arrays.producer[tensor]], run_of[reader]
    flows = (np.arange(len(tensor))[:, None] * devices + runs.device[made]) * devices + runs.device[read]
    _, first, count = np.unique(flows, return_index=True, return_counts=True)
    entry, made, read = first // batch, made.ravel()[first], read.ravel()[first]
    order = np.lexsort((read, made, entry))  # in the order of the plan's runs
    entry, made, read, count = entry[order], made[order], read[order], count[order]
    crossing = np.flatnonzero(runs.device[made] != runs.device[read])
    maker, taker, moved = made[crossing], read[crossing], tensor[entry[crossing]]
    source, target, count = runs.device[maker], runs.device[taker], count[crossing]
    size = arrays.tensor_bytes[moved].astype(np.float64) * (1 if per_input else count)
    seconds, ready = cluster.link_seconds(source, target, size), runs.end[maker]
    readers = np.full(len(moved), -1) if for_all else runs.operator[taker]
    needs = Moves(moved, readers, source, target, count, ready, ready + seconds, maker, maker, taker, seconds)
    _, first, group = np.unique(codes(graph, cluster, needs), return_index=True, return_inverse=True)
    order = np.argsort(first)
    need = np.full(len(read), -1, dtype=np.int64)
    need[crossing] = np.argsort(order)[group]
    needs = needs.at(first[order])._replace(need=np.arange(len(order)))
    return Reads(read, tensor[entry], made, need), needs


def _listed(graph: OpGraph, cluster: Cluster, transfers: Sequence[Any]) -> Moves:
    """The transfers of a plan as columns, before it is known which needs they meet."""
    index, none = cluster.device_index, np.full(len(transfers), -1, dtype=np.int64)
    rows = [
        (
            graph.tensor_index[sent.tensor],
            -1 if sent.consumer is None else graph.operator_index[sent.consumer],
            index[sent.source],
            index[sent.target],
            len(getattr(sent, "inputs", "1")),
        )
        for sent in transfers
    ]
    start, end = np.asarray([(sent.start, sent.end) for sent in transfers], dtype=np.float64).reshape(-1, 2).T
    tensor, reader, source, target, inputs = np.asarray(rows, dtype=np.int64).reshape(-1, 5).T
    return Moves(tensor, reader, source, target, inputs, start, end, none, none, none, np.full(len(none), np.nan))


class DevicePlay:
    """What schedules on devices say about themselves when they are carried out.

    Attributes
    ----------
    memory
        Bytes that every device holds.
    """

    timeline: Timeline

    def __init__(self, problem: Any, solution: Any) -> None:
        self.problem, self.memory = problem, problem.memory_by_device(solution)

    @property
    def objective(self) -> float:
        """The makespan, or the most bytes on any device."""
        return max(self.memory.values()) if self.problem.mode == MEMORY else self.timeline.end

    def details(self) -> DeviceDetails:
        """Makespan and memory."""
        return DeviceDetails(makespan=self.timeline.end, memory_bytes=FrozenDict(self.memory))

    def overfull(self) -> Iterator[Violation]:
        """Devices that hold more bytes than their memory."""
        for device in self.problem.cluster.devices:
            yield from over_memory(device.name, self.memory[device.name], device.memory_bytes)


class PlayedRuns(DevicePlay):
    """What a schedule of runs and transfers does.

    If transfers use no ports, one that is not listed starts as soon as its tensor is available.

    Parameters
    ----------
    run_of
        The run of every operator and input. Shape (operators, inputs).
    ports, for_all, per_input
        Whether a device sends and receives only one thing at a time, whether one transfer serves all readers on a
        device, and whether a transfer takes as long as that of one input.

    Attributes
    ----------
    needs, sent
        Transfers that the schedule makes necessary, and those that happen: first the ``listed`` ones.
    """

    def __init__(
        self,
        problem: ClusterProblem,
        solution: Any,
        runs: Runs,
        run_of: IntArray,
        *,
        ports: bool = False,
        for_all: bool = False,
        per_input: bool = False,
    ) -> None:
        super().__init__(problem, solution)
        graph, cluster = problem.graph, problem.cluster
        self.runs, self.listed = runs, len(solution.transfers)
        reads, self.needs = _needs(problem, runs, run_of, for_all=for_all, per_input=per_input)
        sent = _listed(graph, cluster, solution.transfers)
        known = codes(graph, cluster, self.needs)
        need = positions_in(known, codes(graph, cluster, sent))
        if for_all and not ports and len(known):  # such transfers may be listed for one reader, too
            served = codes(graph, cluster, sent, np.full_like(sent.reader, -1))
            width, whose = len(graph.operators) + 1, runs.operator[reads.reader]
            read = positions_in(reads.tensor * width + whose, sent.tensor * width + sent.reader) >= 0
            there = np.append(runs.device, -1)[run_of[sent.reader, 0]] == sent.target
            need = np.where((need < 0) & (sent.reader >= 0) & read & there, positions_in(known, served), need)
        maker, taker = (np.append(column, -1)[need] for column in (self.needs.maker, self.needs.taker))
        lasts = np.append(self.needs.seconds, np.nan)[need]
        self.sent = sent._replace(need=need, maker=maker, taker=taker, seconds=lasts)
        if not ports:
            self._send_unlisted()
        self.timeline = self._made_timeline(reads, ports=ports, inputs=run_of.shape[1])

    def _send_unlisted(self) -> None:
        """Add transfers for all unmet needs that have a link. Each starts as soon as its tensor is available."""
        sent, needs = self.sent, self.needs
        met = np.zeros(len(needs.need) + 1, dtype=bool)  # the last entry serves transfers that meet no need
        met[sent.need[(sent.reader < 0) | (np.append(needs.reader, -1)[sent.need] >= 0)]] = True
        more = needs.at(np.flatnonzero(~met[:-1] & ~np.isnan(needs.seconds)))
        both: Any = map(np.concatenate, zip(sent, more, strict=True))
        self.sent = Moves(*both)

    def _made_timeline(self, reads: Reads, *, ports: bool, inputs: int) -> Timeline:
        """Put runs and transfers in columns: first the runs, then the sending ends, then the receiving ends."""
        graph, cluster, runs, sent = self.problem.graph, self.problem.cluster, self.runs, self.sent
        devices, count, moved = len(cluster.devices), len(runs.operator), len(sent.tensor)
        known = Names.of(graph)
        rank = np.empty(len(graph.operators), dtype=np.int64)
        rank[graph.listed_order] = 2 * np.arange(len(graph.operators))  # odd: transfers
        made = sent.maker >= 0
        behind = np.zeros(moved, dtype=np.int64)
        behind[made] = rank[runs.operator[sent.maker[made]]] + 1
        sending, receiving = count + np.arange(moved), count + moved + np.arange(moved)
        none, size = np.full(count, -1, dtype=np.int64), graph.arrays.tensor_bytes[sent.tensor]
        causes, brought = self._causes(known, reads)
        activities = Activities.of(
            count + 2 * moved,
            kind=np.repeat([ActivityKind.RUN, ActivityKind.SEND, ActivityKind.RECEIVE], [count, moved, moved]),
            resource=np.concatenate([runs.device, devices + sent.source, 2 * devices + sent.target]),
            start=np.concatenate([runs.start, sent.start, sent.start]),
            end=np.concatenate([runs.end, sent.end, sent.end]),
            what=np.concatenate([runs.operator, *[known.tensor(sent.tensor)] * 2]),
            rank=np.concatenate([rank[runs.operator], behind, behind]),
            twin=np.concatenate([none, receiving, sending]),
            reader=np.concatenate([none, sent.reader, sent.reader]),
            bytes=np.concatenate([np.zeros(count, dtype=np.int64), size, size]),
            count=np.concatenate([runs.inputs, sent.inputs, sent.inputs]),
            causes=causes,
            brought=brought,
        )
        resources = devices_and_ports(cluster, ("send_port", "receive_port"), exclusive=ports)
        lives = held(graph, runs.operator, runs.device, runs.inputs, self.problem.memory).lifetimes()
        return Timeline("seconds", resources, known, activities, lives, inputs=inputs)

    def _causes(self, known: Names, reads: Reads) -> tuple[Adjacency, IntArray]:
        """A run waits for the makers and the transfers of its inputs; a transfer waits for the maker of its tensor."""
        runs, sent = self.runs, self.sent
        count, moved = len(runs.operator), len(sent.tensor)
        made, met, crossing = (np.flatnonzero(each >= 0) for each in (sent.maker, sent.need, reads.need))
        lists = Adjacency.from_pairs(len(self.needs.need), sent.need[met], met)
        entry, row = lists.entries(reads.need[crossing])
        entry = crossing[entry]
        serves = (sent.reader[row] < 0) | (sent.reader[row] == runs.operator[reads.reader[entry]])
        entry, row = entry[serves], row[serves]
        effects = [reads.reader, reads.reader[entry], count + made, count + moved + made]
        causes = [reads.maker, count + moved + row, sent.maker[made], sent.maker[made]]
        brought = [reads.tensor, reads.tensor[entry], sent.tensor[made], sent.tensor[made]]
        return joined(
            np.concatenate(effects), np.concatenate(causes), known.tensor(np.concatenate(brought)), count + 2 * moved
        )

    def route(self, moved: Moves, row: int) -> str:
        """Name a transfer in a sentence."""
        graph, reader = self.problem.graph, int(moved.reader[row])
        whose = "" if reader < 0 else f" for {graph.operators[reader].id!r}"
        ends = (self.problem.cluster.devices[int(column[row])].name for column in (moved.source, moved.target))
        source, target = ends
        return f"tensor {graph.tensors[int(moved.tensor[row])].id!r} from {source!r} to {target!r}{whose}"

    def violations(self) -> Iterator[Violation]:
        """Needs that no link can carry, listed transfers that meet no need or stand twice, wrong times, full memory."""
        for row in np.flatnonzero(np.isnan(self.needs.seconds)).tolist():
            yield broken("no_link", f"no link or chain of links can carry {self.route(self.needs, row)}")
        key = codes(self.problem.graph, self.problem.cluster, self.sent)[: self.listed]
        _, first, times = np.unique(key, return_index=True, return_counts=True)
        for row, repeated in sorted(zip(first.tolist(), times.tolist(), strict=True)):
            what = self.route(self.sent, row)
            if self.sent.need[row] < 0:
                yield broken("transfer", f"no reader needs {what}")
            elif repeated > 1:
                yield broken("transfer", f"the schedule sends {what} {repeated} times")
        timeline, tolerance = self.timeline, TIME_TOLERANCE * self.timeline.end
        unknown = np.full(len(self.runs.operator), np.nan)
        lasts = np.concatenate([unknown, self.sent.seconds, self.sent.seconds])
        yield from lasts_as_long(timeline, lasts, tolerance)
        yield from causes_first(timeline, tolerance)
        yield from one_at_a_time(timeline, tolerance)
        yield from self.overfull()


def wrong_names(graph: OpGraph, cluster: Cluster, transfers: Iterable[Any]) -> Iterator[Violation]:
    """Tensors, readers and devices of listed transfers that do not exist."""
    for sent in transfers:
        what = sent.tensor
        if what not in graph.tensor_index:
            yield broken("unknown", f"a transfer sends {what!r}, which the graph does not have")
        if sent.consumer is not None and sent.consumer not in graph.operator_index:
            yield broken("unknown", f"{what!r} is sent for {sent.consumer!r}, which is not an operator")
        for device in dict.fromkeys((sent.source, sent.target)):
            if device not in cluster.device_index:
                message = f"a transfer of {what!r} names device {device!r}, which the cluster does not have"
                yield broken("unknown", message)

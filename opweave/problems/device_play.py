"""The parts of playing a plan that placement and batched mapping share: runs on devices and transfers between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.cluster import Cluster
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.on_cluster import OnCluster, held
from opweave.problems.rules import causes_first, lasts_as_long, one_at_a_time, over_memory
from opweave.problems.solution import TIME_TOLERANCE, Details, Violation, broken
from opweave.problems.spec import FrozenDict, Name, Seconds
from opweave.problems.timeline import Activities, ActivityKind, Lifetimes, Names, Timeline, devices_and_ports, joined


class DeviceDetails(Details):
    """What a schedule takes; :attr:`Evaluation.timeline` says how it uses every device.

    Attributes
    ----------
    makespan
        Latest end of all runs, in seconds; 0 for a graph without operators.
    memory_bytes, memory_limits
        Bytes that every device holds, and the most that it may hold (side constraints included; None for no limit).
    """

    makespan: Seconds
    memory_bytes: FrozenDict[Name, int]
    memory_limits: FrozenDict[Name, int | None]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Operators on devices, by position. Each array has shape (runs,).

    Attributes
    ----------
    operator, device
        Each run's operator and device.
    start, end
        Seconds.
    count
        Number of inputs that run together.
    """

    operator: IntArray
    device: IntArray
    start: FloatArray
    end: FloatArray
    count: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Needs:
    """Transfers that a plan makes necessary. Each array has shape (needs,).

    Attributes
    ----------
    tensor
        Position in the graph.
    reader
        The operator that needs the tensor; -1 if one transfer serves all readers on the target.
    source, target
        Devices.
    maker
        The run that makes the tensor.
    bytes, count
        Size for one input, and number of inputs.
    linked
        Whether a link or a chain of links leads from source to target.
    seconds
        Duration of the transfer; NaN without a link.
    """

    tensor: IntArray
    reader: IntArray
    source: IntArray
    target: IntArray
    maker: IntArray
    bytes: IntArray
    count: IntArray
    linked: BoolArray
    seconds: FloatArray

    def __len__(self) -> int:
        return len(self.tensor)

    def at(self, rows: IntArray) -> Needs:
        """Some of them."""
        return Needs(*(getattr(self, name)[rows] for name in Needs.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """Transfers that happen. Each array has shape (transfers,).

    Attributes
    ----------
    tensor, reader, source, target, start, end
        As stated in the plan, by position; ``reader`` is -1 if the plan names none.
    need
        The need that the transfer meets; -1 for none.
    maker
        The run that makes the tensor; -1 for graph inputs.
    count
        Number of inputs.
    """

    tensor: IntArray
    reader: IntArray
    source: IntArray
    target: IntArray
    start: FloatArray
    end: FloatArray
    need: IntArray
    maker: IntArray
    count: IntArray

    def __len__(self) -> int:
        return len(self.tensor)


@dataclass(frozen=True, slots=True, eq=False)
class Reads:
    """Run ``reader`` reads ``tensor``, which run ``maker`` has made. Each array has shape (reads,).

    ``need`` is the transfer between the two runs; -1 when both are on one device.
    """

    reader: IntArray
    tensor: IntArray
    maker: IntArray
    need: IntArray


def codes(graph: OpGraph, cluster: Cluster, moved: Needs | Sent, reader: IntArray | None = None) -> IntArray:
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


def transfer_times(cluster: Cluster, source: IntArray, target: IntArray, size: FloatArray) -> FloatArray:
    """Latency + bytes / bandwidth; NaN where no link leads from source to target."""
    rate = cluster.effective_bandwidth[source, target]
    linked = rate > 0.0
    seconds = cluster.effective_latency[source, target] + size / np.where(linked, rate, 1.0)
    return np.where(linked, seconds, np.nan)


def play(
    problem: OnCluster,
    runs: Runs,
    run_of: IntArray,
    transfers: Sequence[Any],
    *,
    ports: bool = False,
    for_all: bool = False,
    per_input: bool = False,
) -> Played:
    """Carry out runs, and transfers at the times of a plan.

    If transfers use no ports, one that is not listed starts as soon as its tensor is available.

    Parameters
    ----------
    run_of
        The run of every operator and input. Shape (operators, inputs).
    ports, for_all, per_input
        Whether a device sends and receives only one thing at a time, whether one transfer serves all readers on a
        device, and whether a transfer takes as long as that of one input.
    """
    graph, cluster = problem.graph, problem.cluster
    reads, needs, taker = _needs(problem, runs, run_of, for_all=for_all, per_input=per_input)
    sent = _listed(graph, cluster, transfers)
    known = codes(graph, cluster, needs)
    need = positions_in(known, codes(graph, cluster, sent))
    if for_all and not ports and len(needs):  # such transfers may be listed for one reader, too
        served = codes(graph, cluster, sent, np.full_like(sent.reader, -1))
        width, whose = len(graph.operators) + 1, runs.operator[reads.reader]
        read = positions_in(reads.tensor * width + whose, sent.tensor * width + sent.reader) >= 0
        there = np.append(runs.device, -1)[run_of[sent.reader, 0]] == sent.target
        need = np.where((need < 0) & (sent.reader >= 0) & read & there, positions_in(known, served), need)
    sent = replace(sent, need=need, maker=np.where(need >= 0, np.append(needs.maker, -1)[need], -1))
    count = len(sent)
    if not ports:
        sent = _with_unlisted(sent, runs, needs)
    lives = held(graph, runs.operator, runs.device, runs.count, problem.memory).lifetimes()
    timeline = device_timeline(graph, cluster, runs, sent, reads, lives, ports=ports, inputs=run_of.shape[1])
    return Played(graph, cluster, timeline, runs, needs, taker, sent, count)


def _needs(
    problem: OnCluster, runs: Runs, run_of: IntArray, *, for_all: bool, per_input: bool
) -> tuple[Reads, Needs, IntArray]:
    """Follow every input along every tensor; also the run that waits for every need."""
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
    size, sizes = arrays.tensor_bytes[moved], count[crossing]
    seconds = transfer_times(
        cluster, runs.device[maker], runs.device[taker], size.astype(np.float64) * (1 if per_input else sizes)
    )
    needs = Needs(
        tensor=moved,
        reader=np.full(len(moved), -1) if for_all else runs.operator[taker],
        source=runs.device[maker],
        target=runs.device[taker],
        maker=maker,
        bytes=size,
        count=sizes,
        linked=~np.isnan(seconds),
        seconds=seconds,
    )
    _, first, group = np.unique(codes(graph, cluster, needs), return_index=True, return_inverse=True)
    order = np.argsort(first)
    need = np.full(len(read), -1, dtype=np.int64)
    need[crossing] = np.argsort(order)[group]
    return Reads(read, tensor[entry], made, need), needs.at(first[order]), taker[first[order]]


def _listed(graph: OpGraph, cluster: Cluster, transfers: Sequence[Any]) -> Sent:
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
    times = np.asarray([(sent.start, sent.end) for sent in transfers], dtype=np.float64).reshape(-1, 2).T
    tensor, reader, source, target, count = np.asarray(rows, dtype=np.int64).reshape(-1, 5).T
    return Sent(tensor, reader, source, target, times[0], times[1], none, none, count)


def _with_unlisted(sent: Sent, runs: Runs, needs: Needs) -> Sent:
    """Further transfers for all unmet needs that have a link. Each starts as soon as its tensor is available."""
    met = np.zeros(len(needs) + 1, dtype=bool)  # the last entry serves transfers that meet no need
    met[sent.need[(sent.reader < 0) | (np.append(needs.reader, -1)[sent.need] >= 0)]] = True
    rows = np.flatnonzero(~met[:-1] & needs.linked)
    made = runs.end[needs.maker[rows]]
    more = Sent(
        tensor=needs.tensor[rows],
        reader=needs.reader[rows],
        source=needs.source[rows],
        target=needs.target[rows],
        start=made,
        end=made + needs.seconds[rows],
        need=rows,
        maker=needs.maker[rows],
        count=needs.count[rows],
    )
    return Sent(*(np.concatenate([getattr(sent, name), getattr(more, name)]) for name in Sent.__slots__))


def device_timeline(
    graph: OpGraph,
    cluster: Cluster,
    runs: Runs,
    sent: Sent,
    reads: Reads,
    lifetimes: Lifetimes,
    *,
    ports: bool,
    inputs: int = 1,
) -> Timeline:
    """Put runs and transfers in columns: first the runs, then the sending ends, then the receiving ends.

    ``ports`` says whether a device sends only one thing at a time, and receives only one thing at a time; ``inputs``
    is the number of inputs that run together.
    """
    devices, count, moved = len(cluster.devices), len(runs.operator), len(sent)
    resources = devices_and_ports(cluster, ("send_port", "receive_port"), exclusive=ports)
    known = Names.of(graph)
    rank = np.empty(len(graph.operators), dtype=np.int64)
    rank[graph.listed_order] = 2 * np.arange(len(graph.operators))  # odd: transfers
    made = sent.maker >= 0
    behind = np.zeros(moved, dtype=np.int64)
    behind[made] = rank[runs.operator[sent.maker[made]]] + 1
    sending, receiving = count + np.arange(moved), count + moved + np.arange(moved)
    none = np.full(count, -1, dtype=np.int64)
    size = graph.arrays.tensor_bytes[sent.tensor]
    causes, brought = _causes(known, runs, sent, reads)
    activities = Activities(
        kind=np.repeat([ActivityKind.RUN, ActivityKind.SEND, ActivityKind.RECEIVE], [count, moved, moved]),
        resource=np.concatenate([runs.device, devices + sent.source, 2 * devices + sent.target]),
        start=np.concatenate([runs.start, sent.start, sent.start]),
        end=np.concatenate([runs.end, sent.end, sent.end]),
        what=np.concatenate([runs.operator, *[known.tensor(sent.tensor)] * 2]),
        rank=np.concatenate([rank[runs.operator], behind, behind]),
        twin=np.concatenate([none, receiving, sending]),
        reader=np.concatenate([none, sent.reader, sent.reader]),
        bytes=np.concatenate([np.zeros(count, dtype=np.int64), size, size]),
        count=np.concatenate([runs.count, sent.count, sent.count]),
        round=np.zeros(count + 2 * moved, dtype=np.int64),
        causes=causes,
        brought=brought,
    )
    return Timeline("seconds", resources, known, activities, lifetimes, inputs=inputs)


def _causes(known: Names, runs: Runs, sent: Sent, reads: Reads) -> tuple[Adjacency, IntArray]:
    """A run waits for the makers and the transfers of its inputs; a transfer waits for the maker of its tensor."""
    count, moved = len(runs.operator), len(sent)
    made, met, crossing = (np.flatnonzero(each >= 0) for each in (sent.maker, sent.need, reads.need))
    needs = 1 + max(int(np.max(each, initial=-1)) for each in (sent.need, reads.need))
    entry, row = Adjacency.from_pairs(needs, sent.need[met], met).entries(reads.need[crossing])
    entry = crossing[entry]
    serves = (sent.reader[row] < 0) | (sent.reader[row] == runs.operator[reads.reader[entry]])
    entry, row = entry[serves], row[serves]
    effects = [reads.reader, reads.reader[entry], count + made, count + moved + made]
    causes = [reads.maker, count + moved + row, sent.maker[made], sent.maker[made]]
    brought = [reads.tensor, reads.tensor[entry], sent.tensor[made], sent.tensor[made]]
    return joined(
        np.concatenate(effects), np.concatenate(causes), known.tensor(np.concatenate(brought)), count + 2 * moved
    )


def wrong_names(graph: OpGraph, cluster: Cluster, transfers: Iterable[Any]) -> Iterator[Violation]:
    """Tensors, readers and devices of listed transfers that do not exist."""
    for sent in transfers:
        what = sent.tensor
        if what not in graph.tensor_index:
            yield broken("unknown", f"a transfer sends {what!r}, which the graph does not have")
        if sent.consumer is not None and sent.consumer not in graph.operator_index:
            yield broken("unknown", f"{what!r} is sent for {sent.consumer!r}, which is no operator")
        for device in dict.fromkeys((sent.source, sent.target)):
            if device not in cluster.device_index:
                message = f"a transfer of {what!r} names device {device!r}, which the cluster does not have"
                yield broken("unknown", message)


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What a schedule does: the timeline, and the transfers that it makes necessary.

    ``sent`` begins with the ``listed`` transfers; ``taker`` has the run that waits for every need.
    """

    graph: OpGraph
    cluster: Cluster
    timeline: Timeline
    runs: Runs
    needs: Needs
    taker: IntArray
    sent: Sent
    listed: int

    def route(self, moved: Needs | Sent, row: int) -> str:
        """Name a transfer in a sentence."""
        reader = int(moved.reader[row])
        whose = "" if reader < 0 else f" for {self.graph.operators[reader].id!r}"
        source, target = (self.cluster.devices[int(column[row])].name for column in (moved.source, moved.target))
        return f"tensor {self.graph.tensors[int(moved.tensor[row])].id!r} from {source!r} to {target!r}{whose}"

    def without_link(self) -> Iterator[Violation]:
        """Needs between devices that no link or chain of links connects."""
        for row in np.flatnonzero(~self.needs.linked).tolist():
            yield broken("no_link", f"no link or chain of links can carry {self.route(self.needs, row)}")

    def needless(self) -> Iterator[Violation]:
        """Listed transfers that meet no need or are listed more than once."""
        key = codes(self.graph, self.cluster, self.sent)[: self.listed]
        _, first, times = np.unique(key, return_index=True, return_counts=True)
        for row, repeated in sorted(zip(first.tolist(), times.tolist(), strict=True)):
            what = self.route(self.sent, row)
            if self.sent.need[row] < 0:
                yield broken("transfer", f"no reader needs {what}")
            elif repeated > 1:
                yield broken("transfer", f"the schedule sends {what} {repeated} times")

    def in_time(self) -> Iterator[Violation]:
        """What lasts longer or shorter than it must, starts before its causes have ended, or meets others."""
        timeline, tolerance = self.timeline, TIME_TOLERANCE * self.timeline.end
        lasts = np.full(len(timeline.activities), np.nan)
        met = np.flatnonzero(self.sent.need[: self.listed] >= 0)
        lasts[len(self.runs.operator) + met] = self.needs.seconds[self.sent.need[met]]
        yield from lasts_as_long(timeline, lasts, tolerance)
        yield from causes_first(timeline, tolerance)
        yield from one_at_a_time(timeline, tolerance)


def overfull(cluster: Cluster, used: Mapping[str, int]) -> Iterator[Violation]:
    """Devices that hold more bytes than their memory."""
    for device in cluster.devices:
        yield from over_memory(device.name, used[device.name], device.memory_bytes)

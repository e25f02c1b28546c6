"""The backbone of a problem: what is left without tensors that distant parts read, so that cut vertices appear.

A mask, the tables of rotary positions, or the output of an encoder are read by all layers. Their flows bypass every
operator, so a graph with such tensors has no cut vertex, although its layers form a chain. The backbone leaves out

* flows to readers far behind the tensor's first reader, if there are several,
* operators without a path to the end of the critical path,
* operators that begin late although nothing of the backbone leads to them, such as constants of one layer.

Proof that bounds of the backbone are bounds of the problem: take any plan and remove these operators and transfers.
What is left is a plan of the backbone, as long as the first at most, and no device holds more.

Plans of the backbone become plans of the whole by :func:`whole_plan`, and are timed with every flow.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.placement.arrays import PlacementArrays, reversed_net, with_arcs
from opweave.solvers.placement.bounds.critical_path import operator_order
from opweave.solvers.placement.bounds.windows import cut_vertices, cut_window

SHARES = (2, 4, 8, 16, 32, 64)
"""A flow is long when it passes the tensor's first reader by this fraction of all operators; all are tried in turn."""

MANY = 3
"""Least number of long flows of a tensor that are left out; the flow past a layer is one, and it matters."""

LEAST_LONG = 12
"""Least number of operators that a long flow passes."""

MOST_LOST = 0.1
"""Largest share of the work that may be left out."""

MOST_STRAY = 0.35
"""Largest share of the work that may be left out where all tensors stay and only bounds are wanted."""

LEAST_STRAY, MOST_SENT = 0.1, 0.1
"""Least share of the operators outside the core for which plans begin with the core, and most seconds that sending what
they read and write may take, as a share of their work."""

MOST_RESERVED = 0.1
"""Largest share of a device's memory that is kept free for operators outside the backbone."""

SMALL_SPREAD, SMALL_SHARE = 20.0, 0.02
"""Mean number of operators in an operator's module, alone and as a share of all, at which a problem splits well."""

FAR_SMALLER = 0.5
"""Largest ratio of the backbone's spread to that of the problem for which it is worth a search of its own."""

BETTER = 0.9
"""Largest ratio of spreads for which shorter flows are left out as well."""


@dataclass(frozen=True, slots=True, eq=False)
class Backbone:
    """Part of a problem: its instance and arrays, and the operators' positions in the whole problem."""

    instance: PlacementInstance
    arrays: PlacementArrays
    operators: IntArray

    def room(self, whole: PlacementInstance) -> IntArray:
        """Bytes that the backbone may take on every device, so that all other operators fit on any device too.

        A device that they would fill by more than :data:`MOST_RESERVED` keeps all its bytes.
        """
        outside = np.ones(whole.operators, dtype=bool)
        outside[self.operators] = False
        users = whole.parameters.heads()
        held = np.setdiff1d(whole.parameters.items[outside[users]], self.instance.parameters.items)
        taken = int(whole.memory[outside].sum()) + int(whole.parameter_bytes[held].sum())
        reserved = (whole.capacity != NO_LIMIT) & (taken <= MOST_RESERVED * whole.capacity)
        return np.where(reserved, whole.capacity - taken, whole.capacity)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Operators and flows that are kept, and the spread of the modules between their cut vertices."""

    operators: BoolArray
    flows: BoolArray
    spread: float


def backbone_of(instance: PlacementInstance, arrays: PlacementArrays) -> Backbone | None:
    """The backbone with the smallest modules; None when the problem itself splits about as well."""
    count = len(arrays.seconds)
    if count < 2 * LEAST_LONG:
        return None
    every, all_flows = np.ones(count, dtype=bool), np.ones(len(arrays.source), dtype=bool)
    best = whole = _Part(every, all_flows, _spread(arrays, every))
    if whole.spread <= max(SMALL_SPREAD, SMALL_SHARE * count):
        return None
    late = operator_order(reversed_net(arrays))[::-1]
    position = np.empty(count, dtype=np.int64)
    position[late] = np.arange(count)
    for share in SHARES:
        most = max(LEAST_LONG, count // share)
        part = _part(arrays, position, most)
        if part is not None and part.spread < BETTER * best.spread:
            best = part
        if most == LEAST_LONG:
            break
    if best.spread > FAR_SMALLER * whole.spread:
        return None
    return _cut_out(instance, arrays, best.operators, best.flows)


def core_of(arrays: PlacementArrays) -> PlacementArrays:
    """What lies between the first and the last operator of the longest path, if it splits far better than the whole.

    Exported networks hold operators without inputs (constants, tables, gates that are made of parameters) and without
    readers. A few of them hide all cut vertices. As with the backbone, bounds of the core are bounds of the whole.
    """
    every, work, kept = np.ones(len(arrays.seconds), dtype=bool), arrays.seconds.min(axis=1), _in_core(arrays)
    lost = float(work[~kept].sum()) > MOST_STRAY * float(work.sum())
    if kept.all() or lost or _spread(arrays, kept) > FAR_SMALLER * _spread(arrays, every):
        return arrays
    order = operator_order(arrays)
    return cut_window(arrays, order[kept[order]], None, None).arrays


def core_network(instance: PlacementInstance, arrays: PlacementArrays) -> Backbone | None:
    """The core as a network of its own, if many operators lie outside, with little work and little to send.

    They fill the times in which devices wait, so plans of the core become plans of the whole that are hardly longer
    (:mod:`~opweave.solvers.placement.idle`).
    """
    kept, work = _in_core(arrays), arrays.seconds.min(axis=1)
    flows = kept[arrays.source] & kept[arrays.target]
    outside, links = float(work[~kept].sum()), arrays.latency[np.isfinite(arrays.latency)].max(initial=0.0)
    slowest = arrays.per_byte[np.isfinite(arrays.per_byte)].max(initial=0.0)
    sent = float((links + slowest * arrays.size[~flows]).sum())
    few = kept.mean() > 1.0 - LEAST_STRAY
    if few or outside > MOST_STRAY * float(work.sum()) or sent > MOST_SENT * outside:
        return None
    return _cut_out(instance, arrays, kept, flows)


def _in_core(arrays: PlacementArrays) -> BoolArray:
    """Whether every operator lies between the first and the last one of the longest path."""
    path = _longest_path(arrays, arrays.seconds.min(axis=1))
    after = _reached(Adjacency(arrays.after_start, arrays.after), path[0])
    return after & _reached(Adjacency(arrays.before_start, arrays.before), path[-1])


def _spread(arrays: PlacementArrays, kept: BoolArray) -> float:
    """Mean number of operators in an operator's module, of the operators that are kept; others have no arcs."""
    order = operator_order(arrays)
    order = order[kept[order]]
    number = np.cumsum(kept) - 1
    part = _arcs_of(arrays, kept, number)
    cuts = cut_vertices(part, number[order])
    place = np.empty(len(order), dtype=np.int64)
    place[number[order]] = np.arange(len(order))
    ends = np.concatenate([[-1], place[cuts], [len(order)]])
    return float((np.diff(ends).astype(np.float64) ** 2).sum() / max(1, len(order)))


def _arcs_of(arrays: PlacementArrays, kept: BoolArray, number: IntArray) -> PlacementArrays:
    """The arcs among the operators that are kept, with their new numbers."""
    heads = np.repeat(np.arange(len(kept)), np.diff(arrays.before_start))
    inside = kept[heads] & kept[arrays.before]
    pairs = (number[heads[inside]], number[arrays.before[inside]])
    return with_arcs(arrays, Adjacency.from_pairs(int(kept.sum()), *pairs))


def _part(arrays: PlacementArrays, position: IntArray, most: int) -> _Part | None:
    """The part without long flows, which pass a tensor's first reader by more than ``most``; None if it lost much."""
    nearest = np.full(arrays.tensors, np.iinfo(np.int64).max)
    np.minimum.at(nearest, arrays.tensor, position[arrays.target])
    far = position[arrays.target] - nearest[arrays.tensor] > most
    flows = ~(far & (np.bincount(arrays.tensor[far], minlength=arrays.tensors) >= MANY)[arrays.tensor])
    part = _without(arrays, flows)
    work = arrays.seconds.min(axis=1)
    path = _longest_path(part, work)
    ahead = _reached(Adjacency(part.after_start, part.after), path[0])
    kept = ahead | (position <= position[path[0]] + most)
    kept = _reaching(part, kept, path[-1])
    if work[~kept].sum() > MOST_LOST * work.sum():
        return None
    flows &= kept[arrays.source] & kept[arrays.target]
    return _Part(kept, flows, _spread(part, kept))


def _without(arrays: PlacementArrays, flows: BoolArray) -> PlacementArrays:
    """The arcs without those on which every flow is left out."""
    count = len(arrays.seconds)
    heads = np.repeat(np.arange(count), np.diff(arrays.before_start))
    arcs = heads * count + arrays.before
    pairs = arrays.target * count + arrays.source
    kept = np.isin(arcs, pairs[flows]) | ~np.isin(arcs, pairs)
    return with_arcs(arrays, Adjacency.from_pairs(count, heads[kept], arrays.before[kept]))


def _longest_path(arrays: PlacementArrays, work: FloatArray) -> list[int]:
    """A path with the most work."""
    before = Adjacency(arrays.before_start, arrays.before)
    ends, previous = work.copy(), np.full(len(work), -1, dtype=np.int64)
    for v in operator_order(arrays).tolist():
        row = before[v]
        if len(row):
            previous[v] = row[np.argmax(ends[row])]
            ends[v] += ends[previous[v]]
    path = [int(np.argmax(ends))]
    while previous[path[-1]] >= 0:
        path.append(int(previous[path[-1]]))
    return path[::-1]


def _reached(next_: Adjacency, first: int) -> BoolArray:
    """Operators that are reached from one, itself included."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order

    count = len(next_)
    arcs = csr_matrix((np.ones(len(next_.items)), next_.items, next_.start), shape=(count, count))
    reached = np.zeros(count, dtype=bool)
    reached[breadth_first_order(arcs, first, return_predecessors=False)] = True
    return reached


def _reaching(arrays: PlacementArrays, kept: BoolArray, last: int) -> BoolArray:
    """Operators among those kept from which arcs between kept operators lead to ``last``, itself included.

    A path through an operator that is left out does not count: what lies before it would become a second end of the
    network, and then no operator is a cut vertex.
    """
    inside = kept & _reached(Adjacency(arrays.before_start, arrays.before), last)
    numbers = np.flatnonzero(inside)
    arcs = _arcs_of(arrays, inside, np.cumsum(inside) - 1)
    found = np.zeros(len(kept), dtype=bool)
    place = int(np.searchsorted(numbers, last))
    found[numbers[_reached(Adjacency(arcs.before_start, arcs.before), place)]] = True
    return found


def _cut_out(instance: PlacementInstance, arrays: PlacementArrays, kept: BoolArray, flows_kept: BoolArray) -> Backbone:
    """The instance and arrays of a part; parameters and tensors keep their numbers."""
    operators, flows = np.flatnonzero(kept), np.flatnonzero(flows_kept)
    number = np.cumsum(kept) - 1
    small = _arcs_of(_without(arrays, flows_kept), kept, number)
    count, each = len(operators), np.arange(len(flows))
    source, target = number[arrays.source[flows]], number[arrays.target[flows]]
    incoming, outgoing = Adjacency.from_pairs(count, target, each), Adjacency.from_pairs(count, source, each)
    held = Adjacency.from_lists([instance.parameters[v].tolist() for v in operators.tolist()])
    before, after = Adjacency(small.before_start, small.before), Adjacency(small.after_start, small.after)
    cluster = np.unique(instance.cluster[operators], return_inverse=True)[1].astype(np.int64)
    reduced = replace(
        instance,
        names=tuple(instance.names[v] for v in operators.tolist()),
        seconds=np.ascontiguousarray(instance.seconds[operators]),
        source=source,
        target=target,
        tensor=instance.tensor[flows],
        size=instance.size[flows],
        incoming=incoming,
        outgoing=outgoing,
        before=before,
        after=after,
        memory=instance.memory[operators],
        parameters=held,
        cluster=cluster,
    )
    own = small._replace(
        seconds=reduced.seconds,
        source=source,
        target=target,
        tensor=reduced.tensor,
        size=reduced.size,
        in_start=incoming.start,
        incoming=incoming.items,
        out_start=outgoing.start,
        outgoing=outgoing.items,
        memory=reduced.memory,
        parameters_start=held.start,
        parameters=held.items,
    )
    return Backbone(reduced, own, operators)


def whole_plan(
    instance: PlacementInstance, arrays: PlacementArrays, backbone: Backbone, order: IntArray, device: IntArray
) -> tuple[IntArray, IntArray]:
    """Order and devices of the whole problem for those of its backbone.

    An operator outside the backbone goes to the device of its first reader, else to that of a predecessor. It runs as
    early as the arcs allow, and ties of Colocate are kept.
    """
    count = len(arrays.seconds)
    place, rank = np.full(count, -1, dtype=np.int64), np.full(count, -1.0)
    place[backbone.operators] = device
    rank[backbone.operators[order]] = np.arange(len(order))
    everything = operator_order(arrays)
    tied = {int(c): int(place[v]) for v, c in enumerate(instance.cluster.tolist()) if place[v] >= 0}
    for v in [*everything[::-1].tolist(), *everything.tolist()]:
        if place[v] >= 0:
            continue
        group = int(instance.cluster[v])
        near = [w for w in (*instance.after[v].tolist(), *instance.before[v].tolist()) if place[w] >= 0]
        if group not in tied and near:
            tied[group] = _usable(arrays, v, int(place[near[int(np.argmin(rank[near]))]]))
        place[v] = tied.get(group, -1)
    for v in np.flatnonzero(place < 0).tolist():  # not joined to the backbone at all
        place[v] = tied.setdefault(int(instance.cluster[v]), int(np.argmin(arrays.seconds[v])))
    return _by_rank(instance, rank), place


def _usable(arrays: PlacementArrays, v: int, k: int) -> int:
    """Device k if the operator can run there, else its fastest."""
    return k if np.isfinite(arrays.seconds[v, k]) else int(np.argmin(arrays.seconds[v]))


def _by_rank(instance: PlacementInstance, rank: FloatArray) -> IntArray:
    """An order by rank that respects all arcs."""
    waiting = np.diff(instance.before.start)
    ready = [(float(rank[v]), v) for v in np.flatnonzero(waiting == 0).tolist()]
    heapq.heapify(ready)
    order = []
    while ready:
        _, v = heapq.heappop(ready)
        order.append(v)
        for w in instance.after[v].tolist():
            waiting[w] -= 1
            if waiting[w] == 0:
                heapq.heappush(ready, (float(rank[w]), w))
    return np.asarray(order, dtype=np.int64)

"""Moves of annealing: a plan that they change in place, and the operators that one of them takes along.

A move shifts an operator within the positions that its neighbours in the graph allow, or changes the device of one
operator, of a stretch of the order, or of a connected group of operators on one device.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatCube, FloatMatrix, IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.loops import helper
from opweave.solvers.placement.arrays import PORT_TENSOR, PlacementArrays
from opweave.solvers.placement.plans import memory_used

DRAWS = 6
"""Random numbers drawn for each move."""

SHIFT, ALONE, CONNECTED, STRETCH = 0, 1, 2, 3
KINDS = np.array([SHIFT] * 8 + [ALONE] * 4 + [CONNECTED] * 5 + [STRETCH] * 3)
"""Kinds of moves, and how many of twenty moves are of each kind."""

SHIFTED = 0.5
"""Share of moves of one operator to another device that shift it in the order as well."""

NEAR, LONGEST_SHIFT = 0.95, 50
"""Share of shifts that go no farther than this many positions: only operators with few neighbours can go farther, and
all operators between have to be timed again."""

LARGEST_GROUP, LONGEST_STRETCH = 60, 256
"""Most operators of a group and of a stretch. Sizes are drawn evenly on a logarithmic scale."""


SOURCE, TARGET, TENSOR, SIZE = 0, 1, 2, 3
"""Columns of :attr:`Net.flows`."""


class Net(NamedTuple):
    """A problem in few arrays, which loops pass on faster than many.

    Attributes
    ----------
    seconds, flows, model
        Run times; source, target, tensor and size of every flow. Shape (operators, devices), (flows, 4).
    links
        Latency and seconds per byte. Shape (2, devices, devices).
    ins, outs, before, after
        Adjacencies: row v lies between the entries v and v + 1 of the array itself.
    """

    seconds: FloatMatrix
    links: FloatCube
    flows: IntMatrix
    ins: IntArray
    outs: IntArray
    before: IntArray
    after: IntArray
    model: int


def net_of(arrays: PlacementArrays) -> Net:
    """The arrays of annealing."""
    return Net(
        arrays.seconds,
        np.ascontiguousarray(np.stack([arrays.latency, arrays.per_byte])),
        np.ascontiguousarray(np.column_stack([arrays.source, arrays.target, arrays.tensor, arrays.size])),
        packed(arrays.in_start, arrays.incoming),
        packed(arrays.out_start, arrays.outgoing),
        packed(arrays.before_start, arrays.before),
        packed(arrays.after_start, arrays.after),
        arrays.model,
    )


def packed(start: IntArray, items: IntArray) -> IntArray:
    """An adjacency in one array: row v lies between the entries v and v + 1 of the array itself."""
    return np.concatenate([start + len(start), items])


class Room(NamedTuple):
    """Bytes in use and allowed on every device, and what operators take; a parameter counts once on each device.

    ``holders`` says how many operators on each device use each parameter, shape (parameters, devices); row v of
    ``items`` lists the parameters of operator v, as in :class:`Net`.
    """

    used: IntArray
    capacity: IntArray
    holders: IntMatrix
    memory: IntArray
    items: IntArray
    bytes: IntArray


class PlanPositions(NamedTuple):
    """The order, positions and devices of a :class:`CountedPlan`, for what needs no more."""

    order: IntArray
    position: IntArray
    device: IntArray


class CountedPlan(NamedTuple):
    """A plan that moves change in place.

    Attributes
    ----------
    order, position
        Operators in scheduling order, and the position of each. Shape (operators,).
    device
        Shape (operators,).
    cluster, members
        The cluster of every operator, and the operators of every cluster in rows: Colocate moves them together.
    """

    order: IntArray
    position: IntArray
    device: IntArray
    room: Room
    cluster: IntArray
    members: IntArray


def counted_plan(arrays: PlacementArrays, order: IntArray, device: IntArray, cluster: IntArray) -> CountedPlan:
    """A plan with its memory counted."""
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    heads = np.repeat(np.arange(len(order)), np.diff(arrays.parameters_start))
    holders = np.zeros((len(arrays.parameter_bytes), arrays.seconds.shape[1]), dtype=np.int64)
    np.add.at(holders, (arrays.parameters, device[heads]), 1)
    members = Adjacency.from_pairs(int(cluster.max(initial=-1)) + 1, cluster, np.arange(len(cluster)))
    room = Room(
        memory_used(arrays, device),
        arrays.capacity,
        holders,
        arrays.memory,
        packed(arrays.parameters_start, arrays.parameters),
        arrays.parameter_bytes,
    )
    return CountedPlan(order.copy(), position, device.copy(), room, cluster, packed(members.start, members.items))


@helper
def settle(room: Room, device: IntArray, v: int, k: int) -> None:
    """Move an operator to a device and update the memory count."""
    used, holders, items, size = room.used, room.holders, room.items, room.bytes
    a, taken = device[v], room.memory[v]
    device[v] = k
    used[a] -= taken
    used[k] += taken
    for i in range(items[v], items[v + 1]):
        p = items[i]
        holders[p, a] -= 1
        if holders[p, a] == 0:
            used[a] -= size[p]
        if holders[p, k] == 0:
            used[k] += size[p]
        holders[p, k] += 1


@helper
def slide(order: IntArray, position: IntArray, at: int, to: int) -> None:
    """Move the operator at one position of the order to another."""
    v = order[at]
    step = 1 if to > at else -1
    while at != to:
        w = order[at + step]
        order[at] = w
        position[w] = at
        at += step
    order[to] = v
    position[v] = to


@helper
def shifted(net: Net, position: IntArray, v: int, draw: float, longest: int) -> int:
    """A position for an operator that its neighbours allow, at most ``longest`` positions away."""
    before, after = net.before, net.after
    low, high = max(0, position[v] - longest), min(len(position) - 1, position[v] + longest)
    for i in range(before[v], before[v + 1]):
        low = max(low, position[before[i]] + 1)
    for i in range(after[v], after[v + 1]):
        high = min(high, position[after[i]] - 1)
    return int(low + int(draw * (high - low + 1)))


@helper
def last_touched(net: Net, places: PlanPositions, v: int, a: int, k: int) -> int:
    """The last position at which anything is sent otherwise when v moves from device a to k."""
    position, device, flows, ins, outs, after = places.position, places.device, net.flows, net.ins, net.outs, net.after
    last = position[v]
    for i in range(after[v], after[v + 1]):
        last = max(last, position[after[i]])
    for i in range(ins[v], ins[v + 1] if net.model == PORT_TENSOR else 0):
        f = ins[i]
        u = flows[f, SOURCE]
        for j in range(outs[u], outs[u + 1]):
            w = flows[outs[j], TARGET]
            if flows[outs[j], TENSOR] == flows[f, TENSOR] and (device[w] == a or device[w] == k):
                last = max(last, position[w])
    return int(last)


@helper
def gather(
    net: Net,
    plan: CountedPlan,
    v: int,
    kind: int,
    draw: float,
    group: IntArray,
    taken: IntArray,
    mark: int,
) -> int:
    """Write the operators that a move takes along to ``group``, each once, with those that Colocate ties to them.

    Returns their number. ``taken`` holds ``mark`` for each of them.
    """
    order, device = plan.order, plan.device
    cluster, members, before, after = plan.cluster, plan.members, net.before, net.after
    count, size, a, done, first = len(order), 1, device[v], 0, plan.position[v]
    group[0], taken[v] = v, mark
    if kind == STRETCH:
        last = min(count, first + 1 + int(np.exp(draw * np.log(min(count, LONGEST_STRETCH)))))
        for i in range(first + 1, last):
            group[size], taken[order[i]] = order[i], mark
            size += 1
    most = 1 + int(np.exp(draw * np.log(min(count, LARGEST_GROUP)))) if kind == CONNECTED else 0
    while done < size < most:
        u = group[done]
        done += 1
        early = before[u + 1] - before[u]
        for i in range(early + after[u + 1] - after[u]):
            w = before[before[u] + i] if i < early else after[after[u] + i - early]
            if size < most and taken[w] != mark and device[w] == a:
                group[size], taken[w] = w, mark
                size += 1
    for i in range(size):
        c = cluster[group[i]]
        for j in range(members[c], members[c + 1]):
            w = members[j]
            if taken[w] != mark:
                group[size], taken[w] = w, mark
                size += 1
    return size


@helper
def make_room(
    net: Net,
    plan: CountedPlan,
    at: int,
    k: int,
    group: IntArray,
    old: IntArray,
    size: int,
    taken: IntArray,
    mark: int,
) -> int:
    """Exchange operators: those nearest in the order leave a device that a move has overfilled, until the rest fits.

    They go where the first operator that moved comes from. ``taken`` holds ``mark`` for the operators that moved.
    Returns how many operators moved now.
    """
    order, device, cluster, members, room = plan.order, plan.device, plan.cluster, plan.members, plan.room
    a = k
    for i in range(size):
        if a == k:
            a = old[i]
    for i in range(2, 2 * LONGEST_STRETCH):
        p = at + i // 2 if i % 2 == 0 else at - i // 2
        if p < 0 or p >= len(order) or room.used[k] <= room.capacity[k]:
            continue
        w = order[p]
        alone = members[cluster[w] + 1] - members[cluster[w]] == 1
        if device[w] == k and taken[w] != mark and alone and net.seconds[w, a] < np.inf:
            taken[w] = mark
            group[size], old[size] = w, k
            size += 1
            settle(room, device, w, a)
    return size


@helper
def make_move(
    net: Net,
    plan: CountedPlan,
    v: int,
    draws: FloatMatrix,
    row: int,
    group: IntArray,
    old: IntArray,
    taken: IntArray,
) -> tuple[int, int, int, int]:
    """Make a move that begins with operator v.

    Returns the first and the last position that it concerns (the number of operators and -1 if it changes nothing), the
    position of v before, and how many operators it takes along. These are written to ``group``, their devices before to
    ``old``.
    """
    order, position, device, room, seconds = plan.order, plan.position, plan.device, plan.room, net.seconds
    count, at, draw, longest = len(order), position[v], draws[row, 3], LONGEST_SHIFT
    kind = KINDS[int(draws[row, 1] * len(KINDS))] if seconds.shape[1] > 1 else SHIFT
    first, last, size, shifts = count, -1, 0, kind == SHIFT
    if shifts:
        longest = LONGEST_SHIFT if draws[row, 5] < NEAR else count
    else:
        k = int(draws[row, 2] * seconds.shape[1])  # a random device, or that of a direct predecessor or successor
        early = net.before[v + 1] - net.before[v]
        beside = early + net.after[v + 1] - net.after[v]
        if draws[row, 5] < 0.5 and beside > 0:
            pick = int(draws[row, 2] * beside)
            k = device[net.before[net.before[v] + pick] if pick < early else net.after[net.after[v] + pick - early]]
        if kind != STRETCH and device[v] == k:
            return count, -1, at, 0
        size = gather(net, plan, v, kind, draw, group, taken, row)
        for i in range(size):
            if seconds[group[i], k] == np.inf:
                return count, -1, at, 0
            if device[group[i]] != k:
                first = min(first, position[group[i]])
        if first == count:
            return count, -1, at, 0
        for i in range(size):
            old[i] = device[group[i]]
            if old[i] != k:
                settle(room, device, group[i], k)
        if room.used[k] > room.capacity[k]:
            size = make_room(net, plan, at, k, group, old, size, taken, row)
        shifts, draw, last = kind == ALONE and draw < SHIFTED, draw / SHIFTED, first
    if shifts:
        to = shifted(net, position, v, draw, longest)
        if to != at:
            slide(order, position, at, to)
            first, last = min(first, at, to), max(last, at, to)
    places = PlanPositions(order, position, device)
    for i in range(size):
        w = group[i]
        if old[i] != device[w]:
            first = min(first, position[w])
            last = max(last, last_touched(net, places, w, old[i], device[w]))
    return first, last, at, size


@helper
def take_back(plan: CountedPlan, v: int, at: int, group: IntArray, old: IntArray, size: int) -> None:
    """Undo what :func:`make_move` did."""
    order, position, device, room = plan.order, plan.position, plan.device, plan.room
    slide(order, position, position[v], at)
    for i in range(size):
        if old[i] != device[group[i]]:
            settle(room, device, group[i], old[i])

"""The emptiest state between two others: a minimum closure, by one maximum flow.

Live bytes f are a submodular function of the set D of executed operators. Each storage contributes one term
size * [producer in D] * [kept, or a reader outside D]. Its minimum over all down-sets between two fixed ones is a
minimum cut (Dinic's algorithm, https://doi.org/10.1007/11685654_10) on the operators that are still free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opweave.problems.arrays import IntArray, IntMatrix
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_ordering.arrays import OrderingArrays

INSIDE = 1
FREE = 0
OUTSIDE = -1

SideArray = NDArray[np.int8]
"""Per operator: INSIDE, FREE or OUTSIDE."""

UNBOUNDED = 1 << 60
SOURCE = 0
SINK = 1
PATIENCE = 20


def sides_around(arrays: OrderingArrays, v: int) -> SideArray:
    """Sides of the states in which v is the next operator: ancestors inside, v and its descendants outside."""
    side, free = np.zeros((2, len(arrays.made)), dtype=np.int8)
    stack = np.empty(len(side), dtype=np.int64)
    spread_sides(arrays.before_start, arrays.before, arrays.after_start, arrays.after, v, free, side, stack)
    return side


@loop
def spread_sides(
    before_start: IntArray,
    before: IntArray,
    after_start: IntArray,
    after: IntArray,
    v: int,
    free: SideArray,
    side: SideArray,
    stack: IntArray,
) -> None:
    """Mark the ancestors of v, then v and its descendants."""
    inside, outside = INSIDE, OUTSIDE
    _spread(before_start, before, v, inside, free, side, stack)
    _spread(after_start, after, v, outside, free, side, stack)


@helper
def _spread(
    start: IntArray, items: IntArray, v: int, mark: int, side: SideArray, marked: SideArray, stack: IntArray
) -> None:
    """Mark v and every operator reachable from it over operators that are FREE in ``side``."""
    stack[0] = v
    top = 1
    marked[v] = mark
    while top > 0:
        top -= 1
        at = stack[top]
        for k in range(start[at], start[at + 1]):
            w = items[k]
            if side[w] == FREE and marked[w] != mark:
                marked[w] = mark
                stack[top] = w
                top += 1


class Network(NamedTuple):
    """A flow network in forward-star form, with memory; every arc's residual twin has the number ``arc ^ 1``.

    Attributes
    ----------
    head, following
        The last arc of every node, and the arc before an arc at the same node.
    to, room, saved
        End and residual capacity of every arc, and a copy of the latter.
    node, leave
        Node of every operator, and the arc that can force it out of a state.
    can
        Whether an operator is outside of a known state, and inside of one. Shape (2, operators).
    level, at, path, queue
        Memory, by node.
    sizes
        Number of arcs, number of nodes, and the constant part of f.
    """

    head: IntArray
    following: IntArray
    to: IntArray
    room: IntArray
    saved: IntArray
    node: IntArray
    leave: IntArray
    can: IntMatrix
    level: IntArray
    at: IntArray
    path: IntArray
    queue: IntArray
    sizes: IntArray


ARCS = 0
NODES = 1
CONSTANT = 2


def _empty_network(arrays: OrderingArrays, spare: int) -> Network:
    count, nodes = len(arrays.made), 2 + len(arrays.made) + len(arrays.size)
    arcs = 2 * (len(arrays.before) + len(arrays.readers) + 2 * len(arrays.size) + spare)
    following, to, room, saved = np.empty((4, arcs), dtype=np.int64)
    level, at, path, queue = np.empty((4, nodes + 1), dtype=np.int64)
    node, leave = np.empty((2, count), dtype=np.int64)
    head = np.full(nodes, -1, dtype=np.int64)
    can = np.zeros((2, count), dtype=np.int64)
    sizes = np.zeros(3, dtype=np.int64)
    return Network(head, following, to, room, saved, node, leave, can, level, at, path, queue, sizes)


def least_live(arrays: OrderingArrays, side: SideArray) -> tuple[int, SideArray, SideArray]:
    """The least live bytes of any state that respects ``side``, with the smallest and the largest such state.

    ``side`` must be closed: predecessors of INSIDE operators are INSIDE, successors of OUTSIDE ones OUTSIDE. The states
    come as arrays that hold 1 for the operators that have run.
    """
    network, verdict, anything = _empty_network(arrays, 0), np.zeros_like(side), np.zeros(0, dtype=np.int64)
    value, _ = cut(arrays, side, UNBOUNDED, anything, 1, network, verdict)
    inside = side == INSIDE
    smallest = inside | ((side == FREE) & (network.can[0] == 0))
    return int(value), smallest.astype(np.int8), (inside | (network.can[1] != 0)).astype(np.int8)


def unavoidable(
    arrays: OrderingArrays, side: SideArray, room: int, order: IntArray, budget: int
) -> tuple[SideArray | None, int]:
    """The free operators that lie on one side in every state with at most ``room`` live bytes, and the flows computed.

    These are INSIDE or OUTSIDE, the others FREE; None when there is no such state. One maximum flow is computed from
    scratch. A test whether an operator can change sides continues from that flow, and the states found on the way
    settle other operators too. The most informative operators are tested first: whether the last in a topological
    ``order`` can stay outside, and whether the first can be inside. After ``PATIENCE`` operators that can, the rest are
    not tested.
    """
    network, verdict = _empty_network(arrays, 2 * len(side)), np.zeros_like(side)
    least, flows = cut(arrays, side, room, order, max(budget, 2), network, verdict)
    return (None if least > room else verdict), flows


@helper
def _link(flow: Network, a: int, b: int, capacity: int) -> None:
    """Add an arc a -> b and its residual twin."""
    to, room, following, head, sizes = flow.to, flow.room, flow.following, flow.head, flow.sizes
    arc = sizes[ARCS]
    to[arc], room[arc], following[arc], head[a] = b, capacity, head[a], arc
    to[arc + 1], room[arc + 1], following[arc + 1], head[b] = a, 0, head[b], arc + 1
    sizes[ARCS] = arc + 2


@helper
def _levels(
    head: IntArray, following: IntArray, to: IntArray, room: IntArray, nodes: int, level: IntArray, queue: IntArray
) -> bool:
    """Breadth-first levels from the source over arcs with room; whether the sink is reached."""
    for a in range(nodes):
        level[a] = -1
    level[SOURCE] = 0
    queue[0] = SOURCE
    first, last = 0, 1
    while first < last:
        a = queue[first]
        first += 1
        e = head[a]
        while e >= 0:
            b = to[e]
            if room[e] > 0 and level[b] < 0:
                level[b] = level[a] + 1
                if b == SINK:
                    return True
                queue[last] = b
                last += 1
            e = following[e]
    return False


@helper
def _push(room: IntArray, path: IntArray, depth: int) -> tuple[int, int]:
    """Send as much as fits along a path of arcs; return the amount and the position of the first saturated arc."""
    amount = UNBOUNDED
    for k in range(depth):
        amount = min(amount, room[path[k]])
    filled = depth
    for k in range(depth - 1, -1, -1):
        room[path[k]] -= amount
        room[path[k] ^ 1] += amount
        if room[path[k]] == 0:
            filled = k
    return amount, filled


@helper
def _blocking_flow(
    following: IntArray, to: IntArray, room: IntArray, level: IntArray, at: IntArray, path: IntArray
) -> int:
    """Saturate all shortest paths by an iterative depth-first search; return the added flow."""
    total = 0
    depth = 0
    node = SOURCE
    while True:
        if node == SINK:
            amount, depth = _push(room, path, depth)
            total += amount
            node = to[path[depth] ^ 1]
        e = at[node]
        while e >= 0 and not (room[e] > 0 and level[to[e]] == level[node] + 1):
            e = following[e]
        at[node] = e
        if e >= 0:
            path[depth] = e
            depth += 1
            node = to[e]
        elif depth == 0:
            return total
        else:
            level[node] = -1
            depth -= 1
            node = to[path[depth] ^ 1]


@helper
def maximum_flow(flow: Network, enough: int) -> int:
    """Dinic's algorithm on the residual network; stops early once the added flow exceeds ``enough``."""
    head, following, to, room, level, at = flow.head, flow.following, flow.to, flow.room, flow.level, flow.at
    nodes = flow.sizes[NODES]
    total = 0
    while total <= enough and _levels(head, following, to, room, nodes, level, flow.queue):
        for a in range(nodes):
            at[a] = head[a]
        total += _blocking_flow(following, to, room, level, at, flow.path)
    return total


@helper
def _reach(flow: Network, start: int, twin: int, mark: IntArray) -> None:
    """Mark the nodes that ``start`` reaches in the residual network (twin 0), or that reach ``start`` (twin 1)."""
    head, following, to, room, queue = flow.head, flow.following, flow.to, flow.room, flow.queue
    for a in range(flow.sizes[NODES]):
        mark[a] = 0
    mark[start] = 1
    queue[0] = start
    first, last = 0, 1
    while first < last:
        e = head[queue[first]]
        first += 1
        while e >= 0:
            if room[e ^ twin] > 0 and mark[to[e]] == 0:
                mark[to[e]] = 1
                queue[last] = to[e]
                last += 1
            e = following[e]


@helper
def _witness(flow: Network, side: SideArray) -> None:
    """Record the operators outside the smallest minimum cut and inside the largest."""
    from_source, to_sink, node, can = flow.level, flow.at, flow.node, flow.can
    source, sink = SOURCE, SINK
    _reach(flow, source, source, from_source)
    _reach(flow, sink, sink, to_sink)
    for v in range(len(side)):
        if side[v] == FREE:
            can[0, v] |= from_source[node[v]] == 0
            can[1, v] |= to_sink[node[v]] == 0


@helper
def _add_storage(arrays: OrderingArrays, side: SideArray, flow: Network, s: int) -> int:
    """Write one storage's term of f into the network; return its constant part."""
    readers_start, readers, node = arrays.readers_start, arrays.readers, flow.node
    size = arrays.size[s]
    p = arrays.producer[s]
    if size == 0 or not arrays.counts[s] or (p >= 0 and side[p] == OUTSIDE):
        return 0
    maker = SOURCE if p < 0 or side[p] == INSIDE else node[p]
    free_readers = 0
    reader = -1
    held = arrays.kept[s]
    for k in range(readers_start[s], readers_start[s + 1]):
        if side[readers[k]] == OUTSIDE:
            held = True
        elif side[readers[k]] == FREE:
            free_readers += 1
            reader = readers[k]
    if held and maker == SOURCE:
        return int(size)
    if held:
        _link(flow, maker, SINK, size)
    elif free_readers == 1:
        _link(flow, maker, node[reader], size)
    elif free_readers > 1:
        joint = flow.sizes[NODES]
        flow.sizes[NODES] = joint + 1
        _link(flow, maker, joint, size)
        for k in range(readers_start[s], readers_start[s + 1]):
            if side[readers[k]] == FREE:
                _link(flow, joint, node[readers[k]], UNBOUNDED)
    return 0


@helper
def _build(arrays: OrderingArrays, side: SideArray, flow: Network) -> None:
    """The network whose minimum cuts are the emptiest states between the fixed sides, and the constant part of f.

    An operator on the source's side of the cut has run. A storage with several free readers gets its own node, which is
    on the source's side only when all its readers are.
    """
    before_start, before, node, sizes = arrays.before_start, arrays.before, flow.node, flow.sizes
    free = 2
    for v in range(len(side)):
        node[v] = -1
        if side[v] == FREE:
            node[v] = free
            free += 1
    sizes[NODES] = free
    for v in range(len(side)):
        if side[v] == FREE:
            for k in range(before_start[v], before_start[v + 1]):
                if side[before[k]] == FREE:
                    _link(flow, node[v], node[before[k]], UNBOUNDED)
    for s in range(len(arrays.size)):
        sizes[CONSTANT] += _add_storage(arrays, side, flow, s)


@loop
def cut(
    arrays: OrderingArrays, side: SideArray, room: int, order: IntArray, budget: int, flow: Network, verdict: SideArray
) -> tuple[int, int]:
    """The least live bytes between the sides, more than ``room`` if that is too little; and the number of flows.

    With a budget of more than one flow, operators are tested, and ``verdict`` says on which side they must be.
    """
    node, leave, saved, can, arc_room, path = flow.node, flow.leave, flow.saved, flow.can, flow.room, flow.path
    count, nothing = len(side), 0
    _build(arrays, side, flow)
    for v in range(count if budget > 1 else 0):
        leave[v] = flow.sizes[ARCS]
        if side[v] == FREE:
            _link(flow, node[v], SINK, nothing)
            _link(flow, SOURCE, node[v], nothing)
    constant = flow.sizes[CONSTANT]
    base = constant + maximum_flow(flow, room - constant)
    flows = 1
    if base > room:
        return base, flows
    _witness(flow, side)
    if budget == 1:
        return base, flows
    for e in range(flow.sizes[ARCS]):
        saved[e] = arc_room[e]
    for column in range(2):  # can leave the state, can be in it
        unsettled = 0
        for position in range(count):
            v = order[count - 1 - position if column == 0 else position]
            if side[v] != FREE or can[column, v] != 0 or verdict[v] != FREE:
                continue
            if unsettled == PATIENCE or flows >= budget:
                break
            flows += 1
            for e in range(flow.sizes[ARCS]):
                arc_room[e] = saved[e]
            arc_room[leave[v] + 2 * column] = UNBOUNDED
            unsettled += 1
            if base + maximum_flow(flow, room - base) <= room:
                _witness(flow, side)
            else:
                unsettled = 0
                if column == 0:
                    _spread(arrays.before_start, arrays.before, v, INSIDE, side, verdict, path)
                else:
                    _spread(arrays.after_start, arrays.after, v, OUTSIDE, side, verdict, path)
    return base, flows

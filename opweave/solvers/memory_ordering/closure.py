"""The emptiest state between two others: a minimum closure, by one maximum flow.

Live bytes f are a submodular function of the set D of executed operators. Each storage contributes one term
size * [producer in D] * [kept, or a reader outside D]. Its minimum over all down-sets between two fixed ones is a
minimum cut (Dinic's algorithm, https://doi.org/10.1007/11685654_10) on the operators that are still free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opweave.problems.arrays import BoolArray, IntArray
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
    side = np.zeros(len(arrays.made), dtype=np.int8)
    spread_sides(arrays, v, side)
    return side


@loop
def spread_sides(arrays: OrderingArrays, v: int, side: SideArray) -> None:
    """Mark the ancestors of v, then v and its descendants."""
    free = np.zeros(len(side), dtype=np.int8)
    _spread(arrays.before_start, arrays.before, v, INSIDE, free, side)
    _spread(arrays.after_start, arrays.after, v, OUTSIDE, free, side)


@helper
def _spread(start: IntArray, items: IntArray, v: int, mark: int, side: SideArray, marked: SideArray) -> None:
    """Mark v and every operator reachable from it over operators that are FREE in ``side``."""
    stack = np.empty(len(side), dtype=np.int64)
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


def least_live(arrays: OrderingArrays, side: SideArray) -> tuple[int, SideArray, SideArray]:
    """The least live bytes of any state that respects ``side``, with the smallest and the largest such state.

    ``side`` must be closed: predecessors of INSIDE operators are INSIDE, successors of OUTSIDE ones OUTSIDE. The states
    come as arrays that hold 1 for the operators that have run.
    """
    smallest = np.zeros(len(side), dtype=np.int8)
    largest = np.zeros(len(side), dtype=np.int8)
    value = minimum_closure(arrays, side, smallest, largest)
    return int(value), smallest, largest


class Flow(NamedTuple):
    """A flow network in forward-star form; every arc's residual twin has the number ``arc ^ 1``.

    ``head`` holds the last arc of every node, ``following`` the arc before an arc at the same node, ``to`` and ``room``
    its end and residual capacity; ``sizes`` counts arcs and nodes, and holds the constant part of f.
    """

    head: IntArray
    following: IntArray
    to: IntArray
    room: IntArray
    sizes: IntArray


ARCS = 0
NODES = 1
CONSTANT = 2


@helper
def _link(flow: Flow, a: int, b: int, capacity: int) -> None:
    """Add an arc a -> b and its residual twin."""
    arc = flow.sizes[ARCS]
    flow.to[arc], flow.room[arc], flow.following[arc], flow.head[a] = b, capacity, flow.head[a], arc
    flow.to[arc + 1], flow.room[arc + 1], flow.following[arc + 1], flow.head[b] = a, 0, flow.head[b], arc + 1
    flow.sizes[ARCS] = arc + 2


@helper
def _levels(flow: Flow, level: IntArray, queue: IntArray) -> bool:
    """Breadth-first levels from the source over arcs with room; whether the sink is reached."""
    level[:] = -1
    level[SOURCE] = 0
    queue[0] = SOURCE
    first, last = 0, 1
    while first < last:
        a = queue[first]
        first += 1
        e = flow.head[a]
        while e >= 0:
            b = flow.to[e]
            if flow.room[e] > 0 and level[b] < 0:
                level[b] = level[a] + 1
                if b == SINK:
                    return True
                queue[last] = b
                last += 1
            e = flow.following[e]
    return False


@helper
def _push(flow: Flow, path: IntArray, depth: int) -> tuple[int, int]:
    """Send as much as fits along a path of arcs; return the amount and the position of the first saturated arc."""
    amount = UNBOUNDED
    for k in range(depth):
        amount = min(amount, flow.room[path[k]])
    filled = depth
    for k in range(depth - 1, -1, -1):
        flow.room[path[k]] -= amount
        flow.room[path[k] ^ 1] += amount
        if flow.room[path[k]] == 0:
            filled = k
    return amount, filled


@helper
def _blocking_flow(flow: Flow, level: IntArray, at: IntArray, path: IntArray) -> int:
    """Saturate all shortest paths by an iterative depth-first search; return the added flow."""
    at[:] = flow.head[: len(at)]
    total = 0
    depth = 0
    node = SOURCE
    while True:
        if node == SINK:
            amount, depth = _push(flow, path, depth)
            total += amount
            node = flow.to[path[depth] ^ 1]
        e = at[node]
        while e >= 0 and not (flow.room[e] > 0 and level[flow.to[e]] == level[node] + 1):
            e = flow.following[e]
        at[node] = e
        if e >= 0:
            path[depth] = e
            depth += 1
            node = flow.to[e]
        elif depth == 0:
            return total
        else:
            level[node] = -1
            depth -= 1
            node = flow.to[path[depth] ^ 1]


@helper
def reach(flow: Flow, start: int, twin: int, mark: IntArray) -> None:
    """Mark the nodes that ``start`` reaches in the residual network (twin 0), or that reach ``start`` (twin 1)."""
    queue = np.empty(len(mark), dtype=np.int64)
    mark[start] = 1
    queue[0] = start
    first, last = 0, 1
    while first < last:
        e = flow.head[queue[first]]
        first += 1
        while e >= 0:
            if flow.room[e ^ twin] > 0 and mark[flow.to[e]] == 0:
                mark[flow.to[e]] = 1
                queue[last] = flow.to[e]
                last += 1
            e = flow.following[e]


@helper
def maximum_flow(flow: Flow, enough: int) -> int:
    """Dinic's algorithm on the residual network; stops early once the added flow exceeds ``enough``."""
    nodes = flow.sizes[NODES]
    level = np.empty(nodes, dtype=np.int64)
    queue = np.empty(nodes, dtype=np.int64)
    at = np.empty(nodes, dtype=np.int64)
    path = np.empty(nodes + 1, dtype=np.int64)
    total = 0
    while total <= enough and _levels(flow, level, queue):
        total += _blocking_flow(flow, level, at, path)
    return total


@helper
def _add_storage(arrays: OrderingArrays, side: SideArray, node: IntArray, flow: Flow, s: int) -> int:
    """Write one storage's term of f into the network; return its constant part."""
    size = arrays.size[s]
    p = arrays.producer[s]
    if size == 0 or not arrays.counts[s] or (p >= 0 and side[p] == OUTSIDE):
        return 0
    maker = SOURCE if p < 0 or side[p] == INSIDE else node[p]
    free_readers = 0
    reader = -1
    held = arrays.kept[s]
    for k in range(arrays.readers_start[s], arrays.readers_start[s + 1]):
        if side[arrays.readers[k]] == OUTSIDE:
            held = True
        elif side[arrays.readers[k]] == FREE:
            free_readers += 1
            reader = arrays.readers[k]
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
        for k in range(arrays.readers_start[s], arrays.readers_start[s + 1]):
            if side[arrays.readers[k]] == FREE:
                _link(flow, joint, node[arrays.readers[k]], UNBOUNDED)
    return 0


@helper
def build_flow(arrays: OrderingArrays, side: SideArray, node: IntArray, spare: int) -> Flow:
    """The network whose minimum cuts are the emptiest states between the fixed sides, and the constant part of f.

    An operator on the source's side of the cut has run. Fills ``node`` with the network's node of every free operator.
    A storage with several free readers gets its own node, which is on the source's side only when all its readers are.
    ``spare`` arcs are left for the caller.
    """
    free = 2
    for v in range(len(side)):
        node[v] = -1
        if side[v] == FREE:
            node[v] = free
            free += 1
    storages = len(arrays.size)
    most_arcs = 2 * (len(arrays.before) + len(arrays.reads) + 2 * storages + spare)
    sizes = np.zeros(3, dtype=np.int64)
    sizes[NODES] = free
    flow = Flow(
        head=np.full(free + storages, -1, dtype=np.int64),
        following=np.empty(most_arcs, dtype=np.int64),
        to=np.empty(most_arcs, dtype=np.int64),
        room=np.empty(most_arcs, dtype=np.int64),
        sizes=sizes,
    )
    for v in range(len(side)):
        if side[v] == FREE:
            for k in range(arrays.before_start[v], arrays.before_start[v + 1]):
                if side[arrays.before[k]] == FREE:
                    _link(flow, node[v], node[arrays.before[k]], UNBOUNDED)
    for s in range(storages):
        sizes[CONSTANT] += _add_storage(arrays, side, node, flow, s)
    return flow


@loop
def minimum_closure(arrays: OrderingArrays, side: SideArray, smallest: SideArray, largest: SideArray) -> int:
    """Fill ``smallest`` and ``largest`` with the extreme minimisers of f between the sides; return the minimum."""
    count = len(side)
    node = np.empty(count, dtype=np.int64)
    flow = build_flow(arrays, side, node, 0)
    value = int(flow.sizes[CONSTANT]) + maximum_flow(flow, UNBOUNDED)
    can = np.zeros((count, 2), dtype=np.bool_)
    _witness(flow, side, node, can)
    for v in range(count):
        free = side[v] == FREE
        smallest[v] = 1 if side[v] == INSIDE or (free and not can[v, 0]) else 0
        largest[v] = 1 if side[v] == INSIDE or can[v, 1] else 0
    return value


@loop
def unavoidable(
    arrays: OrderingArrays, side: SideArray, room: int, rank: IntArray, budget: int, verdict: SideArray
) -> int:
    """Find the free operators that lie on one side in every state with at most ``room`` live bytes.

    Writes INSIDE or OUTSIDE to ``verdict`` for these operators, FREE for the others. Returns the number of computed
    flows, or -1 when there is no such state. One maximum flow is computed from scratch. A test whether an operator can
    change sides continues from that flow, and the states found on the way settle other operators too. The most
    informative operators are tested first: whether the last in topological ``rank`` can stay outside, and whether the
    first can be inside. After ``PATIENCE`` operators that can, the rest are not tested.
    """
    count = len(side)
    node = np.empty(count, dtype=np.int64)
    flow = build_flow(arrays, side, node, 2 * count)
    constant = int(flow.sizes[CONSTANT])
    leave = np.empty(count, dtype=np.int64)
    for v in range(count):
        verdict[v] = FREE
        if side[v] == FREE:
            leave[v] = flow.sizes[ARCS]
            _link(flow, node[v], SINK, 0)
            _link(flow, SOURCE, node[v], 0)
    base = constant + maximum_flow(flow, room - constant)
    if base > room:
        return -1
    arcs = flow.sizes[ARCS]
    saved = flow.room[:arcs].copy()
    can = np.zeros((count, 2), dtype=np.bool_)
    _witness(flow, side, node, can)
    flows = 1
    by_rank = np.empty(count, dtype=np.int64)
    for v in range(count):
        by_rank[rank[v]] = v
    for leaving in (True, False):
        unsettled = 0
        for position in range(count):
            if unsettled == PATIENCE:
                break
            v = by_rank[count - 1 - position] if leaving else by_rank[position]
            column = 0 if leaving else 1
            if side[v] != FREE or can[v, column] or verdict[v] != FREE:
                continue
            if flows >= budget:
                return flows
            flows += 1
            flow.room[:arcs][:] = saved
            flow.room[leave[v] if leaving else leave[v] + 2] = UNBOUNDED
            unsettled += 1
            if base + maximum_flow(flow, room - base) <= room:
                _witness(flow, side, node, can)
                continue
            unsettled = 0
            if leaving:
                _spread(arrays.before_start, arrays.before, v, INSIDE, side, verdict)
            else:
                _spread(arrays.after_start, arrays.after, v, OUTSIDE, side, verdict)
    return flows


@helper
def _witness(flow: Flow, side: SideArray, node: IntArray, can: BoolArray) -> None:
    """Record the operators outside the smallest minimum cut and inside the largest: columns 0 and 1 of ``can``."""
    nodes = flow.sizes[NODES]
    from_source = np.zeros(nodes, dtype=np.int64)
    to_sink = np.zeros(nodes, dtype=np.int64)
    reach(flow, SOURCE, 0, from_source)
    reach(flow, SINK, 1, to_sink)
    for v in range(len(side)):
        if side[v] == FREE:
            can[v, 0] = can[v, 0] or from_source[node[v]] == 0
            can[v, 1] = can[v, 1] or to_sink[node[v]] == 0

"""Plans that cut an order of the operators into stretches for calls, by dynamic programming.

Stretches of an order that the data allow are contiguous. Where calls and the host take turns, their times add up, and
the program finds the best cuts; work beside each other only makes a plan shorter. Operators of a ``Colocate`` stay
together, with everything between them.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from opweave.formulations.placement.calls import CallInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.placement.blocking.arrays import CallArrays
from opweave.solvers.placement.blocking.stretches import Stretch, Stretches, cheapest

MOST_BLOCKS = 300
"""Most blocks of operators between which an order may be cut."""

MOST_STATES = 128
"""Most combinations of numbers of calls, by class of accelerators."""


def units_of(instance: CallInstance) -> IntArray:
    """Number of every operator's unit: tied operators, and groups that wait for each other. Shape (operators,)."""
    from scipy.sparse import csr_array  # importing takes a third of a second, and few problems have calls
    from scipy.sparse.csgraph import connected_components

    group, after = instance.whole.cluster, instance.whole.after
    size = int(group.max(initial=-1)) + 1
    edges = (np.ones(len(after.items)), (group[after.heads()], group[after.items]))
    _, label = connected_components(csr_array(edges, shape=(size, size)), directed=True, connection="strong")
    unit = np.asarray(label, dtype=np.int64)[group]
    _, first = np.unique(unit, return_index=True)
    return np.argsort(np.argsort(first))[unit].astype(np.int64)  # in the order in which the graph lists them


def _between(instance: CallInstance, unit: IntArray) -> Adjacency:
    """Units directly behind each unit."""
    after = instance.whole.after
    heads, tails = unit[after.heads()], unit[after.items]
    apart = heads != tails
    return Adjacency.from_pairs(int(unit.max(initial=-1)) + 1, heads[apart], tails[apart])


def ordered(instance: CallInstance, unit: IntArray, key: FloatArray | None) -> IntArray:
    """Units before those behind them, the ready one with the least key first; without keys the last one ready."""
    behind = _between(instance, unit)
    rows, waits = behind.lists(), np.bincount(behind.items, minlength=len(behind)).tolist()
    keys = None if key is None else key.tolist()
    ready: list[tuple[float, int]] = []
    order: list[int] = []
    turn = 0

    def is_ready(u: int) -> None:
        nonlocal turn
        turn -= 1
        heapq.heappush(ready, (turn if keys is None else keys[u], u))

    for u in range(len(rows)):
        if waits[u] == 0:
            is_ready(u)
    while ready:
        _, u = heapq.heappop(ready)
        order.append(u)
        for other in rows[u]:
            waits[other] -= 1
            if waits[other] == 0:
                is_ready(other)
    return np.array(order, dtype=np.int64)


def blocks_of(unit: IntArray, order: IntArray) -> IntArray:
    """The block of every operator, if an order of units is divided evenly into as many as are looked at."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) * min(len(order), MOST_BLOCKS) // max(1, len(order))
    return place[unit]


def cut(instance: CallInstance, arrays: CallArrays, block: IntArray) -> IntArray | None:
    """The places of operators for the best cuts between blocks; None if no cuts fit. Shape (operators,)."""
    length = int(block.max(initial=-1)) + 1
    stretches = Stretches(instance, length, block, block)
    host = np.bincount(block, instance.host_seconds, minlength=length).astype(np.float64)
    each = len(arrays.on) // max(1, len(instance.accelerators))
    tables = [stretches.seconds(group[0]) for group in instance.classes]
    most = _numbers([min(length, len(group) * each) for group in instance.classes])
    value, found = cheapest(tables, most, host)
    return _places(instance, arrays, block, found) if math.isfinite(value) else None


def _numbers(most: list[int]) -> list[int | None]:
    """Most calls of every class, fewer where there would be too many combinations."""
    most = list(most)
    while math.prod(number + 1 for number in most) > MOST_STATES:
        most[most.index(max(most))] -= 1
    return list(most)


def _places(instance: CallInstance, arrays: CallArrays, block: IntArray, found: list[Stretch]) -> IntArray | None:
    """Calls for stretches, the largest first, each on the first accelerator of its class that has room."""
    each = len(arrays.on) // max(1, len(instance.accelerators))
    where = np.full(instance.operators, len(arrays.on), dtype=np.int64)
    inside = [np.flatnonzero((block >= j) & (block < i)) for _, j, i in found]
    size = [float(arrays.memory[members].sum()) for members in inside]
    used, held = np.zeros(len(arrays.capacity), dtype=np.int64), np.zeros(len(arrays.capacity))
    room = np.where(arrays.capacity == NO_LIMIT, np.inf, arrays.capacity.astype(np.float64))
    for s in sorted(range(len(found)), key=lambda s: -size[s]):
        able = [k for k in instance.classes[found[s][0]] if used[k] < each]
        if not able:
            return None
        k = next((k for k in able if held[k] + size[s] <= room[k]), able[0])
        where[inside[s]] = k * each + used[k]
        used[k] += 1
        held[k] += size[s]
    return where

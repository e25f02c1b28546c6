"""The three orders that torch Inductor chooses from: least peak memory first, breadth first, depth first.

The orders equal those of torch 2.13 (``torch/_inductor/memory.py``) operator by operator; the code is independent.
Inductor knows buffers and their readers; it sees neither workspaces nor in-place results. A storage here is a buffer
there. A graph input is a buffer that Inductor may free, unless it stays to the end. A reader of a view comes after the
operator that made the view and after the one that made the storage, as Inductor treats aliases of a buffer.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance, summed
from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency

Rows = list[list[int]]


def lpmf(instance: OrderingInstance) -> IntArray:
    """Least peak memory first: the operator that leaves least within the peak so far; beyond that peak, the smallest.

    The peak so far begins with the bytes of the graph outputs, which no order can avoid. Ties go to the operator that
    is listed first. Source: Tripakis et al. (2006), as implemented in torch Inductor.
    """
    # Ready operators wait in one heap for each number of bytes that they make, keyed by the live bytes that they leave.
    # The bytes that an operator frees only grow, so it is pushed again, and its older entries are stale.
    reads, readers = _freeable(instance)
    before, after = _dependencies(instance)
    size, made = instance.size.tolist(), summed(instance.writes, instance.size).tolist()
    waiting, done = [len(row) for row in before], [False] * instance.operators
    left = [len(row) + bool(kept) for row, kept in zip(readers, instance.kept.tolist(), strict=True)]
    frees = [sum(size[s] for s in row if left[s] == 1) for row in reads]
    for s, v in enumerate(instance.producer.tolist()):
        if v >= 0 and left[s] == 0:
            frees[v] += size[s]
    live = sum(size[s] for s, v in enumerate(instance.producer.tolist()) if v < 0 and readers[s])
    peak = max(live, int(instance.size[instance.kept & (instance.producer >= 0)].sum()))
    ready: dict[int, list[tuple[int, int]]] = {}
    changed = [v for v, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while changed or ready:
        for v in changed:
            heappush(ready.setdefault(made[v], []), (made[v] - frees[v], v))
        within = [each for each in ready if each <= peak - live]
        heap = ready[min(within, key=lambda each: ready[each][0]) if within else min(ready)]
        v = heap[0][1]
        order.append(v)
        done[v] = True
        peak = max(peak, live + made[v])
        live += made[v] - frees[v]
        for s in reads[v]:
            left[s] -= 1
        last = [(w, s) for s in reads[v] if left[s] == 1 for w in readers[s] if not done[w]]
        for w, s in last:
            frees[w] += size[s]
        for w in after[v]:
            waiting[w] -= 1
        changed = list(dict.fromkeys(w for w in (*after[v], *(w for w, _ in last)) if waiting[w] == 0))
        while heap and done[heap[0][1]]:
            heappop(heap)
        if not heap:
            del ready[made[v]]
    return np.asarray(order, dtype=np.int64)


def bfs(instance: OrderingInstance) -> IntArray:
    """Breadth first: the operator whose predecessors ran earliest, compared one by one from the earliest on."""
    before, after = _dependencies(instance)
    waiting = [len(row) for row in before]
    step = [-1] * instance.operators
    order: list[int] = []
    ready: list[tuple[tuple[int, ...], int]] = [((), v) for v, count in enumerate(waiting) if count == 0]
    heapify(ready)
    while ready:
        _, v = heappop(ready)
        step[v] = len(order)
        order.append(v)
        for w in after[v]:
            waiting[w] -= 1
            if waiting[w] == 0:
                heappush(ready, (tuple(sorted(step[u] for u in before[w])), w))
    return np.asarray(order, dtype=np.int64)


def dfs(instance: OrderingInstance) -> IntArray:
    """Depth first by size: operators that read and write least first, each right after its predecessors."""
    reads, _ = _freeable(instance)
    size = instance.size.tolist()
    made = summed(instance.writes, instance.size).tolist()
    touched = [results + sum(size[s] for s in row) for results, row in zip(made, reads, strict=True)]

    def key(v: int) -> tuple[int, int]:
        return touched[v], v

    needs = [sorted(row, key=key, reverse=True) for row in _dependencies(instance)[0]]
    seen = [False] * instance.operators
    order: list[int] = []
    stack: list[int] = []
    for root in sorted(range(instance.operators), key=key):
        if not seen[root]:
            seen[root] = True
            stack.append(root)
        while stack:
            v = stack[-1]
            if not needs[v]:
                order.append(stack.pop())
                continue
            u = needs[v].pop()
            if not seen[u]:
                seen[u] = True
                stack.append(u)
    return np.asarray(order, dtype=np.int64)


def _dependencies(instance: OrderingInstance) -> tuple[Rows, Rows]:
    """Operators that come directly before and after each operator."""
    makers = instance.producer[instance.reads.items]
    made = makers >= 0
    late = np.concatenate([instance.before.heads(), instance.reads.heads()[made]])
    before = Adjacency.from_pairs(instance.operators, late, np.concatenate([instance.before.items, makers[made]]))
    return before.lists(), before.reversed(instance.operators).lists()


def _freeable(instance: OrderingInstance) -> tuple[Rows, Rows]:
    """Storages that every operator reads, and readers of every storage, without graph inputs that stay to the end."""
    fixed = ((instance.producer < 0) & instance.kept).tolist()
    reads = [[s for s in row if not fixed[s]] for row in instance.reads.lists()]
    readers = [[] if fixed[s] else row for s, row in enumerate(instance.readers.lists())]
    return reads, readers

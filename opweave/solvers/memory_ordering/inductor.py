"""The three orders that torch Inductor chooses from: least peak memory first, breadth first, depth first.

The orders equal those of torch 2.13 (``torch/_inductor/memory.py``) operator by operator; the code is independent.
Inductor knows buffers and their readers; it sees neither workspaces nor in-place results. A storage here is a buffer
there. A graph input is a buffer that Inductor may free, unless it stays to the end. A reader of a view comes after the
operator that made the view and after the one that made the storage, as Inductor treats aliases of a buffer.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency

Rows = list[list[int]]


def lpmf(instance: OrderingInstance) -> IntArray:
    """Least peak memory first: the operator that leaves least within the peak so far; beyond that peak, the smallest.

    The peak so far begins with the bytes of the graph outputs, which no order can avoid. Ties go to the operator that
    is listed first. Source: Tripakis et al. (2006), as implemented in torch Inductor.
    """
    return _LeastPeak(instance).order()


class _LeastPeak:
    """The state of :func:`lpmf`.

    Ready operators wait in one heap for each number of bytes that they make, keyed by the live bytes that they leave.
    The bytes that an operator frees only grow, so it is pushed again, and its older entries are stale.
    """

    def __init__(self, instance: OrderingInstance) -> None:
        self._reads, self._readers = _freeable(instance)
        before, self._after = _dependencies(instance)
        self._size = instance.size.tolist()
        self._made = _made(instance).tolist()
        self._waiting = [len(row) for row in before]
        self._done = [False] * instance.operators
        self._left = [len(row) + bool(kept) for row, kept in zip(self._readers, instance.kept.tolist(), strict=True)]
        self._frees = [0] * instance.operators
        self._ready: dict[int, list[tuple[int, int]]] = {}
        inputs = instance.producer < 0
        read = np.asarray([bool(row) for row in self._readers], dtype=bool)
        self._live = int(instance.size[inputs & read].sum())
        self._peak = max(self._live, int(instance.size[instance.kept & ~inputs].sum()))
        for v, reads in enumerate(self._reads):
            self._frees[v] = sum(self._size[s] for s in reads if self._left[s] == 1)
        for s, v in enumerate(instance.producer.tolist()):
            if v >= 0 and self._left[s] == 0:
                self._frees[v] += self._size[s]

    def order(self) -> IntArray:
        """Take the best ready operator until all have run."""
        order: list[int] = []
        for v in range(len(self._waiting)):
            if self._waiting[v] == 0:
                self._offer(v)
        while self._ready:
            v = self._take()
            order.append(v)
            self._run(v)
        return np.asarray(order, dtype=np.int64)

    def _offer(self, v: int) -> None:
        heappush(self._ready.setdefault(self._made[v], []), (self._made[v] - self._frees[v], v))

    def _take(self) -> int:
        """The operator that leaves least among those that stay within the peak so far; else the smallest."""
        room = self._peak - self._live
        within = [made for made in self._ready if made <= room]
        made = min(within, key=lambda made: self._ready[made][0]) if within else min(self._ready)
        return self._ready[made][0][1]

    def _run(self, v: int) -> None:
        self._done[v] = True
        self._live += self._made[v]
        self._peak = max(self._peak, self._live)
        self._live -= self._frees[v]
        for w in self._after[v]:
            self._waiting[w] -= 1
            if self._waiting[w] == 0:
                self._offer(w)
        for s in self._reads[v]:
            self._left[s] -= 1
            if self._left[s] == 1:
                self._last_reader(s)
        self._forget(self._made[v])

    def _last_reader(self, s: int) -> None:
        """Update the only remaining reader of a storage, which will free it."""
        for w in self._readers[s]:
            if not self._done[w]:
                self._frees[w] += self._size[s]
                if self._waiting[w] == 0:
                    self._offer(w)

    def _forget(self, made: int) -> None:
        """Remove operators that have run from the top of a heap."""
        heap = self._ready[made]
        while heap and self._done[heap[0][1]]:
            heappop(heap)
        if not heap:
            del self._ready[made]


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
    touched = [made + sum(size[s] for s in row) for made, row in zip(_made(instance).tolist(), reads, strict=True)]

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


def _made(instance: OrderingInstance) -> IntArray:
    """Bytes of every operator's results."""
    made = np.zeros(instance.operators, dtype=np.int64)
    np.add.at(made, instance.writes.heads(), instance.size[instance.writes.items])
    return made


def _freeable(instance: OrderingInstance) -> tuple[Rows, Rows]:
    """Storages that every operator reads, and readers of every storage, without graph inputs that stay to the end."""
    fixed = ((instance.producer < 0) & instance.kept).tolist()
    reads = [[s for s in row if not fixed[s]] for row in instance.reads.lists()]
    readers = [[] if fixed[s] else row for s, row in enumerate(instance.readers.lists())]
    return reads, readers

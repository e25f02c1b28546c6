"""Orders that frameworks and compilers use, by name, and greedy orders from both ends: the baselines for better orders.

None of them considers the whole graph or proves a bound; each takes linear or nearly linear time.

``lpmf``, ``bfs`` and ``dfs`` are the orders that torch Inductor chooses from, and equal those of torch 2.13
(``torch/_inductor/memory.py``) operator by operator; the code is independent. Inductor knows buffers and their readers;
it sees neither workspaces nor in-place results. A storage here is a buffer there. A graph input is a buffer that
Inductor may free, unless it stays to the end. A reader of a view comes after the operator that made the view and after
the one that made the storage, as Inductor treats aliases of a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance, lower, summed
from opweave.problems.arrays import IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_ordering.arrays import (
    BACKWARD,
    FORWARD,
    OrderingArrays,
    arcs_ahead,
    arrays_of,
    initial_bytes,
    initial_left,
    pass_over,
    peak,
    report,
    step,
)
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Run

LEAST_PEAK = 0
SHRINK_LOW = 1
SHRINK_HIGH = 2
SHRINK_RECENT = 3

KEY, DONE = 4, -1
"""Columns of an entry of the heap: three of its key, and the operator; and what an operator waits for that has run."""

PORTFOLIO: tuple[tuple[int, int], ...] = (
    (FORWARD, LEAST_PEAK),
    (FORWARD, SHRINK_LOW),
    (FORWARD, SHRINK_HIGH),
    (FORWARD, SHRINK_RECENT),
    (BACKWARD, LEAST_PEAK),
    (BACKWARD, SHRINK_LOW),
    (BACKWARD, SHRINK_HIGH),
    (BACKWARD, SHRINK_RECENT),
)
"""(direction, rule) pairs worth trying; no single rule is best on all families of graphs."""


def greedy(arrays: OrderingArrays, sign: int, rule: int) -> IntArray:
    """The order that a rule builds from one end; the first operator comes first."""
    order = np.empty(len(arrays.made), dtype=np.int64)
    heap = np.empty((len(order) + len(arrays.reads), KEY), dtype=np.int64)
    waiting = np.diff(arcs_ahead(arrays, -sign)[0])
    left, live = initial_left(arrays, sign), initial_bytes(arrays, sign)
    step_of, ahead, readers = (arrays.start, arrays.script), arcs_ahead(arrays, sign), arrays.readers
    heap_order(*step_of, *ahead, arrays.readers_start, readers, waiting, left, live, sign, rule, heap, order)
    return order if sign == FORWARD else order[::-1].copy()


@helper
def _comes_first(heap: IntMatrix, a: int, b: int) -> bool:
    """Whether entry a of a heap comes before entry b, column by column."""
    column = 0
    while column < KEY - 1 and heap[a, column] == heap[b, column]:
        column += 1
    return bool(heap[a, column] < heap[b, column])


@helper
def _swap(heap: IntMatrix, a: int, b: int) -> None:
    for column in range(KEY):
        heap[a, column], heap[b, column] = heap[b, column], heap[a, column]


@helper
def _push(heap: IntMatrix, used: int, rule: int, cost: int, live: int, far: int, v: int, stamp: int) -> int:
    """Put an operator into a heap, and return the number of entries.

    By ``LEAST_PEAK``, the key is the footprint; by the other rules, the memory freed, then position or recency.
    """
    first, delta, tie = cost - live, far - live, v
    if rule != LEAST_PEAK:
        first = 0 if delta <= 0 else 1
        delta = min(delta, 0)
        if rule == SHRINK_HIGH:
            tie = -v
        elif rule == SHRINK_RECENT:
            tie = -stamp
    heap[used, 0], heap[used, 1], heap[used, 2], heap[used, 3] = first, delta, tie, v
    at = used
    while at > 0 and _comes_first(heap, at, (at - 1) >> 1):
        _swap(heap, at, (at - 1) >> 1)
        at = (at - 1) >> 1
    return used + 1


@helper
def _drop_first(heap: IntMatrix, used: int) -> int:
    """Take the first entry out of a heap, and return the number of entries."""
    used -= 1
    _swap(heap, 0, used)
    at, least = 0, -1
    while least != at:
        at = max(least, 0)
        least = at
        for child in range(2 * at + 1, min(2 * at + 3, used)):
            if _comes_first(heap, child, least):
                least = child
        if least != at:
            _swap(heap, at, least)
    return used


@loop
def heap_order(
    start: IntArray,
    script: IntArray,
    enters_start: IntArray,
    enters: IntArray,
    readers_start: IntArray,
    readers: IntArray,
    waiting: IntArray,
    left: IntArray,
    live: int,
    sign: int,
    rule: int,
    heap: IntMatrix,
    order: IntArray,
) -> None:
    """Repeatedly take the ready operator with the smallest key, in the given direction.

    A ready operator's key changes only when it becomes the one operator that decides whether a storage that it reads
    stays live. Keys only fall, so the operator is pushed again and stale entries are skipped.
    """
    used, placed = 0, 0
    for v in range(len(order)):
        if waiting[v] == 0:
            cost, far = step(start, script, v, live, left, sign)
            used = _push(heap, used, rule, cost, live, far, v, placed)
    while placed < len(order):
        v = heap[0, KEY - 1]
        used = _drop_first(heap, used)
        if waiting[v] == DONE:
            continue
        waiting[v] = DONE
        order[placed] = v
        placed += 1
        _, live = step(start, script, v, live, left, sign)
        pass_over(start, script, v, left, sign)
        for k in range(enters_start[v], enters_start[v + 1]):
            w = enters[k]
            waiting[w] -= 1
            if waiting[w] == 0:
                cost, far = step(start, script, w, live, left, sign)
                used = _push(heap, used, rule, cost, live, far, w, placed)
        for k in range(start[v] + 3, start[v] + script[start[v] + 2], 2):
            s = script[k]
            for r in range(readers_start[s], readers_start[s + 1] if left[s] == 1 and script[k + 1] > 0 else 0):
                w = readers[r]
                if waiting[w] == 0:
                    cost, far = step(start, script, w, live, left, sign)
                    used = _push(heap, used, rule, cost, live, far, w, placed)


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


Order = Callable[[OrderingInstance], IntArray]


def definition(instance: OrderingInstance) -> IntArray:
    """The order of the model file; if it is invalid, the first listed ready operator always goes next."""
    return topological_order(instance.after)


def rpo(instance: OrderingInstance) -> IntArray:
    """Reverse post-order of a depth-first search from the first operators, successors in the order of the file."""
    return _post_order(instance.before, instance.after)[::-1].copy()


def _post_order(arriving: Adjacency, leaving: Adjacency) -> IntArray:
    """Depth-first post-order along ``leaving``, from the operators without arriving arcs. Iterative."""
    start, items = leaving.start.tolist(), leaving.items.tolist()
    following = list(start[:-1])
    seen = [False] * len(leaving)
    order: list[int] = []
    for root in np.flatnonzero(np.diff(arriving.start) == 0).tolist():
        stack = [root]
        seen[root] = True
        while stack:
            v = stack[-1]
            while following[v] < start[v + 1] and seen[items[following[v]]]:
                following[v] += 1
            if following[v] == start[v + 1]:
                order.append(v)
                stack.pop()
            else:
                seen[items[following[v]]] = True
                stack.append(items[following[v]])
    return np.asarray(order, dtype=np.int64)


BY_NAME: dict[str, Order] = {
    "definition": definition,
    "rpo": rpo,
    "lpmf": lpmf,
    "bfs": bfs,
    "dfs": dfs,
}


def starting_orders(instance: OrderingInstance, arrays: OrderingArrays) -> Iterator[IntArray]:
    """The listed order, every greedy one, and the others by name: what searches improve."""
    yield definition(instance)
    for sign, rule in PORTFOLIO:
        yield greedy(arrays, sign, rule)
    for build in (rpo, lpmf, bfs, dfs):
        yield build(instance)


def carry_out(build: Order, problem: MemoryOrdering, run: Run) -> None:
    """Report a named order.

    Raises
    ------
    NoPlanError
        When the order needs more than the limit.
    """
    instance = lower(problem)
    order = build(instance)
    report(problem, order, run)
    if run.best is None:
        raise NoPlanError(f"this order needs {peak(arrays_of(instance), order):,} bytes, more than the limit")


for _name, _build in BY_NAME.items():
    _sentence = (_build.__doc__ or "").split("\n", maxsplit=1)[0].split(":")[0].rstrip(".;")
    _about = _sentence[:1].lower() + _sentence[1:]
    register_rule(MemoryOrdering, _name, partial(carry_out, _build), _about, supports=("order_arcs",), baseline=True)

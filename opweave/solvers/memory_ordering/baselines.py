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

import networkx as nx
import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance, lower, summed
from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.memory_ordering.spec import MemoryOrdering
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


def greedy(arrays: OrderingArrays, sign: int) -> IntArray:
    """The order that takes the ready operator with the smallest footprint from one end; the first comes first.

    A ready operator's footprint changes only when it becomes the one that decides whether a storage that it reads stays
    live. It only falls, so the operator is pushed again, and older entries are skipped.
    """
    script = arrays.script.tolist()
    first, ahead = (each.tolist() for each in arcs_ahead(arrays, sign))
    readers_start, readers = arrays.readers_start.tolist(), arrays.readers.tolist()
    waiting, left = np.diff(arcs_ahead(arrays, -sign)[0]).tolist(), initial_left(arrays, sign).tolist()
    live, done = initial_bytes(arrays, sign), [False] * len(arrays.made)
    heap: list[tuple[int, int, int]] = []
    order: list[int] = []
    changed = [v for v, count in enumerate(waiting) if count == 0]
    while changed or heap:
        for v in changed:
            cost, far = step(script, v, live, left, sign)
            heappush(heap, (cost - live, far - live, v))
        v = heappop(heap)[-1]
        changed = []
        if done[v]:
            continue
        done[v] = True
        order.append(v)
        _, live = step(script, v, live, left, sign)
        pass_over(script, v, left, sign)
        for w in ahead[first[v] : first[v + 1]]:
            waiting[w] -= 1
            changed += [w] if waiting[w] == 0 else []
        for k in range(script[v] + 3, script[v] + script[script[v] + 2], 2):
            if left[script[k]] == 1 and script[k + 1] > 0:
                alone = readers[readers_start[script[k]] : readers_start[script[k] + 1]]
                changed += [w for w in alone if waiting[w] == 0 and not done[w]]
    return np.asarray(order if sign == FORWARD else order[::-1], dtype=np.int64)


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
    graph = nx.DiGraph()
    graph.add_nodes_from(np.flatnonzero(np.diff(instance.before.start) == 0).tolist())
    graph.add_edges_from(zip(instance.after.heads().tolist(), instance.after.items.tolist(), strict=True))
    return np.asarray([*nx.dfs_postorder_nodes(graph)][::-1], dtype=np.int64)


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
    for sign in (FORWARD, BACKWARD):
        yield greedy(arrays, sign)
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

"""Orders that frameworks and compilers use, by name: the baselines for better orders.

None of them considers the whole graph or proves a bound; each takes linear or nearly linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.memory_ordering.arrays import OrderingArrays, arrays_of, peak, report
from opweave.solvers.memory_ordering.greedy import PORTFOLIO, greedy
from opweave.solvers.memory_ordering.inductor import bfs, dfs, lpmf
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Run

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

"""Which operator must run before which: precedences that side constraints add, their closure, and earliest times."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from opweave.formulations.expressions import expression, write_out
from opweave.problems.arrays import BoolArray
from opweave.problems.errors import InfeasibleError, InvalidInputError
from opweave.problems.graph_arrays import Adjacency, find_cycle, topological_order
from opweave.problems.problem import Problem

ENTRIES_PER_ROW = 64
"""Most entries (bytes) of a closure per row that a model may have."""


class ContradictionError(InfeasibleError):
    """The problem has no solution. The message says why in the problem's words; ``solve`` reports it as infeasible."""


def order_arcs(problem: Problem[Any, Any]) -> Iterator[tuple[str, str]]:
    """Operators (before, after) that side constraints with an ``"order_arcs"`` expression require.

    Raises
    ------
    InvalidInputError
        If an expression returns anything but pairs of operators of the problem.
    """
    known = problem.graph.operator_index
    for constraint in problem.constraints:
        write = expression(type(constraint), "order_arcs")
        for pair in () if write is None else write_out(constraint, "order_arcs", write, problem):
            match pair:
                case (str(early), str(late)) if early in known and late in known:
                    yield early, late
                case _:
                    raise InvalidInputError(
                        f"the expression of {type(constraint).__name__} for 'order_arcs' gave {pair!r:.80}; it must "
                        "return pairs (before, after) of operators that the graph has"
                    )


def only_order_arcs(problem: Problem[Any, Any]) -> bool:
    """Whether all side constraints are precedences, so that ``order_arcs`` says everything about them."""
    return all(expression(type(constraint), "order_arcs") is not None for constraint in problem.constraints)


def with_order_arcs(problem: Problem[Any, Any], before: Adjacency) -> Adjacency:
    """Direct predecessors of every operator, including those of constraints with an ``"order_arcs"`` expression.

    Raises
    ------
    ContradictionError
        If the arcs and the data flow close a cycle; the message names it.
    """
    index = problem.graph.operator_index
    arcs = [(index[late], index[early]) for early, late in order_arcs(problem)]
    if not arcs:
        return before
    late, early = np.asarray(arcs, dtype=np.int64).T
    rows = len(before)
    joined = Adjacency.from_pairs(rows, np.concatenate([before.heads(), late]), np.concatenate([before.items, early]))
    cycle = find_cycle(joined.reversed(rows))
    if cycle is not None:
        names = [problem.graph.operators[v].id for v in cycle]
        raise ContradictionError(f"the order constraints close a cycle: {' -> '.join([*names, names[0]])}")
    return joined


def ancestors(after: Adjacency) -> BoolArray:
    """Shape (n, n): entry [v, u] says that u must run before v. ``after`` lists direct successors.

    Examples
    --------
    >>> chain = Adjacency.from_lists([[1], [2], []])
    >>> ancestors(chain).astype(int).tolist()
    [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    """
    count = len(after)
    before = after.reversed(count)
    closed = np.zeros((count, count), dtype=bool)
    for v in topological_order(after).tolist():
        direct = before[v]
        if direct.size:
            np.logical_or.reduce(closed[direct], axis=0, out=closed[v])
            closed[v, direct] = True
    return closed


def rows_of_closure(count: int) -> int:
    """How many rows of a model take as much memory as the closure of so many operators."""
    return -(-count * count // ENTRIES_PER_ROW)


ActivityT = TypeVar("ActivityT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that takes time.

    Attributes
    ----------
    seconds
        Its duration.
    near
        Its approximate start. Activities on one resource do not overlap, so their middles give the order.
    rank
        Decides between equal middles; it agrees with precedence.
    uses
        Resources that do one thing at a time.
    release
        Earliest start.
    """

    seconds: float
    near: float
    rank: int
    uses: Sequence[Hashable] = ()
    release: float = 0.0


def earliest_starts(
    activities: Mapping[ActivityT, Activity], before: Mapping[ActivityT, Sequence[tuple[ActivityT, float]]]
) -> dict[ActivityT, float]:
    """Start every activity as soon as possible, on each resource in the order of the middles.

    Parameters
    ----------
    activities
        The activities.
    before
        For every activity, those that must have ended so many seconds before it starts.

    Returns
    -------
    dict
        Starts, in an order that respects precedence.

    Examples
    --------
    >>> both = {"p": Activity(2.0, 1.9, 0, ["cpu"]), "q": Activity(1.0, 0.0, 1, ["cpu"])}
    >>> earliest_starts(both, {"p": (), "q": ()})
    {'q': 0.0, 'p': 1.0}
    """
    after: dict[ActivityT, list[ActivityT]] = {name: [] for name in activities}
    for name, earlier in before.items():
        for other, _ in earlier:
            after[other].append(name)
    waits = {name: len(before[name]) for name in activities}
    number = {name: k for k, name in enumerate(activities)}

    def key(name: ActivityT) -> tuple[float, int, int, ActivityT]:
        each = activities[name]
        return each.near + each.seconds / 2, each.rank, number[name], name

    ready = [key(name) for name, count in waits.items() if count == 0]
    heapq.heapify(ready)
    free: dict[Hashable, float] = {}
    begin: dict[ActivityT, float] = {}
    while ready:
        *_, name = heapq.heappop(ready)
        each = activities[name]
        arrivals = (begin[other] + activities[other].seconds + lag for other, lag in before[name])
        begin[name] = max([each.release, *arrivals, *(free.get(resource, 0.0) for resource in each.uses)])
        free.update(dict.fromkeys(each.uses, begin[name] + each.seconds))
        for other in after[name]:
            waits[other] -= 1
            if waits[other] == 0:
                heapq.heappush(ready, key(other))
    return begin

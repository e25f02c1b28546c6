"""Lower bounds that take milliseconds for any size, computed from the problem alone; every result has at least these.

They consider single operators, sums and paths, and ignore side constraints, limits and transfers, each of which can
only make plans longer or larger. The bound of each of opweave's problems is in ``trivial.py`` beside its solvers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any, TypeVar

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.problems.graph import OpGraph
from opweave.problems.on_cluster import ClusterProblem
from opweave.problems.problem import Problem
from opweave.solvers.registry import load_own
from opweave.solvers.rounding import SUMMATION

ProblemT = TypeVar("ProblemT", bound=Problem[Any, Any])

_OWN: dict[type[Problem[Any, Any]], Callable[[Any], int | float | None]] = {}
"""The bounds of opweave's problems. They are imported on first use, perhaps after a user has registered another one, so
they stand beside what users register."""


@singledispatch
def trivial_bound(problem: Problem[Any, Any]) -> int | float | None:
    """A lower bound on the objective in the problem's unit; None for unknown problem kinds.

    Parameters
    ----------
    problem
        Any problem.

    Examples
    --------
    >>> from opweave.problems.graph import Operator, Tensor
    >>> from opweave.problems.memory_ordering.spec import MemoryOrdering
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id="x", bytes=3), Tensor(id="y", bytes=4)],
    ...     operators=[Operator(id="p", inputs=["x"], outputs=["y"])],
    ... )
    >>> trivial_bound(MemoryOrdering(graph=graph))
    7
    """
    classes = [base for base in type(problem).__mro__ if issubclass(base, Problem)]
    for kind in {base.kind for base in classes}:
        load_own(kind, "trivial")
    return next((_OWN[base](problem) for base in classes if base in _OWN), None)


def own_bound(
    problem: type[ProblemT],
) -> Callable[[Callable[[ProblemT], int | float | None]], Callable[[ProblemT], int | float | None]]:
    """Decorator that registers the bound of a problem of opweave's; a user's own goes first, whenever it came."""

    def registering(bound: Callable[[ProblemT], int | float | None]) -> Callable[[ProblemT], int | float | None]:
        _OWN[problem] = bound
        return bound

    return registering


def least_seconds(seconds: FloatArray) -> FloatArray:
    """Every row's smallest known time; 0 if none is known."""
    least = np.where(np.isfinite(seconds), seconds, np.inf).min(axis=1, initial=np.inf)
    return np.asarray(np.where(np.isfinite(least), least, 0.0), dtype=np.float64)


def longest_path(graph: OpGraph, seconds: FloatArray) -> float:
    """The largest sum of seconds along a path."""
    successors = graph.arrays.successors
    start, items, lasts = successors.start.tolist(), successors.items.tolist(), seconds.tolist()
    ends = [0.0] * len(lasts)  # of the predecessors, until the operator's own turn
    for v in graph.listed_order.tolist():
        end = ends[v] = ends[v] + lasts[v]
        for w in items[start[v] : start[v + 1]]:
            ends[w] = max(ends[w], end)
    return max(ends, default=0.0)


def least_memory(problem: ClusterProblem) -> int:
    """Bytes of the largest operator, or those that some device holds when all others are as full as that one may be."""
    graph, weights = problem.graph, problem.graph.parameter_sizes.tolist()
    own = [0] * len(graph.operators) if problem.memory == "parameters" else graph.sizes_made.tolist()
    largest = max((size + sum(weights[p] for p in graph.uses[v].tolist()) for v, size in enumerate(own)), default=0)
    left, mean = sum(own) + sum(weights[p] for p in {*graph.uses.items.tolist()}), 0
    limits = sorted(math.inf if limit is None else limit for limit in problem.memory_limits.values())
    for others, limit in zip(range(len(limits), 0, -1), limits, strict=True):
        mean = -(-left // others)
        if limit >= mean:
            break
        left -= int(limit)
    return max(largest, mean)


def safe(seconds: float) -> float:
    """A little less than some seconds, by what rounding may have added to them."""
    return max(0.0, seconds * (1.0 - SUMMATION))

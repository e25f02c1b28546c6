"""Precedences that side constraints add to those of the data flow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opweave.formulations.expressions import expression, write_out
from opweave.problems.errors import InfeasibleError, InvalidInputError
from opweave.problems.graph_arrays import Adjacency, find_cycle
from opweave.problems.problem import Problem


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

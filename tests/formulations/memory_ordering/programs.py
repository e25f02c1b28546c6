"""Shared by the tests of the integer program: one instance by hand, and a solve without any head start."""

from __future__ import annotations

from typing import Any

import opweave as ow
from opweave.problems.constraints import Constraint
from tests.tiny import graph_of


class Inexpressible(Constraint):
    """A rule that no program knows."""

    def violations(self, problem: Any, solution: Any) -> Any:
        return ()


def two_branches(**fields: Any) -> ow.MemoryOrdering:
    """Two chains from x that meet: finish one (big, then small) before the other begins.

    big1, small1, big2, small2, join: 1 + 8, 1 + 8 + 1, 1 + 1 + 8, 1 + 8 + 1, then 1 + 1 + 1. The peak is 10; with both
    big ones first it is 17.
    """
    sizes = {"x": 1, "big1": 8, "small1": 1, "big2": 8, "small2": 1, "join": 1}
    reads = {"big1": "x", "big2": "x", "small1": "big1", "small2": "big2", "join": "small1 small2"}
    return ow.MemoryOrdering(graph_of(sizes, reads, "join"), **fields)


def solved(problem: ow.MemoryOrdering, formulation: str, **arguments: Any) -> ow.Result[Any]:
    """HiGHS on a formulation, without the greedy order and the bound that could spare it the work."""
    return ow.solve(problem, solver="highs", formulation=formulation, options={"head_start": False}, **arguments)


def agrees(result: ow.Result[Any], optimum: int | None) -> bool:
    """Whether a result proves the optimum, or that there is no order."""
    if optimum is None:
        return result.status is ow.Status.INFEASIBLE and bool(result.reason)
    return result.status is ow.Status.OPTIMAL and result.objective == optimum == result.bound

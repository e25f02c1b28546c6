from __future__ import annotations

import pytest

from opweave.formulations.reduction import Reduction, identity
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering


def _problem() -> MemoryOrdering:
    graph = OpGraph(tensors=[Tensor(id="x", bytes=4)], operators=[Operator(id="make", outputs=["x"])])
    return MemoryOrdering(graph=graph)


def _appending(name: str, *, exact: bool):
    def reduce(problem: MemoryOrdering) -> Reduction[MemoryOrdering, Ordering]:
        return Reduction(problem, lambda solution: Ordering(order=(*solution.order, name)), exact)

    return reduce


def test_identity_changes_nothing() -> None:
    problem = _problem()
    same = identity(problem)
    assert same.problem is problem
    assert same.exact
    assert same.lift(Ordering(order=["make"])) == Ordering(order=["make"])


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_the_last_of_two_is_lifted_first_and_both_must_be_exact(first: bool, second: bool) -> None:
    both = _appending("outer", exact=first)(_problem()).then(_appending("inner", exact=second))
    assert both.lift(Ordering(order=["make"])).order == ("make", "inner", "outer")
    assert both.exact is (first and second)

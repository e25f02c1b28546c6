from __future__ import annotations

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


def test_the_last_reduction_is_lifted_first() -> None:
    both = _appending("outer", exact=True)(_problem()).then(_appending("inner", exact=True))
    assert both.lift(Ordering(order=["make"])).order == ("make", "inner", "outer")


def test_a_chain_is_exact_when_every_link_is() -> None:
    for first in (True, False):
        for second in (True, False):
            both = _appending("a", exact=first)(_problem()).then(_appending("b", exact=second))
            assert both.exact is (first and second)

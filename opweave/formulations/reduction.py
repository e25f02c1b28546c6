"""Reductions: a problem rewritten as a smaller one, and the conversion of its solutions back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from opweave.problems.problem import Problem
from opweave.problems.solution import Solution

ProblemT = TypeVar("ProblemT", bound=Problem[Any, Any])
SolutionT = TypeVar("SolutionT", bound=Solution)


@dataclass(frozen=True, slots=True)
class Reduction(Generic[ProblemT, SolutionT]):
    """A smaller problem, and how its solutions become solutions of the original.

    A lifted solution is valid if the solution of the smaller problem is, and has the same objective.

    Attributes
    ----------
    problem
        The smaller problem, for any solver of its kind.
    lift
        Converts a solution of the smaller problem to one of the original.
    exact
        Whether both problems have the same optimum. Then every lower bound of the smaller problem holds for the
        original, and if the smaller problem has no solution, the original has none either.

    Examples
    --------
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
    >>> graph = OpGraph(tensors=[Tensor(id="x", bytes=4)], operators=[Operator(id="make", outputs=["x"])])
    >>> same = identity(MemoryOrdering(graph=graph))
    >>> same.exact, same.lift(Ordering(order=["make"])).order
    (True, ('make',))
    """

    problem: ProblemT
    lift: Callable[[SolutionT], SolutionT]
    exact: bool

    def then(self, further: Callable[[ProblemT], Reduction[ProblemT, SolutionT]]) -> Reduction[ProblemT, SolutionT]:
        """Reduce the smaller problem once more; the result is exact if both steps are."""
        second = further(self.problem)
        first_lift, second_lift = self.lift, second.lift
        return Reduction(
            problem=second.problem,
            lift=lambda solution: first_lift(second_lift(solution)),
            exact=self.exact and second.exact,
        )


def identity(problem: ProblemT) -> Reduction[ProblemT, Any]:
    """The reduction that changes nothing."""
    return Reduction(problem=problem, lift=lambda solution: solution, exact=True)

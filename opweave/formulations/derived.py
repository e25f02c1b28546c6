"""What is derived from problems: values that are computed once per problem, and smaller problems (reductions).

Problems never change, so a value is computed once per problem object. A reduction is a problem rewritten as a smaller
one, and the conversion of its solutions back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, TypeVar

from opweave.problems.limits import DEFAULT_LIMITS
from opweave.problems.problem import Problem, collector_paused
from opweave.problems.solution import Solution

ProblemT = TypeVar("ProblemT", bound=Problem[Any, Any])
SolutionT = TypeVar("SolutionT", bound=Solution)
ValueT = TypeVar("ValueT")


def once(work_out: Callable[[ProblemT], ValueT]) -> Callable[[ProblemT], ValueT]:
    """Remember the value of a problem for as long as that object lives; errors are raised anew each time.

    Values are shared, so callers must not change them.
    """
    key = f"{work_out.__module__}.{work_out.__qualname__}"

    @wraps(work_out)
    def asked(problem: ProblemT) -> ValueT:
        kept = problem.__dict__  # cached views are there, too; copies and pickles leave them out
        if key not in kept:
            with collector_paused():
                kept[key] = work_out(problem)
        value: ValueT = kept[key]
        return value

    return asked


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


def identity(problem: ProblemT) -> Reduction[ProblemT, Any]:
    """The reduction that changes nothing."""
    return Reduction(problem=problem, lift=lambda solution: solution, exact=True)


def fused_names(groups: Iterable[Sequence[str]], taken: Collection[str]) -> list[str]:
    """A name for each group of operators: that of a single one, otherwise a new one.

    Examples
    --------
    >>> fused_names([["p"], ["q", "r"]], ["p", "q", "r", "q..r"])
    ['p', "q..r'"]
    """
    used, names = {*taken}, list[str]()
    for first, *more in groups:
        name = f"{first}..{more[-1]}" if more else first
        if more and len(name) > DEFAULT_LIMITS.id_characters:
            name = f"fused {len(names)}"
        while more and name in used:
            name += "'"
        used.add(name)
        names.append(name)
    return names

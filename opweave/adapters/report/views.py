"""The views of all problems: a problem's own, or the general one."""

from __future__ import annotations

from functools import cache
from typing import Any

from opweave.adapters.report.view import AnyView, View
from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.result import Result


@cache
def views() -> tuple[type[AnyView], ...]:
    """List the problems' own views; they are imported on first use, so that ``import opweave`` stays light."""
    from opweave.adapters.report.mapping import BatchedMappingView, PlacementView, SlicingView
    from opweave.adapters.report.memory import MemoryLayoutView, MemoryOrderingView
    from opweave.adapters.report.stages import PipelineView, ServingFlowView

    return (
        MemoryOrderingView,
        PlacementView,
        PipelineView,
        BatchedMappingView,
        SlicingView,
        MemoryLayoutView,
        ServingFlowView,
    )


def show(problem: Problem[Any, Any], result: Result[Any]) -> AnyView:
    """Make the view of a result: its rows, plan, trace and pictures.

    Raises
    ------
    InvalidInputError
        If the result belongs to another problem.
    """
    if result.problem != problem.kind:
        raise InvalidInputError(f"the result is one of {result.problem!r:.60}, the problem is {problem.kind!r}")
    return view_of(type(problem))(problem, result)


def explain(problem: Problem[Any, Any] | Result[Any], result: Result[Any] | None = None) -> str:
    """Summarise a result: what limits the plan, what is proved, or why there is no plan.

    Parameters
    ----------
    problem
        The problem that was solved; or its result alone.
    result
        What :func:`~opweave.solvers.solve.solve` returned for it.

    Raises
    ------
    InvalidInputError
        If the result belongs to another problem, or is alone and does not know its problem.

    Examples
    --------
    >>> import opweave as ow
    >>> tensors = [ow.Tensor(id="x", bytes=4), ow.Tensor(id="y", bytes=4)]
    >>> copy = ow.Operator(id="copy", inputs=["x"], outputs=["y"])
    >>> problem = ow.MemoryOrdering(graph=ow.OpGraph(tensors=tensors, operators=[copy]))
    >>> explain(ow.solve(problem))
    'The order needs 8 B; the peak is at copy. It is proved that no order needs less.'
    """
    if isinstance(problem, Result):
        return view_alone(problem).explain()
    if result is None:
        raise InvalidInputError("explain needs a result; write result = solve(problem), then result.explain()")
    return show(problem, result).explain()


def view_alone(result: Result[Any]) -> AnyView:
    """Make the view of a result that knows its problem.

    Raises
    ------
    InvalidInputError
        If it does not, because it was read from a file.
    """
    return show(problem_of(result), result)


def problem_of(result: Result[Any]) -> Problem[Any, Any]:
    """The problem that a result answers.

    Raises
    ------
    InvalidInputError
        If the result does not know, because it was read from a file.
    """
    if result.answers is None:
        raise InvalidInputError(
            "this result does not know its problem, because files and pickles of results do not contain it; write "
            "result.of_problem(problem)"
        )
    return result.answers


@cache
def view_of(problem_type: type[Problem[Any, Any]]) -> type[AnyView]:
    """Find the view of a problem class: its own, or the general view with the problem's kind as its word."""
    for view in views():
        if issubclass(problem_type, view.problem_type):
            return view
    return type(f"{problem_type.__name__}View", (View,), {"problem_type": problem_type, "__module__": __name__})


def view_for(word: str) -> type[AnyView]:
    """Find a view by the name that the command line, or JSON, gives its problem.

    Raises
    ------
    InvalidInputError
        If there is no such problem.
    """
    for view in views():
        if word in (view.word, view.problem_type.kind):
            return view
    known = Problem.kinds()
    if word in known:
        return view_of(known[word])
    own = [kind for kind, each in known.items() if not any(issubclass(each, view.problem_type) for view in views())]
    words = ", ".join([*(view.word for view in views()), *own])
    raise InvalidInputError(f"no problem is called {word!r:.60}; there are: {words}")

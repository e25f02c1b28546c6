"""Solvers of users: a function becomes a solver with one line above it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from opweave.problems.errors import InvalidInputError, blaming, named_code
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.registry import Feature, Proves, Solver, register_solver
from opweave.solvers.run import Outcome, Run

Answer = Outcome | Solution | None
Function = Callable[[Any, Run], Answer]
FunctionT = TypeVar("FunctionT", bound=Function)


def solver_for(
    problem: type[Problem[Any, Any]],
    *,
    name: str | None = None,
    about: str | None = None,
    proves: Proves = "nothing",
    baseline: bool = False,
    features: Collection[Feature] = (),
    supports: Collection[str] = (),
) -> Callable[[FunctionT], FunctionT]:
    """Decorate a function ``f(problem, run)`` so that ``solve(problem, solver=name)`` calls it.

    The function returns a solution, or reports what it finds in between, ``run.found(solution, objective)`` and
    ``run.proved(bound, source)``, asks ``run.should_stop()`` now and then, and returns an :class:`Outcome` or None. The
    referee judges what it finds. The time limit interrupts it.

    Parameters
    ----------
    problem
        The class of the problem that it solves.
    name
        The solver's name; None for the function's.
    about
        One line for :func:`list_solvers`; None for the first line of the function's docstring.
    proves
        "optimum", "bound" or "nothing": what the solver can prove.
    baseline
        Whether it is a simple solver with which others are compared.
    features
        The optional arguments of ``solve`` that it honours; others are refused.
    supports
        The targets of :func:`express` that it understands: side constraints that are registered for none of them are
        refused. Name a target of its own to teach it rules, or ``"violations"`` if it asks ``problem.evaluate`` about
        its plans before it reports them: then it takes every rule.

    Raises
    ------
    InvalidInputError
        If opweave has a solver of that name.

    See Also
    --------
    register_solver : the same for a :class:`Solver`, which may have options, and packages that it needs.

    Examples
    --------
    >>> import opweave as ow
    >>> @solver_for(ow.MemoryOrdering)
    ... def as_listed(problem, run):
    ...     "The operators in the order of the graph."
    ...     return ow.Ordering(order=[op.id for op in problem.graph.operators])
    >>> graph = ow.OpGraph(tensors=[], operators=[ow.Operator(id="a"), ow.Operator(id="b")])
    >>> ow.solve(ow.MemoryOrdering(graph=graph), solver="as_listed").solution.order
    ('a', 'b')
    """
    if not (isinstance(problem, type) and issubclass(problem, Problem)):
        raise InvalidInputError(f"solver_for takes a class of problems, such as ow.Placement, and not {problem!r:.60}")

    def register(function: FunctionT) -> FunctionT:
        called = function.__name__ if name is None else name
        said = (function.__doc__ or "").strip().partition("\n")[0] if about is None else about
        register_solver(
            Solver(
                name=called,
                problem=problem.kind,
                kind="algorithm",
                run=functools.wraps(function)(functools.partial(_called, function)),
                about=said or called,
                proves=proves,
                baseline=baseline,
                features=frozenset(features),
                supports=tuple(supports),
            )
        )
        return function

    return register


def _called(function: Function, problem: Problem[Any, Any], run: Run) -> Outcome:
    """Call the function; a solution that it returns counts if the referee accepts it."""
    with blaming(named_code("the solver", function)):
        answer = function(problem, run)
    if answer is not None and not isinstance(answer, Outcome | problem.solution_type):
        wanted, given = problem.solution_type.__name__, type(answer).__name__
        said = f"the solver returned an object of type {given}; it should return {wanted}(...), or None"
        return Outcome(Termination.ENGINE_ERROR, reason=said)
    if isinstance(answer, Solution):
        judged = problem.evaluate(answer)
        if not judged.feasible or judged.objective is None:
            reason = judged.violations[0].message if judged.violations else "it has no objective"
            return Outcome(run.termination(), reason=f"the solver returned a plan that is not valid: {reason}")
        run.found(answer, judged.objective)
    nothing = None if run.candidates else "the solver returned no plan and reported none with run.found"
    return answer if isinstance(answer, Outcome) else Outcome(run.termination(), reason=nothing)

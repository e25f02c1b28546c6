"""What if? A grid over fields of a problem, each point solved, bounds and plans carried from point to point."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any, Literal

from opweave.problems.errors import InvalidInputError, checked_call
from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue, Result
from opweave.problems.spec import FrozenDict, Lists
from opweave.solvers.questions.answers import Answer, Answers, Report, answered, readable_value
from opweave.solvers.questions.changes import Grid, points_of
from opweave.solvers.questions.relaxation import Series
from opweave.solvers.registry import find_solver

AnyProblem = Problem[Any, Any]


class Sweep(Answers):
    """What a solver found at every point of a grid.

    Attributes
    ----------
    problem, unit
        The problem's kind, and the unit of its objective.
    solver
        The solver.
    axes
        The values of every axis, in the order asked.
    rows
        One :class:`~opweave.solvers.questions.answers.Answer` for each point, the last axis changing first.
    """

    schema_version: Literal[1] = 1
    unit: str
    solver: str
    axes: Lists[str, OptionValue]

    def at(self, **values: OptionValue) -> Answer:
        """The first row with these values.

        Raises
        ------
        InvalidInputError
            When no row has them.
        """
        for each in self.rows:
            if all(each.values.get(name) == value and name in each.values for name, value in values.items()):
                return each
        raise InvalidInputError(f"no point of the grid has {values!r:.200}; the axes are {dict(self.axes)!r:.300}")


@checked_call
def sweep(
    problem: AnyProblem,
    grid: Grid,
    *,
    solver: str = "auto",
    formulation: str | None = None,
    time_limit: float | None = None,
    gap: float = 0.0,
    seed: int = 0,
    threads: int = 1,
    options: Mapping[str, OptionValue] | None = None,
    executor: Executor | None = None,
    progress: Report | bool | None = None,
) -> Sweep:
    """Solve a problem at every point of a grid over its fields.

    If one point is a relaxation of another (more memory, faster links, a higher limit, more stages allowed), its lower
    bound also holds for the other one, and a plan of the other one is also one of its own. Both are reused, so along
    such an axis neither objectives nor bounds ever rise. Other fields, such as the batch, are independent.

    Parameters
    ----------
    problem
        The problem from which all points begin.
    grid
        The values of every axis, by its name:

        * ``"memory"``: bytes of all devices; ``"memory:NAME"``: of one; None for no limit.
        * ``"bandwidth"``, ``"latency"``: of all links.
        * ``"devices"``: the most devices that may be used; ``"stages"``: the most stages of a pipeline.
        * any field of the problem, such as ``"batch"`` or ``"limit_bytes"``.

        A value is set; a text like ``"0.5x"`` scales what the problem has. A function of a problem that returns another
        problem can be a value of any axis. ``{"links": {"today": same, "next year": faster}}`` names the values.
    solver, formulation, gap, threads, executor, options
        As in :func:`~opweave.solvers.solve.solve`.
        A point begins from the best plan that its neighbours have by then if the solver takes a start, and is not
        solved at all if what is known from other points settles it.
    time_limit
        Seconds for each point; None for no limit.
    seed
        Seed of every solve.
    progress
        Called with the number of finished points and of all; True for a progress bar.

    Returns
    -------
    Sweep
        A row for each point. A point that is not a valid problem, such as memory of less than 0 bytes, has a row that
        says why.

    Raises
    ------
    InvalidInputError
        For an unknown axis, or a grid none of whose problems can be built.
    UnknownSolverError, SolverNotAvailableError
        When the solver cannot run.

    Examples
    --------
    >>> import opweave as ow
    >>> graph = ow.OpGraph(
    ...     tensors=[ow.Tensor(id=name, bytes=size) for name, size in (("x", 4), ("a", 9), ("b", 1))],
    ...     operators=[ow.Operator(id=name, inputs=["x"], outputs=[name]) for name in ("a", "b")],
    ...     outputs=["b"],
    ... )
    >>> found = ow.sweep(ow.MemoryOrdering(graph=graph), {"limit_bytes": [12, 13, None]})
    >>> [(row.values["limit_bytes"], row.status.value, row.objective) for row in found.rows]
    [(12, 'infeasible', None), (13, 'optimal', 13), (None, 'optimal', 13)]
    """
    points = points_of(problem, grid)
    find_solver(next(each.problem for each in points if each.problem is not None), solver)
    arguments = {
        "gap": gap,
        "seed": seed,
        "threads": threads,
        "options": options,
        "formulation": formulation,
        "executor": executor,
    }
    series, cases = Series(solver, arguments), {}
    for number, point in enumerate(points):
        if point.problem is not None:
            words = (f"{axis} {readable_value(axis, value)}" for axis, value in point.values.items())
            cases[number] = series.add(point.problem, ", ".join(words))
    order = sorted(cases, key=lambda number: -len(cases[number].tighter))
    found = answered({number: partial(series.solve, cases[number], time_limit) for number in order}, progress, "points")
    rows = []
    for number, point in enumerate(points):
        answer = found.get(number, point.refusal or "")
        if isinstance(answer, Result):
            cases[number].learn()
            answer = cases[number].result
        rows.append(Answer.of(solver, answer, point.values))
    axes = {name: tuple(dict.fromkeys(each.values[name] for each in points)) for name in points[0].values}
    return Sweep(problem=problem.kind, unit=problem.unit, solver=solver, axes=FrozenDict(axes), rows=tuple(rows))

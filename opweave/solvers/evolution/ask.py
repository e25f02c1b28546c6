"""``pymoo_problem``: a problem of opweave's in the hands of a user of pymoo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.solvers.evolution.encoding import encoding_of
from opweave.solvers.evolution.objectives import Objectives
from opweave.solvers.registry import load_solvers

if TYPE_CHECKING:
    from opweave.solvers.evolution.pymoo_problem import PymooProblem


def pymoo_problem(problem: Problem[Any, Any], objectives: Sequence[str] | None = None) -> PymooProblem:
    """Write a problem as a ``Problem`` of pymoo's, for any of pymoo's algorithms.

    A row is a plan: keys order the operators, other genes place or cut them. All genes are real numbers from 0 to 1,
    and every row can be decoded. ``G`` has a column for each limit (memory, links, ...) and for each side constraint
    that does not hold for every row by itself, judged by the constraint's own ``violations``.

    Parameters
    ----------
    problem
        A memory ordering, placement, batched mapping, pipeline or slicing.
    objectives
        What to minimise: "objective" for the problem's own, or measures of the timeline, such as
        ``("makespan", "peak")``; "throughput" is maximised. None for the problem's own objective.

    Returns
    -------
    PymooProblem
        ``decode(row)`` gives the solution of a row and ``encode(solution)`` a row, ``seeds()`` a ``Sampling`` that
        begins with the plans of baselines, and ``repair`` a ``Repair``. ``objective_names`` and ``constraint_names``
        name the columns of ``F`` and ``G``. Whole arrays of rows are judged at once.

    Raises
    ------
    InvalidInputError
        For an unknown objective, or a problem without an encoding.
    ContradictionError
        When the problem evidently has no solution.

    Examples
    --------
    >>> import opweave as ow
    >>> from pymoo.algorithms.soo.nonconvex.ga import GA
    >>> from pymoo.optimize import minimize
    >>> graph = ow.OpGraph(
    ...     tensors=[ow.Tensor(id=name, bytes=size) for name, size in {"x": 1, "a": 8, "b": 2, "c": 1, "y": 1}.items()],
    ...     operators=[
    ...         ow.Operator(id="a", inputs=["x"], outputs=["a"]),
    ...         ow.Operator(id="b", inputs=["x"], outputs=["b"]),
    ...         ow.Operator(id="c", inputs=["a"], outputs=["c"]),
    ...         ow.Operator(id="y", inputs=["b", "c"], outputs=["y"]),
    ...     ],
    ...     outputs=["y"],
    ... )
    >>> rows = ow.pymoo_problem(ow.MemoryOrdering(graph=graph))
    >>> found = minimize(rows, GA(pop_size=10, sampling=rows.seeds(), repair=rows.repair), ("n_gen", 5), seed=1)
    >>> rows.decode(found.X).order, float(found.F[0])
    (('a', 'c', 'b', 'y'), 10.0)
    """
    if not isinstance(problem, Problem):
        given = type(problem).__name__
        raise InvalidInputError(f"problem is of type {given}; it must be a problem, such as a Placement")
    load_solvers(problem.kind)  # and with them the encoding
    encoding = encoding_of(problem)
    from opweave.solvers.evolution.pymoo_problem import PymooProblem

    return PymooProblem(Objectives(problem, encoding, objectives))

"""Rows judged with everything that counts: objectives, the encoding's limits, and every other side constraint.

An encoding judges many rows at once. A side constraint that it does not know is asked for its ``violations``, plan by
plan; measures are read from the timeline of each plan. This is slow but right for any rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.problems.constraints import Constraint, objections
from opweave.problems.errors import InvalidInputError
from opweave.problems.measures import MEASURES
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.solvers.evolution.encoding import Encoding, encoding_of
from opweave.solvers.registry import load_solvers

if TYPE_CHECKING:
    from opweave.solvers.evolution.pymoo_problem import PymooProblem

OBJECTIVE = "objective"
"""The problem's own objective, among the names of objectives."""

SHORT: Mapping[str, str] = {"peak": "peak_bytes", "total": "total_bytes"}
"""Short names of measures."""

LARGER_IS_BETTER = frozenset({"throughput"})
"""Measures that are minimised with their sign changed."""


WORST = 1e16
"""Stands for the objective of a row that cannot be carried out: no sum of seconds or bytes is larger."""


class Worth(NamedTuple):
    """Rows judged.

    Attributes
    ----------
    objectives
        What is minimised, finite for every row. Shape (rows, objectives).
    violations
        0 where a rule holds, else more than 0. Shape (rows, rules).
    value
        The problem's own objective; inf where a row cannot be carried out. Shape (rows,).
    """

    objectives: FloatArray
    violations: FloatArray
    value: FloatArray


class Objectives:
    """What is minimised, and what must hold, for rows of an encoding.

    Attributes
    ----------
    names
        The objectives: ``"objective"`` or measures of the timeline.
    rules
        Names of the columns of :attr:`Worth.violations`: the encoding's limits, then kinds of side constraints.
    """

    def __init__(self, problem: Problem[Any, Any], encoding: Encoding, names: Sequence[str] | None = None) -> None:
        self.problem = problem
        self.encoding = encoding
        self.names = tuple(_known(name) for name in ((OBJECTIVE,) if names is None else names))
        self._asked = tuple(each for each in problem.constraints if not encoding.knows(each))
        self.rules = (*encoding.limits, *(each.kind for each in self._asked))
        self._played = tuple(name for name in self.names if name != OBJECTIVE)

    def judge(self, rows: FloatArray) -> Worth:
        """Judge rows. Shape (rows, genes)."""
        judged = self.encoding.judge(rows)
        carried_out = np.isfinite(judged.objective)
        asked = np.zeros((len(rows), len(self._asked)))
        asked[~carried_out] = 1.0
        columns = {OBJECTIVE: judged.objective, **{name: np.full(len(rows), np.inf) for name in self._played}}
        if self._asked or self._played:
            for p in np.flatnonzero(carried_out).tolist():
                solution = self.encoding.decode(rows[p])
                asked[p] = [broken(self.problem, each, solution) for each in self._asked]
                for name, value in self._measured(solution).items():
                    columns[name][p] = value
        objectives = np.stack([columns[name] for name in self.names], axis=1)
        worst = np.where(np.isfinite(objectives), objectives, WORST)
        return Worth(worst, np.concatenate([judged.excess, asked], axis=1), judged.objective)

    def _measured(self, solution: Solution) -> dict[str, float]:
        """The measures of a solution.

        Raises
        ------
        InvalidInputError
            For a measure that this problem has not.
        """
        timeline = self.problem.play(solution) if self._played else None
        found = {}
        for name in self._played:
            value = None if timeline is None else MEASURES[name](timeline)
            if value is None:
                raise InvalidInputError(f"{name!r} has no meaning for this {type(self.problem).__name__}")
            found[name] = -float(value) if name in LARGER_IS_BETTER else float(value)
        return found


def broken(problem: Problem[Any, Any], constraint: Constraint, solution: Solution) -> float:
    """How badly a solution breaks a side constraint: 1 for each violation, and the logarithm of its excess."""
    violations = objections(constraint, problem, solution)
    return float(sum(1.0 + math.log1p(max(0.0, violation.excess or 0.0)) for violation in violations))


def _known(name: str) -> str:
    """The full name of an objective.

    Raises
    ------
    InvalidInputError
        For a name that is no measure.
    """
    full = SHORT.get(name, name)
    if full != OBJECTIVE and full not in MEASURES:
        known = ", ".join(map(repr, (OBJECTIVE, *MEASURES)))
        raise InvalidInputError(f"{name!r} is not an objective; the objectives are: {known}")
    return full


def pymoo_problem(problem: Problem[Any, Any], objectives: Sequence[str] | None = None) -> PymooProblem:
    """Write a problem as a ``Problem`` of pymoo, for any of its algorithms.

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
    from opweave.solvers.evolution.pymoo_problem import PymooProblem

    return PymooProblem(Objectives(problem, encoding_of(problem), objectives))

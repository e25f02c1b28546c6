"""Which solver honours which side constraint, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opweave.problems.constraints import BUILT_IN, Constraint
from opweave.problems.problem import Problem
from opweave.problems.rows import Rows
from opweave.solvers.registry import HonouredConstraints, load_solvers


def constraint_table(
    problem: Problem[Any, Any] | type[Problem[Any, Any]] | str | None = None,
    constraints: Iterable[type[Constraint]] = BUILT_IN,
) -> Rows[HonouredConstraints]:
    """List which side constraints each solver honours.

    Parameters
    ----------
    problem
        A problem, its class or its kind; None for all.
    constraints
        Classes of constraints, such as your own; by default those of opweave. Constraints that do not concern a problem
        are left out of its rows: memory ordering has no devices, pipelines have no times.

    Examples
    --------
    >>> row = next(row for row in constraint_table("placement") if row.solver == "heft")
    >>> row.by_simpler, row.refused
    (('Separate', 'MaxDevices'), ())
    >>> "Separate" in row.exactly
    False
    """
    kind = problem if isinstance(problem, str) or problem is None else problem.kind
    chosen = tuple(constraints)
    return Rows(solver.honours(chosen) for solver in load_solvers(kind))

"""Which solver honours which side constraint, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from opweave.formulations.expressions import expressible
from opweave.problems.constraints import BUILT_IN, Constraint
from opweave.problems.problem import Problem
from opweave.problems.shown import Rows
from opweave.solvers.registry import Solver, concerning, load_solvers


@dataclass(frozen=True, slots=True)
class HonouredConstraints:
    """One row of :func:`constraint_table`: what a solver does with side constraints, by the names of their classes.

    Attributes
    ----------
    problem, solver
        Kind of the problem and name of the solver.
    available
        Whether the solver can run on this machine.
    honoured
        Constraints that its plans obey.
    refused
        Constraints with which it raises :class:`~opweave.problems.errors.UnsupportedConstraintError`.
    """

    problem: str
    solver: str
    available: bool
    honoured: tuple[str, ...]
    refused: tuple[str, ...]


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
    >>> row.refused
    ('Separate', 'MaxDevices')
    """
    kind = problem if isinstance(problem, str) or problem is None else problem.kind
    chosen = tuple(constraints)
    return Rows(_row(solver, concerning(solver.problem, chosen)) for solver in load_solvers(kind))


def _row(solver: Solver, asked: Iterable[type[Constraint]]) -> HonouredConstraints:
    names: dict[bool, list[str]] = {True: [], False: []}
    for kind in asked:
        names[expressible(kind, solver.supports)].append(kind.__name__)
    return HonouredConstraints(
        solver.problem, solver.name, solver.missing() is None, tuple(names[True]), tuple(names[False])
    )

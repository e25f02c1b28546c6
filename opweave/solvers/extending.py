"""Letting engines and the referee honour what default solvers do not understand; :mod:`.extended` says how."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from opweave.formulations.expressions import MODEL, VIOLATIONS
from opweave.problems.problem import Problem
from opweave.solvers.registry import Feature, Solver, register, registered
from opweave.solvers.run import Outcome, Run


def extend_plans(kind: str) -> None:
    """Let engines and the referee honour what the searches of a problem's default solvers do not support."""
    for solver in registered(kind):
        if solver.kind == "plan" and VIOLATIONS not in solver.supports:
            register(
                replace(
                    solver,
                    run=partial(_solve, solver),
                    features=solver.features | {Feature.EXTEND},
                    supports=(*solver.supports, MODEL, VIOLATIONS),
                )
            )


def _solve(plan: Solver, problem: Problem[Any, Any], run: Run) -> Outcome:
    """Run a default solver, with engines after it if there are rules or rows that it does not understand."""
    if run.extend is None and not plan.beyond(problem):
        return plan.run(problem, run)
    from opweave.solvers.extended import solve_extended  # most solves do without it

    return solve_extended(plan, problem, run)

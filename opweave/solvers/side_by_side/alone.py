"""Running a solver: alone, as in most solves, or with helpers, whose modules are imported only then."""

from __future__ import annotations

from typing import Any

from opweave.problems.problem import Problem
from opweave.solvers.registry import Solver
from opweave.solvers.run import Outcome, Run


def start_helpers(kind: str, run: Run) -> None:
    """Start the processes of a solve early, if it uses several of this machine: they import while this one does."""
    if run.threads > 1 and run.executor is None:
        from opweave.solvers.side_by_side.ready import READY

        READY.prepare(kind, range(1, run.threads))


def run_solver(problem: Problem[Any, Any], solver: Solver, run: Run) -> Outcome:
    """Run a solver: alone, with ``run.threads`` processes of this machine, with tasks on ``run.executor``, or both.

    Before this returns, lanes elsewhere are killed, or left alone if they cannot be killed.
    """
    alone = solver.lanes is None or (run.threads == 1 and run.executor is None)
    if alone or run.extend is not None or solver.beyond(problem):  # a default solver has lanes for its searches alone
        return solver.run(problem, run)
    from opweave.solvers.side_by_side.lead import run_with_helpers

    return run_with_helpers(problem, solver, run)

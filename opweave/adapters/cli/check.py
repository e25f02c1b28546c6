"""Judging a result from another source: the referee recomputes its figures and checks its claims."""

from __future__ import annotations

from typing import Any

from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.solvers.run import RELATIVE_TOLERANCE

SHOWN_VIOLATIONS = 10


def judge(problem: Problem[Any, Any], claimed: Result[Any]) -> list[str]:
    """Find everything that is wrong with a result.

    Parameters
    ----------
    problem
        The problem that the result should solve.
    claimed
        Any result; its claims are not trusted. The bound is checked only against the objective, because it cannot be
        recomputed from the problem alone.

    Returns
    -------
    list of str
        Sentences; empty when the solution is valid and has the claimed objective.
    """
    misfit = _misfit(problem, claimed)
    if misfit is not None:
        return [misfit]
    evaluation = problem.evaluate(claimed.solution)
    if not evaluation.feasible:
        return [violation.message for violation in evaluation.violations[:SHOWN_VIOLATIONS]]
    found, said, bound = evaluation.objective, claimed.objective, claimed.bound
    wrong = []
    if found is None or said is None or not _agree(found, said):
        wrong.append(f"the result claims {_count(said)} {problem.unit}, the referee counts {_count(found)}")
    if bound is not None and found is not None and bound > found and not _agree(bound, found):
        wrong.append(f"the claimed bound of {_count(bound)} {problem.unit} lies above the objective of {_count(found)}")
    return wrong


def _misfit(problem: Problem[Any, Any], claimed: Result[Any]) -> str | None:
    if claimed.problem != problem.kind:
        return f"the result is for a {claimed.problem} problem, the file holds a {problem.kind} problem"
    if claimed.solution is None:
        return f"the result has no solution (status {claimed.status.value})"
    if not isinstance(claimed.solution, problem.solution_type):
        return f"the solution is a {claimed.solution.kind}, not a {problem.solution_type.kind}"
    return None


def _agree(first: float, second: float) -> bool:
    if isinstance(first, int) and isinstance(second, int):
        return first == second
    return abs(first - second) <= RELATIVE_TOLERANCE * max(1.0, abs(first), abs(second))


def _count(value: float | None) -> str:
    return "nothing" if value is None else f"{value:,}"

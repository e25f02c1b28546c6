"""The details that the referee measured while it replayed a solution; views show them."""

from __future__ import annotations

from opweave.problems.problem import DetailsT, Problem, SolutionT


def details_of(problem: Problem[SolutionT, DetailsT], solution: SolutionT) -> DetailsT:
    """Replay a solution and return its details.

    Raises
    ------
    ValueError
        If it cannot be replayed.
    """
    evaluation = problem.evaluate(solution)
    if evaluation.details is None:
        raise ValueError(f"the solution cannot be replayed: {evaluation.violations[0].message}")
    return evaluation.details

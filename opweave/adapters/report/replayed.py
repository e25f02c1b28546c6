"""What the referee measured while it replayed a solution: the figures that views show."""

from __future__ import annotations

from opweave.problems.problem import DetailsT, Problem, SolutionT


def details_of(problem: Problem[SolutionT, DetailsT], solution: SolutionT) -> DetailsT:
    """Replay a solution and return what was measured on the way.

    Raises
    ------
    ValueError
        When it cannot be replayed.
    """
    evaluation = problem.evaluate(solution)
    if evaluation.details is None:
        raise ValueError(f"the solution cannot be replayed: {evaluation.violations[0].message}")
    return evaluation.details

"""A quick front without proofs: NSGA-II on the encodings of plans, judged by the referee at the end.

Source: Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", IEEE Trans. Evolutionary Computation
6(2), 2002, doi:10.1109/4235.996017.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from opweave.problems.measures import MEASURES
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.solvers.evolution.objectives import LARGER_IS_BETTER, SHORT, pymoo_problem
from opweave.solvers.questions.moving_limits import undominated

AnyProblem = Problem[Any, Any]
Compromise = tuple[tuple[int | float, ...], Solution]
"""The measures of a plan, and the plan."""

POPULATION, GENERATIONS = 100, 200


def genetic_front(
    problem: AnyProblem, measures: Sequence[str], *, time_limit: float | None, seed: int
) -> list[Compromise]:
    """Search plans of which none beats another in all measures, by the first measure.

    Raises
    ------
    InvalidInputError
        For a name that is no measure of the timeline, or one that has no meaning for the problem.
    """
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.optimize import minimize
    from pymoo.termination import get_termination

    began, full = time.perf_counter(), [SHORT.get(name, name) for name in measures]
    rows = pymoo_problem(problem, full)
    plans = [rows.decode(np.zeros(0))] if rows.n_var == 0 else []
    if rows.n_var:
        search = NSGA2(pop_size=POPULATION, sampling=rows.seeds(), repair=rows.repair)
        left = None if time_limit is None else max(0.0, time_limit - (time.perf_counter() - began))
        ends = get_termination("n_gen", GENERATIONS) if left is None else get_termination("time", left)
        found = minimize(rows, search, ends, seed=seed).X
        plans = [] if found is None else [rows.decode(row) for row in np.atleast_2d(found)]
    measured = [(values, plan) for plan in plans if (values := _measured(problem, plan, full)) is not None]
    signs = [-1 if name in LARGER_IS_BETTER else 1 for name in full]
    lowered = [tuple(sign * value for sign, value in zip(signs, values, strict=True)) for values, _ in measured]
    return [measured[k] for k in undominated(lowered)]


def _measured(problem: AnyProblem, plan: Solution, measures: Sequence[str]) -> tuple[int | float, ...] | None:
    """The measures of a plan; None if the referee objects to it."""
    judged = problem.evaluate(plan)
    if not judged.feasible or judged.objective is None:
        return None
    timeline = judged.timeline or problem.play(plan)
    values = [] if timeline is None else [MEASURES[name](timeline) for name in measures]
    known = [value for value in values if value is not None]
    return tuple(known) if len(known) == len(measures) else None

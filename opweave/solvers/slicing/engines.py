"""Engines that run the program over cuts, with the best baseline as a head start."""

from __future__ import annotations

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.slicing import milp  # noqa: F401 - it registers itself
from opweave.formulations.slicing.instance import lower
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.slicing.arrays import arrays_of
from opweave.solvers.slicing.baselines import RULES
from opweave.solvers.trivial import trivial_bound


def best_baseline(problem: Slicing) -> Slices | None:
    """The best baseline that obeys the whole problem; None when none does."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    arrays = arrays_of(instance)
    plans = [rule(problem, instance, arrays) for rule, _ in RULES.values()]
    for plan in sorted(plans, key=lambda plan: plan.seconds):
        if plan.legal:
            solution = instance.solution(plan.mode, plan.cuts)
            if problem.evaluate(solution).feasible:
                return solution
    return None


KNOWN_BEFORE = HeadStart(initial=best_baseline, lower_bound=trivial_bound)


register_engines(Slicing, "an integer program over cuts", KNOWN_BEFORE)

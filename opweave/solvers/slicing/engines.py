"""Engines that run the program over cuts, with the best baseline and the instant bound as a head start."""

from __future__ import annotations

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.slicing import cp, milp  # noqa: F401 - they register themselves
from opweave.formulations.slicing.instance import lower
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_cp_sat, register_engines
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.slicing.arrays import arrays_of
from opweave.solvers.slicing.baselines import RULES
from opweave.solvers.slicing.bounds.best import MOST_DEVICES, bounding
from opweave.solvers.slicing.bounds.blocks import blocks_of
from opweave.solvers.slicing.bounds.instant import instant


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


def lower_bound(problem: Slicing) -> float | None:
    """The instant bound; None for many devices."""
    try:
        instance = bounding(problem, lower(problem))
    except ContradictionError:
        return None
    blocks = blocks_of(instance)
    if blocks.devices > MOST_DEVICES:
        return None
    return max(0.0, float(instant(blocks).sum()) * (1.0 - SUMMATION))


KNOWN_BEFORE = HeadStart(initial=best_baseline, lower_bound=lower_bound)


register_engines(Slicing, "an integer program over cuts", KNOWN_BEFORE)
register_cp_sat(Slicing, "the program over cuts with times in ticks", KNOWN_BEFORE)

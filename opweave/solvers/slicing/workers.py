"""The workers of slicing, which "auto" runs as a portfolio, and the engines."""

from __future__ import annotations

from functools import partial

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.slicing import milp  # noqa: F401 - it registers itself
from opweave.formulations.slicing.instance import SUPPORTS, lower
from opweave.problems.slicing.spec import Slices, Slicing
from opweave.solvers.auto import register_auto
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.run import Run
from opweave.solvers.slicing.arrays import arrays_of
from opweave.solvers.slicing.baselines import RULES
from opweave.solvers.slicing.bounds.best import solve_bound
from opweave.solvers.slicing.local import solve_baselines, solve_local
from opweave.solvers.slicing.plans import Lowered
from opweave.solvers.trivial import trivial_bound
from opweave.solvers.workers import Steps, Worker, by_name


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


KNOWN_BEFORE = HeadStart(initial=best_baseline, lower_bound=lambda problem, _: trivial_bound(problem))


register_engines(Slicing, "an integer program over cuts", KNOWN_BEFORE)


MOST_CUTS = 24
"""Cuts to decide up to which engines prove anything beyond the bounds here, where operators can be cut at all."""


def workers(problem: Slicing, run: Run) -> list[Worker]:
    """Baselines, annealing, bounds; the program over cuts where it is small, or decides devices only."""
    del run
    lowered = Lowered(problem)
    steps = [
        Steps("baselines", partial(solve_baselines, lowered=lowered), problem),
        Steps("annealing", partial(solve_local, lowered=lowered), problem),
        Steps("bound", partial(solve_bound, lowered=lowered), problem, seeded=False),
    ]
    inner = len(problem.cluster.devices) - 1
    whole = not any(cutting.lengths for cutting in problem.cuttings.values())
    if whole or inner * len(problem.graph.operators) <= MOST_CUTS:
        return [*steps, *by_name(problem, "highs")]
    return [*steps]


register_auto(
    Slicing,
    workers,
    "baselines, annealing, bounds, and the program over cuts where it is small",
    proves="bound",
    supports=SUPPORTS,
)

"""Engines that run a formulation of memory ordering, with a greedy order and a minimum-cut bound as a head start."""

from __future__ import annotations

from opweave.formulations.memory_ordering import milp, ordering_ilp  # noqa: F401 - they register themselves
from opweave.formulations.memory_ordering.instance import lower
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.memory_ordering.arrays import arrays_of, peak, total
from opweave.solvers.memory_ordering.baselines import PORTFOLIO, definition, greedy
from opweave.solvers.memory_ordering.bounds import forced_footprints, peak_bound

BOUNDED_OPERATORS = 5_000
"""Most operators of a graph whose lower bound is computed before an engine runs. Engines do not solve larger graphs."""


def best_greedy_order(problem: MemoryOrdering) -> Ordering | None:
    """The best of the greedy orders under the problem's limit; None when none respects it."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    arrays = arrays_of(instance)
    orders = [definition(instance), *(greedy(arrays, sign, rule) for sign, rule in PORTFOLIO)]
    if problem.limit_bytes is not None:
        orders = [order for order in orders if peak(arrays, order) <= problem.limit_bytes]
    measure = peak if problem.objective == "peak" else total
    best = min(orders, key=lambda order: measure(arrays, order), default=None)
    return None if best is None else instance.ordering(best)


def lower_bound(problem: MemoryOrdering) -> int | None:
    """The largest L2 bound of the peak, or the sum of the L1 bounds for the total; None for very large graphs."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    if instance.operators > BOUNDED_OPERATORS:
        return None
    arrays = arrays_of(instance)
    if problem.objective == "total":
        return int(forced_footprints(arrays).sum())
    return peak_bound(arrays, greedy(arrays, *PORTFOLIO[0]))


KNOWN_BEFORE = HeadStart(initial=best_greedy_order, lower_bound=lower_bound)


register_engines(MemoryOrdering, "an integer program, its cycles cut off as they appear or written out", KNOWN_BEFORE)

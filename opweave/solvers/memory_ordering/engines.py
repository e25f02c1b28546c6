"""Engines that run a formulation of memory ordering, with a greedy order and a minimum-cut bound as a head start."""

from __future__ import annotations

from collections.abc import Callable

from opweave.formulations.memory_ordering import ordering_ilp  # noqa: F401 - it registers itself
from opweave.formulations.memory_ordering.instance import lower
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.memory_ordering.arrays import FORWARD, arrays_of, peak, total
from opweave.solvers.memory_ordering.baselines import greedy, starting_orders
from opweave.solvers.memory_ordering.bounds import peak_bound
from opweave.solvers.memory_ordering.totals import ceiling
from opweave.solvers.trivial import trivial_bound

MOST_BOUNDED = 5_000
"""Most operators of a graph whose peak is bounded before an engine runs. Engines do not solve larger graphs."""


def best_greedy_order(problem: MemoryOrdering) -> Ordering | None:
    """The best of the greedy orders under the problem's limit; None when none respects it."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    arrays = arrays_of(instance)
    orders = [order for order in starting_orders(instance, arrays) if peak(arrays, order) <= ceiling(problem)]
    measure = peak if problem.objective == "peak" else total
    best = min(orders, key=lambda order: measure(arrays, order), default=None)
    return None if best is None else instance.ordering(best)


def lower_bound(problem: MemoryOrdering, should_stop: Callable[[], bool]) -> int | None:
    """The largest L2 bound of the peak, and the trivial one for the total."""
    if problem.objective == "total" or len(problem.graph.operators) > MOST_BOUNDED:
        return trivial_bound(problem)  # type: ignore[return-value]
    try:
        arrays = arrays_of(lower(problem))
    except ContradictionError:
        return None
    return peak_bound(arrays, greedy(arrays, FORWARD), should_stop)


KNOWN_BEFORE = HeadStart(initial=best_greedy_order, lower_bound=lower_bound)


register_engines(MemoryOrdering, "the paper's integer program over steps", KNOWN_BEFORE)

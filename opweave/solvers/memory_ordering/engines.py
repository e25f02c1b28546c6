"""Engines that run a formulation of memory ordering, with a greedy order and a minimum-cut bound as a head start."""

from __future__ import annotations

from opweave.formulations.memory_ordering import pairwise, time_indexed  # noqa: F401 - they register themselves
from opweave.formulations.memory_ordering.cp import PairSteps
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.graph_arrays import IntArray
from opweave.problems.memory_ordering import MemoryOrdering, Ordering
from opweave.solvers.engines.engine import Aids
from opweave.solvers.engines.registration import register_cp_sat, register_engines
from opweave.solvers.memory_ordering.bounds import forced_footprints, peak_bound
from opweave.solvers.memory_ordering.greedy import PORTFOLIO, greedy
from opweave.solvers.memory_ordering.net import net_of
from opweave.solvers.memory_ordering.orders import BY_NAME, peak, total

BOUNDED_OPERATORS = 5_000
"""Largest graph whose floor is computed before an engine runs: larger ones are beyond engines anyway."""


def best_greedy_order(problem: MemoryOrdering) -> Ordering | None:
    """The best of the greedy orders under the problem's limit; None when none respects it."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    order = _best(problem, instance)
    return None if order is None else instance.ordering(order)


def _best(problem: MemoryOrdering, instance: OrderingInstance) -> IntArray | None:
    net = net_of(instance)
    orders = [BY_NAME["definition"](instance), *(greedy(net, sign, rule) for sign, rule in PORTFOLIO)]
    if problem.limit_bytes is not None:
        orders = [order for order in orders if peak(net, order) <= problem.limit_bytes]
    measure = peak if problem.objective == "peak" else total
    return min(orders, key=lambda order: measure(net, order), default=None)


def floor(problem: MemoryOrdering) -> int | None:
    """The largest L2 bound of the peak, or the sum of the L1 bounds for the total; None for very large graphs."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    if instance.operators > BOUNDED_OPERATORS:
        return None
    net = net_of(instance)
    if problem.objective == "total":
        return int(forced_footprints(net).sum())
    return peak_bound(net, greedy(net, *PORTFOLIO[0])).value


AIDS = Aids(initial=best_greedy_order, floor=floor)


register_engines(MemoryOrdering, "an integer program, its cycles cut off as they appear or written out", AIDS)
register_cp_sat(MemoryOrdering, PairSteps, "which operator runs before which, and in which step", AIDS)

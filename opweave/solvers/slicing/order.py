"""The order in which operators run: the problem's order, or one that needs the least memory.

The latency does not depend on the order. If memory is limited, the order has the smallest peak of the uncut graph. The
paper takes BTSearch's order for the total; but the peak decides whether a plan fits.
"""

from __future__ import annotations

from opweave.formulations.order_arcs import order_arcs
from opweave.formulations.slicing.instance import plain_order
from opweave.problems.constraints import Precede
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.registry import go_on_with
from opweave.solvers.run import Run

MOST_SECONDS = 5.0
SHARE = 0.2
"""Largest share of the time limit for the order."""


def running_order(problem: Slicing, run: Run) -> tuple[str, ...]:
    """The order for which solvers cut.

    Raises
    ------
    ContradictionError
        When order arcs close a cycle.
    """
    plain = plain_order(problem)
    if problem.order is not None or all(limit is None for limit in problem.memory_limits.values()):
        return plain
    arcs = tuple(Precede(before=early, after=late) for early, late in order_arcs(problem))
    ordering = MemoryOrdering(graph=problem.graph, constraints=arcs)
    left = run.remaining()
    scout = Run(time_limit=MOST_SECONDS if left is None else max(1e-3, min(MOST_SECONDS, SHARE * left)), seed=run.seed)
    go_on_with(ordering, "exact", scout)
    best = scout.best
    return best.order if isinstance(best, Ordering) else plain

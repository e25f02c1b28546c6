"""In which order the operators run: the problem's, or the one that needs the least memory.

The latency does not depend on the order. Where memory is limited, the order is that of the smallest peak of the graph
uncut (the paper takes BTSearch's for the total; the peak is what decides whether a plan fits).
"""

from __future__ import annotations

from opweave.formulations.slicing.instance import plain_order
from opweave.problems.constraints import Precede
from opweave.problems.memory_ordering import MemoryOrdering, Ordering
from opweave.problems.slicing import Slicing
from opweave.solvers.memory_ordering.auto import solve_auto
from opweave.solvers.run import Run

MOST_SECONDS = 5.0
SHARE = 0.2
"""Of the time limit, at most, for the order."""


def running_order(problem: Slicing, run: Run) -> tuple[str, ...]:
    """The order that solvers cut for.

    Raises
    ------
    ContradictionError
        When order arcs close a cycle.
    """
    plain = plain_order(problem)
    if problem.order is not None or all(limit is None for limit in problem.memory_limits.values()):
        return plain
    arcs = tuple(constraint for constraint in problem.constraints if isinstance(constraint, Precede))
    ordering = MemoryOrdering(graph=problem.graph, constraints=arcs)
    left = run.remaining()
    scout = Run(time_limit=MOST_SECONDS if left is None else max(1e-3, min(MOST_SECONDS, SHARE * left)), seed=run.seed)
    solve_auto(ordering, scout)
    best = scout.best
    if not isinstance(best, Ordering) or not _obeys(problem, plain, best.order):
        return plain
    return best.order


def _obeys(problem: Slicing, plain: tuple[str, ...], order: tuple[str, ...]) -> bool:
    """Whether an order keeps the order arcs of constraints that memory ordering was not told of."""
    if all(isinstance(constraint, Precede) or not hasattr(constraint, "before") for constraint in problem.constraints):
        return sorted(plain) == sorted(order)
    return False

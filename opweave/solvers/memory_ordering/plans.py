"""Plans of memory ordering: orders as arrays, their objective values, and their solutions."""

from __future__ import annotations

from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.problems.arrays import IntArray
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.memory_ordering.arrays import OrderingArrays, arrays_of, footprints
from opweave.solvers.run import Run


def peak(arrays: OrderingArrays, order: IntArray) -> int:
    """Largest footprint of an order, or the bytes live before its first step."""
    cost = footprints.sized(10 * len(arrays.reads))(arrays, order)
    return max(arrays.start_bytes, int(cost.max(initial=0)))


def total(arrays: OrderingArrays, order: IntArray) -> int:
    """Sum of the footprints of an order."""
    return int(footprints.sized(10 * len(arrays.reads))(arrays, order).sum())


def value_of(problem: MemoryOrdering, instance: OrderingInstance, order: IntArray) -> int:
    """The objective value of an order."""
    value = peak if problem.objective == "peak" else total
    return value(arrays_of(instance), order)


def report(problem: MemoryOrdering, instance: OrderingInstance, order: IntArray, run: Run) -> None:
    """Report an order, unless it needs more than the limit."""
    if problem.limit_bytes is None or peak(arrays_of(instance), order) <= problem.limit_bytes:
        run.found(instance.ordering(order), value_of(problem, instance, order))

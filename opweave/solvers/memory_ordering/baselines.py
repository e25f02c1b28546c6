"""The named orders of :mod:`~opweave.solvers.memory_ordering.orders` as solvers."""

from __future__ import annotations

from functools import partial

from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.problems.arrays import IntArray
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.memory_ordering.arrays import arrays_of
from opweave.solvers.memory_ordering.orders import BY_NAME, Order, peak, total
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Run


def value_of(problem: MemoryOrdering, instance: OrderingInstance, order: IntArray) -> int:
    """The problem's objective of an order."""
    value = peak if problem.objective == "peak" else total
    return value(arrays_of(instance), order)


def report(problem: MemoryOrdering, instance: OrderingInstance, order: IntArray, run: Run) -> None:
    """Report an order, unless it needs more than the limit."""
    if problem.limit_bytes is None or peak(arrays_of(instance), order) <= problem.limit_bytes:
        run.found(instance.ordering(order), value_of(problem, instance, order))


def carry_out(build: Order, problem: MemoryOrdering, run: Run) -> None:
    """Report a named order.

    Raises
    ------
    NoPlanError
        When it needs more than the limit.
    """
    instance = lower(problem)
    order = build(instance)
    report(problem, instance, order, run)
    if run.best is None:
        raise NoPlanError(f"this order needs {peak(arrays_of(instance), order):,} bytes, more than the limit")


for _name, _build in BY_NAME.items():
    _about = (_build.__doc__ or "").split("\n", maxsplit=1)[0].split(":")[0].rstrip(".;")
    register_rule(MemoryOrdering, _name, partial(carry_out, _build), _about, baseline=True)

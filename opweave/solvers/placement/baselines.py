"""Baselines and list schedulers of placement by name, cheapest first."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import SUPPORTS, PlacementInstance, lower, lower_unless_short
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.narrowing.narrower import or_narrower
from opweave.solvers.narrowing.runs import by_every_way
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.earliest import etf
from opweave.solvers.placement.fill import fill, fill_even
from opweave.solvers.placement.guided import getf, msct
from opweave.solvers.placement.insertion import cpop, heft, peft
from opweave.solvers.placement.plans import Plan, fits, memory_used, plan_of, report, shortage, solution_of
from opweave.solvers.placement.ranks import order_of_graph
from opweave.solvers.registry import go_on_with
from opweave.solvers.rules import NoPlanError, plans_of, register_rule
from opweave.solvers.run import Run

Rule = Callable[[PlacementInstance, PlacementArrays], Plan]
"""Builds a plan that fits, or raises :class:`~opweave.solvers.rules.NoPlanError`."""


def one_device(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """The best single device that may run every operator and holds them all."""
    order = order_of_graph(arrays)
    reasons = []
    total = arrays.seconds.sum(axis=0)
    for k in np.argsort(total, kind="stable").tolist():
        device = np.full(len(order), k, dtype=np.int64)
        if not np.isfinite(total[k]):
            refused = instance.names[int(np.isinf(arrays.seconds[:, k]).argmax())]
            reasons.append(f"device {instance.devices[k]!r} cannot run operator {refused!r}")
        elif memory_used(arrays, device)[k] > arrays.capacity[k]:
            reasons.append(str(shortage(instance, arrays, device)))
        else:
            return plan_of(arrays, order, device)
    raise NoPlanError(f"no single device is enough: {'; '.join(reasons)}")


FIRST: tuple[Rule, ...] = (one_device, fill, heft, cpop, peft, etf, fill_even)
"""Rules that run before everything else, so that there is always a plan. The cheapest come first: a run whose time is
up at once still reports their plans."""

OTHERS: tuple[Rule, ...] = (msct, getf)
"""Rules that solve a linear program first."""

RULES: tuple[Rule, ...] = (*FIRST, *OTHERS)

QUICK: tuple[Rule, ...] = (one_device, heft, cpop, peft)
"""Rules whose best plan is the start of an engine."""

BASELINES = (one_device, fill, heft, cpop, peft, etf)
"""Rules that every result is compared with."""

NAMED: dict[str, tuple[Rule, str]] = {
    "one_device": (one_device, "everything on the best single device that holds it"),
    "heft": (heft, "longest remaining path first, each operator on the device where it ends soonest"),
    "cpop": (cpop, "the critical path on one device, every other operator where it ends soonest"),
    "peft": (peft, "each operator where its end plus the least remaining time is smallest"),
    "etf": (etf, "whatever can start first, on the device where it can, memory permitting (m-ETF)"),
    "fill": (fill, "fills the devices' memory one after the other in the order of the model file"),
    "fill_even": (fill_even, "like fill, but every device takes a share in proportion to its memory"),
    "msct": (msct, "earliest start, devices wait for favourite children chosen by a linear program (m-SCT)"),
    "getf": (getf, "earliest start within groups of similar devices chosen by a linear program (GETF)"),
}
"""Every rule by name, and what it does."""


def carry_out(rule: Rule, problem: Placement, run: Run) -> None:
    """Build a rule's plan and report it."""
    if problem.reading is not None:
        go_on_with(problem, "one_place", run)
        return
    instance = lower_unless_short(problem)
    arrays = arrays_of(instance, problem)
    report(instance, arrays, rule(instance, arrays), run)


@or_narrower(SUPPORTS)
def best_list_schedule(problem: Placement) -> Schedule | None:
    """The best of the list schedules that obeys the whole problem; None when none does."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    arrays = arrays_of(instance, problem)
    plans = plans_of(partial(rule, instance, arrays) for rule in QUICK)
    usable = [plan for plan in plans if plan.makespan < math.inf and fits(arrays, plan.device)]
    for plan in sorted(usable, key=lambda plan: plan.makespan):
        schedule = solution_of(instance, arrays, plan)
        if problem.evaluate(schedule).feasible:
            return schedule
    return None


_SUPPORTS, _widened = (*SUPPORTS, NARROWED), by_every_way(SUPPORTS)

for _name, (_rule, _about) in NAMED.items():
    register_rule(
        Placement,
        _name,
        _widened(partial(carry_out, _rule)),
        _about,
        supports=_SUPPORTS,
        baseline=_rule in BASELINES,
        readings=(None, "transfers='blocking'") if _rule is one_device else (None,),
    )

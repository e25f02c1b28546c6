"""Engines that run a formulation of placement, with list schedules and a path bound as a head start."""

from __future__ import annotations

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement import milp, milp_paper  # noqa: F401 - they register themselves
from opweave.formulations.placement.cp import Intervals
from opweave.formulations.placement.instance import PlacementInstance, lower
from opweave.formulations.placement.windows import windows_of
from opweave.problems.placement import Placement, Schedule
from opweave.solvers.engines.engine import Aids
from opweave.solvers.engines.registration import register_cp_sat, register_engines
from opweave.solvers.placement.cpop import cpop
from opweave.solvers.placement.heft import heft
from opweave.solvers.placement.insertion import NoPlanError
from opweave.solvers.placement.net import Net, net_of
from opweave.solvers.placement.one_device import one_device
from opweave.solvers.placement.peft import peft
from opweave.solvers.placement.schedule import Plan, fits, solution_of

RULES = (one_device, heft, cpop, peft)


def best_list_schedule(problem: Placement) -> Schedule | None:
    """The best of the list schedules that obeys the whole problem; None when none does."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    net = net_of(instance, problem)
    plans = [plan for rule in RULES if (plan := _attempt(rule, instance, net)) is not None]
    for plan in sorted(plans, key=lambda plan: plan.makespan):
        schedule = solution_of(instance, net, plan)
        if problem.evaluate(schedule).feasible:
            return schedule
    return None


def _attempt(rule: object, instance: PlacementInstance, net: Net) -> Plan | None:
    assert callable(rule)
    try:
        plan: Plan = rule(instance, net)
    except NoPlanError:
        return None
    return plan if plan.makespan < float("inf") and fits(net, plan.device) else None


def floor(problem: Placement) -> float | None:
    """The longest path, aware of devices and transfers."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    length = windows_of(instance, None).critical_path
    return length if length < float("inf") else None  # infinite where links are missing: the model says so in words


AIDS = Aids(initial=best_list_schedule, floor=floor)


register_engines(Placement, "a mixed-integer program with constants from the data", AIDS)
register_cp_sat(Placement, Intervals, "intervals that are there or not", AIDS)

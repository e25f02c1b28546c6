"""Engines that run a formulation of batched mapping, with list schedules as a head start."""

from __future__ import annotations

from opweave.formulations.batched_mapping import cp, diviml, milp  # noqa: F401 - they register themselves
from opweave.formulations.batched_mapping.instance import lower
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.solvers.batched_mapping.arrays import arrays_of
from opweave.solvers.batched_mapping.baselines import attempts
from opweave.solvers.batched_mapping.candidates import all_strings, groups_of
from opweave.solvers.batched_mapping.plans import solution_of
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_cp_sat, register_engines


def best_list_schedule(problem: BatchedMapping) -> BatchedSchedule | None:
    """The best of the list schedules that obeys the whole problem; None when none does."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    if not instance.operators:
        return BatchedSchedule(batches=())
    plans = attempts(instance, arrays_of(instance), all_strings(instance, groups_of(problem)))
    schedules = (solution_of(instance, plan) for plan in sorted(plans, key=lambda plan: plan.makespan))
    return next((schedule for schedule in schedules if problem.evaluate(schedule).feasible), None)


KNOWN_BEFORE = HeadStart(initial=best_list_schedule)

register_engines(BatchedMapping, "the program (1)-(7), waiting only for data that flows", KNOWN_BEFORE)
register_cp_sat(BatchedMapping, "intervals of batches, the device of every input", KNOWN_BEFORE)

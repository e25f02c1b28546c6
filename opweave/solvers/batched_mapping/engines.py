"""Engines that run a formulation of batched mapping, with list schedules and a path bound as a head start."""

from __future__ import annotations

from opweave.formulations.batched_mapping import cp, milp, milp_printed, milp_twins  # noqa: F401 - they register themselves
from opweave.formulations.batched_mapping.cp import BatchCounts
from opweave.formulations.batched_mapping.instance import SUPPORTS, lower
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.solvers.batched_mapping.arrays import arrays_of
from opweave.solvers.batched_mapping.baselines import attempts
from opweave.solvers.batched_mapping.bounds.reach import critical_path, reach_of
from opweave.solvers.batched_mapping.candidates import all_strings, groups_of
from opweave.solvers.batched_mapping.plans import solution_of
from opweave.solvers.engines.cp_sat import CpSat
from opweave.solvers.engines.engine import HeadStart, run_engine
from opweave.solvers.engines.registration import register_cp_sat, register_engines
from opweave.solvers.narrowing.narrower import or_narrower
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run


@or_narrower(SUPPORTS)
def best_list_schedule(problem: BatchedMapping) -> BatchedSchedule | None:
    """The best of the list schedules that obeys the whole problem; None when none does."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    if not instance.operators:
        return BatchedSchedule(batches=())
    plans = attempts(instance, arrays_of(instance), all_strings(instance, groups_of(problem)))
    for plan in sorted(plans, key=lambda plan: plan.makespan):
        schedule = solution_of(instance, plan)
        if problem.evaluate(schedule).feasible:
            return schedule
    return None


def lower_bound(problem: BatchedMapping) -> float | None:
    """The longest path, aware of devices, batch sizes and transfers."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    length = critical_path(reach_of(instance, arrays_of(instance)))
    return length if length < float("inf") else None  # infinite when links are missing; the formulation then reports it


KNOWN_BEFORE = HeadStart(initial=best_list_schedule, lower_bound=lower_bound)


def _count(problem: BatchedMapping, run: Run) -> Outcome:
    outcome = run_engine(problem, run, CpSat(), KNOWN_BEFORE, BatchCounts)
    return Outcome(outcome.termination, outcome.infeasible, outcome.reason)


register_engines(BatchedMapping, "the program (1)-(7), waiting only for data that flows", KNOWN_BEFORE)
register_cp_sat(BatchedMapping, "intervals of batches, the device of every input", KNOWN_BEFORE)
register(
    Solver(
        name="counts",
        problem=BatchedMapping.kind,
        kind="engine",
        run=_count,
        about="CP-SAT in a child process: a relaxation to counts of inputs; its plans are realised afterwards",
        proves="bound",
        features=frozenset({Feature.START, Feature.GAP, Feature.THREADS, Feature.CALLBACK}),
        supports=BatchCounts.supports,
        missing=CpSat().missing,
        version=CpSat().version,
    )
)

__all__ = ["KNOWN_BEFORE", "best_list_schedule", "lower_bound"]

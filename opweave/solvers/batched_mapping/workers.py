"""The workers of batched mapping, which "auto" runs as a portfolio, and the engines."""

from __future__ import annotations

from functools import partial

from opweave.formulations.batched_mapping import diviml  # noqa: F401 - it registers itself
from opweave.formulations.batched_mapping.instance import SUPPORTS, lower, lower_unless_short
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.solvers.auto import register_auto
from opweave.solvers.batched_mapping.arrays import arrays_of
from opweave.solvers.batched_mapping.baselines import all_strings, attempts, groups_of
from opweave.solvers.batched_mapping.bounds import prove_mean_passage
from opweave.solvers.batched_mapping.plans import solution_of
from opweave.solvers.batched_mapping.search import solve_lists, solve_local
from opweave.solvers.batched_mapping.unsplit import prove_one_input, solve_unsplit
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.run import Run
from opweave.solvers.workers import Steps, Worker, by_name


def best_list_schedule(problem: BatchedMapping) -> BatchedSchedule | None:
    """The best of the list schedules that obeys the whole problem; None when none does."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    plans = attempts(instance, arrays_of(instance), all_strings(instance, groups_of(problem)))
    schedules = (solution_of(instance, plan) for plan in sorted(plans, key=lambda plan: plan.makespan))
    return next((schedule for schedule in schedules if problem.evaluate(schedule).feasible), None)


HEAD_START = HeadStart(initial=best_list_schedule)

register_engines(BatchedMapping, "the program (1)-(7), waiting only for data that flows", HEAD_START)


MOST_INPUTS = 64  # of all operators together, up to which the whole program proves anything


def workers(problem: BatchedMapping, _run: Run) -> list[Worker]:
    """List schedules first. A batch that cannot be split is a placement; else bounds, local search, a small program."""
    lists = Steps("lists", solve_lists, problem)
    if lower_unless_short(problem).granules == 1:
        return [lists, Steps("placement", partial(solve_unsplit, None), problem)]
    return [
        lists,
        Steps("local", solve_local, problem),
        Steps("mean passage", prove_mean_passage, problem, seeded=False),
        Steps("one input", prove_one_input, problem, seeded=False),
        *(by_name(problem, "highs") if problem.batch * len(problem.graph.operators) <= MOST_INPUTS else []),
    ]


register_auto(
    BatchedMapping,
    workers,
    "list schedules, local search, linear programs for bounds, and for all where it is small",
    proves="bound",
    supports=SUPPORTS,
)

"""Solvers of placement on the whole batch: one device for each operator, batches never split.

With one input, or if devices support only the whole batch, this is the problem itself, and placement's bounds hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from opweave.formulations.batched_mapping.instance import SUPPORTS, BatchedInstance, lower_unless_short
from opweave.formulations.batched_mapping.unsplit import single, unsplit, whole
from opweave.formulations.expressions import NARROWED
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.reduction import Reduction
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.placement.spec import Placement
from opweave.problems.result import Termination
from opweave.solvers.reduced import ReducedRun
from opweave.solvers.registry import find_solver, go_on_with, named_solver
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.lane import numbered

PlacementSolver = Callable[[Placement, Run], Outcome]
"""A solver that runs on the whole batch as one placement."""


def by_name(name: str) -> PlacementSolver:
    """A registered solver of placement."""
    return lambda problem, run: go_on_with(problem, name, run)


def lane_of_auto(number: int) -> PlacementSolver:
    """One of the lanes of placement's default solver."""

    def work(problem: Placement, run: Run) -> Outcome:
        lanes = find_solver(problem, "auto").lanes
        assert lanes is not None
        return numbered(lanes(problem, run), number).work(problem, run)

    return work


def never_splits(instance: BatchedInstance) -> bool:
    """Whether the batch cannot be split at all."""
    return instance.granules == 1


def solve_whole(solver: PlacementSolver, problem: BatchedMapping, run: Run) -> Outcome:
    """Run a solver of placement; report plans to ``run`` as they are found, and bounds if they hold.

    An infeasible whole batch does not count as a proof for split batches.
    """
    exact = never_splits(lower_unless_short(problem))
    same = unsplit(problem)
    if same is None:
        return Outcome(Termination.COMPLETED, reason="some operator has no device that takes the whole batch")
    first = single(problem, run.best) if isinstance(run.best, BatchedSchedule) else None
    reduction: Reduction[Any, Any] = Reduction(problem=same, lift=partial(whole, problem), exact=exact)
    inner = ReducedRun(
        time_limit=run.remaining(),
        gap=run.gap,
        seed=run.seed,
        start=first,
        callback=lambda _: run.should_stop(),
        outer=run,
        reduction=reduction,
    )
    if first is not None and run.objective is not None:
        inner.found(first, run.objective)
    try:
        outcome = solver(same, inner)
    except ContradictionError as error:
        if exact:
            raise
        return Outcome(reason=f"without splitting the batch: {error}")
    if outcome.infeasible and not exact:
        return replace(outcome, infeasible=False)
    termination = run.termination() if outcome.termination is Termination.INTERRUPTED else outcome.termination
    return replace(outcome, termination=termination)


for _name, _its_name, _more, _about in (
    ("search", "search", [NARROWED], "placement's branch and bound over a small graph"),
    ("intervals", "intervals", [NARROWED], "local search, then constraint programming over a small graph"),
    ("whole", "auto", ["on", "uses", "model"], "the default solver of placement"),
    ("decompose", "decompose", [NARROWED], "placement's exact decomposition at cut vertices"),
):
    named_solver(
        BatchedMapping,
        _name,
        f"{_about}; the batch of an operator is never split",
        proves="bound",
        supports=("assignment", *SUPPORTS, *_more),
    )(partial(solve_whole, by_name(_its_name)))

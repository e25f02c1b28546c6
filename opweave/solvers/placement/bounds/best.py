"""The largest of all lower bounds of the makespan, computed cheapest first and reported as they improve."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import best_area, memory_of
from opweave.solvers.placement.bounds.chain_bound import EXACT, INTEGER, RELAXED, Milestones, milestones_of
from opweave.solvers.placement.bounds.counts import counts
from opweave.solvers.placement.bounds.critical_path import Reach, longest, reach_of
from opweave.solvers.placement.bounds.energetic import energetic_at_best_prices
from opweave.solvers.placement.bounds.together import raise_together
from opweave.solvers.run import Run
from opweave.solvers.scheduling.best_bound import Best

LONGEST_PROGRAM = 5.0
"""Seconds that one window's program may take."""

LONGEST_EXACT = 10.0
"""Seconds that constraint programming may take for one window."""

PROGRAMS = {RELAXED: "linear", INTEGER: "integer", EXACT: "constraint"}

LONGEST_COUNTS = 60.0
"""Seconds that the program over counts may take when there is no time limit."""

Report = Callable[[float, str], None]


def bound(problem: Placement, instance: PlacementInstance, arrays: PlacementArrays, run: Run) -> tuple[float, str]:
    """A lower bound of the makespan and the name of the bound that proved it.

    Parameters
    ----------
    problem, instance, arrays
        The problem, its instance and its arrays.
    run
        Receives every better bound at once; says whether to stop.

    Returns
    -------
    tuple
        Seconds, and the name of the bound.
    """
    del problem  # the arrays hold everything that the bounds need
    best = Best(run)
    if not instance.operators:
        best.report(0.0, "critical path")
        return best.value, best.source
    quick_bounds(instance, arrays, best)
    if not run.should_stop():
        chain = milestones_of(arrays)
        best.report(chain.value(), "milestones")
        for level in (RELAXED, INTEGER):
            raise_level(chain, level, run, best.report)
            if not run.should_stop():
                run.enter("counts with memory")
                left, known = run.remaining(), None if run.objective is None else float(run.objective)
                value = counts(chain, instance, arrays, LONGEST_COUNTS if left is None else left, known)
                best.report(value, "counts with memory")
    return best.value, best.source


def finite_path(arrays: PlacementArrays, reach: Reach) -> float:
    """Length of the critical path, in seconds.

    Raises
    ------
    ContradictionError
        When the path is infinite, because missing links leave some operator no device.
    """
    path = longest(arrays, reach)
    if not np.isfinite(path):
        raise ContradictionError("missing links leave some operator without a device that its data could reach")
    return path


def quick_bounds(instance: PlacementInstance, arrays: PlacementArrays, best: Best) -> None:
    """Critical path, energetic bound, and area with memory; they take seconds at most, whatever the size.

    Raises
    ------
    ContradictionError
        When missing links leave some operator no device, which makes its path infinite.
    """
    best.run.enter("bounds")
    reach = reach_of(arrays)
    path = finite_path(arrays, reach)
    best.report(path, "critical path")
    best.report(energetic_at_best_prices(arrays, reach, path), "energetic")
    memory = memory_of(instance)
    if memory is not None and not best.run.should_stop():
        best.report(best_area(arrays.seconds, np.zeros(len(instance.devices)), memory).value, "area with memory")


def raise_level(chain: Milestones, level: int, run: Run, report: Report) -> None:
    """Raise the windows on the shortest path to a level, until none is left to raise or time is up."""
    run.enter(f"milestones: {PROGRAMS[level]} programs")
    most = LONGEST_EXACT if level == EXACT else LONGEST_PROGRAM

    def seconds() -> float:
        left = run.remaining()
        return most if left is None else min(left, most)

    if run.exchange is not None:
        raise_together(chain, level, run, run.exchange, lambda: report(chain.value(), "milestones"), seconds)
        return
    while True:
        pairs = chain.open_pairs(level)
        for block, a, b in pairs:
            if run.should_stop():
                return
            block.lift(a, b, level, seconds())
        if not pairs:
            return
        report(chain.value(), "milestones")

"""The bounds of a chain of milestones, raised along its shortest path, and those with memory at its price."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from opweave.formulations.placement.instance import PlacementInstance
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import memory_of
from opweave.solvers.placement.bounds.chain_bound import EXACT, INTEGER, RELAXED, Milestones, Pair, milestones_of
from opweave.solvers.placement.bounds.counts import binding, priced_counts
from opweave.solvers.placement.bounds.energetic import quick_bounds
from opweave.solvers.placement.bounds.price_search import PriceSearch
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run

LONGEST_PROGRAM = 2.0
"""Seconds that one window's program may take."""

LONGEST_EXACT = 10.0
"""Seconds that constraint programming may take for one window."""

PROGRAMS = {RELAXED: "linear", INTEGER: "integer", EXACT: "constraint"}

BRANCHES = (0, 40)
"""Most branches for each length that is refuted, in turn."""

LONGEST_COUNTS = 60.0
"""Seconds that the program over counts may take when there is no time limit."""

Report = Callable[[float, str], None]


def bound(instance: PlacementInstance, arrays: PlacementArrays, run: Run) -> tuple[float, str]:
    """A lower bound of the makespan and the name of the bound that proved it.

    Parameters
    ----------
    instance, arrays
        The problem.
    run
        Receives every better bound at once; says whether to stop.

    Returns
    -------
    tuple
        Seconds, and the name of the bound.
    """
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
                known = None if run.objective is None else float(run.objective)
                found = priced_counts(chain, instance, arrays, seconds_left(run), known)
                best.report(found.bound, "counts with memory")
    return best.value, best.source


def seconds_left(run: Run, most: float = LONGEST_COUNTS) -> float:
    """Seconds that a step may take."""
    left = run.remaining()
    return 0.0 if run.should_stop() else most if left is None else min(left, most)


def begin_prices(
    chain: Milestones, instance: PlacementInstance, arrays: PlacementArrays, run: Run, report: Report
) -> PriceSearch | None:
    """A search for prices of memory, where it can bind; None elsewhere."""
    memory = memory_of(instance)
    if memory is None or not binding(memory) or run.should_stop():
        return None
    run.enter("counts with memory")
    ceiling = None if run.objective is None else float(run.objective)
    counts = priced_counts(chain, instance, arrays, seconds_left(run), ceiling)
    report(counts.bound, "counts with memory")
    return PriceSearch(chain, arrays, memory, counts.price) if counts.price.any() else None


def search_prices(search: PriceSearch, run: Run, report: Report, most: float) -> bool:
    """Go on with a search for prices for some seconds; whether more may be found."""
    run.enter("memory at its price")
    ceiling = math.inf if run.objective is None else float(run.objective)
    with run.at_most(most):
        return search.go_on(lambda: seconds_left(run), lambda value: report(value, "priced memory"), ceiling)


def raise_level(chain: Milestones, level: int, run: Run, report: Report) -> None:
    """Raise the windows on the shortest path to a level, until none is left to raise or time is up."""
    for _ in raising(chain, level, run, report):
        pass


def raising(chain: Milestones, level: int, run: Run, report: Report) -> Iterator[None]:
    """Raise the windows on the shortest path to a level, one after the other, until none is left or time is up."""
    run.enter(f"milestones: {PROGRAMS[level]} programs")
    while pairs := chain.open_pairs(level):
        for block, a, b in pairs:
            if run.should_stop():
                return
            block.lift(a, b, level, seconds_left(run, LONGEST_EXACT if level == EXACT else LONGEST_PROGRAM), run)
            yield
        report(chain.value(), "milestones")


def refuting(chain: Milestones, run: Run, report: Report) -> Iterator[None]:
    """Refute lengths of the windows on the shortest path, every pair of ends once for each number of branches."""
    run.enter("milestones: refuted lengths")
    for branches in BRANCHES:
        done: set[Pair] = set()
        while pairs := [pair for pair in chain.pairs() if pair not in done and len(pair[0].window.inner) > 0]:
            for block, a, b in pairs:
                if run.should_stop():
                    return
                done.add((block, a, b))
                value = block.refuted(a, b, branches, seconds_left(run, LONGEST_PROGRAM))
                block.learn(a, b, int(block.levels[a, b]), value)
                yield
            report(chain.value(), "milestones")

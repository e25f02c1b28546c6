"""Min-cut local search from the best of the greedy orders, as a solver of its own."""

from __future__ import annotations

from opweave.formulations.memory_ordering.instance import lower
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.memory_ordering.exact import PeakSearch, end_of_peak_search
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run


def solve_mincut(problem: MemoryOrdering, run: Run) -> Outcome:
    """Run greedy orders, the L2 bound and min-cut local search; there is no search over states.

    Raises
    ------
    UnsupportedFeatureError
        For the objective "total", which the method does not improve.
    """
    if problem.objective == "total":
        raise UnsupportedFeatureError("solver 'mincut' lowers the peak only; for 'total' use 'auto' or 'btsearch'")
    peaks = PeakSearch(problem, lower(problem), run)
    for stage in (peaks.start, peaks.cut, peaks.polish):
        stage()
    return end_of_peak_search(peaks)


register(
    Solver(
        name="mincut",
        problem=MemoryOrdering.kind,
        kind="algorithm",
        run=solve_mincut,
        about="greedy orders rebuilt around minimum cuts, with the L2 bound",
        proves="bound",
        features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
    )
)

"""Bounds of a few operators by themselves, with an unsplit batch: DiviML's OPT(M), or a bound in its place.

Source: Ghannane and Abdelfattah, "DiviML", section IV-B2. If OPT is not solved to the end, its lower bound takes its
place; otherwise bounds built on it would be wrong.
"""

from __future__ import annotations

from opweave.formulations.batched_mapping.unsplit import unsplit
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.registry import go_on_with
from opweave.solvers.run import Run


def least_span(problem: BatchedMapping, nodes: int, run: Run) -> float:
    """The length of the shortest unsplit plan, or a lower bound of it, in seconds.

    Parameters
    ----------
    nodes
        Most nodes of the search, so that every machine gives the same result.
    run
        Gives only the time.
    """
    same = unsplit(problem)
    if same is None:
        return 0.0
    inner = Run(time_limit=run.remaining(), callback=lambda _: run.should_stop())
    try:
        go_on_with(same, "search", inner, nodes=nodes)
    except ContradictionError:
        return 0.0  # there is no unsplit plan; that is proved elsewhere
    return float(inner.bound or 0.0)

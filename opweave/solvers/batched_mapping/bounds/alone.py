"""What is proved of a few operators by themselves, the batch unsplit: DiviML's OPT(M), or a bound in its place.

Source: Ghannane and Abdelfattah, "DiviML", section IV-B2. An OPT that is not solved to the end enters with its own
lower bound, else nothing that is built on it is one.
"""

from __future__ import annotations

from opweave.formulations.batched_mapping.unsplit import unsplit
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.registry import go_on_with
from opweave.solvers.run import Run


def least_span(problem: BatchedMapping, nodes: int, run: Run) -> float:
    """The length of the shortest unsplit plan, or a lower bound on it, in seconds.

    Parameters
    ----------
    nodes
        Of the search, at most: so that the answer is the same on every machine.
    run
        Only for the time.
    """
    same = unsplit(problem)
    if same is None:
        return 0.0
    inner = Run(time_limit=run.remaining(), callback=lambda _: run.should_stop())
    try:
        go_on_with(same, "search", inner, nodes=nodes)
    except ContradictionError:
        return 0.0  # there is no unsplit plan, which has another proof
    return float(inner.bound or 0.0)

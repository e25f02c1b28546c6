"""The trivial bound of placement; see :mod:`opweave.solvers.trivial`."""

from __future__ import annotations

from opweave.problems.placement.spec import Placement
from opweave.solvers.trivial import least_memory, least_seconds, longest_path, own_bound, safe


@own_bound(Placement)
def _(problem: Placement) -> float:
    """The longest path, and all work divided among the devices, unless a host runs any number of operators at once."""
    seconds = problem.costs.array(problem.graph.operator_ids, [d.name for d in problem.cluster.devices])
    least = least_seconds(seconds)
    shared = 0.0 if problem.host is not None else float(least.sum()) / len(problem.cluster.devices)
    makespan = safe(max(longest_path(problem.graph, least), shared))
    return makespan if problem.objective == "makespan" else least_memory(problem)

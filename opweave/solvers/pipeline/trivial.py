"""The trivial bound of pipelines; see :mod:`opweave.solvers.trivial`."""

from __future__ import annotations

from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.trivial import least_memory, least_seconds, own_bound, safe


@own_bound(Pipeline)
def _(problem: Pipeline) -> float:
    """Computing alone: its sum for latency, or the longest operator and the mean of the stages."""
    if problem.objective == "memory":
        return least_memory(problem)
    if problem.costs is None or not problem.include_compute or problem.objective == "transfers":
        return 0.0
    names, devices = problem.graph.operator_ids, [device.name for device in problem.cluster.devices]
    least = least_seconds(problem.costs.array(names, devices))
    if problem.objective == "latency":
        return safe(float(least.sum()))
    alone = float(least.max(initial=0.0)) / problem.max_replicas
    return safe(max(alone, float(least.sum()) / len(devices)))

"""The trivial bound of pipelines; see :mod:`opweave.solvers.trivial`."""

from __future__ import annotations

import math

from opweave.problems.on_cluster import ClusterProblem
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.trivial import least_seconds, own_bound, safe


def least_memory(problem: ClusterProblem) -> int:
    """Bytes of the largest operator, or those that some device holds when all others are as full as that one may be."""
    graph, weights = problem.graph, problem.graph.parameter_sizes.tolist()
    own = [0] * len(graph.operators) if problem.memory == "parameters" else graph.sizes_made.tolist()
    largest = max((size + sum(weights[p] for p in graph.uses[v].tolist()) for v, size in enumerate(own)), default=0)
    left, mean = sum(own) + sum(weights[p] for p in {*graph.uses.items.tolist()}), 0
    limits = sorted(math.inf if limit is None else limit for limit in problem.memory_limits.values())
    for others, limit in zip(range(len(limits), 0, -1), limits, strict=True):
        mean = -(-left // others)
        if limit >= mean:
            break
        left -= int(limit)
    return max(largest, mean)


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

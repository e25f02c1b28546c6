"""Oracle of placements whose operators run one after the other in listed order: every assignment, in whole arrays.

With delays, or where every tensor is read by the next operator only, an operator starts when the one before it has
ended and all its inputs have arrived. Takes no side constraints.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from opweave.problems.placement.spec import Placement


def best_chain(problem: Placement) -> float | None:
    """The smallest makespan of all assignments that fit; None if none does."""
    graph, cluster = problem.graph, problem.cluster
    names = [device.name for device in cluster.devices]
    device = np.array(list(product(range(len(names)), repeat=len(graph.operators))), dtype=np.int64)
    made: dict[str, int] = {}
    ends = np.zeros((len(device), len(graph.operators) + 1))
    for number, op in enumerate(graph.operators):
        known = problem.known_seconds[op.id]
        seconds = np.array([known.get(name, np.inf) for name in names])
        ready = ends[:, number].copy()
        for tensor in op.inputs:
            if tensor in made:
                size = graph.tensors[graph.tensor_index[tensor]].bytes
                sent = np.array([[_sending(problem, size, a, b) for b in names] for a in names])
                a, b = device[:, made[tensor]], device[:, number]
                ready = np.maximum(ready, ends[:, made[tensor] + 1] + sent[a, b])
        ends[:, number + 1] = ready + seconds[device[:, number]]
        made |= dict.fromkeys(op.outputs, number)
    allowed = np.isfinite(ends[:, -1])
    for k, each in enumerate(cluster.devices):
        if each.memory_bytes is not None:
            allowed &= _held(problem, device == k) <= each.memory_bytes
    return float(ends[allowed, -1].min()) if allowed.any() else None


def _sending(problem: Placement, size: int, source: str, target: str) -> float:
    cluster = problem.cluster
    if source == target:
        return 0.0
    if cluster.effective_bandwidth[cluster.device_index[source], cluster.device_index[target]] == 0:
        return float("inf")
    return cluster.transfer_seconds(size, source, target)


def _held(problem: Placement, here: np.ndarray) -> np.ndarray:
    """Bytes on one device, given which operators run there in every assignment."""
    total = np.zeros(len(here), dtype=np.int64)
    for parameter in problem.graph.parameters:
        users = [number for number, op in enumerate(problem.graph.operators) if parameter.id in op.parameters]
        total += parameter.bytes * here[:, users].any(axis=1)
    if problem.memory == "additive":
        for number, op in enumerate(problem.graph.operators):
            made = sum(problem.graph.tensors[problem.graph.tensor_index[name]].bytes for name in op.outputs)
            total += (made + op.workspace_bytes) * here[:, number]
    return total

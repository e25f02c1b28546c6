"""The plainest way from devices to a valid schedule: operators in the graph's order, each as soon as it can."""

from __future__ import annotations

from collections.abc import Mapping

from opweave.problems.graph_arrays import topological_order
from opweave.problems.placement.spec import Placement, Schedule, Transfer


def schedule_on(problem: Placement, device: Mapping[str, str]) -> Schedule:
    """Run every operator on its device; transfers leave in the order in which they are asked for."""
    graph, cluster = problem.graph, problem.cluster
    size = {tensor.id: tensor.bytes for tensor in graph.tensors}
    free: dict[tuple[str, str], float] = {}
    start: dict[str, float] = {}
    end: dict[str, float] = {}
    arrived: dict[tuple[str, str], Transfer] = {}
    for index in topological_order(graph.arrays.successors):
        op = graph.operators[index]
        here = device[op.id]
        ready = free.get(("run", here), 0.0)
        for tensor in dict.fromkeys(op.inputs):
            maker = graph.producer.get(tensor)
            if maker is None or device[maker] == here:
                ready = max(ready, end.get(maker, 0.0))
                continue
            there = device[maker]
            if (tensor, here) not in arrived:
                begin = max(end[maker], free.get(("send", there), 0.0), free.get(("receive", here), 0.0))
                until = begin + cluster.transfer_seconds(size[tensor], there, here)
                free["send", there] = free["receive", here] = until
                sent = Transfer(tensor=tensor, source=there, target=here, start=begin, end=until)
                arrived[tensor, here] = sent
            ready = max(ready, arrived[tensor, here].end)
        start[op.id], end[op.id] = ready, ready + problem.known_seconds[op.id][here]
        free["run", here] = end[op.id]
    return Schedule(device=dict(device), start=start, transfers=tuple(arrived.values()))

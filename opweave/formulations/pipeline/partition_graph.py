"""The paper's partition graph: its shortest path cuts a model so that the transfers are the smallest in sum.

Source: Parthasarathy and Krishnamachari (2022), Algorithm 1. Every run of candidate points that fits is a vertex, and
consecutive runs are joined by an arc with the size of the transfer. The shortest path in that graph equals one through
the cut points, which are joined when the run between them fits; it is found backwards, point by point. As in the paper,
every device counts with the smallest memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance, lower
from opweave.problems.pipeline.spec import Pipeline

if TYPE_CHECKING:
    import networkx as nx


def partition_graph(problem: Pipeline) -> nx.DiGraph[Any]:
    """The paper's graph, for any algorithm of networkx.

    A vertex (a, b) is the run of operators from one place of the order to another, if the smallest memory holds it. An
    arc joins runs that follow each other; its ``bytes`` are what is sent between them. The whole model is every path
    from a vertex (0, b) to a vertex (a, n): ``"begin"`` and ``"end"`` stand before and behind.

    Examples
    --------
    >>> import networkx as nx
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.graph import OpGraph, Operator, Parameter, Tensor
    >>> sizes = {"x": 1, "y": 6, "z": 2, "out": 1}
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id=name, bytes=size) for name, size in sizes.items()],
    ...     parameters=[Parameter(id=name, bytes=1) for name in "pqr"],
    ...     operators=[
    ...         Operator(id="p", inputs=["x"], outputs=["y"], parameters=["p"]),
    ...         Operator(id="q", inputs=["y"], outputs=["z"], parameters=["q"]),
    ...         Operator(id="r", inputs=["z"], outputs=["out"], parameters=["r"]),
    ...     ],
    ... )
    >>> boards = Cluster(devices=[Device(name=name, memory_bytes=2) for name in "ab"], shared=1e6)
    >>> problem = Pipeline(graph=graph, cluster=boards, include_compute=False, memory="parameters")
    >>> nx.shortest_path(partition_graph(problem), "begin", "end", weight="bytes")
    ['begin', (0, 2), (2, 3), 'end']
    """
    import networkx as nx

    instance = lower(problem)
    reach, places, last = smallest_reach(instance), instance.position.tolist(), instance.last
    runs = [(a, b) for a in range(last) for b in range(a + 1, reach[a] + 1)]
    found = nx.DiGraph()
    for a, b in runs:
        here = (places[a], places[b])
        if a == 0:
            found.add_edge("begin", here, bytes=0.0)
        if b == last:
            found.add_edge(here, "end", bytes=0.0)
        for c in range(b + 1, reach[b] + 1) if b < last else ():
            found.add_edge(here, (places[b], places[c]), bytes=float(instance.sent[b]))
    return found


def smallest_reach(instance: PipelineInstance) -> list[int]:
    """Last point where a stage may end on every device, by first point."""
    return instance.reach.min(axis=0).astype(int).tolist() if instance.devices else []


def smallest_sum_cuts(instance: PipelineInstance) -> tuple[int, ...] | None:
    """Inner cut points of the partitions with the smallest sum of transfers, with the fewest stages among these.

    None when a piece is larger than the smallest memory.
    """
    reach, last = smallest_reach(instance), instance.last
    hair = 1e-9 * max(1.0, float(instance.sent.max(initial=0.0))) / (last + 1)
    costs = np.full(last + 1, np.inf)  # bytes that are sent at a point and after it
    costs[last] = 0.0
    following = [last] * (last + 1)
    for begin in range(last - 1, -1, -1):
        window = costs[begin + 1 : reach[begin] + 1]
        if window.size:
            following[begin] = begin + 1 + int(np.argmin(window))
            costs[begin] = window.min() + instance.sent[begin] + hair
    if costs[0] == np.inf:
        return None
    path = [0]
    while path[-1] < last:
        path.append(following[path[-1]])
    return tuple(path[1:-1])

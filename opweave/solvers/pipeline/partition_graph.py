"""The paper's partitions: cuts with the smallest sum of transfers, for devices of the smallest memory.

Source: Parthasarathy and Krishnamachari (2022), Algorithm 1. There every run of candidate points that fits is a vertex
and runs that follow each other are joined by the size of what is sent (or its class). The shortest path through that
graph is the same as one through the cut points, joined where a run fits; that graph is built here. As in the paper, the
smallest memory counts as everybody's.
"""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np

from opweave.formulations.pipeline.instance import FloatArray, PipelineInstance
from opweave.solvers.pipeline.plans import NoPlanError


def smallest_reach(instance: PipelineInstance) -> list[int]:
    """Where a stage may end on whichever device."""
    return instance.reach.min(axis=0).astype(int).tolist() if instance.devices else []


def partition_graph(instance: PipelineInstance, weights: Sequence[float] | FloatArray) -> nx.DiGraph[int]:
    """Cut points, joined where every device holds the run between them; weighted by what the run sends."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(instance.last + 1))
    for begin, end in enumerate(smallest_reach(instance)):
        graph.add_weighted_edges_from((begin, e, float(weights[e])) for e in range(begin + 1, end + 1))
    return graph


def smallest_sum_cuts(instance: PipelineInstance) -> tuple[int, ...]:
    """Inner cut points of the partitions with the smallest sum of transfers, the fewest stages among them.

    Raises
    ------
    NoPlanError
        When a piece is larger than the smallest memory, or there are more partitions than devices.
    """
    graph = partition_graph(instance, instance.sent)
    hair = 1e-9 * max(1.0, float(instance.sent.max(initial=0.0))) / (instance.last + 1)
    for _, _, data in graph.edges(data=True):
        data["weight"] += hair
    if not nx.has_path(graph, 0, instance.last):
        raise NoPlanError("some piece of the model is larger than the smallest memory, which counts as everybody's")
    path = nx.shortest_path(graph, 0, instance.last, weight="weight")
    if len(path) - 1 > instance.most:
        raise NoPlanError(f"the partitions are {len(path) - 1}, but at most {instance.most} devices may be used")
    return tuple(path[1:-1])


def classes_of(values: FloatArray, count: int) -> tuple[int, ...]:
    """Sort values into ``count`` classes of about equal size by rank, 0 the lowest; equal values share a class."""
    ranked = np.searchsorted(np.sort(values), values, side="left")
    return tuple((ranked * count // max(1, len(values))).tolist())

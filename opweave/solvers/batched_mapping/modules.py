"""Modules: groups of operators in a chain, joined by few channels.

Source: Ghannane and Abdelfattah, "DiviML", section IV-B. In the paper, modules are the (c + 1)-edge-connected
components of the undirected graph, with c = 1 for bridges, and an articulation point that ends no bridge is a separate
cut. Here both come from one sweep over a topological order that keeps the components between bridges together. A cut
after position p is crossed by the edges from before p to after p; the sources of these edges are its *channels*. A cut
with one channel is a bridge or an articulation point. An operator that several later ones read counts once, since its
device is decided once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency

LEAST = 4
"""Fewest operators of a module; smaller ones are joined with the next."""


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """Operators between two cuts.

    Attributes
    ----------
    operators
        In topological order.
    enters
        Edges from earlier modules into this one.
    leaves
        Operators of this module that later ones read: its channels.
    """

    operators: IntArray
    enters: IntArray
    leaves: IntArray


def modules_of(instance: BatchedInstance, channels: int, *, least: int = LEAST) -> list[Module]:
    """Cut at every position where at most ``channels`` operators are read across, all by the next module.

    Without such a position, the whole graph is one module.
    """
    order = _together(instance, channels)
    count = len(order)
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    last = np.full(count, -1, dtype=np.int64)
    np.maximum.at(last, instance.source, place[instance.target])
    heads = instance.waits.heads()
    np.maximum.at(last, instance.waits.items, place[heads])
    # an operator is open at cut p (after position p) if it is before the cut and read after it
    opened = np.zeros(count + 1, dtype=np.int64)
    reads = last[order] > np.arange(count)
    np.add.at(opened, np.flatnonzero(reads), 1)
    np.add.at(opened, last[order][reads], -1)
    crossing = np.cumsum(opened)[:count]
    cuts = [-1]
    for p in range(count - 1):
        if 0 < crossing[p] <= channels and p - cuts[-1] >= least and count - 1 - p >= least:
            cuts.append(p)
        elif 0 < crossing[p] < crossing[cuts[-1]] and cuts[-1] >= 0 and count - 1 - p >= least:
            cuts[-1] = p  # a narrower cut soon after is better
    groups = [order[a + 1 : b + 1] for a, b in zip(cuts, [*cuts[1:], count - 1], strict=True)]
    number = np.empty(count, dtype=np.int64)
    for index, members in enumerate(groups):
        number[members] = index
    return [_module(instance, number, index, members) for index, members in enumerate(groups)]


def _module(instance: BatchedInstance, number: IntArray, index: int, members: IntArray) -> Module:
    inside = number[instance.target] == index
    enters = np.flatnonzero(inside & (number[instance.source] < index))
    outside = (number[instance.source] == index) & (number[instance.target] > index)
    return Module(members, enters, np.unique(instance.source[outside]))


def _together(instance: BatchedInstance, channels: int) -> IntArray:
    """A topological order that, where possible, finishes one edge-connected component before the next."""
    if channels > 1:
        return instance.order  # the model file's order keeps modules together; components cost too much here
    import networkx as nx  # importing takes a tenth of a second, which other solves avoid

    graph = nx.Graph()
    graph.add_nodes_from(range(instance.operators))
    graph.add_edges_from(zip(instance.source.tolist(), instance.target.tolist(), strict=True))
    component = np.zeros(instance.operators, dtype=np.int64)
    graph.remove_edges_from(list(nx.bridges(graph)))
    for label, members in enumerate(nx.connected_components(graph)):
        component[list(members)] = label
    heads = instance.waits.heads()
    early = np.concatenate([instance.source, instance.waits.items])
    late = np.concatenate([instance.target, heads])
    after = Adjacency.from_pairs(instance.operators, early, late)
    waiting = np.bincount(after.items, minlength=instance.operators)
    depth = np.zeros(instance.operators, dtype=np.int64)
    for i in instance.order.tolist():
        depth[after[i]] = np.maximum(depth[after[i]], depth[i] + 1)
    first = np.full(int(component.max(initial=0)) + 1, instance.operators)
    np.minimum.at(first, component, depth)
    ready = [i for i in range(instance.operators) if waiting[i] == 0]
    order: list[int] = []
    current = -1
    while ready:
        # stay in the component; else take the component that begins earliest, and in it the least depth
        chosen = min(ready, key=lambda i: (component[i] != current, first[component[i]], depth[i], i))
        ready.remove(chosen)
        order.append(chosen)
        current = int(component[chosen])
        for j in after[chosen].tolist():
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(j)
    return np.asarray(order, dtype=np.int64)

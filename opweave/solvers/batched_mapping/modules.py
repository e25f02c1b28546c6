"""Modules: groups of operators in a chain, joined by few channels.

Source: Ghannane and Abdelfattah, "DiviML", section IV-B. In the paper, modules are the (c + 1)-edge-connected
components of the undirected graph, with c = 1 for bridges, and an articulation point that ends no bridge is a separate
cut. Here both come from one sweep over the order of the model file, which keeps modules together. A cut
after position p is crossed by the edges from before p to after p; the sources of these edges are its *channels*. A cut
with one channel is a bridge or an articulation point. An operator that several later ones read counts once, since its
device is decided once.

A module between given devices of its channels is a problem of its own. A channel that enters the module appears in it
as an operator that takes no time. These operators and the channels that leave the module are pinned. So the transfer
between two modules is part of the later one. Side constraints on operators of the module are kept. Memory limits are
not: the memory of one module says little about the total on a device, and leaving a limit out cannot invalidate a lower
bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.order_arcs import ancestors
from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.constraints import Constraint, Pin, Precede, Share
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.graph_arrays import Adjacency

Devices = tuple[int, ...]

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


def modules_of(instance: BatchedInstance, channels: int) -> list[Module]:
    """Cut at every position where at most ``channels`` operators are read across, all by the next module.

    Without such a position, the whole graph is one module.
    """
    order = instance.order
    count = len(order)
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    last = np.full(count, -1, dtype=np.int64)
    early, late = arcs_of(instance)
    np.maximum.at(last, early, place[late])
    # an operator is open at cut p (after position p) if it is before the cut and read after it
    opened = np.zeros(count + 1, dtype=np.int64)
    reads = last[order] > np.arange(count)
    np.add.at(opened, np.flatnonzero(reads), 1)
    np.add.at(opened, last[order][reads], -1)
    crossing = np.cumsum(opened)[:count]
    cuts = [-1]
    for p in range(count - 1):
        if 0 < crossing[p] <= channels and p - cuts[-1] >= LEAST and count - 1 - p >= LEAST:
            cuts.append(p)
        elif 0 < crossing[p] < crossing[cuts[-1]] and cuts[-1] >= 0 and count - 1 - p >= LEAST:
            cuts[-1] = p  # a narrower cut soon after is better
    groups = [order[a + 1 : b + 1] for a, b in pairwise([*cuts, count - 1])]
    number = np.repeat(np.arange(len(groups)), [len(members) for members in groups])[place]
    before, after = number[instance.source], number[instance.target]
    return [
        Module(
            operators=members,
            enters=np.flatnonzero((before < index) & (after == index)),
            leaves=np.unique(instance.source[(before == index) & (after > index)]),
        )
        for index, members in enumerate(groups)
    ]


def reversed_in_time(instance: BatchedInstance) -> BatchedInstance:
    """The same problem with time reversed: all edges, links and waits are turned."""
    return replace(
        instance,
        source=instance.target,
        target=instance.source,
        incoming=instance.outgoing,
        outgoing=instance.incoming,
        waits=instance.waits.reversed(instance.operators),
        order=instance.order[::-1].copy(),
        latency=instance.latency.T,
        seconds_per_byte=instance.seconds_per_byte.T,
    )


def closure(instance: BatchedInstance) -> BoolArray:
    """Whether one operator has to run before another. Shape (operators, operators): [later, earlier]."""
    return ancestors(Adjacency.from_pairs(instance.operators, *arcs_of(instance)))


def arcs_of(instance: BatchedInstance) -> tuple[IntArray, IntArray]:
    """Both ends of every edge and every wait: earlier and later operators."""
    heads = instance.waits.heads()
    return np.concatenate([instance.source, instance.waits.items]), np.concatenate([instance.target, heads])


def depths(instance: BatchedInstance) -> IntArray:
    """Edges and waits on the longest path to every operator. Shape (operators,)."""
    depth = np.zeros(instance.operators, dtype=np.int64)
    for i in instance.order.tolist():
        before = (instance.source[instance.incoming[i]], instance.waits[i])
        depth[i] = max(int(depth[each].max(initial=-1)) + 1 for each in before)
    return depth


@dataclass(frozen=True, slots=True, eq=False)
class ModuleProblem:
    """One module between given devices of its channels.

    Attributes
    ----------
    problem
        A problem for any solver.
    operators
        Positions of the problem's operators in the whole graph, in the problem's order; entering channels come first.
    entering
        Number of entering channels.
    key
        A key that is equal for problems that differ only in names.
    """

    problem: BatchedMapping
    operators: IntArray
    entering: int
    key: str


def module_problem(
    problem: BatchedMapping, instance: BatchedInstance, module: Module, before: Devices | None, after: Devices | None
) -> ModuleProblem:
    """Write a module as a problem.

    Parameters
    ----------
    before, after
        Devices of the entering and of the leaving channels, by ascending operator; None if they are free.
    """
    enters = np.unique(instance.source[module.enters]) if before is not None else np.zeros(0, dtype=np.int64)
    members = np.concatenate([enters, module.operators])
    place = {int(i): position for position, i in enumerate(members)}
    graph, costs = _graph(instance, place, len(enters)), _costs(instance, members, len(enters))
    constraints = list(_rules(instance, place))
    for operators, chosen in ((enters, before), (module.leaves, after)):
        constraints += [
            Pin(op=f"o{place[i]}", device=instance.devices[u])
            for i, u in zip(operators.tolist(), chosen or (), strict=False)
        ]
    devices = [device.model_copy(update={"memory_bytes": None}) for device in problem.cluster.devices]
    part = BatchedMapping(
        graph=graph,
        cluster=problem.cluster.model_copy(update={"devices": tuple(devices)}),
        costs=costs,
        batch=problem.batch,
        transfers=problem.transfers,
        memory="parameters",
        constraints=tuple(constraints),
    )
    key = "\n".join([graph.model_dump_json(), costs.model_dump_json(), *(c.model_dump_json() for c in constraints)])
    return ModuleProblem(part, members, len(enters), key)


def _rules(instance: BatchedInstance, place: Mapping[int, int]) -> Iterator[Constraint]:
    """The side constraints of a module that its costs do not say: batches that must run, and precedences."""
    for i, at in place.items():
        for u in np.flatnonzero(np.isinf(instance.seconds[i, :, 0])).tolist():
            (size,) = instance.sizes(i, u)
            yield Share(op=f"o{at}", device=instance.devices[u], inputs=size * instance.granule)
        for h in instance.waits[i].tolist():
            if h in place:
                yield Precede(before=f"o{place[h]}", after=f"o{at}")


def _graph(instance: BatchedInstance, place: Mapping[int, int], entering: int) -> OpGraph:
    """The operators with one tensor for each edge, named by position so that equal modules give equal graphs."""
    reads: dict[int, list[str]] = {position: [] for position in place.values()}
    writes: dict[int, list[Tensor]] = {position: [] for position in place.values()}
    for i, at in place.items():
        for e in instance.incoming[i].tolist() if at >= entering else ():
            source = place.get(int(instance.source[e]))
            if source is not None:
                tensor = Tensor(id=f"{source}-{at}", bytes=int(instance.size[e]))
                writes[source].append(tensor)
                reads[at].append(tensor.id)
    operators = [
        Operator(id=f"o{at}", inputs=tuple(reads[at]), outputs=tuple(tensor.id for tensor in writes[at]))
        for at in place.values()
    ]
    return OpGraph(tensors=tuple(tensor for row in writes.values() for tensor in row), operators=tuple(operators))


def _costs(instance: BatchedInstance, members: IntArray, entering: int) -> Costs:
    """The operators' costs; entering channels take no time, in every batch that some operator can run."""
    seconds = instance.seconds[members]
    seconds[:entering] = np.where(np.isfinite(instance.seconds).any(axis=0), 0.0, np.inf)
    able = np.isfinite(seconds)
    table = {
        f"o{at}": {
            device: {int(c) * instance.granule: float(seconds[at, u, c]) for c in np.flatnonzero(able[at, u]) if c}
            for u, device in enumerate(instance.devices)
            if able[at, u, 1:].any()
        }
        for at in range(len(members))
    }
    return Costs.from_table(table)

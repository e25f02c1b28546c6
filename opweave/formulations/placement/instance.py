"""Placement as arrays over operators, devices and flows, for schedulers, bounds and formulations.

A *flow* is one (tensor, consumer) pair with a producer: data that must be on the consumer's device before the consumer
starts. Sending flow f from device a to device b takes ``latency[a, b] + size[f] * seconds_per_byte[a, b]`` seconds;
within a device it takes no time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opweave.formulations.derived import once
from opweave.formulations.expressions import taken_in
from opweave.formulations.on_cluster import (
    BLUR,
    OnCluster,
    flows_of,
    left_to_run_on,
    listed,
    on_cluster,
    tied,
    too_large,
    unless_short,
    what_is_needed,
)
from opweave.formulations.order_arcs import ContradictionError, with_order_arcs
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, means
from opweave.problems.graph_arrays import Adjacency, in_order
from opweave.problems.placement.spec import Placement
from opweave.problems.words import counted

TAKEN_IN: tuple[type[Constraint], ...] = (Pin, Forbid, Colocate, MemoryCap)
"""Side constraints that :func:`lower` writes into the arrays, besides those with an ``"order_arcs"`` expression."""

EXACT = 1e-10
"""Relative distance from a multiple of a tick that counts as rounding of the input."""

MAX_DEVICE_SETS = 64
"""Number of sets of devices whose memory is compared with the demand."""

SUPPORTS = ("assignment", "order_arcs")
"""Expressions of side constraints that :func:`lower` handles."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementInstance(OnCluster):
    """Arrays indexed by operator v, device k, flow f (sorted by consumer) or parameter.

    Attributes
    ----------
    tensors
        Tensor id for each tensor index of a flow.
    seconds
        Run time of every operator on every device; inf if it cannot or may not run there. Shape (operators, devices).
    source, target, tensor, size
        Producer, consumer, tensor (position in ``tensors``) and bytes of every flow.
    incoming, outgoing
        Flows into and out of every operator.
    before, after
        Direct predecessors and successors, by data flow and by order arcs of side constraints.
    memory
        Bytes that every operator takes on its device, without its parameters.
    cluster
        Number of every operator's group; operators of one group share a device (Colocate).
    """

    tensors: tuple[str, ...]
    seconds: FloatArray
    source: IntArray
    target: IntArray
    tensor: IntArray
    size: IntArray
    incoming: Adjacency
    outgoing: Adjacency
    before: Adjacency
    after: Adjacency
    memory: IntArray
    cluster: IntArray

    def readers(self) -> list[IntArray]:
        """Operators that use each parameter."""
        users = self.parameters.reversed(len(self.parameter_bytes))
        return [users[p] for p in range(len(self.parameter_bytes))]

    def used(self) -> IntArray:
        """Pairs of a group of tied operators and a parameter that it uses. Shape (2, pairs)."""
        return np.unique(np.stack([self.cluster[self.parameters.heads()], self.parameters.items]), axis=1)

    def needed(self) -> FloatArray:
        """Bytes that every group of tied operators needs; as floats, since large sums may be blurred."""
        group, parameter = self.used()
        needed = np.bincount(self.cluster, self.memory)
        needed = needed + np.bincount(group, self.parameter_bytes[parameter], len(needed))
        return np.asarray(needed, dtype=np.float64)

    def fitting(self) -> BoolArray:
        """Where an operator may run and has room with those tied to it. Shape (operators, devices)."""
        return np.isfinite(self.seconds) & (self.needed()[self.cluster, None] <= self.capacity * (1.0 + BLUR))

    def group_bytes(self) -> tuple[IntArray, list[int]]:
        """Bytes that every group of tied operators needs for itself alone, and the parameters that groups share."""
        own = np.zeros(int(self.cluster.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(own, self.cluster, self.memory)
        group, parameter = self.used()
        times = np.bincount(parameter, minlength=len(self.parameter_bytes))
        alone = times[parameter] == 1
        np.add.at(own, group[alone], self.parameter_bytes[parameter[alone]])
        return own, np.flatnonzero(times > 1).tolist()

    def overfull(self, device: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """Devices whose operators need more bytes than the device has, with these operators."""
        for k, capacity in enumerate(self.capacity.tolist()):
            members = [v for v, place in enumerate(device) if place == k]
            used = list({p for v in members for p in self.parameters[v].tolist()})
            if sum(self.memory[members].tolist()) + sum(self.parameter_bytes[used].tolist()) > capacity:
                yield k, members

    def transfer(self) -> FloatArray:
        """Seconds to send every flow between every two devices. Shape (flows, devices, devices)."""
        return self.latency + self.size[:, None, None] * self.seconds_per_byte


def common_tick(instance: PlacementInstance, horizon: float, most: float) -> float | None:
    """The largest decimal tick, in seconds, that divides all durations (0.5 for 0.5, 1.5 and 2); None if there is none.

    Parameters
    ----------
    instance
        The problem as arrays.
    horizon
        Durations above it are ignored, because no schedule of interest contains them.
    most
        Most ticks of the horizon.
    """
    with np.errstate(invalid="ignore"):  # where a link is missing
        durations = np.concatenate([instance.seconds.ravel(), instance.transfer().ravel()])
        durations = durations[durations <= horizon * (1 + EXACT)]
    for digits in range(-3, 10):
        counts = durations * 10.0**digits
        whole = np.round(counts)
        if (np.abs(counts - whole) <= EXACT * whole).all():  # relative, since errors add up along paths
            tick = math.gcd(*(int(count) for count in np.unique(whole))) / 10.0**digits
            if tick > 0 and horizon / tick <= most:
                return tick
    return None


@once
def lower(problem: Placement) -> PlacementInstance:
    """Write a problem as arrays, including Pin, Forbid, Colocate, MemoryCap and order arcs.

    Raises
    ------
    ContradictionError
        If these leave an operator no device, or close a cycle.
    """
    graph, shared = problem.graph, on_cluster(problem)
    names, devices = graph.operator_ids, shared["devices"]
    source, target, tensor = flows_of(graph)
    flows = np.arange(len(tensor))
    group = tied(graph, problem.constraints)
    before = with_order_arcs(problem, graph.arrays.predecessors)
    known = np.array(problem.costs.array(names, devices))
    allowed = left_to_run_on(graph, devices, np.isfinite(known), group, problem.constraints)
    return PlacementInstance(
        **shared,
        tensors=graph.tensor_ids,
        seconds=np.where(allowed, known, np.inf),
        source=source,
        target=target,
        tensor=tensor,
        size=graph.arrays.tensor_bytes[tensor],
        incoming=Adjacency.from_pairs(len(names), target, flows),
        outgoing=Adjacency.from_pairs(len(names), source, flows),
        before=before,
        after=before.reversed(len(names)),
        memory=graph.sizes_made if problem.memory == "additive" else np.zeros(len(names), dtype=np.int64),
        cluster=group,
    )


@once
def shortage(problem: Placement) -> str | None:
    """Say why nothing can fit, if that is easy to see.

    The function looks for contradictory side constraints, operators that no device can hold, sets of devices that are
    too small for what must run there, and data that no link can carry.

    Returns
    -------
    str or None
        The reason, with operators, devices and the missing bytes; None if none was found, which proves nothing.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.costs import Costs
    >>> from opweave.problems.graph import OpGraph, Operator, Parameter
    >>> graph = OpGraph(
    ...     tensors=[], parameters=[Parameter(id="w", bytes=9)], operators=[Operator(id="p", parameters=["w"])]
    ... )
    >>> cluster = Cluster(devices=[Device(name="a", memory_bytes=5)])
    >>> shortage(Placement(graph=graph, cluster=cluster, costs=Costs.from_table({"p": {"a": 1.0}})))
    "operator 'p' needs 9 bytes; 'a', the largest device that may run it, holds 5: 4 bytes short"
    """
    try:
        return next(_reasons(problem, lower(problem)), None)
    except ContradictionError as error:
        return str(error)


def _reasons(problem: Placement, instance: PlacementInstance) -> Iterator[str]:
    """Groups of tied operators that fit nowhere, sets of devices that are too small, and missing links."""
    first = np.unique(instance.cluster, return_index=True)[1]
    able = np.isfinite(instance.seconds[first])
    if instance.limited:
        needed = instance.needed()
        room = np.where(able, instance.capacity, 0).max(axis=1, initial=0)
        for g in np.flatnonzero(needed * (1.0 + BLUR) > room).tolist():
            names = in_order(instance.names, np.flatnonzero(instance.cluster == g))
            exact = problem.memory_of(names)
            reason = too_large(what_is_needed(names, exact), exact, able[g], instance.capacity, instance.devices)
            yield from () if reason is None else (reason,)
        able = instance.fitting()[first]
        yield from _overfull(problem, instance, able[instance.cluster])
    linked, (u, v) = np.isfinite(instance.latency), instance.cluster[np.stack([instance.source, instance.target])]
    severed = np.flatnonzero(~((able[u].astype(np.float32) @ linked > 0) & able[v]).any(axis=1))
    for f in severed[:1].tolist():
        where = [" or ".join(map(repr, in_order(instance.devices, np.flatnonzero(able[g])))) for g in (v[f], u[f])]
        yield (
            f"operator {instance.names[instance.target[f]]!r} on {where[0]} reads "
            f"{instance.tensors[instance.tensor[f]]!r}, which {instance.names[instance.source[f]]!r} makes on "
            f"{where[1]}, but no link or chain of links leads there"
        )


def _overfull(problem: Placement, instance: PlacementInstance, able: BoolArray) -> Iterator[str]:
    """Sets of devices that cannot hold the operators that can run nowhere else; ``able``: (operators, devices)."""
    most = min([each.count for each in problem.constraints if means(each, MaxDevices)], default=len(instance.devices))
    sets = np.unique(able, axis=0)
    narrowest = sets[np.argsort(sets.sum(axis=1), kind="stable")][:MAX_DEVICE_SETS]
    for devices in (*narrowest, sets.any(axis=0)):
        if not devices.any() or (instance.capacity[devices] == NO_LIMIT).any():
            continue
        room = sum(sorted(instance.capacity[devices].tolist(), reverse=True)[:most])
        names = in_order(instance.names, np.flatnonzero(~(able & ~devices).any(axis=1)))
        where = in_order(instance.devices, np.flatnonzero(devices))
        needed = problem.memory_of(names)
        if needed > room:
            who = f"operators {listed(names)}" if len(names) <= 8 else f"{len(names):,} operators"
            of = f"{most} of " if most < devices.sum() else ""
            yield (
                f"{who} can only run on {of}{listed(where)} and need {needed:,} bytes "
                f"together, but there is room for {room:,}: {counted(needed - room, 'byte')} short"
            )


lower_unless_short = unless_short(lower, shortage)
"""As :func:`lower`, after the cheap proofs that nothing fits."""

taken_in("assignment", TAKEN_IN)

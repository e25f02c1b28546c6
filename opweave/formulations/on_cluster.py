"""A graph on a cluster as arrays, from which the instances of several problems are built, and proofs that nothing fits.

The proofs of each problem are next to its arrays; their common parts are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import Colocate, Constraint, Forbid, MemoryCap, Pin, Share, means
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.words import counted, together


def capacity_of(limits: Iterable[int | None]) -> IntArray:
    """Bytes of every device; :data:`~opweave.problems.arrays.NO_LIMIT` if it has no limit."""
    return np.asarray([NO_LIMIT if limit is None else limit for limit in limits], dtype=np.int64)


def links_of(cluster: Cluster) -> tuple[FloatArray, FloatArray]:
    """Latency, and seconds per byte, between every two devices; zero on the diagonal.

    If nothing can be sent, the latency is inf and a byte takes 0, because infinity times zero bytes is not a number.
    """
    here = np.eye(len(cluster.devices), dtype=bool)
    bandwidth = cluster.effective_bandwidth
    linked = (bandwidth > 0.0) & np.isfinite(bandwidth)
    per_byte = np.divide(1.0, bandwidth, out=np.zeros_like(bandwidth), where=linked)
    return np.where(here, 0.0, cluster.effective_latency), per_byte


def parameters_of(graph: OpGraph) -> tuple[Adjacency, IntArray]:
    """Parameters of every operator, each once, and the bytes of every parameter."""
    return graph.uses, graph.parameter_sizes


def flows_of(graph: OpGraph) -> tuple[IntArray, IntArray, IntArray]:
    """Producer, consumer and tensor of every flow (data made by one operator and read by another), by consumer."""
    arrays = graph.arrays
    made = arrays.producer[arrays.reads.items] >= 0
    tensor = arrays.reads.items[made]
    return arrays.producer[tensor], arrays.reads.heads()[made], tensor


def tied(graph: OpGraph, constraints: Sequence[Constraint]) -> IntArray:
    """Number of the group into which Colocate ties each operator; an operator may be alone. Shape (operators,)."""
    together = [each for each in constraints if means(each, Colocate)]
    if not together:
        return np.arange(len(graph.operators), dtype=np.int64)
    import networkx as nx  # importing takes a tenth of a second, and most problems tie no operators

    ties = nx.Graph()
    ties.add_nodes_from(range(len(graph.operators)))
    for constraint in together:
        nx.add_path(ties, [graph.operator_index[name] for name in constraint.ops])
    group = np.zeros(len(graph.operators), dtype=np.int64)
    for number, members in enumerate(nx.connected_components(ties)):
        group[list(members)] = number
    return group


def permitted(row: Mapping[str, int], devices: Sequence[str], constraints: Sequence[Constraint]) -> BoolArray:
    """Whether Pin and Forbid let each operator run on each device. Shape (operators, devices).

    Parameters
    ----------
    row
        The row of every operator.
    devices
        The devices with a column; constraints may name others.
    """
    allowed = np.ones((len(row), len(devices)), dtype=bool)
    for constraint in constraints:
        if means(constraint, Pin):
            allowed[row[constraint.op]] &= np.asarray([name == constraint.device for name in devices], dtype=bool)
        elif means(constraint, Forbid) and constraint.device in devices:
            allowed[row[constraint.op], devices.index(constraint.device)] = False
    return allowed


def left_to_run_on(
    graph: OpGraph, devices: Sequence[str], known: BoolArray, group: IntArray, constraints: Sequence[Constraint]
) -> BoolArray:
    """Where each operator may run after Pin and Forbid; operators of one group share their restrictions.

    Parameters
    ----------
    known
        Whether the time is known. Shape (operators, devices).
    group
        See :func:`tied`.

    Raises
    ------
    ContradictionError
        If an operator has no device left.
    """
    allowed = known & permitted(graph.operator_index, devices, constraints)
    shared = np.ones((int(group.max(initial=-1)) + 1, len(devices)), dtype=bool)
    np.logical_and.at(shared, group, allowed)
    allowed = shared[group]
    nowhere = np.flatnonzero(~allowed.any(axis=1))
    if len(nowhere):
        raise ContradictionError(f"operator {graph.operators[nowhere[0]].id!r} has no device left to run on")
    return allowed


class LimitedProblem(Protocol):
    """A problem on a cluster whose devices may have limited memory."""

    @property
    def cluster(self) -> Cluster:
        """Devices and links."""

    @property
    def constraints(self) -> Sequence[Constraint]:
        """Side constraints."""

    @property
    def memory_limits(self) -> Mapping[str, int | None]:
        """Bytes that every device may hold; None for no limit."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The devices, and the numbers of inputs by device, that side constraints require for one operator."""

    pins: set[str] = field(default_factory=set)
    forbids: set[str] = field(default_factory=set)
    shares: dict[str, set[int]] = field(default_factory=dict)

    @property
    def fixed(self) -> dict[str, int]:
        """Numbers of inputs that must run on a device, if different from 0."""
        return {device: max(counts) for device, counts in self.shares.items() if max(counts)}

    def allow(self, device: str) -> bool:
        """Whether the operator may run there."""
        return device not in self.forbids and self.pins <= {device}

    def allowed(self, devices: Iterable[str]) -> frozenset[str]:
        """The devices on which the operator may run."""
        return frozenset(filter(self.allow, devices) if self.pins or self.forbids else devices)


def asked_of(operators: Iterable[str], constraints: Sequence[Constraint]) -> dict[str, Asked]:
    """What pins, forbids and shares require of every operator; operators of which nothing is required share one."""
    found = dict.fromkeys(operators, Asked())
    for name in {each.op for each in constraints if means(each, Pin) or means(each, Forbid) or means(each, Share)}:
        found[name] = Asked()
    for constraint in constraints:
        if means(constraint, Pin):
            found[constraint.op].pins.add(constraint.device)
        elif means(constraint, Forbid):
            found[constraint.op].forbids.add(constraint.device)
        elif means(constraint, Share):
            found[constraint.op].shares.setdefault(constraint.device, set()).add(constraint.inputs)
    return found


def room_of(limits: Iterable[int | None]) -> int | None:
    """Bytes of all devices together; None if one has no limit."""
    room = 0
    for limit in limits:
        if limit is None:
            return None
        room += limit
    return room


def too_large(demand: str, needed: int, able: Sequence[str], limits: Mapping[str, int | None]) -> str | None:
    """Say that no device is large enough for what must lie on one of them; None if one is, or none may run it.

    Parameters
    ----------
    demand
        The demand in words, such as "operator 'p' needs 9 bytes".
    needed
        The bytes needed.
    able
        Devices that may run it.
    limits
        Bytes that every device may hold; None for no limit.
    """
    room = {device: limit for device in able if (limit := limits[device]) is not None}
    if not able or len(room) < len(able) or needed <= max(room.values()):
        return None
    device = max(room, key=lambda name: room[name])
    return (
        f"{demand}; {device!r}, the largest device that may run it, holds {room[device]:,}: "
        f"{counted(needed - room[device], 'byte')} short"
    )


def rules_in_the_way(
    problem: LimitedProblem, *, own: Mapping[str, bool] | None = None, rows_added: bool = False
) -> str:
    """Name the rules of a problem that may leave it without a solution.

    Parameters
    ----------
    problem
        The problem.
    own
        Rules that only this problem has, and whether they apply.
    rows_added
        Whether the user added rows to a model of it.

    Returns
    -------
    str
        For example ``"the memory of the devices and the side constraints (Pin) together"``.
    """
    kinds = sorted({type(each).__name__ for each in problem.constraints if not means(each, MemoryCap)})
    rules = {
        "the memory of the devices": any(limit is not None for limit in problem.memory_limits.values()),
        "the missing links between devices": bool(problem.cluster.unreachable_pairs),
        **(own or {}),
        f"the side constraints ({', '.join(kinds)})": bool(kinds),
        "the rows that were added": rows_added,
    }
    return together([rule for rule, there in rules.items() if there])

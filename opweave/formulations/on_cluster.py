"""A graph on a cluster as arrays, from which the instances of several problems are built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import Colocate, Constraint, Forbid, Pin, means
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import Adjacency


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

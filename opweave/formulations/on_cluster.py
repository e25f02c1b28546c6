"""A graph on a cluster as arrays, from which the instances of several problems are built, and proofs that nothing fits.

What proves that nothing fits is next to the arrays of each problem; the sentences are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.problems import on_cluster as problems
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import Colocate, Constraint, Forbid, MemoryCap, Pin, means
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import Adjacency, united
from opweave.problems.words import counted, together

ArraysT = TypeVar("ArraysT")

BLUR = 1e-9
"""Relative error of sums of bytes as floats, and far more than that."""


def unless_short(lower: Callable[..., ArraysT], shortage: Callable[..., str | None]) -> Callable[..., ArraysT]:
    """As ``lower``, after the cheap proofs that nothing fits: then it raises ContradictionError with the reason."""

    def lowered(problem: Any, *more: Any) -> ArraysT:
        reason = shortage(problem, *more)
        if reason is not None:
            raise ContradictionError(reason)
        return lower(problem, *more)

    return lowered


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


def flows_of(graph: OpGraph) -> tuple[IntArray, IntArray, IntArray]:
    """Producer, consumer and tensor of every flow (data made by one operator and read by another), by consumer."""
    arrays = graph.arrays
    made = arrays.producer[arrays.reads.items] >= 0
    tensor = arrays.reads.items[made]
    return arrays.producer[tensor], arrays.reads.heads()[made], tensor


@dataclass(frozen=True, slots=True, eq=False)
class OnCluster:
    """The arrays that problems of operators on devices share.

    Attributes
    ----------
    names, devices
        Operator ids and device names.
    latency, seconds_per_byte
        Shape (devices, devices); zero on the diagonal. The latency is inf if nothing can be sent.
    parameters, parameter_bytes
        Parameters of every operator, counted once per device, and their sizes.
    capacity
        Bytes of every device; ``NO_LIMIT`` if it has no limit.
    """

    names: tuple[str, ...]
    devices: tuple[str, ...]
    latency: FloatArray
    seconds_per_byte: FloatArray
    parameters: Adjacency
    parameter_bytes: IntArray
    capacity: IntArray

    @property
    def operators(self) -> int:
        """Number of operators."""
        return len(self.names)

    @property
    def limited(self) -> bool:
        """Whether any device's memory is limited."""
        return bool((self.capacity != NO_LIMIT).any())


def on_cluster(problem: problems.ClusterProblem) -> dict[str, Any]:
    """The fields of :class:`OnCluster`."""
    latency, seconds_per_byte = links_of(problem.cluster)
    return {
        "names": problem.graph.operator_ids,
        "devices": tuple(device.name for device in problem.cluster.devices),
        "latency": latency,
        "seconds_per_byte": seconds_per_byte,
        "parameters": problem.graph.uses,
        "parameter_bytes": problem.graph.parameter_sizes,
        "capacity": capacity_of(problem.memory_limits.values()),
    }


def tied(graph: OpGraph, constraints: Sequence[Constraint]) -> IntArray:
    """Number of the group into which Colocate ties each operator; an operator may be alone. Shape (operators,)."""
    together = [each.ops for each in constraints if means(each, Colocate)]
    if not together:
        return np.arange(len(graph.operators), dtype=np.int64)
    group = np.zeros(len(graph.operators), dtype=np.int64)
    for number, members in enumerate(united(graph.operator_index, together)):
        group[members] = number
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
        members = np.flatnonzero(group == group[nowhere[0]])
        names = [graph.operator_ids[v] for v in members.tolist()]
        raise ContradictionError(nowhere_to_run(names, devices, np.asarray(known[members].all(axis=0)), constraints))
    return allowed


def nowhere_to_run(
    names: Sequence[str], devices: Sequence[str], known: BoolArray, constraints: Sequence[Constraint]
) -> str:
    """Say that no device is left for operators that share one, and why; ``known``: devices with all times."""
    facts = {
        "pinned to": [each.device for each in constraints if means(each, Pin) and each.op in names],
        "forbidden on": [each.device for each in constraints if means(each, Forbid) and each.op in names],
        "times known on": [device for device, there in zip(devices, known.tolist(), strict=True) if there] or ["none"],
    }
    why = "; ".join(f"{fact} {listed(dict.fromkeys(some))}" for fact, some in facts.items() if some)
    who = (
        f"operator {names[0]!r} has" if len(names) == 1 else f"operators {listed(names)} must share a device, but have"
    )
    return f"{who} no device left to run on: {why}"


def what_is_needed(names: Sequence[str], needed: int, why: str = "which must share a device") -> str:
    """The demand of operators that must lie on one device, in words.

    Examples
    --------
    >>> what_is_needed(["p"], 9), what_is_needed(["p", "q"], 9)
    ("operator 'p' needs 9 bytes", "operators 'p', 'q', which must share a device, need 9 bytes")
    """
    if len(names) == 1:
        return f"operator {names[0]!r} needs {needed:,} bytes"
    return f"operators {listed(names)}, {why}, need {needed:,} bytes"


def too_large(demand: str, needed: int, able: BoolArray, capacity: IntArray, devices: Sequence[str]) -> str | None:
    """Say that no device is large enough for what must lie on one of them; None if one is, or none may run it.

    Parameters
    ----------
    demand
        The demand in words, as of :func:`what_is_needed`.
    needed
        The bytes needed.
    able
        Whether each device may run it. Shape (devices,).
    """
    if not able.any() or needed <= int(capacity[able].max()):
        return None
    largest = int(np.where(able, capacity, -1).argmax())
    room = int(capacity[largest])
    return (
        f"{demand}; {devices[largest]!r}, the largest device that may run it, holds {room:,}: "
        f"{counted(needed - room, 'byte')} short"
    )


def listed(names: Iterable[str]) -> str:
    """Names in quotes; many are cut short."""
    shown = [repr(name) for name in names]
    return ", ".join(shown if len(shown) <= 8 else [*shown[:7], f"... ({len(shown)} in all)"])


def rules_in_the_way(
    problem: problems.ClusterProblem, *, own: Mapping[str, bool] | None = None, rows_added: bool = False
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
        "the missing links between devices": bool((problem.cluster.effective_bandwidth == 0).any()),
        **(own or {}),
        f"the side constraints ({', '.join(kinds)})": bool(kinds),
        "the rows that were added": rows_added,
    }
    return together([rule for rule, there in rules.items() if there])

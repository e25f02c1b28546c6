"""What problems on a cluster share: known times, available memory, and the bytes that each device holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import Literal

import numpy as np

from opweave.problems.arrays import IntArray, distinct
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import Constraint, MemoryCap, means
from opweave.problems.costs import MAX_SECONDS, Costs
from opweave.problems.graph import OpGraph
from opweave.problems.timeline import LARGEST, NEVER, Lifetimes, Names
from opweave.problems.words import did_you_mean

MemoryModel = Literal["additive", "parameters"]
"""What a device holds all the time. ``"parameters"``: the parameters of its operators, a shared one counted once.
``"additive"``: also the storages that they write (an alias owns none) and their workspaces."""


def check_cost_names(costs: Costs, graph: OpGraph, cluster: Cluster) -> None:
    """Refuse costs of operators or devices that do not exist.

    Raises
    ------
    ValueError
        Names the first of them.
    """
    for name in costs.operators:
        if name not in graph.operator_index:
            near = did_you_mean(name, graph.operator_index)
            raise ValueError(f"the costs name operator {name!r}, which the graph does not have{near}")
    for name in costs.devices:
        if name not in cluster.device_index:
            known = ", ".join(map(repr, cluster.device_index))
            raise ValueError(
                f"the costs name device {name!r}; the cluster has {known}{did_you_mean(name, cluster.device_index)}"
            )


def check_times_known(known: dict[str, dict[str, float]]) -> None:
    """Refuse an operator whose time is unknown on every device.

    Raises
    ------
    ValueError
        Names the first of them.
    """
    for name, by_device in known.items():
        if not by_device:
            raise ValueError(f"operator {name!r} has no known time (batch size 1) on any device of the cluster")


def check_order(graph: OpGraph, order: Sequence[str]) -> None:
    """Refuse an order that does not list every operator once, or lists one before a producer of its inputs.

    Raises
    ------
    ValueError
        Names the first wrong operator.
    """
    place = {name: position for position, name in enumerate(order)}
    if len(place) < len(order) or place.keys() != graph.operator_index.keys():
        odd = sorted(place.keys() ^ graph.operator_index.keys())
        named = f": {odd[0]!r} is unknown or missing" if odd else ""
        raise ValueError(f"order must list every operator of the graph exactly once{named}")
    for op in graph.operators:
        for tensor in op.inputs:
            producer = graph.producer.get(tensor)
            if producer is not None and place[producer] > place[op.id]:
                raise ValueError(f"order runs {op.id!r} before {producer!r}, which makes its input {tensor!r}")


def check_total_time(graph: OpGraph, cluster: Cluster, running: float) -> None:
    """Refuse times whose sum exceeds the number of seconds that a schedule may contain.

    Parameters
    ----------
    running
        Total seconds of all operators, each on the device where it takes longest.

    Raises
    ------
    ValueError
        States the sums of runs and of transfers.
    """
    rate = cluster.effective_bandwidth
    linked = (rate > 0.0) & np.isfinite(rate)
    sending = 0.0
    if linked.any():
        sent = (name for op in graph.operators for name in op.inputs if name in graph.producer)
        size = [graph.tensors[graph.tensor_index[name]].bytes for name in sent]
        slowest = float(rate[linked].min())
        sending = len(size) * float(cluster.effective_latency[linked].max()) + sum(size) / slowest
    if running + sending > MAX_SECONDS:
        raise ValueError(
            f"the slowest runs add up to {running:.3g} seconds and the slowest transfers to {sending:.3g}; "
            f"together they may take {MAX_SECONDS:.0e} (bandwidth is in bytes per second, and 0 means no link)"
        )


def times_by_device(costs: Costs, graph: OpGraph, cluster: Cluster) -> dict[str, dict[str, float]]:
    """Seconds of every operator for batch size 1, on each device whose time for it is known."""
    devices = [device.name for device in cluster.devices]
    names = graph.operator_ids
    table = costs.array(names, devices).tolist()
    return {
        name: {device: seconds for device, seconds in zip(devices, row, strict=True) if not isnan(seconds)}
        for name, row in zip(names, table, strict=True)
    }


def memory_by_cap(cluster: Cluster, constraints: Sequence[Constraint]) -> dict[str, int | None]:
    """Bytes that every device may hold: its memory or the smallest ``MemoryCap`` on it; None for no limit."""
    limits = {device.name: device.memory_bytes for device in cluster.devices}
    for constraint in constraints:
        if means(constraint, MemoryCap):
            before = limits[constraint.device]
            limits[constraint.device] = constraint.bytes if before is None else min(before, constraint.bytes)
    return limits


def bytes_held(graph: OpGraph, operators: Iterable[str], memory: MemoryModel) -> int:
    """Bytes that a device holds if it runs exactly these operators."""
    used = set(operators)
    weights = {name for op in used for name in graph.operators[graph.operator_index[op]].parameters}
    total = sum(map(graph.parameter_bytes.__getitem__, weights))
    return total + sum(map(graph.bytes_made.__getitem__, used)) if memory == "additive" else total


def held_by_device(graph: OpGraph, operator: IntArray, device: IntArray, count: int, memory: MemoryModel) -> list[int]:
    """Bytes that each of ``count`` devices holds, as :func:`bytes_held`; operator and device of runs, shape (runs,)."""
    parameters = max(1, len(graph.parameters))
    run, parameter = graph.uses.entries(operator)
    parts = [(distinct(device[run] * parameters + parameter), parameters, graph.parameter_sizes)]
    if memory == "additive":
        operators = max(1, len(graph.operators))
        parts.append((distinct(device * operators + operator), operators, graph.sizes_made))
    held = [0] * count
    for pairs, width, size in parts:
        where, what = np.divmod(pairs, width)
        ends = np.searchsorted(where, np.arange(count + 1)).tolist()
        for k in range(count):
            held[k] += sum(size[what[ends[k] : ends[k + 1]]].tolist())  # whole numbers of any size
    return held


def lifetimes_held(
    graph: OpGraph, operator: IntArray, device: IntArray, count: IntArray, memory: MemoryModel | Literal["buffers"]
) -> Lifetimes:
    """Storages that devices hold all the time, as columns of a timeline.

    Parameters
    ----------
    operator, device, count
        Each run's operator, device and number of inputs. Shape (runs,).
    memory
        Parameters count once on each device. ``"additive"`` adds, for every input, the storages that operators write
        and their workspaces. ``"buffers"`` also adds the storages that they read.
    """
    arrays, names = graph.arrays, Names.of(graph)
    width = max(1, len(graph.parameters))
    run, parameter = graph.uses.entries(operator)
    where, parameter = np.divmod(distinct(device[run] * width + parameter), width)
    columns = [(names.parameter(parameter), where, graph.parameter_sizes[parameter])]
    if memory != "parameters":
        columns.append((operator, device, _times(graph.workspace_sizes[operator], count)))
        for lists in (arrays.writes, arrays.reads) if memory == "buffers" else (arrays.writes,):
            run, tensor = lists.entries(operator)
            own = (arrays.storage[tensor] == tensor) | (lists is arrays.reads)
            run, tensor = run[own], tensor[own]
            columns.append((names.tensor(tensor), device[run], _times(arrays.tensor_bytes[tensor], count[run])))
    storage, resource, size = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    there = size > 0
    begin = np.zeros(int(there.sum()))
    return Lifetimes(storage[there], resource[there], begin, np.full_like(begin, NEVER), size[there])


def _times(size: IntArray, count: IntArray) -> IntArray:
    """Bytes of several inputs; :data:`LARGEST` at most, so that they stay whole numbers of 64 bits."""
    return np.where(size > LARGEST // np.maximum(count, 1), LARGEST, size * count)

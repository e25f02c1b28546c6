"""Lower bounds that take milliseconds for any size, computed from the problem alone; every result has at least these.

They consider single operators, sums and paths, and ignore side constraints, limits and transfers, each of which can
only make plans longer or larger.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray, distinct
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.ordered_layout import OrderedLayout
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.placement.spec import Placement
from opweave.problems.problem import Problem
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.rounding import SUMMATION


@singledispatch
def trivial_bound(problem: Problem[Any, Any]) -> int | float | None:
    """A lower bound on the objective in the problem's unit; None for unknown problem kinds.

    Parameters
    ----------
    problem
        Any problem.

    Examples
    --------
    >>> from opweave.problems.graph import Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id="x", bytes=3), Tensor(id="y", bytes=4)],
    ...     operators=[Operator(id="p", inputs=["x"], outputs=["y"])],
    ... )
    >>> trivial_bound(MemoryOrdering(graph=graph))
    7
    """
    del problem
    return None


@trivial_bound.register
def _(problem: MemoryOrdering) -> int:
    """The storages that an operator reads and writes and its workspace; results may at best overwrite inputs."""
    graph = problem.graph
    arrays = graph.arrays
    size = arrays.tensor_bytes[arrays.storage]
    if problem.inputs == "excluded":
        size = np.where(arrays.producer[arrays.storage] < 0, 0, size)
    if problem.outputs == "excluded":
        size = np.where(
            np.isin(arrays.storage, arrays.storage[[graph.tensor_index[name] for name in graph.outputs]]), 0, size
        )
    reads = _touched(arrays.reads, arrays.storage)
    owned = arrays.writes.items == arrays.storage[arrays.writes.items]
    writes = np.column_stack([arrays.writes.heads()[owned], arrays.writes.items[owned]])
    read, written = (_summed(pairs, size, len(graph.operators)) for pairs in (reads, writes))
    both = read + written
    if problem.in_place != "none":
        able = np.asarray([op.inplace_ok for op in graph.operators], dtype=bool)
        both = np.where(able, np.maximum(read, written), both)
    steps = both + graph.workspace_sizes
    return int(steps.max(initial=0) if problem.objective == "peak" else steps.sum())


def _touched(rows: Adjacency, storage: IntArray) -> IntArray:
    """Pairs (operator, storage) without repetitions. Shape (pairs, 2)."""
    count = max(1, len(storage))
    pairs = distinct(rows.heads() * count + storage[rows.items])
    return np.column_stack(np.divmod(pairs, count))


def _summed(pairs: IntArray, size: IntArray, operators: int) -> IntArray:
    """Bytes of every operator's storages. Shape (operators,)."""
    total = np.zeros(operators, dtype=np.int64)
    np.add.at(total, pairs[:, 0], size[pairs[:, 1]])
    return total


@trivial_bound.register
def _(problem: Placement) -> float:
    """The longest path, and all work divided among the devices, unless a host runs any number of operators at once."""
    seconds = problem.costs.array(problem.graph.operator_ids, [d.name for d in problem.cluster.devices])
    least = _least(seconds)
    shared = 0.0 if problem.host is not None else float(least.sum()) / len(problem.cluster.devices)
    return _safe(max(_longest_path(problem.graph, least), shared))


@trivial_bound.register
def _(problem: BatchedMapping) -> float:
    """The path of one input with every batch at its fastest, and all work at its fastest rate divided among devices."""
    seconds = problem.times
    if not seconds.size:
        return 0.0
    count, devices, _ = seconds.shape
    least = _least(seconds.reshape(count, -1))
    rate = _least((seconds / np.asarray(problem.sizes)).reshape(count, -1))
    return _safe(max(_longest_path(problem.graph, least), problem.batch * float(rate.sum()) / devices))


@trivial_bound.register
def _(problem: Pipeline) -> float:
    """Computing alone: its sum for latency, or the longest operator and the mean of the stages."""
    if problem.costs is None or not problem.include_compute or problem.objective == "transfers":
        return 0.0
    names, devices = problem.graph.operator_ids, [device.name for device in problem.cluster.devices]
    least = _least(problem.costs.array(names, devices))
    if problem.objective == "latency":
        return _safe(float(least.sum()))
    alone = float(least.max(initial=0.0)) / problem.max_replicas
    return _safe(max(alone, float(least.sum()) / len(devices)))


@trivial_bound.register
def _(problem: Slicing) -> float:
    """Operators run in sequence, and the parts of one take at least their shares of a device's time for the whole."""
    names, devices = problem.graph.operator_ids, [device.name for device in problem.cluster.devices]
    seconds = problem.costs.array(names, devices)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        speed = np.where(np.isfinite(seconds), 1.0 / seconds, 0.0).sum(axis=1)
        alone = np.where(speed > 0.0, 1.0 / speed, 0.0)
    return _safe(float(alone.sum()))


@trivial_bound.register
def _(problem: MemoryLayout) -> int | float:
    """The most bytes that are live at any time; for traffic, every storage in the fastest pool that takes it."""
    if problem.objective == "arena":
        return problem.live_peak
    if all(pool.operators is None for pool in problem.pools) and all(each.pools is None for each in problem.lifetimes):
        fastest = max((pool.speed or math.inf for pool in problem.pools), default=math.inf)
        return _safe(float((problem.moved / fastest).sum()))
    least = 0.0
    for each in problem.lifetimes:
        there = (pool for pool in problem.pools if problem.may_stand_in(each, pool))
        least += min((pool.seconds(each.moved) for pool in there), default=0.0)
    return _safe(least)


@trivial_bound.register
def _(problem: OrderedLayout) -> int | float | None:
    """No order keeps less in memory at once than its most demanding operator."""
    return trivial_bound(problem.ordering)


def _least(seconds: FloatArray) -> FloatArray:
    """Every row's smallest known time; 0 if none is known."""
    least = np.where(np.isfinite(seconds), seconds, np.inf).min(axis=1, initial=np.inf)
    return np.asarray(np.where(np.isfinite(least), least, 0.0), dtype=np.float64)


def _longest_path(graph: OpGraph, seconds: FloatArray) -> float:
    """The largest sum of seconds along a path."""
    successors = graph.arrays.successors
    start, items, lasts = successors.start.tolist(), successors.items.tolist(), seconds.tolist()
    ends = [0.0] * len(lasts)  # of the predecessors, until the operator's own turn
    for v in graph.listed_order.tolist():
        end = ends[v] = ends[v] + lasts[v]
        for w in items[start[v] : start[v + 1]]:
            ends[w] = max(ends[w], end)
    return max(ends, default=0.0)


def _safe(seconds: float) -> float:
    return max(0.0, seconds * (1.0 - SUMMATION))

"""The evaluator that all searches of slicing share: times and memory of plans, on arrays, mostly compiled.

A plan is a mode for every operator, shape (operators,), and its cuts, shape (operators, devices + 1); see
:mod:`opweave.formulations.slicing.instance`. Populations have an additional first dimension.

Every array argument of a compiled function costs time, so an instance is packed into few arrays. The constants below
name the columns of ``ops`` and ``flows``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.slicing.instance import CHANNELS, ROWS, SlicingInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatCube, FloatMatrix, IntArray, IntCube, IntMatrix
from opweave.solvers.loops import helper, loop

LENGTH, _, WHOLE, FLOWS, FLOWS_END, WEIGHT, WORKSPACE, MOST, MADE, MADE_END, ENDS, ENDS_END = range(12)
"""Columns of ``SlicingArrays.ops``; LENGTH + mode is the length along a mode, the others are ranges and sizes."""

PRODUCER, STRIDE, PADDING, REACH, WIDE, DEEP, OFFSET, ALL_CHANNELS, ALL_ROWS, CELL = range(10)
"""Columns of ``SlicingArrays.flows``: as in the instance, then the extent and cell of the flow's tensor."""

PRINTED, RESIDENT = 1, 2
"""Bits of ``SlicingArrays.reading``: one channel for all devices, the paper's transfers, weights that stay in
memory."""


class SlicingArrays(NamedTuple):
    """An instance as the kernels need it.

    Attributes
    ----------
    ops, flows
        Whole numbers by operator and by flow; columns as above.
    times
        Intercept, and seconds for each position along the rows and the channels. Shape (operators, 3, devices).
    links
        Seconds per byte and latency. Shape (2, devices).
    reading
        Bits that select the variant of the problem.
    made
        Rows, channels and cell of every produced tensor, by producer.
    ends
        Producer, rows, channels and cell of every tensor, by the operator after which it is freed.
    capacity
        Shape (devices,).
    consumers_start, consumers
        Operators that read each operator's output.
    """

    ops: IntMatrix
    flows: IntMatrix
    times: FloatCube
    links: FloatMatrix
    reading: int
    made: IntMatrix
    ends: IntMatrix
    capacity: IntArray
    consumers_start: IntArray
    consumers: IntArray


def arrays_of(instance: SlicingInstance) -> SlicingArrays:
    """Arrays for the kernels."""
    maker = np.full(len(instance.cell), -1, dtype=np.int64)
    maker[instance.made] = np.repeat(np.arange(instance.operators), np.diff(instance.made_start))
    ending = np.flatnonzero((instance.last >= 0) & (instance.last < instance.operators) & (maker >= 0))
    ends = ending[np.argsort(instance.last[ending], kind="stable")]
    starts = np.zeros(instance.operators + 1, dtype=np.int64)
    np.cumsum(np.bincount(instance.last[ending], minlength=instance.operators), out=starts[1:])
    extents = np.stack([instance.rows, instance.channels, instance.cell], axis=1)
    t, moving = instance.tensor, instance.rate > 0.0
    per_byte = np.divide(1.0, instance.rate, out=np.zeros(len(moving)), where=moving)
    ranges = (instance.flow_start, instance.made_start, starts)
    flow_range, made_range, end_range = (np.stack([each[:-1], each[1:]], axis=1) for each in ranges)
    sizes = np.stack([instance.weight, instance.workspace, instance.most_parts], axis=1)
    flow_columns = (
        instance.producer,
        instance.stride,
        instance.padding,
        instance.reach,
        instance.wide,
        instance.deep,
        instance.offset,
        instance.channels[t],
        instance.rows[t],
        instance.cell[t],
    )
    lengths = np.maximum(instance.length, 1)
    return SlicingArrays(
        ops=np.concatenate(
            [instance.length, instance.whole[:, None], flow_range, sizes, made_range, end_range], axis=1
        ).astype(np.int64),
        flows=np.stack(flow_columns, axis=1).astype(np.int64),
        times=np.concatenate([instance.intercept[:, None], instance.slope[:, None] / lengths[:, :, None]], axis=1),
        links=np.stack([per_byte, instance.latency]),
        reading=PRINTED * instance.printed + RESIDENT * instance.resident,
        made=extents[instance.made].reshape(-1, 3),
        ends=np.concatenate([maker[ends, None], extents[ends]], axis=1).reshape(-1, 4),
        capacity=instance.capacity,
        consumers_start=instance.consumers.start,
        consumers=instance.consumers.items,
    )


@helper
def need_of(flows: IntMatrix, e: int, mode_v: int, a: int, b: int) -> tuple[int, int]:
    """Positions [low, high) of a flow's tensor that a part [a, b) needs, along the mode's dimension."""
    if mode_v == ROWS:
        low = max(0, a * flows[e, STRIDE] - flows[e, PADDING])
        high = min(flows[e, ALL_ROWS], (b - 1) * flows[e, STRIDE] - flows[e, PADDING] + flows[e, REACH])
    else:
        low = min(max(0, a // flows[e, WIDE] * flows[e, DEEP] - flows[e, OFFSET]), flows[e, ALL_CHANNELS])
        high = min(flows[e, ALL_CHANNELS], -(-b // flows[e, WIDE]) * flows[e, DEEP] - flows[e, OFFSET])
    return low, max(low, high)


@helper
def missing_cells(ops: IntMatrix, flows: IntMatrix, e: int, v: int, mode: IntArray, cuts: IntMatrix, k: int) -> int:
    """Cells of a flow's tensor that device k needs for its part and does not hold."""
    low, high = need_of(flows, e, mode[v], cuts[v, k], cuts[v, k + 1])
    j = flows[e, PRODUCER]
    across = flows[e, ALL_CHANNELS] if mode[v] == ROWS else flows[e, ALL_ROWS]
    if j < 0:
        return int((high - low) * across)
    first, end = cuts[j, k], cuts[j, k + 1]
    if ops[j, WHOLE] == 1:
        return 0 if end > first else int((high - low) * across)
    if mode[v] != mode[j]:
        return int((high - low) * (across - (end - first)))
    return int((high - low - max(0, min(high, end) - max(low, first))) * across)


@helper
def _add_flow_seconds(
    ops: IntMatrix,
    flows: IntMatrix,
    links: FloatMatrix,
    reading: int,
    e: int,
    v: int,
    mode: IntArray,
    cuts: IntMatrix,
    ends: FloatArray,
) -> None:
    """Add every device's wait for a flow to ``ends``."""
    j = flows[e, PRODUCER]
    if j < 0:
        return
    printed = reading & PRINTED != 0 and mode[v] == ROWS and mode[j] == ROWS and ops[v, WHOLE] + ops[j, WHOLE] == 0
    for k in range(links.shape[1]):
        a, b = cuts[v, k], cuts[v, k + 1]
        if a == b:
            continue
        low, high = need_of(flows, e, mode[v], a, b)
        if printed:
            beyond = max(0, high - cuts[j, k + 1]) + max(0, cuts[j, k] - low)
            cells = beyond * flows[e, ALL_CHANNELS] if high > low else 0
        else:
            cells = missing_cells(ops, flows, e, v, mode, cuts, k)
        size = cells * flows[e, CELL]
        ends[k] += links[1, k] + size * links[0, k] if size > 0 else 0.0


@helper
def operator_seconds(
    ops: IntMatrix,
    flows: IntMatrix,
    times: FloatCube,
    links: FloatMatrix,
    reading: int,
    v: int,
    mode: IntArray,
    cuts: IntMatrix,
    ends: FloatArray,
) -> float:
    """Time of one operator: its slowest device, transfers included; inf when a device takes part that may not.

    ``ends``, shape (devices,), receives the end of every device; 0 if it has no part.
    """
    for k in range(links.shape[1]):
        part = cuts[v, k + 1] - cuts[v, k]
        ends[k] = times[v, 0, k] + times[v, 1 + mode[v], k] * part if part > 0 else 0.0
    for e in range(ops[v, FLOWS], ops[v, FLOWS_END]):
        _add_flow_seconds(ops, flows, links, reading, e, v, mode, cuts, ends)
    slowest = 0.0
    for k in range(links.shape[1]):
        slowest = max(slowest, ends[k])
    return slowest


@helper
def weight_bytes(ops: IntMatrix, v: int, mode: IntArray, cuts: IntMatrix, k: int) -> int:
    """Bytes of the weights that device k needs for its part of operator v."""
    part = cuts[v, k + 1] - cuts[v, k]
    if part == 0:
        return 0
    share = -(-ops[v, WEIGHT] * part // ops[v, LENGTH + CHANNELS]) if mode[v] == CHANNELS else ops[v, WEIGHT]
    return int(share)


@helper
def held_bytes(
    ops: IntMatrix, rows: int, channels: int, cell: int, j: int, mode: IntArray, cuts: IntMatrix, k: int
) -> int:
    """Bytes of a tensor that device k has produced itself."""
    part = cuts[j, k + 1] - cuts[j, k]
    if mode[j] == CHANNELS:
        return int(part * rows * cell)
    return int(part * rows // ops[j, LENGTH] * channels * cell)


@helper
def passing_bytes(arrays: SlicingArrays, v: int, mode: IntArray, cuts: IntMatrix, k: int) -> int:
    """Bytes that device k holds only while operator v runs: workspace, cells received, and weights if they leave."""
    ops, flows = arrays.ops, arrays.flows
    part = cuts[v, k + 1] - cuts[v, k]
    if part == 0:
        return 0
    passing = -(-ops[v, WORKSPACE] * part // ops[v, LENGTH + mode[v]])
    if arrays.reading & RESIDENT == 0:
        passing += weight_bytes(ops, v, mode, cuts, k)
    for e in range(ops[v, FLOWS], ops[v, FLOWS_END]):
        passing += missing_cells(ops, flows, e, v, mode, cuts, k) * flows[e, CELL]
    return int(passing)


@helper
def surplus_parts(ops: IntMatrix, v: int, cuts: IntMatrix) -> int:
    """Parts of operator v beyond its limit."""
    parts = 0
    for k in range(cuts.shape[1] - 1):
        parts += cuts[v, k] < cuts[v, k + 1]
    return int(max(0, parts - ops[v, MOST]))


@helper
def excess_of(arrays: SlicingArrays, mode: IntArray, cuts: IntMatrix, peak: IntArray) -> float:
    """cv6 and cv7: bytes over the devices' memory, and surplus parts; 0 for a legal plan.

    Writes the peak memory of every device to ``peak``, shape (devices,).
    """
    ops, made, ends = arrays.ops, arrays.made, arrays.ends
    resident = arrays.reading & RESIDENT != 0
    excess = 0.0
    for k in range(len(peak)):
        live = 0
        for v in range(len(mode) if resident else 0):
            live += weight_bytes(ops, v, mode, cuts, k)
        most = live
        for v in range(len(mode)):
            for i in range(ops[v, MADE], ops[v, MADE_END]):
                live += held_bytes(ops, made[i, 0], made[i, 1], made[i, 2], v, mode, cuts, k)
            used = live + passing_bytes(arrays, v, mode, cuts, k)
            most = max(most, used)
            for i in range(ops[v, ENDS], ops[v, ENDS_END]):
                live -= held_bytes(ops, ends[i, 1], ends[i, 2], ends[i, 3], ends[i, 0], mode, cuts, k)
        peak[k] = most
        excess += max(0, most - arrays.capacity[k])
    for v in range(len(mode)):
        excess += surplus_parts(ops, v, cuts)
    return excess


@loop
def judge_all(
    arrays: SlicingArrays,
    modes: IntMatrix,
    cuts: IntCube,
    memory: bool,
    seconds: FloatArray,
    excess: FloatArray,
    peaks: IntMatrix,
    ends: FloatArray,
) -> None:
    """Latency of every plan of a population; its excess and peaks, shape (plans, devices), if memory counts.

    ``ends`` (devices,) is memory.
    """
    for p in range(len(modes)):
        for v in range(modes.shape[1]):
            seconds[p] += operator_seconds(
                arrays.ops, arrays.flows, arrays.times, arrays.links, arrays.reading, v, modes[p], cuts[p], ends
            )
        if memory:
            excess[p] = excess_of(arrays, modes[p], cuts[p], peaks[p])


class Judged(NamedTuple):
    """A judged population: seconds, excess (0: legal) and peak bytes by device."""

    seconds: FloatArray
    excess: FloatArray
    peaks: IntArray


def judge(arrays: SlicingArrays, modes: IntArray, cuts: IntArray, *, memory: bool) -> Judged:
    """Judge a population of plans.

    Parameters
    ----------
    modes, cuts
        Shapes (plans, operators) and (plans, operators, devices + 1).
    memory
        Whether to compute excess and peaks; else they are 0.
    """
    count, devices = len(modes), arrays.links.shape[1]
    judged = Judged(np.zeros(count), np.zeros(count), np.zeros((count, devices), dtype=np.int64))
    judge_all(arrays, modes, cuts, memory, *judged, np.zeros(devices))
    return judged


def is_limited(arrays: SlicingArrays) -> bool:
    """Whether a plan can be illegal, by memory or parts."""
    return bool((arrays.capacity < NO_LIMIT).any() or (arrays.ops[:, MOST] < arrays.links.shape[1]).any())

"""The evaluator that all searches of slicing share: times and memory of plans, on arrays, mostly compiled.

In loops, a plan is one matrix: of every operator, its mode, and then its cuts. Shape (operators, devices + 2); see
:mod:`opweave.formulations.slicing.instance`. Populations have an additional first dimension.

An instance is packed into few arrays, because each costs time where a loop is compiled. The constants below name the
columns of ``ops``, ``flows`` and ``tensors``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.slicing.instance import CHANNELS, ROWS, SlicingInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatCube, FloatMatrix, IntArray, IntCube, IntMatrix
from opweave.solvers.loops import helper, loop

LENGTH, _, WHOLE, FLOWS, FLOWS_END, WEIGHT, WORKSPACE, MOST, MADE, MADE_END, ENDS, ENDS_END = range(12)
CONSUMERS, CONSUMERS_END, READING = range(12, 15)
"""Columns of ``SlicingArrays.ops``; LENGTH + mode is the length along a mode, READING bits that select the variant of
the problem, the same for all operators; the others are ranges and sizes."""

PRODUCER, STRIDE, PADDING, REACH, WIDE, DEEP, OFFSET, ALL_CHANNELS, ALL_ROWS, CELL = range(10)
"""Columns of ``SlicingArrays.flows``: as in the instance, then the extent and cell of the flow's tensor."""

MAKER, MADE_ROWS, MADE_CHANNELS, MADE_CELL = range(4)
"""Columns of ``SlicingArrays.tensors``."""

MODE, CUT = 0, 1
"""Columns of a plan: the mode, and the first cut."""

PRINTED, RESIDENT = 1, 2
"""Bits of READING: the paper's transfers, weights that stay in memory."""


class SlicingArrays(NamedTuple):
    """An instance as the kernels need it.

    Attributes
    ----------
    ops, flows, tensors
        Whole numbers by operator, by flow, and by tensor; columns as above. Every produced tensor comes by producer,
        and once more by the operator after which it is freed.
    times
        Intercept, and seconds for each position along the rows and the channels. Shape (operators, 3, devices).
    links
        Seconds per byte and latency. Shape (2, devices).
    capacity
        Shape (devices,).
    consumers
        Operators that read each operator's output.
    """

    ops: IntMatrix
    flows: IntMatrix
    tensors: IntMatrix
    times: FloatCube
    links: FloatMatrix
    capacity: IntArray
    consumers: IntArray


def arrays_of(instance: SlicingInstance) -> SlicingArrays:
    """Arrays for the kernels."""
    count = instance.operators
    maker = np.full(len(instance.cell), -1, dtype=np.int64)
    maker[instance.made] = np.repeat(np.arange(count), np.diff(instance.made_start))
    ending = np.flatnonzero((instance.last >= 0) & (instance.last < count) & (maker >= 0))
    ends = np.searchsorted(np.sort(instance.last[ending]), np.arange(count + 1)) + len(instance.made)
    listed = np.concatenate([instance.made, ending[np.argsort(instance.last[ending], kind="stable")]])
    t, moving = instance.tensor, instance.rate > 0.0
    per_byte = np.divide(1.0, instance.rate, out=np.zeros(len(moving)), where=moving)
    reading = PRINTED * instance.printed + RESIDENT * instance.resident
    op_columns = (
        *instance.length.T,
        instance.whole,
        *_ranges(instance.flow_start),
        instance.weight,
        instance.workspace,
        instance.most_parts,
        *_ranges(instance.made_start),
        *_ranges(ends),
        *_ranges(instance.consumers.start),
        np.full(count, reading),
    )
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
    tensor_columns = (maker, instance.rows, instance.channels, instance.cell)
    lengths = np.maximum(instance.length, 1)
    return SlicingArrays(
        ops=np.stack(op_columns, axis=1).astype(np.int64),
        flows=np.stack(flow_columns, axis=1).astype(np.int64),
        tensors=np.stack(tensor_columns, axis=1)[listed].astype(np.int64),
        times=np.concatenate([instance.intercept[:, None], instance.slope[:, None] / lengths[:, :, None]], axis=1),
        links=np.stack([per_byte, instance.latency]),
        capacity=instance.capacity,
        consumers=instance.consumers.items,
    )


def _ranges(starts: IntArray) -> tuple[IntArray, IntArray]:
    return starts[:-1], starts[1:]


def matrix_of(mode: IntArray, cuts: IntArray) -> IntArray:
    """Plans as the kernels need them."""
    return np.concatenate([mode[..., None], cuts], axis=-1)


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
def missing_cells(ops: IntMatrix, flows: IntMatrix, e: int, v: int, plan: IntMatrix, k: int) -> int:
    """Cells of a flow's tensor that device k needs for its part and does not hold."""
    mode, j = plan[v, MODE], flows[e, PRODUCER]
    low, high = need_of(flows, e, mode, plan[v, CUT + k], plan[v, CUT + k + 1])
    across = flows[e, ALL_CHANNELS] if mode == ROWS else flows[e, ALL_ROWS]
    needed = high - low
    if j < 0:
        return int(needed * across)
    first, end = plan[j, CUT + k], plan[j, CUT + k + 1]
    if ops[j, WHOLE] == 1:
        return 0 if end > first else int(needed * across)
    if mode != plan[j, MODE]:
        return int(needed * (across - (end - first)))
    return int((needed - max(0, min(high, end) - max(low, first))) * across)


@helper
def _flow_seconds(
    ops: IntMatrix, flows: IntMatrix, links: FloatMatrix, e: int, v: int, plan: IntMatrix, ends: FloatArray
) -> None:
    """Add every device's wait for a flow to ``ends``."""
    j, mode, reading = flows[e, PRODUCER], plan[v, MODE], ops[v, READING]
    if j < 0:
        return
    printed = reading & PRINTED != 0 and mode + plan[j, MODE] == 2 * ROWS and ops[v, WHOLE] + ops[j, WHOLE] == 0
    for k in range(len(ends)):
        a = plan[v, CUT + k]
        b = plan[v, CUT + k + 1]
        if a == b:
            continue
        if printed:
            low, high = need_of(flows, e, mode, a, b)
            beyond = max(0, high - plan[j, CUT + k + 1]) + max(0, plan[j, CUT + k] - low)
            cells = beyond * flows[e, ALL_CHANNELS] if high > low else 0
        else:
            cells = missing_cells(ops, flows, e, v, plan, k)
        size = cells * flows[e, CELL]
        ends[k] += links[1, k] + size * links[0, k] if size > 0 else 0.0


@helper
def operator_seconds(
    ops: IntMatrix,
    flows: IntMatrix,
    times: FloatCube,
    links: FloatMatrix,
    v: int,
    plan: IntMatrix,
    ends: FloatArray,
) -> float:
    """Time of one operator: its slowest device, transfers included; inf when a device takes part that may not.

    ``ends``, shape (devices,), receives the end of every device; 0 if it has no part.
    """
    for k in range(len(ends)):
        part = plan[v, CUT + k + 1] - plan[v, CUT + k]
        ends[k] = times[v, 0, k] + times[v, 1 + plan[v, MODE], k] * part if part > 0 else 0.0
    slowest = 0.0
    for e in range(ops[v, FLOWS], ops[v, FLOWS_END]):
        _flow_seconds(ops, flows, links, e, v, plan, ends)
    for k in range(len(ends)):
        slowest = max(slowest, ends[k])
    return slowest


@helper
def weight_bytes(ops: IntMatrix, v: int, plan: IntMatrix, k: int) -> int:
    """Bytes of the weights that device k needs for its part of operator v."""
    part = plan[v, CUT + k + 1] - plan[v, CUT + k]
    weight = ops[v, WEIGHT]
    if part > 0 and plan[v, MODE] == CHANNELS:
        weight = -(-weight * part // ops[v, LENGTH + CHANNELS])
    return int(weight) if part > 0 else 0


@helper
def held_bytes(ops: IntMatrix, tensors: IntMatrix, i: int, plan: IntMatrix, k: int) -> int:
    """Bytes of the tensor in row i that device k has produced itself."""
    j = tensors[i, MAKER]
    held = (plan[j, CUT + k + 1] - plan[j, CUT + k]) * tensors[i, MADE_ROWS]
    across = 1
    if plan[j, MODE] != CHANNELS:
        held = held // ops[j, LENGTH]
        across = tensors[i, MADE_CHANNELS]
    return int(held * across * tensors[i, MADE_CELL])


@helper
def passing_bytes(ops: IntMatrix, flows: IntMatrix, v: int, plan: IntMatrix, k: int) -> int:
    """Bytes that device k holds only while operator v runs: workspace, cells received, and weights if they leave."""
    part = plan[v, CUT + k + 1] - plan[v, CUT + k]
    if part == 0:
        return 0
    passing = -(-ops[v, WORKSPACE] * part // ops[v, LENGTH + plan[v, MODE]])
    if ops[v, READING] & RESIDENT == 0:
        passing += weight_bytes(ops, v, plan, k)
    for e in range(ops[v, FLOWS], ops[v, FLOWS_END]):
        passing += missing_cells(ops, flows, e, v, plan, k) * flows[e, CELL]
    return int(passing)


@helper
def surplus_parts(ops: IntMatrix, plan: IntMatrix) -> int:
    """Parts of operators beyond their limits."""
    surplus = 0
    for v in range(len(plan)):
        parts = 0
        for k in range(CUT, plan.shape[1] - 1):
            parts += plan[v, k] < plan[v, k + 1]
        surplus += max(0, parts - ops[v, MOST])
    return surplus


@helper
def excess_of(arrays: SlicingArrays, plan: IntMatrix, peak: IntArray) -> float:
    """cv6 and cv7: bytes over the devices' memory, and surplus parts; 0 for a legal plan.

    Writes the peak memory of every device to ``peak``, shape (devices,).
    """
    ops, flows, tensors = arrays.ops, arrays.flows, arrays.tensors
    excess = float(surplus_parts(ops, plan))
    for k in range(len(peak)):
        live = 0
        for v in range(len(plan)):
            if ops[v, READING] & RESIDENT != 0:
                live += weight_bytes(ops, v, plan, k)
        most = live
        for v in range(len(plan)):
            for i in range(ops[v, MADE], ops[v, MADE_END]):
                live += held_bytes(ops, tensors, i, plan, k)
            most = max(most, live + passing_bytes(ops, flows, v, plan, k))
            for i in range(ops[v, ENDS], ops[v, ENDS_END]):
                live -= held_bytes(ops, tensors, i, plan, k)
        peak[k] = most
        excess += max(0, most - arrays.capacity[k])
    return excess


@loop
def judge_all(
    arrays: SlicingArrays,
    plans: IntCube,
    memory: bool,
    seconds: FloatArray,
    excess: FloatArray,
    peaks: IntMatrix,
    ends: FloatArray,
) -> None:
    """Latency of every plan of a population; its excess and peaks, shape (plans, devices), if memory counts.

    ``ends`` (devices,) is memory.
    """
    ops, flows, times, links = arrays.ops, arrays.flows, arrays.times, arrays.links
    for p in range(len(plans)):
        for v in range(plans.shape[1]):
            seconds[p] += operator_seconds(ops, flows, times, links, v, plans[p], ends)
        if memory:
            excess[p] = excess_of(arrays, plans[p], peaks[p])


class JudgedPopulation(NamedTuple):
    """A judged population: seconds, excess (0: legal) and peak bytes by device."""

    seconds: FloatArray
    excess: FloatArray
    peaks: IntArray


def judge(arrays: SlicingArrays, modes: IntArray, cuts: IntArray, *, memory: bool) -> JudgedPopulation:
    """Judge a population of plans.

    Parameters
    ----------
    modes, cuts
        Shapes (plans, operators) and (plans, operators, devices + 1).
    memory
        Whether to compute excess and peaks; else they are 0.
    """
    count = len(modes)
    devices = arrays.links.shape[1]
    judged = JudgedPopulation(np.zeros(count), np.zeros(count), np.zeros((count, devices), dtype=np.int64))
    judge_all(arrays, matrix_of(modes, cuts), memory, *judged, np.zeros(devices))
    return judged


def is_limited(arrays: SlicingArrays) -> bool:
    """Whether a plan can be illegal, by memory or parts."""
    by_memory = (arrays.capacity < NO_LIMIT).any()
    by_parts = (arrays.ops[:, MOST] < arrays.links.shape[1]).any()
    return bool(by_memory or by_parts)

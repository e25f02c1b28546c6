"""Memory of a plan that changes by moves: what a move changes is counted again, and nothing else.

A move changes the plan of a run of operators. The bytes that a device holds then differ from the first of them to the
last operator that reads anything that they made. Operators of the run, and those that read from it, also receive
other bytes. A tree of maxima has the largest number of bytes at all other operators.

:func:`~opweave.solvers.slicing.arrays.excess_of` counts the same for a single plan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import IntArray, IntMatrix
from opweave.solvers.loops import helper
from opweave.solvers.slicing.arrays import (
    ENDS,
    ENDS_END,
    MADE,
    MADE_END,
    RESIDENT,
    SlicingArrays,
    held_bytes,
    passing_bytes,
    surplus_parts,
    weight_bytes,
)


class Sliced(NamedTuple):
    """A plan: the mode of every operator, and its cuts."""

    mode: IntArray
    cuts: IntMatrix


class Change(NamedTuple):
    """A move, which changes the operators ``low`` to ``high - 1``.

    These and the operators that read from them have ``stamp[v] == move``.
    """

    low: int
    high: int
    move: int
    stamp: IntArray


class Memory(NamedTuple):
    """Bytes under the current plan, and those under the plan that a move proposes.

    Attributes
    ----------
    until
        The last operator during which a device holds anything that an operator has made. Shape (operators,).
    used
        Bytes besides ``weights`` while an operator runs, as the second half of the rows; each row of the first half is
        the maximum of two others, as in a heap. Shape (2 * leaves, devices).
    passing
        The part of ``used`` that a device drops after the operator. Shape (operators, devices).
    weights
        Bytes of weights that stay on a device. Shape (devices,).
    surplus
        Surplus parts of all operators. Shape (1,).
    new_used, new_passing, new_weights, new_surplus
        The same as proposed; ``new_used`` and ``new_passing`` only where they differ. Both have a row for every
        operator.
    more
        Bytes that a device holds more than before. Shape (devices,).
    most
        Largest number of bytes of the proposed plan. Shape (devices,).
    """

    until: IntArray
    used: IntMatrix
    passing: IntMatrix
    weights: IntArray
    surplus: IntArray
    new_used: IntMatrix
    new_passing: IntMatrix
    new_weights: IntArray
    new_surplus: IntArray
    more: IntArray
    most: IntArray


@helper
def empty_memory(arrays: SlicingArrays, count: int, devices: int) -> Memory:
    """Memory of a plan in which no device has a part."""
    leaves = 1
    while leaves < count:
        leaves *= 2
    return Memory(
        until=_held_until(arrays, count),
        used=np.zeros((2 * leaves, devices), dtype=np.int64),
        passing=np.zeros((count, devices), dtype=np.int64),
        weights=np.zeros(devices, dtype=np.int64),
        surplus=np.zeros(1, dtype=np.int64),
        new_used=np.zeros((count, devices), dtype=np.int64),
        new_passing=np.zeros((count, devices), dtype=np.int64),
        new_weights=np.zeros(devices, dtype=np.int64),
        new_surplus=np.zeros(1, dtype=np.int64),
        more=np.zeros(devices, dtype=np.int64),
        most=np.zeros(devices, dtype=np.int64),
    )


@helper
def _held_until(arrays: SlicingArrays, count: int) -> IntArray:
    ops, ends = arrays.ops, arrays.ends
    until, kept = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for v in range(count):
        kept[v] += ops[v, MADE_END] - ops[v, MADE]
        until[v] = v
        for i in range(ops[v, ENDS], ops[v, ENDS_END]):
            kept[ends[i, 0]] -= 1
            until[ends[i, 0]] = v
    for v in range(count):
        if kept[v] > 0:
            until[v] = count - 1
    return until


@helper
def _end_of(memory: Memory, change: Change) -> int:
    """One more than the last operator during which a device may need other bytes than before."""
    end = change.high
    for v in range(change.low, change.high):
        end = max(end, memory.until[v] + 1)
    return int(end)


@helper
def proposed_excess(arrays: SlicingArrays, memory: Memory, change: Change, old: Sliced, new: Sliced) -> float:
    """Bytes over the devices' memory, and surplus parts, of the plan after a change; 0 for a legal plan."""
    end = _end_of(memory, change)
    _weigh(arrays, memory, change, old, new)
    _look_outside(memory, change.low, end)
    _play(arrays, memory, change, end, old, new)
    excess = float(memory.new_surplus[0])
    for k in range(len(memory.most)):
        excess += max(0, memory.most[k] + memory.new_weights[k] - arrays.capacity[k])
    return excess


@helper
def _weigh(arrays: SlicingArrays, memory: Memory, change: Change, old: Sliced, new: Sliced) -> None:
    """Count weights and surplus parts."""
    ops, resident = arrays.ops, arrays.reading & RESIDENT != 0
    memory.new_surplus[0] = memory.surplus[0]
    memory.new_weights[:] = memory.weights
    for v in range(change.low, change.high):
        memory.new_surplus[0] += surplus_parts(ops, v, new.cuts) - surplus_parts(ops, v, old.cuts)
        for k in range(len(memory.weights) if resident else 0):
            before = weight_bytes(ops, v, old.mode, old.cuts, k)
            memory.new_weights[k] += weight_bytes(ops, v, new.mode, new.cuts, k) - before


@helper
def _look_outside(memory: Memory, low: int, end: int) -> None:
    """Write the largest number of bytes at all operators that are not among ``low`` to ``end - 1``."""
    used, most = memory.used, memory.most
    most[:] = 0
    left, right = len(used) // 2 + low, len(used) // 2 + end - 1
    while right > 1:
        for k in range(len(most)):
            if left & 1 == 1:
                most[k] = max(most[k], used[left - 1, k])
            if right & 1 == 0:
                most[k] = max(most[k], used[right + 1, k])
        left, right = left >> 1, right >> 1


@helper
def _play(arrays: SlicingArrays, memory: Memory, change: Change, end: int, old: Sliced, new: Sliced) -> None:
    """Count the bytes during the operators from the first that changes to ``end - 1``."""
    ops, made, ends, leaves = arrays.ops, arrays.made, arrays.ends, len(memory.used) // 2
    more, most = memory.more, memory.most
    more[:] = 0
    for v in range(change.low, end):
        for i in range(ops[v, MADE], ops[v, MADE_END] if v < change.high else 0):
            for k in range(len(more)):
                more[k] += _growth(ops, made[i, 0], made[i, 1], made[i, 2], v, old, new, k)
        for k in range(len(more)):
            used = memory.used[leaves + v, k] + more[k]
            if change.stamp[v] == change.move:
                passing = passing_bytes(arrays, v, new.mode, new.cuts, k)
                used += passing - memory.passing[v, k]
                memory.new_passing[v, k] = passing
            memory.new_used[v, k] = used
            most[k] = max(most[k], used)
        for i in range(ops[v, ENDS], ops[v, ENDS_END]):
            if change.low <= ends[i, 0] and ends[i, 0] < change.high:
                for k in range(len(more)):
                    more[k] -= _growth(ops, ends[i, 1], ends[i, 2], ends[i, 3], ends[i, 0], old, new, k)


@helper
def _growth(ops: IntArray, rows: int, channels: int, cell: int, j: int, old: Sliced, new: Sliced, k: int) -> int:
    """Bytes of a tensor that device k holds more than before."""
    before = held_bytes(ops, rows, channels, cell, j, old.mode, old.cuts, k)
    return int(held_bytes(ops, rows, channels, cell, j, new.mode, new.cuts, k) - before)


@helper
def accept(memory: Memory, change: Change) -> None:
    """Make the proposed plan the current one."""
    used, low, end = memory.used, change.low, _end_of(memory, change)
    memory.surplus[0] = memory.new_surplus[0]
    memory.weights[:] = memory.new_weights
    left, right = len(used) // 2 + low, len(used) // 2 + end - 1
    for k in range(len(memory.weights)):
        for v in range(low, end):
            used[len(used) // 2 + v, k] = memory.new_used[v, k]
            if change.stamp[v] == change.move:
                memory.passing[v, k] = memory.new_passing[v, k]
    while right > 1:
        left, right = left >> 1, right >> 1
        for node in range(left, right + 1):
            for k in range(len(memory.weights)):
                used[node, k] = max(used[2 * node, k], used[2 * node + 1, k])

"""Memory of a plan that changes by moves: what a move changes is counted again, and nothing else.

A move changes the plan of the operators low to high - 1. The bytes that a device holds then differ from the first of
them to the last operator that reads anything that they made. Operators of the run, and those that read from it, also
receive other bytes.

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


class Memory(NamedTuple):
    """Bytes under the current plan, and those under the plan that a move proposes.

    Attributes
    ----------
    until
        The last operator during which a device holds anything that an operator has made. Shape (operators,).
    used, new_used
        Bytes besides those of ``weights`` while an operator runs; the new ones only where they may differ. Shape
        (operators, devices).
    passing, new_passing
        The part of these that a device drops after the operator.
    weights, new_weights
        Bytes of weights that stay on a device. Shape (devices,).
    """

    until: IntArray
    used: IntMatrix
    new_used: IntMatrix
    passing: IntMatrix
    new_passing: IntMatrix
    weights: IntArray
    new_weights: IntArray


def empty_memory(arrays: SlicingArrays, count: int, devices: int) -> Memory:
    """Memory of a plan in which no device has a part."""
    ops, ends, until = arrays.ops, arrays.ends, np.arange(count)
    np.maximum.at(until, ends[:, 0], np.repeat(np.arange(count), ops[:, ENDS_END] - ops[:, ENDS]))
    until[np.bincount(ends[:, 0], minlength=count) < ops[:, MADE_END] - ops[:, MADE]] = count - 1
    return Memory(until, *np.zeros((4, count, devices), dtype=np.int64), *np.zeros((2, devices), dtype=np.int64))


@helper
def end_of(memory: Memory, low: int, high: int) -> int:
    """One more than the last operator during which a device may hold other bytes than before."""
    end = high
    for v in range(low, high):
        end = max(end, memory.until[v] + 1)
    return end


@helper
def proposed_excess(
    arrays: SlicingArrays,
    memory: Memory,
    low: int,
    high: int,
    touched: IntArray,
    size: int,
    old_mode: IntArray,
    old_cuts: IntMatrix,
    mode: IntArray,
    cuts: IntMatrix,
) -> float:
    """Bytes over the devices' memory, and surplus parts, of the plan after a move; 0 for a legal plan.

    The first ``size`` of ``touched`` are the operators that the move changes, and those that read from them.
    """
    ops, made, ends, count = arrays.ops, arrays.made, arrays.ends, len(mode)
    end = end_of(memory, low, high)
    excess = 0.0
    for v in range(count):
        excess += surplus_parts(ops, v, cuts)
    for k in range(cuts.shape[1] - 1):
        weights = memory.weights[k]
        for v in range(low, high if arrays.reading & RESIDENT != 0 else low):
            weights += weight_bytes(ops, v, mode, cuts, k) - weight_bytes(ops, v, old_mode, old_cuts, k)
        memory.new_weights[k] = weights
        for v in range(low, end):
            memory.new_used[v, k], memory.new_passing[v, k] = memory.used[v, k], memory.passing[v, k]
        for i in range(size):
            v = touched[i]
            passing = passing_bytes(arrays, v, mode, cuts, k)
            memory.new_used[v, k] += passing - memory.passing[v, k]
            memory.new_passing[v, k] = passing
        more = 0
        for v in range(low, end):
            for i in range(ops[v, MADE], ops[v, MADE_END] if v < high else 0):
                more += held_bytes(ops, made[i, 0], made[i, 1], made[i, 2], v, mode, cuts, k)
                more -= held_bytes(ops, made[i, 0], made[i, 1], made[i, 2], v, old_mode, old_cuts, k)
            memory.new_used[v, k] += more
            for i in range(ops[v, ENDS], ops[v, ENDS_END]):
                j = ends[i, 0]
                if low <= j < high:
                    more -= held_bytes(ops, ends[i, 1], ends[i, 2], ends[i, 3], j, mode, cuts, k)
                    more += held_bytes(ops, ends[i, 1], ends[i, 2], ends[i, 3], j, old_mode, old_cuts, k)
        most = 0
        for v in range(count):
            most = max(most, memory.new_used[v, k] if low <= v < end else memory.used[v, k])
        excess += max(0, most + weights - arrays.capacity[k])
    return excess


@helper
def accept(memory: Memory, low: int, high: int) -> None:
    """Make the proposed plan the current one."""
    for k in range(len(memory.weights)):
        memory.weights[k] = memory.new_weights[k]
        for v in range(low, end_of(memory, low, high)):
            memory.used[v, k], memory.passing[v, k] = memory.new_used[v, k], memory.new_passing[v, k]

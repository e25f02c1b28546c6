"""Memory of a plan that changes by moves: what a move changes is counted again, and nothing else.

A move changes the plan of the operators low to high - 1. The bytes that a device holds may then differ from the first
of them on. Operators of the run, and those that read from it, also receive other bytes.

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
    MAKER,
    READING,
    RESIDENT,
    SlicingArrays,
    held_bytes,
    passing_bytes,
    surplus_parts,
    weight_bytes,
)


class RunningBytes(NamedTuple):
    """Bytes on every device while each operator runs, and last those of weights that stay, which come in addition.

    They are those under the current plan, and under the plan that a move proposes. Shape (operators + 1, devices).
    """

    held: IntMatrix
    proposed: IntMatrix


def empty_memory(arrays: SlicingArrays) -> RunningBytes:
    """Memory of a plan in which no device has a part."""
    return RunningBytes(*np.zeros((2, len(arrays.ops) + 1, len(arrays.capacity)), dtype=np.int64))


@helper
def proposed_excess(
    arrays: SlicingArrays,
    memory: RunningBytes,
    low: int,
    high: int,
    touched: IntArray,
    size: int,
    old: IntMatrix,
    new: IntMatrix,
) -> float:
    """Bytes over the devices' memory, and surplus parts, of the plan after a move; 0 for a legal plan.

    The first ``size`` of ``touched`` are the operators that the move changes, and those that read from them.
    """
    ops, flows, tensors, proposed = arrays.ops, arrays.flows, arrays.tensors, memory.proposed
    count, excess = len(new), float(surplus_parts(ops, new))
    for k in range(len(arrays.capacity)):
        for v in range(count + 1):
            proposed[v, k] = memory.held[v, k]
        for i in range(size):
            v = touched[i]
            proposed[v, k] += passing_bytes(ops, flows, v, new, k) - passing_bytes(ops, flows, v, old, k)
        more, most = 0, 0
        for v in range(count):
            if low <= v < high:
                if ops[v, READING] & RESIDENT != 0:
                    proposed[count, k] += weight_bytes(ops, v, new, k) - weight_bytes(ops, v, old, k)
                for i in range(ops[v, MADE], ops[v, MADE_END]):
                    more += held_bytes(ops, tensors, i, new, k) - held_bytes(ops, tensors, i, old, k)
            proposed[v, k] += more
            most = max(most, proposed[v, k])
            for i in range(ops[v, ENDS], ops[v, ENDS_END]):
                if low <= tensors[i, MAKER] < high:
                    more -= held_bytes(ops, tensors, i, new, k) - held_bytes(ops, tensors, i, old, k)
        excess += max(0, most + proposed[count, k] - arrays.capacity[k])
    return excess


@helper
def accept(memory: RunningBytes) -> None:
    """Make the proposed plan the current one."""
    for v in range(len(memory.held)):
        for k in range(memory.held.shape[1]):
            memory.held[v, k] = memory.proposed[v, k]

"""Plans that moves change in place: memory, positions, critical operators, and the order that ranks give."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.kernels.sorting import exceeds, lengths_of, sort_rising
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, sending
from opweave.solvers.placement.plans import memory_used

DRAWS = 6
"""Random numbers drawn for each move."""


class CountedPlan(NamedTuple):
    """A plan that moves change in place.

    Attributes
    ----------
    order, position
        Operators in scheduling order, and the position of each. Shape (operators,).
    device
        Shape (operators,).
    used
        Bytes on every device. Shape (devices,).
    holders
        How many operators on each device use each parameter. Shape (parameters, devices).
    cluster, members_start, members
        The cluster of every operator, and the operators of every cluster: Colocate moves them together.
    """

    order: IntArray
    position: IntArray
    device: IntArray
    used: IntArray
    holders: IntMatrix
    cluster: IntArray
    members_start: IntArray
    members: IntArray


def counted_plan(arrays: PlacementArrays, order: IntArray, device: IntArray, cluster: IntArray) -> CountedPlan:
    """A plan with its memory counted."""
    devices = arrays.seconds.shape[1]
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    heads = np.repeat(np.arange(len(order)), np.diff(arrays.parameters_start))
    holders = np.zeros((len(arrays.parameter_bytes), devices), dtype=np.int64)
    np.add.at(holders, (arrays.parameters, device[heads]), 1)
    members = Adjacency.from_pairs(int(cluster.max(initial=-1)) + 1, cluster, np.arange(len(cluster)))
    used = memory_used(arrays, device)
    return CountedPlan(order.copy(), position, device.copy(), used, holders, cluster, members.start, members.items)


@helper
def settle(arrays: PlacementArrays, plan: CountedPlan, v: int, k: int) -> None:
    """Move an operator to a device and update the memory count."""
    a = plan.device[v]
    plan.device[v] = k
    plan.used[a] -= arrays.memory[v]
    plan.used[k] += arrays.memory[v]
    for i in range(arrays.parameters_start[v], arrays.parameters_start[v + 1]):
        p = arrays.parameters[i]
        plan.holders[p, a] -= 1
        if plan.holders[p, a] == 0:
            plan.used[a] -= arrays.parameter_bytes[p]
        if plan.holders[p, k] == 0:
            plan.used[k] += arrays.parameter_bytes[p]
        plan.holders[p, k] += 1


@helper
def overfull(arrays: PlacementArrays, plan: CountedPlan) -> bool:
    """Whether any device exceeds its memory."""
    return exceeds(plan.used, arrays.capacity)


@helper
def near_device(arrays: PlacementArrays, plan: CountedPlan, v: int, draw: float) -> int:
    """The device of a random direct predecessor or successor; its own when there is none."""
    first = arrays.before_start[v + 1] - arrays.before_start[v]
    second = arrays.after_start[v + 1] - arrays.after_start[v]
    pick = int(draw * (first + second))
    if pick < first:
        return int(plan.device[arrays.before[arrays.before_start[v] + pick]])
    if second > 0:
        return int(plan.device[arrays.after[arrays.after_start[v] + pick - first]])
    return int(plan.device[v])


@helper
def slide(plan: CountedPlan, at: int, to: int) -> None:
    """Move the operator at one position of the order to another."""
    v = plan.order[at]
    direction = 1 if to > at else -1
    i = at
    while i != to:
        w = plan.order[i + direction]
        plan.order[i] = w
        plan.position[w] = i
        i += direction
    plan.order[to] = v
    plan.position[v] = to


@helper
def window(arrays: PlacementArrays, plan: CountedPlan, v: int) -> tuple[int, int]:
    """First and last position that an operator's neighbours allow."""
    low, high = 0, len(plan.order) - 1
    for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
        low = max(low, plan.position[arrays.before[i]] + 1)
    for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
        high = min(high, plan.position[arrays.after[i]] - 1)
    return low, high


@helper
def last_touched(arrays: PlacementArrays, plan: CountedPlan, v: int, a: int, k: int) -> int:
    """The last position at which anything is sent otherwise when v moves from device a to k."""
    last = plan.position[v]
    for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
        last = max(last, plan.position[arrays.after[i]])
    if arrays.model == PORT_TENSOR:
        for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
            f = arrays.incoming[i]
            u = arrays.source[f]
            for j in range(arrays.out_start[u], arrays.out_start[u + 1]):
                g = arrays.outgoing[j]
                w = arrays.target[g]
                if arrays.tensor[g] == arrays.tensor[f] and (plan.device[w] == a or plan.device[w] == k):
                    last = max(last, plan.position[w])
    return int(last)


@helper
def with_clusters(plan: CountedPlan, group: IntArray, size: int, taken: IntArray, mark: int) -> int:
    """Add to ``group`` all operators that Colocate ties to its members; ``taken`` holds ``mark`` for every member."""
    count = 0
    for i in range(size):
        if taken[group[i]] != mark:
            taken[group[i]] = mark
            group[count] = group[i]
            count += 1
    alone = count
    for i in range(alone):
        c = plan.cluster[group[i]]
        for j in range(plan.members_start[c], plan.members_start[c + 1]):
            w = plan.members[j]
            if taken[w] != mark:
                taken[w] = mark
                group[count] = w
                count += 1
    return count


@helper
def deciding(arrays: PlacementArrays, plan: CountedPlan, taken: IntArray, mark: int, found: IntArray) -> int:
    """Write the operators that decide the makespan to ``found``, each once; return their number.

    They are those of one critical path, and both ends of every transfer on it. Number ``count + f`` is the transfer of
    flow f. ``taken`` holds ``mark`` for every operator that was written.
    """
    count, devices = arrays.seconds.shape
    cause = np.full(count + len(arrays.source), -1, dtype=np.int64)
    end = np.zeros(count + len(arrays.source))
    on = np.full((3, devices), -1, dtype=np.int64)  # what used every device, send port and receive port last
    copy = np.full((arrays.tensors, devices), -1, dtype=np.int64)
    node = -1
    for at in range(count):
        v = plan.order[at]
        k = plan.device[v]
        last = on[0, k]
        for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
            u = arrays.before[i]
            if last < 0 or end[u] > end[last]:
                last = u
        for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
            f = arrays.incoming[i]
            u, t = arrays.source[f], arrays.tensor[f]
            a = plan.device[u]
            if a == k:
                continue
            sent = copy[t, k] if arrays.model == PORT_TENSOR else -1
            if sent < 0:
                sent, before = count + f, u
                if arrays.model != DELAY:
                    if on[1, a] >= 0 and end[on[1, a]] > end[before]:
                        before = on[1, a]
                    if on[2, k] >= 0 and end[on[2, k]] > end[before]:
                        before = on[2, k]
                    on[1, a] = on[2, k] = copy[t, k] = sent
                cause[sent], end[sent] = before, end[before] + sending(arrays, f, a, k)
            if last < 0 or end[sent] > end[last]:
                last = sent
        cause[v], end[v], on[0, k] = last, (end[last] if last >= 0 else 0.0) + arrays.seconds[v, k], v
        if node < 0 or end[v] > end[node]:
            node = v
    size = 0
    while node >= 0:
        first = node if node < count else arrays.source[node - count]
        second = node if node < count else arrays.target[node - count]
        for v in (first, second):
            if taken[v] != mark:
                taken[v] = mark
                found[size] = v
                size += 1
        node = cause[node]
    return size


@loop
def order_for(arrays: PlacementArrays, device: IntArray, order: IntArray) -> None:
    """See :func:`fill_order`."""
    fill_order(arrays, device, order)


@helper
def fill_order(arrays: PlacementArrays, device: IntArray, order: IntArray) -> None:
    """Fill ``order`` with the operators by decreasing upward rank, from the run and transfer times of an assignment.

    A topological order breaks ties and covers zero times.
    """
    count = len(device)
    waiting = lengths_of(arrays.after_start)
    stack = np.empty(count, dtype=np.int64)
    depth = np.zeros(count)
    top, place = 0, count
    for v in range(count):
        if waiting[v] == 0:
            stack[top] = v
            top += 1
    while top > 0:
        top -= 1
        v = stack[top]
        place -= 1
        order[place] = v
        for i in range(arrays.out_start[v], arrays.out_start[v + 1]):
            f = arrays.outgoing[i]
            w = arrays.target[f]
            depth[v] = max(depth[v], sending(arrays, f, device[v], device[w]) + depth[w])
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            depth[v] = max(depth[v], depth[arrays.after[i]])
        depth[v] += arrays.seconds[v, device[v]]
        for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
            u = arrays.before[i]
            waiting[u] -= 1
            if waiting[u] == 0:
                stack[top] = u
                top += 1
    for v in range(count):
        depth[v] = -depth[v]
    sort_rising(depth, order, stack)

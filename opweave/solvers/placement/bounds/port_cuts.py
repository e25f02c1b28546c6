"""What ports have to pass in a window: least cuts of its tensors.

Let the entry of a window run elsewhere and its exit on device k, or any operator there. Every tensor that operators on
k read from others passes the port of k, one after the other. These tensors divide the entry from the exit, so their
times add up to the *least cut* of the window's tensors or more, each with its least time from any device. It is the
same for what leaves the device of the entry. Parallel branches, and layers that read all earlier ones, pass together
what a path through the window sees one by one.

Proof: the operators on k are one side of a cut, and a tensor between the sides is received at least once, within the
window. The least cut is a largest flow (Ford and Fulkerson), and every flow that is found bounds it from below.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, durations

SAFE = 1.0 - 1e-9
"""Rounding of flows."""


class Cuts(NamedTuple):
    """Least times of ports, by the device of an operator.

    ``whole`` is that of every pair of end devices; shape (K, K). The others have shape (operators, K): what device k
    receives for an operator alone, or for it and the exit; what it sends of an operator alone, or of it and the entry.
    """

    whole: FloatArray
    one_in: FloatArray
    both_in: FloatArray
    one_out: FloatArray
    both_out: FloatArray

    def lengths(self, a: int, b: int, entry: bool, exit_: bool) -> FloatArray:
        """Least times between two devices of the ends, by operator and device. Shape (operators, K)."""
        found = np.maximum(self.one_in, self.one_out)
        if entry:
            found[:, a] = self.one_out[:, a]
        if exit_:
            found[:, b] = self.one_in[:, b]
        if entry and exit_ and a == b:
            found[:, a] = 0.0
        elif entry and exit_:
            found[:, a], found[:, b] = self.both_out[:, a], self.both_in[:, b]
        return np.asarray(np.maximum(found, self.whole[a, b]))


def port_cuts(arrays: PlacementArrays, entry: bool, exit_: bool, tried: IntArray) -> Cuts:
    """The cuts of a window for some of its operators; those of others are 0."""
    count, devices = arrays.seconds.shape
    whole = np.zeros((devices, devices))
    alone_in, both_in, alone_out, both_out = np.zeros((4, count, devices))
    found = Cuts(whole, alone_in, both_in, alone_out, both_out)
    if arrays.model == DELAY or not len(arrays.source):
        return found
    names, first, name = np.unique(
        arrays.tensor if arrays.model == PORT_TENSOR else np.arange(len(arrays.source)),
        return_index=True,
        return_inverse=True,
    )
    cut, always = len(names), len(arrays.source)
    leave = np.concatenate([arrays.source[first], count + name])
    to = np.concatenate([count + np.arange(cut), arrays.target])
    ends = np.column_stack([leave, to]).ravel(), np.column_stack([to, leave]).ravel()
    arcs = Adjacency.from_pairs(count + cut, ends[0], np.arange(2 * (cut + always)))
    seconds, none = durations(arrays)[first], np.zeros(count + cut, dtype=np.bool_)
    begin, end = none.copy(), none.copy()
    begin[0], end[count - 1] = entry, exit_
    free = [*range(devices)]
    for k in free:
        others = [a for a in free if a != k]
        for incoming in (True, False):
            least = (seconds[:, others, k] if incoming else seconds[:, k, others]).min(axis=1, initial=np.inf)
            capacity = np.zeros(2 * (cut + always))
            capacity[: 2 * cut : 2], capacity[2 * cut :: 2] = least, np.inf
            network = (arcs.start, arcs.items, ends[1], capacity)
            one, both = (alone_in, both_in) if incoming else (alone_out, both_out)
            if entry if incoming else exit_:
                one[tried, k] = SAFE * least_cuts(
                    *network, *((begin, none) if incoming else (none, end)), tried, incoming
                )
            if entry and exit_:
                every = np.append(tried, count - 1 if incoming else 0)
                values = SAFE * least_cuts(*network, begin, end, every, incoming)
                both[tried, k] = values[:-1]
                rest = whole[others, k] if incoming else whole[k, others]
                (whole.T if incoming else whole)[k, others] = np.maximum(rest, values[-1])
    return found


@helper
def fill(
    start: IntArray,
    arcs: IntArray,
    to: IntArray,
    left: FloatArray,
    begin: BoolArray,
    end: BoolArray,
    by: IntArray,
    queue: IntArray,
) -> float:
    """Send as much as possible from some nodes to others, along paths of fewest arcs; arcs with their reverse ones."""
    total = 0.0
    while True:
        by[:] = -1
        count, at, found = 0, 0, -1
        for v in range(len(begin)):
            if begin[v]:
                if end[v]:
                    return np.inf
                by[v], queue[count] = -2, v
                count += 1
        while at < count and found < 0:
            v = queue[at]
            at += 1
            for i in range(start[v], start[v + 1]):
                w = to[arcs[i]]
                if by[w] == -1 and left[arcs[i]] > 0.0:
                    by[w], queue[count] = arcs[i], w
                    count += 1
                    if end[w]:
                        found = w
                        break
        if found < 0:
            return total
        most, v = np.inf, found
        while by[v] >= 0:
            most = min(most, left[by[v]])
            v = to[by[v] ^ 1]
        if most == np.inf:
            return np.inf
        v = found
        while by[v] >= 0:
            left[by[v]] -= most
            left[by[v] ^ 1] += most
            v = to[by[v] ^ 1]
        total += most


@loop
def least_cuts(
    start: IntArray,
    arcs: IntArray,
    to: IntArray,
    capacity: FloatArray,
    begin: BoolArray,
    end: BoolArray,
    tried: IntArray,
    last: bool,
) -> FloatArray:
    """The least cut for each of some nodes in addition, as an end if ``last``, else as a beginning."""
    by, queue = np.empty(len(begin), dtype=np.int64), np.empty(len(begin), dtype=np.int64)
    begin, end, known = begin.copy(), end.copy(), capacity.copy()
    value, values = fill(start, arcs, to, known, begin, end, by, queue), np.zeros(len(tried))
    for i in range(len(tried)):
        marks = end if last else begin
        before, left = marks[tried[i]], known.copy()
        marks[tried[i]] = True
        values[i] = value + fill(start, arcs, to, left, begin, end, by, queue)
        marks[tried[i]] = before
    return values

"""The ways to pass a window between two devices: how long it takes at least, and where operators may run then.

A plan whose window takes no more than t seconds runs every operator on a device where the least length of the window
with the operator there is no more than t: its head, run time and tail, and what ports have to pass then. So the lengths
of all operators on all devices, sorted, divide the plans into *levels*. Those between two levels take at least the
lower one, and run operators where the upper one allows. There may be a level for every length; a few with the largest
steps between them are kept, and the others are joined to them.

Largest operators are fixed first: one list of levels for each choice of their devices, with heads and tails that know
the choice. Every plan makes one of the choices. Heads depend on the entry and tails on the exit only, so that all pairs
of ends share them. An operator is not tried where no length is below the *slack*: what the rest of the chain leaves the
window in a plan that is shorter than the best known.

**Ports.** Let the exit of a window run on device k, or any operator there, and its entry elsewhere, or operators that
cannot run on k. Every tensor that operators on k read from others passes the port of k, one after the other. These
tensors divide what is elsewhere from what is on k, so their times add up to the *least cut* of the window's tensors or
more, each with its least time from any device. It is the same for what leaves the device of the entry. Parallel
branches, and layers that read all earlier ones, pass together what a path through the window sees one by one.

Proof: the operators on k are one side of a cut, and a tensor between the sides is received at least once, within the
window. The least cut is a largest flow (Ford and Fulkerson), and every flow that is found bounds it from below.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, durations, order_of_graph
from opweave.solvers.placement.bounds.chain_bound import Block
from opweave.solvers.placement.bounds.critical_path import heads_of, tails_of

MOST_LEVELS = 8
"""Most levels of a window's length for each choice."""

SAFE = 1.0 - 1e-9
"""Rounding of flows."""


class Ways(NamedTuple):
    """Ways to pass a window: least seconds, and where operators may run then.

    Shapes (ways,), (ways, operators, devices).
    """

    seconds: FloatArray
    allowed: BoolArray


class WindowWays:
    """The ways of a window with the weights of its operators: cheap ones at first, shorter ones are refuted later."""

    def __init__(self, block: Block, weight: FloatArray) -> None:
        self.block, self.window, self.weight, self.heavy = block, block.window, weight, weight > 0.0
        self._cuts: Cuts | None = None
        self._lengths: dict[tuple[int, int], FloatArray] = {}
        self._slack: FloatArray | None = None
        self._known: dict[tuple[int, int, int], Ways] = {}
        self._ends: dict[tuple[int, bool, bytes], FloatArray] = {}

    def cut(self) -> None:
        """Let lengths count what ports have to pass, and the window's bounds, too."""
        if self._cuts is None and len(self.window.inner):
            window, heavy = self.window, np.flatnonzero(self.heavy)
            self._cuts = port_cuts(window.arrays, window.entry, window.exit, heavy)
            self.block.values = np.maximum(self.block.values, self._cuts.whole)
            self._lengths, self._slack = {}, None

    def port(self, a: int, b: int) -> float:
        """Least seconds of the messages that enter the device of the exit from elsewhere."""
        window = self.window
        if not window.exit or (window.entry and a == b) or window.arrays.model == DELAY:
            return 0.0
        if not len(window.inner):
            return float(self.block.values[a, b])
        return 0.0 if self._cuts is None else float(self._cuts.enter[b])

    def length(self, a: int, b: int) -> FloatArray:
        """The least lengths by operator and device. Shape (operators, devices)."""
        if (a, b) not in self._lengths:
            window, reach = self.window, self.window.reach(a, b)
            length = reach.heads + window.fixed(a, b).seconds + reach.tails
            if self._cuts is not None:
                length = np.maximum(length, self._cuts.lengths(a, b, window.entry, window.exit))
            self._lengths[a, b] = length
        return self._lengths[a, b]

    def within(self, a: int, b: int, slack: FloatArray, choices: int, seconds: Callable[[], float]) -> Ways:
        """The ways between two devices, with some choices for the largest operators.

        ``slack`` says how long ways between two devices may take at most. Shape (devices, devices).
        """
        if self._slack is None or (slack != self._slack).any():
            self._slack, self._known, self._ends = slack, {}, {}
        key = (a, b, choices)
        if key not in self._known:
            most = float(slack[a, b])
            levels = [_levels(length, self.heavy, most) for length in self._chosen(a, b, most, choices, seconds)]
            none = Ways(np.zeros(0), np.zeros((0, *self.length(a, b).shape), dtype=np.bool_))
            self._known[key] = Ways(*(np.concatenate(columns) for columns in zip(none, *levels, strict=True)))
        return self._known[key]

    def _chosen(self, a: int, b: int, slack: float, most: int, seconds: Callable[[], float]) -> list[FloatArray]:
        """Lengths by operator and device for every choice of devices for the operators with most bytes.

        When time is up, choices for fewer operators have to do.
        """
        length, none = self.length(a, b), np.full(len(self.weight), -1)
        found, devices = [(none, length)], length.shape[1]
        for v in np.argsort(-self.weight, kind="stable")[: int(self.heavy.sum())].tolist():
            longer = list[tuple[IntArray, FloatArray]]()
            for (chosen, known), k in product(found, range(devices)):
                if len(found) * devices > most or seconds() <= 0.0:
                    return [length for _, length in found]
                if known[v, k] < slack:
                    more = np.where(np.arange(len(chosen)) == v, k, chosen)
                    heads, tails = self._from_end(a, more, first=True), self._from_end(b, more, first=False)
                    longer.append((more, np.maximum(heads + self.window.fixed(a, b).seconds + tails, known)))
            found = longer
        return [length for _, length in found]

    def _from_end(self, end: int, chosen: IntArray, *, first: bool) -> FloatArray:
        """Heads, or tails, with an end of the window and some operators on their devices (-1: on any that it may be).

        An operator may be where the length to some device of the other end is short enough.
        """
        key = (end, first, chosen.tobytes())
        if key not in self._ends:
            assert self._slack is not None, "lengths are compared with it"
            window, devices = self.window, np.arange(len(self._slack))
            usable = np.zeros(window.arrays.seconds.shape, dtype=np.bool_)
            for other in range(len(devices) if (window.exit if first else window.entry) else 1):
                a, b = (end, other) if first else (other, end)
                if np.isfinite(self.block.values[a, b]):
                    usable |= self.length(a, b) < self._slack[a, b]
            usable &= (chosen[:, None] < 0) | (devices == chosen[:, None])
            arrays = window.fixed(end, None) if first else window.fixed(None, end)
            arrays = arrays._replace(seconds=np.where(usable, arrays.seconds, np.inf))
            self._ends[key] = (heads_of if first else tails_of)(arrays, order_of_graph(arrays))
        return self._ends[key]


def _levels(length: FloatArray, heavy: BoolArray, slack: float) -> Ways:
    """Ways by the length of the plan, divided where lengths with operators on devices differ most."""
    least = float(length.min(axis=1).max(initial=0.0))
    values = np.unique(np.append(np.maximum(length[heavy], least), least))
    values = values[values < slack]
    begins = np.sort(np.append(0, 1 + np.argsort(-np.diff(values), kind="stable")[: MOST_LEVELS - 1]))
    if not len(values):
        return Ways(values, np.zeros((0, *length.shape), dtype=np.bool_))
    last = np.append(values[begins[1:] - 1], values[-1])
    return Ways(values[begins], length <= last[:, None, None])


class Cuts(NamedTuple):
    """Least times of ports, by the device of an operator.

    ``whole`` is that of every pair of end devices; shape (K, K). ``enter`` is what a device receives with the exit
    while an entry is elsewhere; shape (K,). The others have shape (operators, K): what device k receives for an
    operator alone, or for it and the exit; what it sends of an operator alone, or of it and the entry.
    """

    whole: FloatArray
    enter: FloatArray
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
    whole, enter = np.zeros((devices, devices)), np.zeros(devices)
    alone_in, both_in, alone_out, both_out = np.zeros((4, count, devices))
    found = Cuts(whole, enter, alone_in, both_in, alone_out, both_out)
    if arrays.model == DELAY or not len(arrays.source):
        return found
    names, first, name = np.unique(
        arrays.tensor if arrays.model == PORT_TENSOR else np.arange(len(arrays.source)),
        return_index=True,
        return_inverse=True,
    )
    cut, always = len(names), len(arrays.source)
    tails = np.concatenate([arrays.source[first], count + name])
    heads = np.concatenate([count + np.arange(cut), arrays.target])
    ends = np.column_stack([tails, heads]).ravel(), np.column_stack([heads, tails]).ravel()
    arcs = Adjacency.from_pairs(count + cut, ends[0], np.arange(2 * (cut + always)))
    seconds, none = durations(arrays)[first], np.zeros(count + cut, dtype=np.bool_)
    for k, incoming in product(range(devices), (True, False)):
        others = [a for a in range(devices) if a != k]
        least = (seconds[:, others, k] if incoming else seconds[:, k, others]).min(axis=1, initial=np.inf)
        capacity = np.zeros(2 * (cut + always))
        capacity[: 2 * cut : 2], capacity[2 * cut :: 2] = least, np.inf
        network = (arcs.start, arcs.items, ends[1], capacity)
        one, both = (alone_in, both_in) if incoming else (alone_out, both_out)
        here, elsewhere = none.copy(), np.append(np.isinf(arrays.seconds[:, k]), none[:cut])
        elsewhere[0 if incoming else count - 1] |= entry if incoming else exit_
        begin, end = (elsewhere, here) if incoming else (here, elsewhere)
        one[tried, k] = SAFE * least_cuts(*network, begin, end, tried, incoming)
        if exit_ if incoming else entry:
            here[count - 1 if incoming else 0] = True
            values = SAFE * least_cuts(*network, begin, end, np.append(tried, np.flatnonzero(here)), incoming)
            both[tried, k] = values[:-1]
            enter[k] = values[-1] if incoming else enter[k]
            far = others if entry and exit_ else range(devices)
            rest = whole[far, k] if incoming else whole[k, far]
            (whole.T if incoming else whole)[k, far] = np.maximum(rest, values[-1])
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

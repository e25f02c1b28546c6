"""The ways to pass a window between two devices: how long it takes at least, and where operators may run then.

A plan whose window takes no more than t seconds runs every operator on a device where the least length of the window
with the operator there is no more than t: its head, run time and tail, and what ports have to pass then. So the lengths
of all operators on all devices, sorted, divide the plans into *levels*. Those between two levels take at least the
lower one, and run operators where lengths are below the upper one. There may be a level for every length of operators
with bytes; a few with the largest steps between them are kept, and the others are joined to them.

Largest operators are fixed first: one list of levels for each choice of their devices, with heads and tails that know
the choice. Every plan makes one of the choices. Heads depend on the entry and tails on the exit only, so that all pairs
of ends share them. An operator is not tried where no length is below the *slack*: what the rest of the chain leaves the
window in a plan that is shorter than the best known. Nor is a choice for which ports have to pass more than that.

**Ports.** In a way, some operators run on device k for sure, and others run elsewhere for sure. Every tensor that
operators on k read from others passes the port of k, one after the other. These tensors divide what is elsewhere from
what is on k, so their times add up to the *least cut* of the window's tensors or more, each with its least time from a
device where its maker may run. It is the same for what leaves k. Parallel branches, and layers that read all earlier
ones, pass together what a path through the window sees one by one.

Proof: the operators on k are one side of a cut, and a tensor between the sides is received at least once, within the
window. The least cut is a largest flow (Ford and Fulkerson), and every flow that is found bounds it from below.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, FloatCube, IntArray, IntCube
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
        self._network: Network | None = None
        self._seconds: Callable[[], float] = lambda: 0.0
        self._lengths: dict[tuple[int, int], FloatArray] = {}
        self._slack: FloatArray | None = None
        self._known: dict[tuple[int, int, int], Ways] = {}
        self._ends: dict[tuple[int, bool, bytes], FloatArray] = {}

    def cut(self) -> None:
        """Let lengths count what ports have to pass, and the window's bounds, too."""
        window, values = self.window, self.block.values
        if self._network is None and len(window.inner) and window.arrays.model != DELAY:
            self._network, self._lengths, self._slack = network_of(window.arrays), {}, None
            for a, b in product(*(range(len(values) if exists else 1) for exists in (window.entry, window.exit))):
                least = self._passed(np.isfinite(window.fixed(a, b).seconds)[None])
                values[window.cells(a, b)] = np.maximum(values[window.cells(a, b)], least)

    def port(self, a: int, b: int) -> float:
        """Least seconds of the messages that enter the device of the exit from elsewhere."""
        window = self.window
        if not window.exit or (window.entry and a == b) or window.arrays.model == DELAY:
            return 0.0
        if not len(window.inner):
            return float(self.block.values[a, b])
        allowed = np.isfinite(window.fixed(a, b).seconds)[None].astype(np.int64)
        return 0.0 if self._network is None else float(SAFE * port_cuts(*self._network, allowed)[0, b, 0])

    def length(self, a: int, b: int) -> FloatArray:
        """The least lengths by operator and device. Shape (operators, devices)."""
        if (a, b) not in self._lengths:
            reach, run = self.window.reach(a, b), self.window.fixed(a, b).seconds
            length = reach.heads + run + reach.tails
            for v in np.flatnonzero(self.heavy).tolist():
                if self._network is None or self._seconds() <= 0.0:
                    break
                more = np.where(np.arange(len(run)) == v, np.arange(run.shape[1])[:, None], -1)
                length[v] = np.maximum(length[v], self._passed(np.isfinite(run) & _on(more, run.shape[1])))
            self._lengths[a, b] = length
        return self._lengths[a, b]

    def _passed(self, allowed: BoolArray) -> FloatArray:
        """Least seconds that any port needs in some ways. Shape (ways,)."""
        if self._network is None:
            return np.zeros(len(allowed))
        return np.asarray(SAFE * port_cuts(*self._network, allowed.astype(np.int64)).max(axis=(1, 2)))

    def within(self, a: int, b: int, slack: FloatArray, choices: int, seconds: Callable[[], float]) -> Ways:
        """The ways between two devices, with some choices for the largest operators.

        ``slack`` says how long ways between two devices may take at most. Shape (devices, devices).
        """
        self._seconds = seconds
        if self._slack is None or (slack != self._slack).any():
            self._slack, self._known, self._ends = slack, {}, {}
        key = (a, b, choices)
        if key not in self._known:
            most = float(slack[a, b])
            found = [Ways(np.zeros(0), np.zeros((0, *self.length(a, b).shape), dtype=np.bool_))]
            for length in self._chosen(a, b, most, choices, seconds):
                level = _levels(length, self.heavy, most)
                longer = np.maximum(level.seconds, self._passed(level.allowed)) if seconds() > 0.0 else level.seconds
                found.append(Ways(longer[longer < most], level.allowed[longer < most]))
            self._known[key] = Ways(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
        return self._known[key]

    def _chosen(self, a: int, b: int, slack: float, most: int, seconds: Callable[[], float]) -> list[FloatArray]:
        """Lengths by operator and device for every choice of devices for the operators with most bytes.

        When time is up, or ports leave too many, choices for fewer operators have to do.
        """
        run, found = self.window.fixed(a, b).seconds, [(np.full(len(self.weight), -1), self.length(a, b))]
        for v in np.argsort(-self.weight, kind="stable")[: int(self.heavy.sum())].tolist():
            tried, longer = list[tuple[IntArray, FloatArray, float]](), list[tuple[IntArray, FloatArray]]()
            for chosen, known in found:
                if seconds() <= 0.0 or len(tried) > most:
                    return [length for _, length in found]
                usable = np.flatnonzero(known[v] < slack)
                more = np.where(np.arange(len(chosen)) == v, usable[:, None], chosen)
                least = self._passed((known < slack) & _on(more, run.shape[1])).tolist()
                tried += [(each, known, low) for each, low in zip(more, least, strict=True) if low < slack]
            for chosen, known, low in tried:
                if seconds() <= 0.0 or len(tried) > most:
                    return [length for _, length in found]
                heads, tails = self._from_end(a, chosen, first=True), self._from_end(b, chosen, first=False)
                longer.append((chosen, np.maximum(np.maximum(heads + run + tails, known), low)))
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
            usable &= _on(chosen, len(devices))
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
    ends = np.append(values[begins[1:]], slack)  # of light operators, some lengths lie between the levels
    return Ways(values[begins], length < ends[:, None, None])


def _on(chosen: IntArray, devices: int) -> BoolArray:
    """Where operators may run that are on some devices (-1: on any). Shape (..., operators, devices)."""
    return np.asarray((chosen[..., None] < 0) | (np.arange(devices) == chosen[..., None]))


class Network(NamedTuple):
    """Operators, then tensors, as nodes: an arc from the operator that makes a tensor to it, others to its readers.

    Attributes
    ----------
    start, arcs, to
        The arcs at every node, and the end of each; arc i ^ 1 is the reverse of arc i. Tensor t begins with arc 2 t.
    source
        The operator that makes each tensor. Shape (tensors,).
    seconds
        Seconds to send each tensor from device to device. Shape (tensors, K, K).
    """

    start: IntArray
    arcs: IntArray
    to: IntArray
    source: IntArray
    seconds: FloatArray


def network_of(arrays: PlacementArrays) -> Network:
    """The network of a window with ports."""
    count = len(arrays.seconds)
    names = arrays.tensor if arrays.model == PORT_TENSOR else np.arange(len(arrays.source))
    _, first, name = np.unique(names, return_index=True, return_inverse=True)
    tails = np.concatenate([arrays.source[first], count + name])
    heads = np.concatenate([count + np.arange(len(first)), arrays.target])
    arcs = Adjacency.from_pairs(count + len(first), np.column_stack([tails, heads]).ravel(), np.arange(2 * len(tails)))
    to = np.column_stack([heads, tails]).ravel()
    return Network(arcs.start, arcs.items, to, arrays.source[first], durations(arrays)[first])


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
def port_cuts(
    start: IntArray, arcs: IntArray, to: IntArray, source: IntArray, seconds: FloatCube, allowed: IntCube
) -> FloatCube:
    """The least cuts between what is elsewhere for sure and what is on a device for sure: received, and sent.

    ``allowed`` is 1 where an operator may run. Shapes (ways, operators, K); (ways, K, 2).
    """
    ways, count, devices = allowed.shape
    found, left, size = np.zeros((ways, devices, 2)), np.empty(len(to)), len(start) - 1
    by, queue = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    here, elsewhere = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    for w in range(ways):
        for k in range(devices):
            for v in range(count):
                elsewhere[v] = allowed[w, v, k] == 0
                here[v] = allowed[w, v, k] == 1 and allowed[w, v].sum() == 1
            if not (here.any() and elsewhere.any()):
                continue
            for sends in range(2):
                left[:] = np.inf
                left[1::2] = 0.0
                for t in range(len(source)):
                    least, possible = np.inf, False
                    for a in range(devices):
                        if a != k and (sends == 1 or allowed[w, source[t], a] == 1):
                            possible = True
                            least = min(least, seconds[t, k, a] if sends == 1 else seconds[t, a, k])
                    left[2 * t] = least if possible else 0.0
                ends = (here, elsewhere) if sends == 1 else (elsewhere, here)
                found[w, k, sends] = fill(start, arcs, to, left, ends[0], ends[1], by, queue)
    return found

"""Memory at its price: the Lagrangian bound of a milestone chain.

For prices q >= 0 (seconds per byte and device), every plan of length L that fits into memory satisfies

    L >= L + sum over operators of q[device] * bytes - sum over devices of q * memory.

The right side is bounded from below along the milestone chain: windows and milestones follow one another, and the bytes
of their operators are charged where they run, those of a window at their lowest prices. So are operators outside the
chain. So the shortest path over the devices of the milestones, minus q * memory, is a bound for any prices. Good ones
are the multipliers of memory in a program that counts ways (:mod:`.counts`).

Operators *outside* the windows, such as the keys and values that decoders make of an encoding, come after some
milestone, and others, in a window far behind, read what becomes of them. Windows do not see them, so their bytes could
lie anywhere for nothing. But where both are on different devices, a tensor on the way from one to the other enters the
device of the second, between the milestone and the end of the window. If such ways have no tensors in common, these
messages follow one another at every port.

Source: Held and Karp, "The traveling-salesman problem and minimum spanning trees" (Lagrangian bounds).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.loops import clock
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, durations, order_of_graph
from opweave.solvers.placement.bounds.area import Memory
from opweave.solvers.placement.bounds.chain_bound import Block, Milestones, shortest
from opweave.solvers.placement.bounds.counts import CHOICES, NOWHERE, count_program
from opweave.solvers.placement.bounds.whole_bytes import TRIES, WholeBytes
from opweave.solvers.rounding import SUMMATION


class Outside(NamedTuple):
    """An operator outside the windows and its reader.

    Attributes
    ----------
    operator, reader
        Their positions in the problem.
    after
        The number of the last milestone before the operator, -1 if there is none.
    tensor
        What it reads of this milestone, -1 for nothing.
    fetch
        Least seconds of a message with this tensor to each device. Shape (devices,).
    enter
        Least seconds of a message on the way to each device. Shape (devices,).
    """

    operator: int
    reader: int
    after: int
    tensor: int
    fetch: FloatArray
    enter: FloatArray


def read_outside(arrays: PlacementArrays, outside: IntArray, window: IntArray, milestones: IntArray) -> list[Outside]:
    """The operators of ``outside`` that have a reader, if transfers use ports.

    ``window`` has the number of the window of every operator, -1 outside. Shape (operators,).
    """
    found = list[Outside]()
    if arrays.model == DELAY or not len(arrays.source):
        return found
    after, away = _milestones_before(arrays, milestones), durations(arrays)
    away[:, np.eye(away.shape[1], dtype=np.bool_)] = np.inf
    enter = away.min(axis=1)
    used = set[int]()
    for v in outside.tolist():
        way = _way(arrays, v, window)
        names = {int(arrays.tensor[f]) if arrays.model == PORT_TENSOR else f for f in way}
        if way and not names & used:
            used |= names
            last = int(milestones[after[v]]) if after[v] != NOWHERE else NOWHERE
            read = arrays.incoming[arrays.in_start[v] : arrays.in_start[v + 1]]
            read = read[arrays.source[read] == last][:1]
            tensor, fetch = int(arrays.tensor[read].max(initial=NOWHERE)), enter[read].min(axis=0, initial=np.inf)
            ends = v, int(arrays.target[way[-1]]), int(after[v])
            found.append(Outside(*ends, tensor, fetch, enter[way].min(axis=0)))
    return found


def _way(arrays: PlacementArrays, v: int, window: IntArray) -> list[int]:
    """Flows from an operator to the first one found in a window, through others outside; empty if there is none."""
    ways, seen = [(v, list[int]())], {v}
    while ways:
        u, way = ways.pop()
        for f in arrays.outgoing[arrays.out_start[u] : arrays.out_start[u + 1]].tolist():
            w = int(arrays.target[f])
            if window[w] != NOWHERE:
                return [*way, f]
            if w not in seen:
                seen.add(w)
                ways.append((w, [*way, f]))
    return []


def _milestones_before(arrays: PlacementArrays, milestones: IntArray) -> IntArray:
    """The number of the last milestone before every operator, -1 if there is none. Shape (operators,)."""
    last, number = np.full(len(arrays.seconds), NOWHERE), np.full(len(arrays.seconds), NOWHERE)
    number[milestones] = np.arange(len(milestones))
    for v in order_of_graph(arrays).tolist():
        before = arrays.before[arrays.before_start[v] : arrays.before_start[v + 1]]
        last[v] = np.maximum(last[before], number[before]).max(initial=NOWHERE)
    return last


@dataclass(eq=False)
class PricedBlock:
    """Windows that are equal in their times and their bytes, with bounds at the current prices.

    Attributes
    ----------
    bytes, weight
        Bytes of the operators, 0 at the ends; the same with those outside that they read. Shape (operators,).
    values
        Bounds by end devices: seconds, and all bytes at their lowest prices. Shape (K, K).
    """

    block: Block
    bytes: FloatArray
    weight: FloatArray
    values: FloatArray = field(init=False)

    def reprice(self, price: FloatArray) -> None:
        """Bounds at other prices."""
        usable = np.isfinite(self.block.window.arrays.seconds)
        self.values = self.block.values + np.where(usable, self.bytes[:, None] * price, np.inf).min(axis=1).sum()


class Chain:
    """A milestone chain with the bytes of its operators.

    ``blocks`` are its windows in order, ``members`` their operators. The operator of ``milestones`` with the same
    number follows a window. Of equal devices, only the first one may run the first of these operators, because plans
    with equal devices exchanged are as long. ``outside`` are operators in no window, ``sources`` those that each window
    reads of.
    """

    def __init__(self, chain: Milestones, arrays: PlacementArrays, memory: Memory) -> None:
        self.memory = memory
        self.limited = np.isfinite(memory.capacity)
        self.capacity = np.where(self.limited, memory.capacity, 0.0)
        self.equal = equal_devices(arrays, memory.capacity)
        blocks: list[Block] = []
        self.members: list[IntArray] = []
        milestones: list[int] = []
        number = np.full(len(arrays.seconds), NOWHERE)
        for position, (module, window) in enumerate(zip(chain.modules, chain.windows, strict=True)):
            milestones += window.operators[module.inner].tolist()
            milestones += chain.cuts[position : position + 1].tolist()
            for block, inside in zip(module.blocks, module.members, strict=True):
                members = window.operators[inside]
                number[members[int(block.window.entry) :]] = len(blocks)
                blocks.append(block)
                self.members.append(members)
        self.milestones, seconds = np.asarray(milestones, dtype=np.int64), arrays.seconds.copy()
        seconds[self.milestones[:1], self.equal != np.arange(len(self.equal))] = np.inf
        self.arrays = arrays._replace(seconds=seconds)
        self.outside = np.flatnonzero(number == NOWHERE)
        self.sources: list[list[Outside]] = [[] for _ in blocks]
        for each in read_outside(arrays, self.outside[memory.bytes[self.outside] > 0.0], number, self.milestones):
            self.sources[number[each.reader]].append(each)
        kinds: dict[object, PricedBlock] = {}
        self.blocks = [self._priced(*step, kinds) for step in zip(blocks, self.members, self.sources, strict=True)]
        self.kinds = list(kinds.values())

    def _priced(
        self, block: Block, members: IntArray, sources: list[Outside], kinds: dict[object, PricedBlock]
    ) -> PricedBlock:
        """The block with its bytes; windows with equal ones share it."""
        bytes_ = self.memory.bytes[members].copy()
        weight = bytes_ + sum(self.memory.bytes[each.operator] * (members == each.reader) for each in sources)
        for each in (bytes_, weight):
            each[: int(block.window.entry)] = 0.0
            each[len(each) - int(block.window.exit) :] = 0.0
        return kinds.setdefault((id(block), bytes_.tobytes(), weight.tobytes()), PricedBlock(block, bytes_, weight))

    def own_costs(self, price: FloatArray) -> FloatArray:
        """Seconds of every milestone, and the price of its bytes. Shape (milestones, K)."""
        return self.arrays.seconds[self.milestones] + self.memory.bytes[self.milestones][:, None] * price

    def evened(self, price: FloatArray) -> FloatArray:
        """Prices that are the same on equal devices; their mean promises as much or more."""
        _, group = np.unique(self.equal, return_inverse=True)
        return np.asarray((np.bincount(group, weights=price) / np.bincount(group))[group])

    def reprice(self, price: FloatArray) -> None:
        """Bounds of all windows at some prices."""
        for kind in self.kinds:
            kind.reprice(price)

    def value(self, price: FloatArray) -> float:
        """The bound at prices; -inf if no devices of the milestones leave every window a plan."""
        self.reprice(price)
        first, *others = (kind.values for kind in self.blocks)
        path = float(shortest(first[0], self.own_costs(price), others)[0].min())
        cost = np.where(np.isfinite(self.arrays.seconds), self.memory.bytes[:, None] * price, np.inf)[self.outside]
        total, room = path + float(cost.min(axis=1).sum()), float(self.capacity @ price)
        return total - room - SUMMATION * (total + room) if math.isfinite(path) else -math.inf


def equal_devices(arrays: PlacementArrays, capacity: FloatArray) -> IntArray:
    """For every device the first one that it can be exchanged with. Shape (devices,)."""
    first, links = np.arange(len(capacity)), (arrays.latency, arrays.per_byte)
    for k in range(len(capacity)):
        for j in range(k):
            swapped = np.arange(len(capacity))
            swapped[[j, k]] = k, j
            same = all((link[np.ix_(swapped, swapped)] == link).all() for link in links)
            if same and capacity[j] == capacity[k] and (arrays.seconds[:, j] == arrays.seconds[:, k]).all():
                first[k] = first[j]
    return first


class MemoryBounds:
    """Bounds with memory, cheap ones first.

    Parameters
    ----------
    chain, arrays, memory
        The problem and its milestones.
    price
        First prices in seconds per byte; those of devices without a limit do not count. Shape (devices,).

    Attributes
    ----------
    chain
        The windows with their bounds.
    price
        The best prices so far.
    """

    def __init__(self, chain: Milestones, arrays: PlacementArrays, memory: Memory, price: FloatArray) -> None:
        self.chain = Chain(chain, arrays, memory)
        self._whole = WholeBytes(self.chain)
        self.price = self.chain.evened(np.where(self.chain.limited, np.maximum(price, 0.0), 0.0))

    def go_on(
        self,
        seconds: Callable[[], float],
        report: Callable[[float], None],
        ceiling: Callable[[], float] = lambda: math.inf,
        end: float = math.inf,
    ) -> None:
        """Search until ``seconds``, the seconds left, are 0, and report every bound.

        ``ceiling`` is the length of the best plan; no bound has to be larger. Others may go on for long whenever
        ``seconds`` is asked, so the first bounds do not ask until the clock says ``end``.
        """

        def at_first() -> float:
            return end - clock() if clock() < end else seconds()

        whole, first = self._whole, self.price
        value = self.chain.value(first)
        if value == -math.inf:
            return
        whole.raise_bound(first, ceiling, at_first, report, TRIES[:1])
        report(max(value, self.chain.value(0.0 * first)))
        whole.cut(at_first)
        counts = count_program(whole, ceiling(), at_first)
        if counts is not None:
            price, bound = counts.relaxed(at_first())
            self.price = max(first, self.chain.evened(price), key=self.chain.value)
            report(max(bound, self.chain.value(self.price)))
        length = math.nan
        while ceiling() != length:
            length = ceiling()
            for tries, choices in zip(TRIES[1:], CHOICES, strict=True):
                whole.raise_bound(self.price, ceiling, seconds, report, (tries,))
                counts = counts or count_program(whole, ceiling(), seconds, choices)
                if counts is not None:
                    report(counts.bound(_part_of(seconds, COUNTED), report))
                counts = None
                if seconds() <= 0.0:
                    return


COUNTED = 0.75
"""Share of the time left for the counts of a program."""


def _part_of(seconds: Callable[[], float], share: float) -> Callable[[], float]:
    """A part of the seconds left now."""
    rest = (1.0 - share) * seconds()
    return lambda: seconds() - rest

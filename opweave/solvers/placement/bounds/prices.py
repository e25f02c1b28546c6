"""Memory at its price: the Lagrangian bound of a milestone chain.

For prices q >= 0 (seconds per byte and device), every plan of length L that fits into memory satisfies

    L >= L + sum over operators of q[device] * bytes - sum over devices of q * memory.

The right side is bounded from below along the milestone chain: windows and milestones follow one another, and the bytes
of their operators are charged where they run, those of a window at their lowest prices. So are operators outside the
chain. So the shortest path over the devices of the milestones, minus q * memory, is a bound for any prices. Good ones
are the multipliers of memory in a program that counts ways (:mod:`.counts`).

Source: Held and Karp, "The traveling-salesman problem and minimum spanning trees" (Lagrangian bounds).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.loops import clock
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import Memory
from opweave.solvers.placement.bounds.chain_bound import Block, Milestones, shortest
from opweave.solvers.placement.bounds.counts import count_program
from opweave.solvers.placement.bounds.messages import NOWHERE, Outside, read_outside
from opweave.solvers.placement.bounds.whole_bytes import TRIES, WholeBytes
from opweave.solvers.rounding import SUMMATION


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
    number follows a window. ``outside`` are operators in no window, ``sources`` those that each window reads of.
    """

    def __init__(self, chain: Milestones, arrays: PlacementArrays, memory: Memory) -> None:
        self.memory, self.arrays = memory, arrays
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
        self.milestones = np.asarray(milestones, dtype=np.int64)
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
        counts = count_program(whole, ceiling(), at_first) if 0.0 < ceiling() < math.inf else None
        if counts is not None:
            price, bound = counts.relaxed(at_first())
            self.price = max(first, self.chain.evened(price), key=self.chain.value)
            report(max(bound, self.chain.value(self.price)))
            kept = 0.25 * seconds()
            if counts.repeats:  # with unequal steps, paths prove more in less time
                report(counts.bound(lambda: seconds() - kept, report))
        while seconds() > 0.0:  # again where a shorter plan leaves windows less time
            length = ceiling()
            whole.raise_bound(self.price, ceiling, seconds, report, TRIES[1:])
            if not ceiling() < length:
                break

"""Memory at its price: the Lagrangian bound of a milestone chain.

For prices q >= 0 (seconds per byte and device), every plan of length L that fits into memory satisfies

    L >= L + sum over operators of q[device] * bytes - sum over devices of q * memory.

The right side is bounded from below along the milestone chain: windows and milestones follow one another, and the bytes
of their operators are charged where they run. A window with its ends on devices a and b costs at least its *priced
bound* (:mod:`.priced_block`).
Operators outside the chain cost at least their bytes at the lowest price. So the shortest path over the devices of the
milestones, minus q * memory, is a bound for any prices. Good ones are the multipliers of memory in a program that
counts ways (:mod:`.counts`).

Windows are solved lazily, along a shortest path only.

Source: Held and Karp, "The traveling-salesman problem and minimum spanning trees" (Lagrangian bounds).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.loops import clock
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import Memory
from opweave.solvers.placement.bounds.chain_bound import Milestones, devices_to, shortest
from opweave.solvers.placement.bounds.counts import count_program
from opweave.solvers.placement.bounds.priced_block import PricedBlock
from opweave.solvers.placement.bounds.whole_bytes import TRIES, WholeBytes
from opweave.solvers.rounding import SUMMATION

Pair = tuple[PricedBlock, int, int]
"""A window and the devices of its ends."""


class Path(NamedTuple):
    """A shortest path: its length, and a device for the end of every window; that of the last one means nothing."""

    value: float
    devices: list[int]


class Chain:
    """A milestone chain with the bytes of its operators.

    ``blocks`` are its windows in order, ``members`` their operators. The operator of ``milestones`` with the same
    number follows a window.
    """

    def __init__(self, chain: Milestones, arrays: PlacementArrays, memory: Memory) -> None:
        devices = arrays.seconds.shape[1]
        self.memory, self.arrays = memory, arrays
        self.limited = np.isfinite(memory.capacity)
        self.capacity = np.where(self.limited, memory.capacity, 0.0)
        self.equal = equal_devices(arrays, memory.capacity)
        kinds: dict[object, PricedBlock] = {}
        self.blocks: list[PricedBlock] = []
        self.members: list[IntArray] = []
        milestones: list[int] = []
        outside = np.ones(len(arrays.seconds), dtype=bool)
        for position, (module, window) in enumerate(zip(chain.modules, chain.windows, strict=True)):
            milestones += window.operators[module.inner].tolist()
            milestones += chain.cuts[position : position + 1].tolist()
            for block, members in zip(module.blocks, module.members, strict=True):
                bytes_ = memory.bytes[window.operators[members]].copy()
                bytes_[: int(block.window.entry)] = 0.0
                bytes_[len(bytes_) - int(block.window.exit) :] = 0.0
                key = (id(block), bytes_.tobytes())
                if key not in kinds:
                    kinds[key] = PricedBlock(block, bytes_, np.zeros(devices))
                self.blocks.append(kinds[key])
                self.members.append(window.operators[members])
                outside[window.operators[members]] = False
        self.kinds = list(kinds.values())
        self.milestones = np.asarray(milestones, dtype=np.int64)
        outside[self.milestones] = False
        self.outside = np.flatnonzero(outside)

    def own_costs(self, price: FloatArray) -> FloatArray:
        """Seconds of every milestone, and the price of its bytes. Shape (milestones, K)."""
        return self.arrays.seconds[self.milestones] + self.memory.bytes[self.milestones][:, None] * price

    def plain(self) -> Path | None:
        """The shortest path without prices; None if no devices of the milestones leave every window a plan."""
        return self._path({kind: kind.block.values for kind in self.kinds}, self.arrays.seconds[self.milestones])

    def evened(self, price: FloatArray) -> FloatArray:
        """Prices that are the same on equal devices; their mean promises as much or more."""
        _, group = np.unique(self.equal, return_inverse=True)
        return np.asarray((np.bincount(group, weights=price) / np.bincount(group))[group])

    def reprice(self, price: FloatArray) -> None:
        """Bounds of all windows at some prices; those that are there already go on where they stopped."""
        for kind in self.kinds:
            if (kind.price != price).any():
                kind.reprice(price)

    def value(self, price: FloatArray, seconds: Callable[[], float], report: Callable[[float], None]) -> float:
        """The bound at prices; -inf if there is no path.

        Windows are raised along the path, and bounds on the way are reported.
        """
        self.reprice(price)
        own = self.own_costs(price)
        while True:
            path = self._path({kind: kind.values for kind in self.kinds}, own)
            if path is None:
                return -math.inf
            bound = self._bound(path, price)
            report(bound)
            todo = [pair for pair in dict.fromkeys(self._steps(path)) if pair[0].open(*pair[1:])]
            if not todo or seconds() <= 0.0:
                return bound
            for kind, a, b in todo:
                left = seconds()
                if left > 0.0:
                    kind.learn(a, b, kind.programmed(a, b, left))

    def _path(self, tables: Mapping[PricedBlock, FloatArray], own: FloatArray) -> Path | None:
        """The shortest path, if there is one."""
        first, *others = (tables[kind] for kind in self.blocks)
        values, origins = shortest(first[0], own, others)
        last = int(np.argmin(values))
        return Path(float(values[last]), devices_to(last, origins)) if np.isfinite(values[last]) else None

    def _steps(self, path: Path) -> list[Pair]:
        return list(zip(self.blocks, [0, *path.devices], path.devices, strict=False))

    def _bound(self, path: Path, price: FloatArray) -> float:
        """The bound of a path: operators outside the chain pay the least price of their bytes, memory is paid back."""
        cost = np.where(np.isfinite(self.arrays.seconds), self.memory.bytes[:, None] * price, np.inf)[self.outside]
        total, room = path.value + float(cost.min(axis=1).sum()), float(self.capacity @ price)
        return total - room - SUMMATION * (total + room)


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


class PriceSearch:
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

        ``ceiling`` is the length of the best plan; no bound has to be larger. The first bounds are there before
        ``seconds`` is asked, where others may go on for long, as far as the clock does not say ``end`` before.
        """
        whole, first = self._whole, self.price
        if self.chain.plain() is None:
            return
        whole.raise_bound(first, ceiling, lambda: end - clock(), report, TRIES[:1])
        for price in (0.0 * first, first):
            self.chain.value(price, lambda: end - clock(), report)
        whole.raise_bound(first, ceiling, seconds, report, TRIES[1:2])
        found, counts = [first], None
        if 0.0 < ceiling() < math.inf and seconds() > 0.0:
            counts = count_program(whole, first, ceiling(), seconds)
            found += [] if counts is None else [self.chain.evened(counts.prices(seconds()))]
        values = [self.chain.value(price, seconds, report) for price in found]
        self.price, kept = found[int(np.argmax(values))], 0.5 * seconds()
        if counts is not None and counts.repeats:  # with unequal steps, paths prove more in less time
            report(counts.bound(lambda: seconds() - kept))
        while seconds() > 0.0:  # again where a shorter plan leaves windows less time
            length = ceiling()
            whole.raise_bound(self.price, ceiling, seconds, report, TRIES[1:])
            if not ceiling() < length:
                break
        if counts is not None:
            report(counts.bound(seconds))

"""Memory at its price: the Lagrangian bound of a milestone chain.

For prices q >= 0 (seconds per byte and device), every plan of length L that fits into memory satisfies

    L >= L + sum over operators of q[device] * bytes - sum over devices of q * memory.

The right side is bounded from below along the milestone chain: windows and milestones follow one another, and the bytes
of their operators are charged where they run. A window with its ends on devices a and b costs at least its *priced
bound* (:mod:`.priced_block`).
Operators outside the chain cost at least their bytes at the lowest price. So the shortest path over the devices of the
milestones, minus q * memory, is a bound for any prices (:class:`PriceSearch` looks for the best).

Windows are solved lazily, along a shortest path only.

Source: Held and Karp (Lagrangian bounds); Kelley (cutting planes); Marsten, Hogan and Blankenship (the box step).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.linear import LinearProgram, SparseRows, minimise
from opweave.solvers.loops import clock
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import Memory
from opweave.solvers.placement.bounds.chain_bound import Milestones, devices_to, shortest
from opweave.solvers.placement.bounds.counts import least_counts
from opweave.solvers.placement.bounds.priced_block import PricedBlock
from opweave.solvers.placement.bounds.whole_bytes import TRIES, WholeBytes
from opweave.solvers.rounding import SUMMATION

Pair = tuple[PricedBlock, int, int]
"""A window and the devices of its ends."""


class Path(NamedTuple):
    """A shortest path: its length, and a device for the end of every window; that of the last one means nothing."""

    value: float
    devices: list[int]


class Cut(NamedTuple):
    """A bound at some prices, and the bytes that its solution takes beyond every device's memory."""

    value: float
    over: FloatArray
    price: FloatArray


class Chain:
    """A milestone chain with the bytes of its operators.

    ``blocks`` are its windows in order, ``members`` their operators, and ``starts`` says which is the first of every
    module. The operator of ``milestones`` with the same number follows a window.
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
        self.starts = [0]
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
                    kinds[key] = PricedBlock(block, bytes_, np.zeros(devices), self.equal)
                self.blocks.append(kinds[key])
                self.members.append(window.operators[members])
                outside[window.operators[members]] = False
            self.starts.append(len(self.blocks))
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

    def value(self, price: FloatArray, seconds: Callable[[], float], report: Callable[[float], None]) -> Cut | None:
        """The bound at prices, and the bytes that its path takes too much; None if there is no path.

        Windows are raised along the path, and bounds on the way are reported.
        """
        self.reprice(price)
        own = self.own_costs(price)
        while True:
            path = self._path({kind: kind.values for kind in self.kinds}, own)
            if path is None:
                return None
            cut = self._cut(path, price)
            report(cut.value)
            todo = [pair for pair in dict.fromkeys(self._different_steps(path)) if pair[0].open(*pair[1:])]
            if not todo or seconds() <= 0.0:
                return cut
            for kind, a, b in todo:
                left = seconds()
                if left > 0.0:
                    kind.lift(a, b, left)

    def _path(self, tables: Mapping[PricedBlock, FloatArray], own: FloatArray) -> Path | None:
        """The shortest path, if there is one."""
        first, *others = (tables[kind] for kind in self.blocks)
        values, origins = shortest(first[0], own, others)
        last = int(np.argmin(values))
        return Path(float(values[last]), devices_to(last, origins)) if np.isfinite(values[last]) else None

    def _steps(self, path: Path) -> list[Pair]:
        return list(zip(self.blocks, [0, *path.devices], path.devices, strict=False))

    def _different_steps(self, path: Path) -> list[Pair]:
        """The steps of a path; pairs of ends with equal bounds count as one."""
        steps = self._steps(path)
        firsts = {(kind, a, b): (kind, *kind.first_image(a, b)) for kind, a, b in set(steps)}
        return [firsts[step] for step in steps]

    def _cut(self, path: Path, price: FloatArray) -> Cut:
        """The bound of a path, and the bytes that it takes beyond every device's memory."""
        bytes_ = self.memory.bytes[self.milestones]
        used = np.bincount(path.devices[: len(bytes_)], weights=bytes_, minlength=len(price)).astype(np.float64)
        for kind, a, b in self._steps(path):
            used += kind.used[a, b]
        cost = np.where(np.isfinite(self.arrays.seconds), self.memory.bytes[:, None] * price, np.inf)[self.outside]
        total = path.value
        if len(cost):
            used += np.bincount(cost.argmin(axis=1), weights=self.memory.bytes[self.outside], minlength=len(price))
            total += float(cost.min(axis=1).sum())
        room = float(self.capacity @ price)
        over = np.where(self.limited, used - self.capacity, 0.0)
        return Cut(total - room - SUMMATION * (total + room), over, price)


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


SHIFT = 100.0
"""Added to values so that the program's columns are not negative, in units of the first prices of all memory."""

ROUNDS = 40
"""Most price vectors that are tried."""

CLOSE = 1e-4
"""Relative distance between the bound and what the cutting planes allow near it at which the search ends."""

FIRST_RADIUS, LARGER, SMALLER, LEAST_RADIUS = 0.5, 2.0, 0.4, 0.02
"""Relative distance from the best prices up to which others are tried at first, what it is multiplied by where these
are better or worse, and the distance at which the search ends."""

LEAST_SHARE = 0.1
"""Prices within the radius of this one are tried, too: the memory of a device costs this share of a plan."""


class PriceSearch:
    """The search for prices by cutting planes in a box around the best.

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
    centre
        The best bound so far.
    """

    def __init__(self, chain: Milestones, arrays: PlacementArrays, memory: Memory, price: FloatArray) -> None:
        self.chain = Chain(chain, arrays, memory)
        self._whole = WholeBytes(self.chain)
        first = self.chain.evened(np.where(self.chain.limited, np.maximum(price, 0.0), 0.0))
        self._unit = np.where(self.chain.limited, 1.0 / np.maximum(self.chain.capacity, 1.0), 0.0)
        self._scale = 1.0
        self.centre = Cut(-math.inf, np.zeros(len(price)), first)
        self._cuts: list[Cut] = []
        self._radius = FIRST_RADIUS

    def go_on(
        self,
        seconds: Callable[[], float],
        report: Callable[[float], None],
        ceiling: Callable[[], float] = lambda: math.inf,
        end: float = math.inf,
    ) -> None:
        """Search until ``seconds``, the seconds left, are 0, cheap bounds first, and report every bound.

        ``ceiling`` is the length of the best plan; no bound has to be larger. The first bounds are there before
        ``seconds`` is asked, where others may go on for long, as far as the clock does not say ``end`` before.
        """
        price, whole, plain, length = self.centre.price, self._whole, self.chain.plain(), ceiling()
        if plain is None:
            return
        self._scale = max(float(price @ self.chain.capacity), length if length < math.inf else plain.value, 1e-300)
        whole.raise_bound(price, ceiling, lambda: end - clock(), report, TRIES[:1])
        for ways in whole.ways.values():
            if seconds() > 0.0:
                ways.cut()
        if ceiling() < math.inf:
            report(least_counts(whole, price, ceiling(), seconds))
        for first in (0.0 * price, price):  # no cutting planes before these have all the time that they need
            self.chain.value(first, lambda: end - clock(), report)
        for first in (0.0 * price, price):
            self._try(first, seconds, report)
        whole.raise_bound(price, ceiling, seconds, report, TRIES[1:2])
        kept = 0.5 * seconds()  # for whole bytes at the best prices
        for _ in range(ROUNDS):
            next_ = self._next(ceiling()) if seconds() > kept else None
            if next_ is None:
                break
            self._try(next_, lambda: seconds() - kept, report)
        while seconds() > 0.0:  # again where a shorter plan leaves windows less time
            length = ceiling()
            whole.raise_bound(self.centre.price, ceiling, seconds, report, TRIES[1:])
            if not ceiling() < length:
                break

    def _try(self, price: FloatArray, seconds: Callable[[], float], report: Callable[[float], None]) -> None:
        """Bounds at some prices, by linear programs of the windows."""
        cut = self.chain.value(price, seconds, report)
        if cut is not None:
            self._cuts.append(cut)
            better = not cut.value <= self.centre.value + CLOSE * abs(self.centre.value)
            self._radius *= LARGER if better else SMALLER
            self.centre = max(self.centre, cut, key=lambda each: each.value)

    def _next(self, ceiling: float) -> FloatArray | None:
        """The prices near the best that may prove most; None if that is hardly more than what is proved."""
        centre = self.centre
        if not self._cuts or self._radius < LEAST_RADIUS or centre.value >= ceiling:
            return None
        room = self._radius * np.maximum(centre.price, LEAST_SHARE * self._scale * self._unit)
        box = np.maximum(centre.price - room, 0.0), centre.price + room
        found = _highest(self._cuts, self._unit * self._scale, box, self._scale)
        worth = centre.value + CLOSE * abs(centre.value)
        return None if found is None or found[0] <= worth else self.chain.evened(found[1])


def _highest(
    cuts: list[Cut], unit: FloatArray, box: tuple[FloatArray, FloatArray], scale: float
) -> tuple[float, FloatArray] | None:
    """The prices in a box at which all cuts together allow most, and that value."""
    devices = len(unit)
    rows = SparseRows()
    for cut in cuts:
        row = rows.open(np.asarray([(cut.value - float(cut.over @ cut.price)) / scale + SHIFT]))
        rows.put(row, np.asarray([devices]), 1.0)
        rows.put(np.repeat(row, devices), np.arange(devices), -cut.over * unit / scale)
    cost = np.zeros(devices + 1)
    cost[devices] = -1.0
    sized = np.where(unit > 0.0, unit, np.inf)
    program = LinearProgram.of(cost, np.concatenate([box[1] / sized, [2.0 * SHIFT]]), rows)
    solved = minimise(replace(program, lower=np.concatenate([box[0] / sized, [0.0]])), None)
    if solved is None:
        return None
    # at prices below 0, which the engine's tolerance allows, a bound may be false
    return (-solved.value - SHIFT) * scale, np.maximum(solved.point[:devices], 0.0) * unit

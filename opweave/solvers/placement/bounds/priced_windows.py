"""Memory at its price, with windows in whole numbers: the Lagrangian bound of a milestone chain.

For prices q >= 0 (seconds per byte and device), every plan of length L that fits into memory satisfies

    L >= L + sum over operators of q[device] * bytes - sum over devices of q * memory.

The right side is bounded from below along the milestone chain: windows and milestones follow one another, and the bytes
of their operators are charged where they run. A window with its ends on devices a and b costs at least its *priced
bound*: the least of length plus price over its integer program (:mod:`.window_program`, with prices in the objective).
Operators outside the chain cost at least their bytes at the lowest price. So the shortest path over the devices of the
milestones, minus q * memory, is a bound for any prices.

The linear program over counts (:mod:`.counts`) equals the best of these bounds with windows in fractions. Its prices
are the first; better ones follow by cutting planes. Windows are solved lazily, along the shortest path only. From the
values at earlier prices p, a window costs at least value(p) + sum over its operators of min over devices of (q - p) *
bytes.

Ceiling: a plan of the window gives a value that the least cannot exceed, and with it a largest length.

Source: Held and Karp (Lagrangian bounds); Kelley, "The cutting-plane method for solving convex programs".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.linear import LinearProgram, SparseRows, minimise
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import Memory
from opweave.solvers.placement.bounds.chain_bound import (
    INTEGER,
    LARGEST_INTEGER,
    Block,
    Milestones,
    devices_to,
    shortest,
)
from opweave.solvers.placement.bounds.critical_path import operator_order
from opweave.solvers.placement.bounds.window_program import Builder
from opweave.solvers.placement.plans import plan_of
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.tree import least_whole

ROUNDS = 40
"""Most price vectors that are tried."""

PROGRESS = 1e-4
"""Relative distance between the best bound and what the cuts still allow at which the search for prices ends."""

LONGEST_PROGRAM = 3.0
"""Most seconds for one window."""

STEP = 2.0
"""Largest factor by which a price grows from one round to the next; it may also fall to 0."""


class Priced(NamedTuple):
    """A window's least cost with its ends on two devices, and the bytes of the solution on every device."""

    value: float
    bytes: FloatArray


@dataclass(eq=False)
class PricedBlock:
    """Windows that are equal in their times and their bytes, with bounds at the current prices."""

    block: Block
    bytes: FloatArray
    price: FloatArray
    values: FloatArray = field(init=False)
    used: FloatArray = field(init=False)
    solved: dict[tuple[int, int], tuple[FloatArray, Priced]] = field(init=False, default_factory=dict)
    plans: dict[tuple[int, int], list[IntArray]] = field(init=False, default_factory=dict)
    fresh: set[tuple[int, int]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        devices = len(self.price)
        self.usable = np.isfinite(self.block.window.arrays.seconds)
        self.used = np.zeros((devices, devices, devices))
        self.least = np.full(len(self.bytes), np.inf)
        np.minimum.at(self.least, self.block.branches.leader, self.bytes)
        self.least = self.least[self.block.branches.leader]
        self.reprice(self.price)

    def reprice(self, price: FloatArray) -> None:
        """Bounds at other prices, from what is known."""
        self.price = price
        self.fresh.clear()
        own = self._least_price(price)
        self.values = self.block.values + own[0]
        self.used[:] = own[1]
        for (a, b), (before, found) in self.solved.items():
            change, bytes_ = self._least_price(price - before)
            value = found.value + change
            cells = self.block.window.cells(a, b)
            if value > self.values[a, b]:
                self.values[cells] = value
                self.used[cells] = found.bytes
            del bytes_

    def _least_price(self, price: FloatArray) -> tuple[float, FloatArray]:
        """The least price of all bytes, each operator by itself, and where it puts them."""
        cost = np.where(self.usable, self.least[:, None] * price, np.inf)
        where = np.argmin(cost, axis=1)
        return float(cost.min(axis=1).sum()), np.bincount(where, weights=self.least, minlength=len(price))

    def open(self, a: int, b: int) -> bool:
        """Whether the pair can be raised at these prices."""
        there = len(self.block.window.inner) > 0 and self.block.size <= LARGEST_INTEGER
        return there and (a, b) not in self.fresh and bool(np.isfinite(self.values[a, b]))

    def raise_pair(self, a: int, b: int, seconds: float) -> None:
        """Solve the window's program at the current prices."""
        self.fresh.add((a, b))
        cells, known = self.block.window.cells(a, b), float(self.values[a, b])
        ceiling = self._ceiling(a, b)
        least = self._least_price(self.price)[0]
        length = (ceiling - least) * (1.0 + SUMMATION) + SUMMATION * ceiling
        builder = Builder(self.block.window, self.block.branches, a, b, float(self.block.values[a, b]), length)
        if not builder.possible:
            return
        program = builder.build()
        cost = program.linear.cost.copy()
        there = np.flatnonzero(program.x[:, 0] >= 0)
        cost[program.x[there]] += self.least[there][:, None] * self.price / program.scale
        found = least_whole(
            replace(program.linear, cost=cost), program.whole, program.times, ceiling / program.scale, seconds
        )
        value = max(known, found.bound * program.scale)
        bytes_ = self.used[a, b].copy()
        if found.point is not None:
            share = found.point[program.x[there]]
            bytes_ = (self.least[there][:, None] * share).sum(axis=0)
            self._keep(a, b, share, there)
        self.values[cells] = value
        self.used[cells] = bytes_
        self.solved[a, b] = (self.price, Priced(value, bytes_))

    def _keep(self, a: int, b: int, share: FloatArray, there: IntArray) -> None:
        """Keep the devices of a solution as a plan of the window, if no equal branches share columns."""
        if (self.block.branches.times == 1).all():
            device = np.zeros(len(self.bytes), dtype=np.int64)
            device[there] = np.argmax(share, axis=1)
            self.plans.setdefault((a, b), []).append(device)

    def _ceiling(self, a: int, b: int) -> float:
        """The least cost of some plans of the window: all on one device, and earlier solutions."""
        arrays = self.block.window.fixed(a, b)
        order, best = operator_order(arrays), math.inf
        alone = [
            np.where(np.isfinite(arrays.seconds[:, k]), k, arrays.seconds.argmin(axis=1)).astype(np.int64)
            for k in range(len(self.price))
        ]
        for device in alone + self.plans.get((a, b), []):
            cost = plan_of(arrays, order, device).makespan + float(self.price[device] @ self.bytes)
            best = min(best, cost)
        return best


class Chain:
    """A milestone chain with the bytes of its operators."""

    def __init__(self, chain: Milestones, arrays: PlacementArrays, memory: Memory) -> None:
        devices = arrays.seconds.shape[1]
        self.memory, self.arrays = memory, arrays
        self.limited = np.isfinite(memory.capacity)
        self.capacity = np.where(self.limited, memory.capacity, 0.0)
        kinds: dict[object, PricedBlock] = {}
        self.blocks: list[PricedBlock] = []
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
                outside[window.operators[members]] = False
        self.kinds = list(kinds.values())
        self.milestones = np.asarray(milestones, dtype=np.int64)
        outside[self.milestones] = False
        self.outside = np.flatnonzero(outside)

    def value(self, price: FloatArray, seconds: Callable[[], float]) -> tuple[float, FloatArray]:
        """The bound at prices, and the bytes that its path takes beyond every device's memory."""
        for kind in self.kinds:
            kind.reprice(price)
        bytes_ = self.memory.bytes[self.milestones]
        own = self.arrays.seconds[self.milestones] + bytes_[:, None] * price
        while True:
            first, *tables = (kind.values for kind in self.blocks)
            values, origins = shortest(first[0], own, tables)
            devices = devices_to(int(np.argmin(values)), origins)
            path = list(dict.fromkeys(zip(self.blocks, [0, *devices], devices, strict=False)))
            todo = [(kind, a, b) for kind, a, b in path if kind.open(a, b)]
            if not todo or seconds() <= 0.0:
                break
            for kind, a, b in todo:
                kind.raise_pair(a, b, min(seconds(), LONGEST_PROGRAM))
        used = np.bincount(devices[: len(bytes_)], weights=bytes_, minlength=len(price)).astype(np.float64)
        for kind, a, b in zip(self.blocks, [0, *devices], devices, strict=False):
            used += kind.used[a, b]
        cost = np.where(np.isfinite(self.arrays.seconds), self.memory.bytes[:, None] * price, np.inf)[self.outside]
        used += np.bincount(
            cost.argmin(axis=1), weights=self.memory.bytes[self.outside], minlength=len(price)
        ) if len(cost) else 0.0
        total = float(values.min()) + float(cost.min(axis=1).sum() if len(cost) else 0.0)
        room = float(self.capacity @ price)
        return total - room - SUMMATION * (total + room), np.where(self.limited, used - self.capacity, 0.0)


def priced_bound(
    chain: Milestones,
    arrays: PlacementArrays,
    memory: Memory,
    price: FloatArray,
    seconds: Callable[[], float],
    report: Callable[[float], None],
) -> None:
    """Search prices by cutting planes, from given ones; report every better bound.

    Parameters
    ----------
    chain, arrays, memory
        The problem and its milestones.
    price
        First prices in seconds per byte. Shape (devices,).
    seconds
        The seconds left.
    report
        Receives bounds in seconds.
    """
    priced = Chain(chain, arrays, memory)
    unit = np.where(priced.limited, 1.0 / np.maximum(priced.capacity, 1.0), 0.0)
    scale = max(float(price @ priced.capacity), 1e-300)
    best, centre, cuts, reach = -math.inf, price, [], np.maximum(price / np.maximum(unit * scale, 1e-300), 0.05)
    now = price
    for _ in range(ROUNDS):
        value, over = priced.value(now, seconds)
        report(value)
        cuts.append((value, over, now))
        if value > best:
            best, centre = value, now
        if seconds() <= 0.0:
            return
        limit = STEP * np.maximum(centre / np.maximum(unit * scale, 1e-300), reach)
        found = _highest(cuts, unit * scale, limit, scale)
        if found is None or found[0] <= best + PROGRESS * abs(best):
            return
        now = 0.5 * (centre + found[1]) if len(cuts) % 2 else found[1]


def _highest(
    cuts: list[tuple[float, FloatArray, FloatArray]], unit: FloatArray, limit: FloatArray, scale: float
) -> tuple[float, FloatArray] | None:
    """The prices at which all cuts together allow most, and that value."""
    devices = len(unit)
    rows = SparseRows()
    columns = np.arange(devices)
    for value, over, price in cuts:
        row = rows.open(np.asarray([(value - float(over @ price)) / scale + SHIFT]))
        rows.put(row, np.asarray([devices]), 1.0)
        rows.put(np.repeat(row, devices), columns, -over * unit / scale)
    cost = np.zeros(devices + 1)
    cost[devices] = -1.0
    upper = np.concatenate([np.where(unit > 0.0, limit, 0.0), [np.inf]])
    solved = minimise(LinearProgram.of(cost, upper, rows), None)
    if solved is None:
        return None
    return (-solved.value - SHIFT) * scale, solved.point[:devices] * unit
SHIFT = 100.0

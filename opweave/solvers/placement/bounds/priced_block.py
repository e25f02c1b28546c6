"""One window of a milestone chain with bytes at their price: what is known of its cost between all pairs of ends.

A *priced bound* is the least of length plus price that a linear program of the window proves. From the values at
earlier prices p, a window costs at least value(p) + sum over its operators of min over devices of (q - p) *
bytes at prices q. A plan of the window is a ceiling at any prices.

A window whose bound is the cost of a plan, all on one device, is not raised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray
from opweave.solvers.linear import minimise, proved_value, sum_below
from opweave.solvers.placement.arrays import order_of_graph
from opweave.solvers.placement.bounds.area import PRODUCTS
from opweave.solvers.placement.bounds.chain_bound import LARGEST_PRICED, TIGHT, Block
from opweave.solvers.placement.bounds.window_program import Builder, serial_length
from opweave.solvers.placement.plans import plan_of
from opweave.solvers.rounding import SUMMATION

MOST_SOLVED = 12
"""Most prices at which a window's bounds are remembered."""

LONGEST = 3.0
"""Most seconds of the program of a window."""


class _Solved(NamedTuple):
    """What is known of a window between two devices at earlier prices."""

    price: FloatArray
    value: float


@dataclass(eq=False)
class PricedBlock:
    """Windows that are equal in their times and their bytes, with bounds at the current prices.

    Attributes
    ----------
    values
        Bounds by end devices. Shape (K, K).
    raised
        Whether the bounds at these prices have been raised. Shape (K, K).
    """

    block: Block
    bytes: FloatArray
    price: FloatArray
    values: FloatArray = field(init=False)
    raised: BoolArray = field(init=False)
    _solved: dict[tuple[int, int], list[_Solved]] = field(init=False, default_factory=dict)
    _plans: dict[tuple[int, int], list[tuple[float, FloatArray]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        devices = len(self.price)
        self._usable = np.isfinite(self.block.window.arrays.seconds)
        self.raised = np.zeros((devices, devices), dtype=np.bool_)
        least = np.full(len(self.bytes), np.inf)
        np.minimum.at(least, self.block.branches.leader, self.bytes)
        self._least = least[self.block.branches.leader]
        self.reprice(self.price)

    def reprice(self, price: FloatArray) -> None:
        """Bounds at other prices, from what is known."""
        self.price, self.values = price, self.block.values + self._least_price(price)
        self.raised[:] = False
        for (a, b), solved in self._solved.items():
            cells = self.block.window.cells(a, b)
            for known in solved:
                self.values[cells] = np.maximum(self.values[cells], self._carried(known, price))
                self.raised[cells] |= (known.price == price).all()

    def _carried(self, known: _Solved, price: FloatArray) -> float:
        """What a bound at earlier prices proves at others, rounded down: high prices may leave a short length."""
        if (price == known.price).all():
            return known.value
        change = np.where(self._usable, self.bytes[:, None] * (price - known.price), np.inf).min(axis=1)
        terms = np.asarray([known.value, *change])
        return sum_below(terms, PRODUCTS * float(np.abs(terms).sum()))

    def _least_price(self, price: FloatArray) -> float:
        """The least price of all bytes, each operator by itself.

        Every value is a bound for the operators' own bytes. So these, and not the least among equal branches, say how
        much less it is at lower prices.
        """
        return float(np.where(self._usable, self.bytes[:, None] * price, np.inf).min(axis=1).sum())

    def open(self, a: int, b: int) -> bool:
        """Whether the pair can be raised at these prices, with something to gain."""
        value = float(self.values[a, b])
        sized = len(self.block.window.inner) > 0 and self.block.size <= LARGEST_PRICED and math.isfinite(value)
        return sized and not self.raised[a, b] and self._ceiling(a, b) - value > TIGHT * abs(value)

    def learn(self, a: int, b: int, value: float) -> None:
        """Record a bound for a pair at these prices."""
        cells, value = self.block.window.cells(a, b), max(value, float(self.values[a, b]))
        self.raised[cells], self.values[cells] = True, value
        others = [known for known in self._solved.get((a, b), []) if (known.price != self.price).any()]
        self._solved[a, b] = [*others[1 - MOST_SOLVED :], _Solved(self.price, value)]

    def programmed(self, a: int, b: int, seconds: float) -> float:
        """The bound of the window's program with prices in the objective, within some seconds."""
        ceiling = self._ceiling(a, b)
        length = (ceiling - self._least_price(self.price)) * (1.0 + SUMMATION) + SUMMATION * ceiling
        builder = Builder(self.block.window, self.block.branches, a, b, float(self.block.values[a, b]), length)
        if not builder.possible:
            return ceiling
        program = builder.build()
        cost = program.linear.cost.copy()
        there = np.flatnonzero(program.x[:, 0] >= 0)
        cost[program.x[there]] += self._least[there][:, None] * self.price / program.scale
        linear = replace(program.linear, cost=cost)
        relaxed = minimise(linear, min(seconds, LONGEST))
        if relaxed is None:
            return 0.0
        rows = np.concatenate([relaxed.most_price, relaxed.equal_price])
        value = proved_value(linear.cost, *linear.rows(), (linear.lower, linear.upper), rows)
        return min(value * program.scale, ceiling)

    def _ceiling(self, a: int, b: int) -> float:
        """The least cost of plans with all that can share a device on one; where links are missing, any large cost."""
        window = self.block.window
        if (a, b) not in self._plans:
            arrays, plans = window.fixed(a, b), list[tuple[float, FloatArray]]()
            order = order_of_graph(arrays)
            for k in range(len(self.price)):
                alone = np.where(np.isfinite(arrays.seconds[:, k]), k, arrays.seconds.argmin(axis=1)).astype(np.int64)
                taken = np.bincount(alone, weights=self.bytes, minlength=len(self.price)).astype(np.float64)
                plans.append((plan_of(arrays, order, alone).makespan, taken))
            self._plans[a, b] = plans
        least = min(length + float(taken @ self.price) for length, taken in self._plans[a, b])
        if math.isfinite(least):
            return least
        return serial_length(window.fixed(a, b)) + float(self.bytes.sum() * self.price.max())

"""The search for prices of memory: column generation.

The linear program over counts (:mod:`.counts`) equals the best bound at any prices (:mod:`.priced_windows`) with
windows in fractions. Its prices are the first.

A bound at new prices takes seconds, because windows have to be solved again. What the known plans of windows promise
takes milliseconds: the bound that there would be if they were the cheapest. Annealing gives every window a good plan
before anything is proved, so promises are seldom far too high. Cutting planes find the prices that promise most. Work
at these prices proves the bound, or finds cheaper plans, which promise less.

Source: Kelley, "The cutting-plane method for solving convex programs"; Gilmore and Gomory, "A linear programming
approach to the cutting-stock problem".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.linear import LinearProgram, SparseRows, minimise
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import Memory
from opweave.solvers.placement.bounds.chain_bound import Milestones
from opweave.solvers.placement.bounds.priced_block import STEP
from opweave.solvers.placement.bounds.priced_windows import Chain, Cut

SHIFT = 100.0
"""Added to values so that the program's columns are not negative, in units of the first prices of all memory."""

ROUNDS = 40
"""Most price vectors that are tried."""

PROMISES, CLOSE = 40, 1e-4
"""Most price vectors whose promise is worked out before one is chosen, and the relative distance from what the cutting
planes allow at which that ends."""

PROGRESS = 1.5 * STEP
"""Relative distance between the bound and what prices promise at which its search ends: windows are not raised
further."""

FIRST_RADIUS, SMALLER, LEAST_RADIUS = 1.0, 0.4, 0.02
"""Relative distance from the best prices up to which others are tried at first, what it is multiplied by where these
are worse, and the distance at which the search ends."""


class PriceSearch:
    """The search for prices by column generation; it may stop at any time and go on later.

    Parameters
    ----------
    chain, arrays, memory
        The problem and its milestones.
    price
        First prices in seconds per byte; those of devices without a limit do not count. Shape (devices,).

    Attributes
    ----------
    chain
        The windows, with their bounds and plans.
    centre
        The best bound so far.
    """

    def __init__(self, chain: Milestones, arrays: PlacementArrays, memory: Memory, price: FloatArray) -> None:
        self.chain = Chain(chain, arrays, memory)
        self._first = self.chain.evened(np.where(self.chain.limited, np.maximum(price, 0.0), 0.0))
        self._unit = np.where(self.chain.limited, 1.0 / np.maximum(self.chain.capacity, 1.0), 0.0)
        self._scale = max(float(self._first @ self.chain.capacity), 1e-300)
        self.centre = Cut(0.0, np.zeros(len(price)), self._first)
        self._price: FloatArray | None = None
        self._radius, self._rounds, self._finished, self._begun = FIRST_RADIUS, 0, False, False

    def go_on(self, seconds: Callable[[], float], report: Callable[[float], None], ceiling: float = math.inf) -> bool:
        """Search until ``seconds``, the seconds left, are 0; report every bound; return whether more may be found.

        ``ceiling`` is the length of a plan; prices that promise as much are good enough.
        """
        if not self._begun:
            self._begun = True
            if not self.chain.is_possible():
                return False
            self.chain.search_everywhere(self._first, seconds)
        while seconds() > 0.0:
            if self._price is None:
                self._price = self._promising(ceiling, seconds)
            if self._price is None:
                return False
            before = self.centre.value
            cut, complete = self.chain.value(self._price, seconds)
            if cut is None:
                return False
            if cut.value > before:
                self.centre, self._finished = cut, False
            report(self.centre.value)
            if complete:
                self._end_round(before)
        return True

    def _end_round(self, before: float) -> None:
        """Work at the present prices is over: the bound was ``before`` when it began."""
        assert self._price is not None, "a round has prices"
        self._finished = self._finished or np.array_equal(self._price, self.centre.price)
        self._price, self._rounds = None, self._rounds + 1
        if self.centre.value <= before + CLOSE * abs(before):
            self._radius *= SMALLER

    def _promising(self, ceiling: float, seconds: Callable[[], float]) -> FloatArray | None:
        """The prices near the best that promise most; None if that is hardly more than what is proved."""
        chain, centre = self.chain, self.centre.price
        room = self._radius * np.maximum(centre, 0.1 * float(centre.max()))
        box = np.maximum(centre - room, 0.0), centre + room
        first = chain.tested(centre, seconds)
        proved = first.value if self._finished else self.centre.value  # no more can be proved at these prices
        cuts, promises, searched = [first], {centre.tobytes(): first}, set[bytes]()
        for _ in range(PROMISES):
            name, best = max(promises.items(), key=lambda item: item[1].value)
            next_ = _highest(cuts, self._unit * self._scale, box, self._scale) if best.value < ceiling else None
            if next_ is not None and next_[0] > best.value + CLOSE * abs(best.value):
                cuts.append(chain.tested(chain.evened(next_[1]), seconds))
            elif name not in searched:  # the promise may rest on windows whose good plans are not known
                chain.search_everywhere(best.price, seconds)
                searched.add(name)
                cuts.append(chain.promised(best.price))
            else:
                break
            promises[cuts[-1].price.tobytes()] = cuts[-1]
            if seconds() <= 0.0:
                break
        best = max(promises.values(), key=lambda cut: cut.value)
        spent = self._rounds >= ROUNDS or self._radius < LEAST_RADIUS
        return None if spent or best.value <= proved + PROGRESS * abs(proved) else best.price


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

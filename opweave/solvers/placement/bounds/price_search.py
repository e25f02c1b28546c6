"""The search for prices of memory: column generation, separately for every set of devices that run milestones.

The linear program over counts (:mod:`.counts`) equals the best bound at any prices (:mod:`.priced_windows`) with
windows in fractions. Its prices are the first.

Plans are divided into classes by the set of devices that run their milestones (:mod:`.visited`). Every plan is in one
class, so the least bound of all classes is a bound. First come the prices that are best for all plans together: with
eight devices there are hundreds of classes, and most of them have nearly the same bound. Then the class with the least
is worked on, at prices of its own. What a price proves for other classes is kept.

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
from dataclasses import dataclass, replace

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
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
"""Most price vectors that are tried for a class."""

PROMISES, CLOSE = 40, 1e-4
"""Most price vectors whose promise is worked out before one is chosen, and the relative distance from what the cutting
planes allow at which that ends."""

PROGRESS = 1.5 * STEP
"""Relative distance between a class's bound and what prices promise at which its search ends: windows are not raised
further."""

PASSED = 0.003
"""Relative distance by which the class of plans with the least bound has to pass the second before that is worked on.
At other prices, windows have to be solved again."""

FIRST_RADIUS, SMALLER, LEAST_RADIUS = 1.0, 0.4, 0.02
"""Relative distance from the best prices up to which others are tried at first, what it is multiplied by where these
are worse, and the distance at which the search ends."""


@dataclass(eq=False)
class _Class:
    """The plans whose milestones run on one set of devices.

    Attributes
    ----------
    centre
        The best bound so far.
    price
        Prices that are worked on; None when the next ones are to be chosen.
    radius
        Relative distance of the next prices from those of ``centre``.
    rounds
        Number of price vectors that were tried.
    finished
        Whether nothing is left to raise at the prices of ``centre``.
    """

    centre: Cut
    price: FloatArray | None = None
    radius: float = FIRST_RADIUS
    rounds: int = 0
    finished: bool = False

    def take(self, cut: Cut) -> None:
        """Take in a bound at some prices."""
        if cut.value > self.centre.value:
            self.centre, self.finished = cut, False

    def end_round(self, before: float) -> None:
        """Work at :attr:`price` is over: the bound was ``before`` when it began."""
        assert self.price is not None, "a round has prices"
        self.finished = self.finished or bool((self.price == self.centre.price).all())
        self.price, self.rounds = None, self.rounds + 1
        if self.centre.value <= before + CLOSE * abs(before):
            self.radius *= SMALLER


class PriceSearch:
    """The search for prices by column generation; it may stop at any time and go on later.

    Parameters
    ----------
    chain, arrays, memory
        The problem and its milestones.
    price
        First prices in seconds per byte; those of devices without a limit do not count. Shape (devices,).
    problem
        The whole problem, by which a search is found again.

    Attributes
    ----------
    priced
        The windows, with their bounds and plans.
    """

    def __init__(
        self,
        chain: Milestones,
        arrays: PlacementArrays,
        memory: Memory,
        price: FloatArray,
        problem: PlacementInstance | None = None,
    ) -> None:
        self.problem = problem
        self.priced = Chain(chain, arrays, memory)
        self._first = self.priced.evened(np.where(self.priced.limited, np.maximum(price, 0.0), 0.0), None)
        self._unit = np.where(self.priced.limited, 1.0 / np.maximum(self.priced.capacity, 1.0), 0.0)
        self._scale = max(float(self._first @ self.priced.capacity), 1e-300)
        self._classes: dict[int, _Class] = {}
        self._all = _Class(Cut(0.0, np.zeros(len(price)), self._first))

    def go_on(self, seconds: Callable[[], float], report: Callable[[float], None], ceiling: float = math.inf) -> None:
        """Search until ``seconds``, the seconds left, are 0 or no prices promise more; report every bound.

        The class of plans with the least bound is worked on: no other can raise the bound of all. ``ceiling`` is the
        length of a plan; prices that promise as much are good enough.
        """
        self._search_for_all(seconds, report, ceiling)
        while self._classes and seconds() > 0.0:
            visited, *others = sorted(self._classes, key=lambda each: self._classes[each].centre.value)
            worked = self._classes[visited]
            if worked.price is None:
                worked.price = self._promising(visited, worked, ceiling, seconds)
            if worked.price is None:
                return
            second = self._classes[others[0]].centre.value if others else math.inf
            before = worked.centre.value
            found, complete = self.priced.values(worked.price, visited, second + PASSED * abs(second), seconds)
            for each, cut in found.items():
                self._classes[each].take(cut)
            report(self.bound())
            if visited not in found:  # no plan has these devices
                del self._classes[visited]
            elif complete:
                worked.end_round(before)

    def _search_for_all(self, seconds: Callable[[], float], report: Callable[[float], None], ceiling: float) -> None:
        """Search for the prices that are best for all plans together; from there, every class has to go less far."""
        every = self._all
        if every.price is None:
            if self._classes or not self.priced.is_possible():
                return
            self.priced.search_everywhere(self._first, seconds)
            every.price = self._promising(None, every, ceiling, seconds)
        while every.price is not None and seconds() > 0.0:
            found, complete = self.priced.values(every.price, None, math.inf, seconds)
            for each, cut in found.items():
                self._classes.setdefault(each, _Class(cut, cut.price)).take(cut)
            if not found or not complete:
                break
            before, least = every.centre.value, min(found.values(), key=lambda cut: cut.value)
            every.take(least)
            every.end_round(before)
            every.price = self._promising(None, every, ceiling, seconds)
            if every.price is None:
                for known in self._classes.values():
                    known.price = known.centre.price
            report(self.bound())
        report(self.bound())

    def bound(self) -> float:
        """The least bound of all classes."""
        return min((each.centre.value for each in self._classes.values()), default=0.0)

    def prices(self) -> list[FloatArray]:
        """The best prices of every class of plans, those with the least bounds first; each once."""
        classes = sorted(self._classes.values(), key=lambda each: each.centre.value)
        return list({each.centre.price.tobytes(): each.centre.price for each in classes}.values())

    def _promising(
        self, visited: int | None, worked: _Class, ceiling: float, seconds: Callable[[], float]
    ) -> FloatArray | None:
        """The prices near the best that promise most for a class; None if that is hardly more than what is proved."""
        centre = worked.centre.price
        room = worked.radius * np.maximum(centre, 0.1 * float(centre.max()))
        box = np.maximum(centre - room, 0.0), centre + room
        first = self.priced.tested(centre, visited, seconds)
        proved = first.value if worked.finished else worked.centre.value  # no more can be proved at these prices
        cuts, promises, searched = [first], {centre.tobytes(): first}, set[bytes]()
        for _ in range(PROMISES):
            name, best = max(promises.items(), key=lambda item: item[1].value)
            next_ = _highest(cuts, self._unit * self._scale, box, self._scale) if best.value < ceiling else None
            if next_ is not None and next_[0] > best.value + CLOSE * abs(best.value):
                price = self.priced.evened(next_[1], visited)
                cuts.append(self.priced.tested(price, visited, seconds))
            elif name not in searched:  # the promise may rest on windows whose good plans are not known
                self.priced.search_everywhere(best.price, seconds)
                searched.add(name)
                cuts.append(self.priced.promised(best.price, visited))
            else:
                break
            promises[cuts[-1].price.tobytes()] = cuts[-1]
            if seconds() <= 0.0:
                break
        best = max(promises.values(), key=lambda cut: cut.value)
        spent = worked.rounds >= ROUNDS or worked.radius < LEAST_RADIUS
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

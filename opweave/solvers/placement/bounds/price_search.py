"""The search for prices of memory: cutting planes, separately for every set of devices that run milestones.

The linear program over counts (:mod:`.counts`) equals the best bound at any prices (:mod:`.priced_windows`) with
windows in fractions. Its prices are the first; better ones follow by cutting planes.

Plans are divided into classes by the set of devices that run their milestones (:mod:`.visited`). Every plan is in one
class, so the least bound of all classes is a bound. The class with the least is worked on, at prices of its own. What a
price proves for other classes is kept.

Source: Kelley, "The cutting-plane method for solving convex programs".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray
from opweave.solvers.linear import LinearProgram, SparseRows, minimise
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import Memory
from opweave.solvers.placement.bounds.chain_bound import Milestones
from opweave.solvers.placement.bounds.priced_windows import REFUTED, SEARCHED, Chain, Cut

SHIFT = 100.0
"""Added to values so that the program's columns are not negative, in units of the first prices of all memory."""

ROUNDS = 40
"""Most price vectors that are tried."""

PROGRESS = 1e-4
"""Relative distance between the best bound and what the cuts still allow at which the search for prices ends."""

PASSED = 0.003
"""Relative distance by which the class of plans with the least bound has to pass the second before that is worked on.
At other prices, windows have to be solved again."""

FIRST_RADIUS = 0.15
"""Relative distance from the best prices up to which others are tried at first. It is halved when they are worse, and
doubled when they are better, so that a set whose devices are far too small is soon out of the way."""

LARGEST_RADIUS = 2.0
"""Distance up to which it is doubled when nothing near promises more."""


class PriceSearch:
    """The search for prices by cutting planes; it may stop at any time and go on later.

    Parameters
    ----------
    chain, arrays, memory
        The problem and its milestones.
    price
        First prices in seconds per byte; those of devices without a limit do not count. Shape (devices,).
    problem
        The whole problem, by which a search is found again.
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
        self._priced = Chain(chain, arrays, memory)
        self._first = np.where(self._priced.limited, price, 0.0)
        self._unit = np.where(self._priced.limited, 1.0 / np.maximum(self._priced.capacity, 1.0), 0.0)
        self._scale = max(float(self._first @ self._priced.capacity), 1e-300)
        self._classes: dict[int, _Class] = {}
        self._stage = SEARCHED

    def go_on(self, seconds: Callable[[], float], report: Callable[[float], None]) -> None:
        """Search until ``seconds``, the seconds left, are 0 or no prices promise more; report every bound.

        Costs of large windows are refuted when integer programs alone prove no more. The class of plans with the least
        bound is worked on: no other can raise the bound of all.
        """
        if not self._classes:
            found, _ = self._priced.values(self._first, -1, math.inf, self._stage, seconds)
            self._classes = {visited: _Class(cut) for visited, cut in found.items()}
        while self._classes and seconds() > 0.0:
            visited, *others = sorted(self._classes, key=lambda each: self._classes[each].centre.value)
            worked = self._classes[visited]
            if worked.done and self._stage == REFUTED:
                return
            if worked.done:  # with more work for every window, the best prices are near these
                self._stage = REFUTED
                self._classes = {each: _Class(known.centre) for each, known in self._classes.items()}
                continue
            second = self._classes[others[0]].centre.value if others else math.inf
            enough = second + PASSED * abs(second)
            found, complete = self._priced.values(worked.price, visited, enough, self._stage, seconds)
            for each, cut in found.items():
                self._classes[each].take(cut)
            report(min(each.centre.value for each in self._classes.values()))
            if visited not in found:  # no plan has these devices
                del self._classes[visited]
            elif complete:
                worked.learn(found[visited], self._unit, self._scale)


class _Class:
    """The plans whose milestones run on one set of devices: their best prices so far, and the next ones.

    Attributes
    ----------
    centre
        The best bound so far.
    price
        Prices to try next.
    done
        Whether no prices promise more.
    """

    def __init__(self, cut: Cut) -> None:
        self.centre, self.price, self.done = cut, cut.price, False
        self._radius, self._cuts = FIRST_RADIUS, list[Cut]()

    def take(self, cut: Cut) -> None:
        """Take in a bound at some prices."""
        if cut.value > self.centre.value:
            self.centre = cut

    def learn(self, cut: Cut, unit: FloatArray, scale: float) -> None:
        """Choose the next prices after a bound at :attr:`price`.

        The best bound may come from work on another class. Its prices are tried before the search ends.
        """
        if self._cuts and cut is not self.centre:
            self._radius *= 0.5
        elif self._cuts:
            self._radius *= 2.0
        self._cuts.append(cut)
        centre, found = self.centre, self._promised(unit, scale)
        while not self._is_worth(found) and self._radius < LARGEST_RADIUS:
            self._radius *= 2.0  # prices so near promise little even where others are far better
            found = self._promised(unit, scale)
        if found is None or not self._is_worth(found) or len(self._cuts) >= ROUNDS:
            self.done = bool((self.price == centre.price).all())
            self.price = centre.price
        else:
            self.price = found[1]

    def _promised(self, unit: FloatArray, scale: float) -> tuple[float, FloatArray] | None:
        """The prices near the best at which all cuts together allow most, and that value."""
        price = self.centre.price
        room = self._radius * np.maximum(price, 0.1 * float(price.max()))
        return _highest(self._cuts, unit * scale, (np.maximum(price - room, 0.0), price + room), scale)

    def _is_worth(self, found: tuple[float, FloatArray] | None) -> bool:
        return found is not None and found[0] > self.centre.value + PROGRESS * abs(self.centre.value)


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
    return (-solved.value - SHIFT) * scale, solved.point[:devices] * unit

"""The columns of the program over cuts, and the expressions that side constraints may use."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import Key, LinearModel
from opweave.formulations.slicing.instance import SlicingInstance
from opweave.problems.arrays import FloatArray
from opweave.problems.slicing.spec import Slices

LEAST_UNIT = 1e-300
"""Seconds; quotients by less could be too large for a number."""

UNITS = 1000.0
"""Units of time in a good solution."""

MOST_UNITS = 1e7
"""Most units of time in the longest transfer or whole operator; engines fail with larger numbers."""

DUST = 1e-8
"""Terms of a time that never reach this many units are left out; a unit is a thousandth of a good solution."""

SMALLEST = 1e-7
"""Smallest coefficient of a row over times; engines read 1e-9 and less as 0."""

ZERO = Linear()
ONE = Linear(1)


@dataclass(eq=False)
class CutModel(LinearModel):
    """The program, and the data from which it was written; the cost is in units of :attr:`unit` seconds.

    Attributes
    ----------
    chosen
        (operator, mode) -> 1 if the operator is cut along that mode.
    cuts
        (operator, mode) -> its cuts, devices + 1 of them; all are 0 if another mode is chosen.
    active
        (operator, mode, device) -> 1 if the device computes a part.
    """

    instance: SlicingInstance
    chosen: dict[tuple[int, int], Linear] = field(default_factory=dict)
    cuts: dict[tuple[int, int], list[Linear]] = field(default_factory=dict)
    active: dict[tuple[int, int, int], Linear] = field(default_factory=dict)

    def whole_to(self, high: float, name: str = "n", key: Key = None) -> Linear:
        """Add an integer column from 0 to ``high``; a column without a name gets a number."""
        return Linear.of(int(self.wholes(name, (len(self) if name == "n" else key,), 0.0, high)[0]))

    def real_to(self, high: float, name: str = "r", key: Key = None) -> Linear:
        """Add a continuous column from 0 to ``high``; a column without a name gets a number."""
        return Linear.of(int(self.reals(name, (len(self) if name == "r" else key,), 0.0, high)[0]))

    def least(self, linear: Linear) -> float:
        """Least value within the columns' bounds."""
        return linear.constant + sum(min(0.0, factor) * self.high[i] for i, factor in linear.terms.items())

    def most(self, linear: Linear) -> float:
        """Largest value within the columns' bounds."""
        return -self.least(-linear)

    def at_most(self, family: str, small: Linear, large: Linear | float) -> None:
        """Add a row ``small <= large``."""
        self.rows(family).add(small <= large)

    def modes(self, v: int) -> list[int]:
        """Modes that an operator may have."""
        return [mode for mode in (0, 1) if self.instance.length[v, mode] > 0]

    def takes_part(self, v: int, k: int) -> Linear:
        """1 if device k computes a part of operator v."""
        return total(self.active[v, mode, k] for mode in self.modes(v))

    def on(self, op: str, device: str) -> Linear:
        """1 if ``device`` computes a part of operator ``op``, otherwise 0."""
        v = self.instance.names.index(op)
        return self.takes_part(v, self.instance.devices.index(device))

    def share(self, op: str, device: str) -> Linear:
        """The share of operator ``op`` that ``device`` computes: its rows or channels among all of them."""
        v, k = self.instance.names.index(op), self.instance.devices.index(device)
        length = self.instance.length[v]
        return total((self.cuts[v, m][k + 1] - self.cuts[v, m][k]) / float(length[m]) for m in self.modes(v))

    def uses(self, device: str) -> Linear:
        """1 if ``device`` computes a part of any operator, otherwise 0."""
        return Linear.of(self.any_column("used", device, (self.on(op, device) for op in self.instance.names)))

    def known(self, solution: Slices) -> dict[int, float]:
        """The modes, cuts and participation of a solution, by column."""
        found: dict[int, float] = {}

        def note(linear: Linear, value: float) -> None:
            for column, factor in linear.terms.items():
                found[column] = (value - linear.constant) / factor

        chosen, cuts = self.instance.plan(solution)
        for (v, mode), points in self.cuts.items():
            on = mode == chosen[v]
            if self.chosen[v, mode].terms:
                note(self.chosen[v, mode], float(on))
            for k, point in enumerate(points[1:-1], start=1):
                note(point, float(cuts[v, k]) if on else 0.0)
            for k in range(len(points) - 1):
                note(self.active[v, mode, k], float(on and cuts[v, k] < cuts[v, k + 1]))
        return found

    def plan(self, values: FloatArray) -> Slices:
        """The solution whose cuts the columns' values give."""
        instance = self.instance
        mode = np.zeros(instance.operators, dtype=np.int64)
        cuts = np.zeros((instance.operators, len(instance.devices) + 1), dtype=np.int64)
        for v in range(instance.operators):
            weights = {m: self.chosen[v, m].at(values) for m in self.modes(v)}
            mode[v] = max(weights, key=lambda m: weights[m])
            cuts[v] = [round(cut.at(values)) for cut in self.cuts[v, int(mode[v])]]
        return instance.solution(mode, cuts)


def unit_of(instance: SlicingInstance, ceiling: float | None) -> float:
    """A thousandth of a good solution in seconds, so that the absolute tolerances of engines are small in comparison.

    The good solution is a known one of ``ceiling`` seconds; without one, every operator is given whole to the device
    that runs it soonest. Transfers, memory or side constraints may exclude that, so the longest time also counts then.
    """
    if ceiling is not None and ceiling > 0.0:
        return max(ceiling / UNITS, LEAST_UNIT)
    rate = np.where(instance.rate > 0.0, instance.rate, np.inf)
    whole = instance.intercept + instance.slope
    sent = instance.tensor[instance.producer >= 0]
    largest = float((instance.cell * instance.channels * instance.rows)[sent].max(initial=0))
    waits = (instance.latency + largest / rate) if largest > 0.0 else np.zeros(len(rate))
    longest = max(float(whole[np.isfinite(whole)].max(initial=0.0)), float(waits.max()))
    quick = float(whole.min(axis=1).sum())
    return max(quick / UNITS, longest / MOST_UNITS) or 1.0


def without_dust(written: CutModel, time: Linear) -> Linear:
    """Leave out negligible terms of a time, because engines refuse their coefficients."""
    kept = {i: each for i, each in time.terms.items() if abs(each) * written.high[i] > DUST}
    return Linear(time.constant, kept)


def readable(time: Linear, end: Linear) -> tuple[Linear, Linear]:
    """Both sides of ``time <= end``, scaled up so that engines lose no coefficient."""
    smallest = min((abs(each) for each in time.terms.values() if each), default=1.0)
    factor = max(1.0, SMALLEST / smallest)
    return time * factor, end * factor

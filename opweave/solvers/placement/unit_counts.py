"""A small program over counts: how many units of a kind take which plan. It also gives prices of memory.

Columns: n[s,o] units of kind s that take option o; u[s,d] kind s has a home on d; m[s,d] kinds s and s + 1 meet on d;
c[s] they meet on no device. Rows:

* sum_o n[s,o] = number of units of the kind; u[s,d] <= sum of n over options at home on d <= that number x u[s,d]
* m[s,d] <= u[s,d], m[s,d] <= u[s+1,d], sum_d m[s,d] + c[s] = 1
* device k: sum bytes[s,o,k] n[s,o] <= its memory

The objective is the time of all units plus the time of switching homes: one switch for every home of a kind but the
first, and one for every c. It is minimised. The dual prices of memory of the linear relaxation show which further plans
would help (column generation).

Source: M3, the integer program over counts of options; Gilmore and Gomory, "A linear programming approach to the
cutting-stock problem" (columns by prices).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.solvers.linear import LinearProgram, SparseRows, minimise
from opweave.solvers.placement.unit_plans import Option
from opweave.solvers.run import time_left
from opweave.solvers.tree import whole_point

FULL = 100.0
"""Units of memory per device."""

CLOSE = 1e-4
"""Relative gap at which the integer program stops; the layout adds more than this."""


class Prices(NamedTuple):
    """Optimum of the relaxation in seconds, and its dual prices of memory: seconds per byte on every device."""

    seconds: float
    memory: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Kinds of units in chain order.

    Attributes
    ----------
    times
        Number of units of every kind.
    options
        The plans that every kind can choose from.
    switch
        Seconds to switch from one home to another where a unit of this kind begins.
    """

    times: list[int]
    options: list[list[Option]]
    switch: list[float]


class _Program:
    """The rows and columns."""

    def __init__(self, kinds: Kinds, capacity: IntArray) -> None:
        self.kinds, self.devices = kinds, len(capacity)
        count = len(kinds.times)
        sizes = [len(options) for options in kinds.options]
        self.first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        chosen = int(self.first[-1])
        self.used = chosen + np.arange(count * self.devices).reshape(count, self.devices)
        self.meets = self.used.size + chosen + np.arange((count - 1) * self.devices).reshape(-1, self.devices)
        self.parted = chosen + self.used.size + self.meets.size + np.arange(count - 1)
        self.columns = chosen + self.used.size + self.meets.size + count - 1
        self.equal, self.most = SparseRows(), SparseRows()
        self.limited = np.flatnonzero(capacity != NO_LIMIT)
        self.unit = FULL / np.maximum(capacity[self.limited].astype(np.float64), 1.0)
        self._memory()
        self._choices()
        self._meetings()

    def _memory(self) -> None:
        """First rows of ``most``: one row for every device with a memory limit."""
        rows = self.most.open(np.full(len(self.limited), FULL))
        for s, options in enumerate(self.kinds.options):
            bytes_ = np.asarray([option.bytes[self.limited] for option in options])
            columns = np.arange(self.first[s], self.first[s + 1])
            self.most.put(rows[None, :], columns[:, None], bytes_.reshape(len(options), -1) * self.unit)

    def _choices(self) -> None:
        """First rows of ``equal``: every unit takes one option."""
        self.equal.open(np.asarray(self.kinds.times, dtype=np.float64))
        for s, options in enumerate(self.kinds.options):
            columns = np.arange(self.first[s], self.first[s + 1])
            self.equal.put(np.asarray([s]), columns, 1.0)
            rows = self.most.open(np.zeros(self.devices))
            self.most.put(rows[[option.home for option in options]], columns, 1.0)
            self.most.put(rows, self.used[s], -float(self.kinds.times[s]))
            rows = self.most.open(np.zeros(self.devices))
            self.most.put(rows[[option.home for option in options]], columns, -1.0)
            self.most.put(rows, self.used[s], 1.0)

    def _meetings(self) -> None:
        for s in range(len(self.kinds.times) - 1):
            for neighbour in (s, s + 1):
                rows = self.most.open(np.zeros(self.devices))
                self.most.put(rows, self.meets[s], 1.0)
                self.most.put(rows, self.used[neighbour], -1.0)
            row = self.equal.open(np.ones(1))
            self.equal.put(row, self.meets[s], 1.0)
            self.equal.put(row, self.parted[s : s + 1], 1.0)

    def linear(self) -> LinearProgram:
        """The linear relaxation; the cost of every column is in seconds."""
        cost, upper = np.zeros(self.columns), np.ones(self.columns)
        cost[: self.first[-1]] = [option.seconds for options in self.kinds.options for option in options]
        cost[self.used] = np.asarray(self.kinds.switch)[:, None]
        cost[self.parted] = self.kinds.switch[1:]
        upper[: self.first[-1]] = np.repeat(self.kinds.times, np.diff(self.first))
        return LinearProgram.of(cost, upper, self.most, self.equal)


def prices_of(kinds: Kinds, capacity: IntArray) -> Prices | None:
    """Dual prices of the linear relaxation; None when even that has no solution, as where a kind has no plan yet."""
    if not all(kinds.options):
        return None
    program = _Program(kinds, capacity)
    found = minimise(program.linear(), time_left(np.inf))
    if found is None:
        return None
    memory = np.zeros(program.devices)
    memory[program.limited] = np.maximum(0.0, -found.most_price[: len(program.limited)]) * program.unit
    return Prices(found.value, memory)


def best_counts(kinds: Kinds, capacity: IntArray, time_limit: float) -> list[IntArray] | None:
    """Number of units of every kind that take each option; None when no choice fits or time was too short.

    Parameters
    ----------
    kinds
        The kinds of units with their options.
    capacity
        Bytes of every device.
    time_limit
        Seconds for the integer program.
    """
    if not all(kinds.options):
        return None
    program = _Program(kinds, capacity)
    linear = program.linear()
    scaled = replace(linear, cost=linear.cost / max(float(linear.cost.max(initial=0.0)), 1e-300))
    found = whole_point(scaled, np.ones(len(linear.cost), dtype=bool), time_limit, mip_rel_gap=CLOSE)
    if found is None:
        return None
    whole = np.round(found[: program.first[-1]]).astype(np.int64)
    counts = np.split(whole, program.first[1:-1])
    return counts if [int(each.sum()) for each in counts] == kinds.times else None  # the plan is checked for memory

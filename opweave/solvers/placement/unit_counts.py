"""A small program over counts: how many units of a kind take which plan. It also gives prices of memory.

Columns: n[s,o] units of kind s that take option o; w[s,a,b] times that the chain switches from device a to b before a
unit of kind s; e[s,d] the chain is on d where the units of kind s begin (after the last kind: where it ends). Rows:

* sum_o n[s,o] = number of units of the kind; sum_d e[s,d] = 1
* the chain enters a device as often as it leaves it: e[s,d] + switches and crossing options of kind s that lead to d =
  e[s+1,d] + those that lead away from it
* options that begin and end on d: sum of n <= number of units x (e[s,d] + switches and crossing options that lead to d)
* an option follows every switch: those that lead to d <= sum of n over options that begin there
* device k: sum bytes[s,o,k] n[s,o] <= its memory

The objective is the time of all units plus the time of all switches. It is minimised. The dual prices of memory of the
linear relaxation show which further plans would help (column generation). A walk through the devices takes all options
of a solution unless some form a circle of their own; these cost a detour when they are laid out.

Source: M3, the integer program over counts of options; Gilmore and Gomory, "A linear programming approach to the
cutting-stock problem" (columns by prices).
"""

from __future__ import annotations

from collections.abc import Sequence
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
    links
        Seconds to switch from device to device where a unit of this kind begins; inf without a link. Shape (K, K) each.
    """

    times: list[int]
    options: list[list[Option]]
    links: list[FloatArray]


class Choice(NamedTuple):
    """A solution of the program.

    Attributes
    ----------
    counts
        Number of units of every kind that take each option.
    begins
        Device on which every kind begins. Shape (kinds,).
    switches
        Number of switches before units of every kind. Shape (kinds, K, K).
    """

    counts: list[IntArray]
    begins: IntArray
    switches: IntArray


class _Program:
    """The rows and columns."""

    def __init__(self, kinds: Kinds, capacity: IntArray) -> None:
        self.kinds, self.devices = kinds, len(capacity)
        count, devices = len(kinds.times), len(capacity)
        self.first = np.concatenate([[0], np.cumsum([len(options) for options in kinds.options])]).astype(np.int64)
        chosen = int(self.first[-1])
        self.switched = chosen + np.arange(count * devices**2).reshape(count, devices, devices)
        self.begun = chosen + self.switched.size + np.arange((count + 1) * devices).reshape(count + 1, devices)
        self.columns = chosen + self.switched.size + self.begun.size
        self.equal, self.most = SparseRows(), SparseRows()
        self.limited = np.flatnonzero(capacity != NO_LIMIT)
        self.unit = FULL / np.maximum(capacity[self.limited].astype(np.float64), 1.0)
        self._memory()
        self._choices()
        for s in range(count):
            self._walk(s)

    def _memory(self) -> None:
        """First rows of ``most``: one row for every device with a memory limit."""
        rows = self.most.open(np.full(len(self.limited), FULL))
        for s, options in enumerate(self.kinds.options):
            bytes_ = np.asarray([option.bytes[self.limited] for option in options])
            columns = np.arange(self.first[s], self.first[s + 1])
            self.most.put(rows[None, :], columns[:, None], bytes_.reshape(len(options), -1) * self.unit)

    def _choices(self) -> None:
        """First rows of ``equal``: every unit takes one option; then the chain begins each kind on one device."""
        rows = self.equal.open(np.asarray(self.kinds.times, dtype=np.float64))
        for s in range(len(rows)):
            self.equal.put(rows[s : s + 1], np.arange(self.first[s], self.first[s + 1]), 1.0)
        self.equal.put(self.equal.open(np.ones(len(self.begun)))[:, None], self.begun, 1.0)

    def _walk(self, s: int) -> None:
        """The walk of the chain through the units of a kind."""
        options, times = self.kinds.options[s], float(self.kinds.times[s])
        entered = np.asarray([option.entered for option in options], dtype=np.int64)
        home = np.asarray([option.home for option in options], dtype=np.int64)
        columns, crosses = np.arange(self.first[s], self.first[s + 1]), entered != home
        apart = ~np.eye(self.devices, dtype=bool)
        source, target = np.nonzero(apart)
        arcs = self.switched[s][apart]
        flow, loops = self.equal.open(np.zeros(self.devices)), self.most.open(np.zeros(self.devices))
        self.equal.put(flow, self.begun[s], 1.0)
        self.equal.put(flow, self.begun[s + 1], -1.0)
        self.most.put(loops, self.begun[s], -times)
        for to, away, taken in ((target, source, arcs), (home[crosses], entered[crosses], columns[crosses])):
            self.equal.put(flow[to], taken, 1.0)
            self.equal.put(flow[away], taken, -1.0)
            self.most.put(loops[to], taken, -times)
        self.most.put(loops[home[~crosses]], columns[~crosses], 1.0)
        after = self.most.open(np.zeros(self.devices))
        self.most.put(after[target], arcs, 1.0)
        self.most.put(after[entered], columns, -1.0)

    def linear(self) -> LinearProgram:
        """The linear relaxation; the cost of every column is in seconds."""
        cost, upper = np.zeros(self.columns), np.ones(self.columns)
        cost[: self.first[-1]] = [option.seconds for options in self.kinds.options for option in options]
        upper[: self.first[-1]] = np.repeat(self.kinds.times, np.diff(self.first))
        links = np.asarray(self.kinds.links)
        cost[self.switched] = np.where(np.isfinite(links), links, 0.0)
        upper[self.switched] = np.where(np.isfinite(links), np.asarray(self.kinds.times)[:, None, None], 0.0)
        return LinearProgram.of(cost, upper, self.most, self.equal)


def walked(options: Sequence[Option], chosen: Sequence[int], choice: Choice, kind: int) -> list[int]:
    """The chosen options of a kind in the order in which a walk through the devices meets them.

    Where it arrives for the first time, the walk takes all options that stay there. What it does not meet comes last.

    Examples
    --------
    >>> nothing, none = np.zeros(0), np.zeros(0, dtype=np.int64)
    >>> options = [Option(a, b, 1.0, nothing, none, none) for a, b in ((1, 1), (0, 1), (0, 0))]
    >>> walked(options, [0, 0, 1, 2], Choice([], np.zeros(1, dtype=np.int64), np.zeros((1, 2, 2), dtype=np.int64)), 0)
    [2, 1, 0, 0]
    """
    loops, arcs = dict[int, list[int]](), dict[int, list[tuple[int, int]]]()
    for o in chosen:
        entered, home = options[o].entered, options[o].home
        if entered == home:
            loops.setdefault(home, []).append(o)
        else:
            arcs.setdefault(entered, []).append((home, o))
    for a, b in np.argwhere(choice.switches[kind] > 0).tolist():
        arcs.setdefault(a, []).extend([(b, -1)] * int(choice.switches[kind][a, b]))
    stack, path = [(int(choice.begins[kind]), -1)], list[tuple[int, int]]()
    while stack:  # Hierholzer: the walk is found from its end
        if arcs.get(stack[-1][0]):
            stack.append(arcs[stack[-1][0]].pop())
        else:
            path.append(stack.pop())
    found: list[int] = []
    for device, o in reversed(path):
        found += [] if o < 0 else [o]
        found += loops.pop(device, [])
    left = [o for others in arcs.values() for _, o in others if o >= 0]
    return [*found, *left, *(o for others in loops.values() for o in others)]


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


def best_counts(kinds: Kinds, capacity: IntArray, time_limit: float) -> Choice | None:
    """How many units of every kind take each option; None when no choice fits or time was too short.

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
    whole = np.round(found).astype(np.int64)
    counts = np.split(whole[: program.first[-1]], program.first[1:-1])
    if [int(each.sum()) for each in counts] != kinds.times:
        return None
    return Choice(counts, whole[program.begun[:-1]].argmax(axis=1), whole[program.switched])  # memory is checked later

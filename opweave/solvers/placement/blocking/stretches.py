"""What calls take that run a stretch of a path or of an order: computing, transfers and memory, as tables."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from opweave.formulations.placement.calls import CallInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatMatrix, IntArray
from opweave.problems.graph_arrays import topological_order
from opweave.solvers.rounding import SUMMATION

SOME = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Which of all prices of memory are tried, as shares of them in ascending order."""

MOST_LOOKED = 2_000
"""Most choices of what is brought in that are looked at for one stretch."""


def own_bytes(instance: CallInstance) -> FloatArray:
    """Bytes that every operator alone makes its device hold. Shape (operators,)."""
    whole = instance.whole
    held = whole.memory.astype(np.float64)
    users = np.bincount(whole.parameters.items, minlength=len(whole.parameter_bytes))
    size = np.where(users == 1, whole.parameter_bytes, 0).astype(np.float64)
    np.add.at(held, whole.parameters.heads(), size[whole.parameters.items])
    return held


class Stretches:
    """What stretches of a sequence take. Entry [i, j] of a table is about the stretch from i to j.

    The sequence is a path of the graph, or all operators in an order that their data allow, in blocks. An operator is
    between i and j if its ``below`` is at least i and its ``above`` at most j.

    Parameters
    ----------
    below, above
        On a path: the last position that comes before the operator or is its own, and the first that comes behind it or
        is its own; -1 and the length if there is none. In an order: the operator's block, both times. Shape
        (operators,).
    group
        Operators of one group are in one call.
    """

    def __init__(
        self, instance: CallInstance, length: int, below: IntArray, above: IntArray, group: IntArray | None = None
    ) -> None:
        self.instance, self.length, self.below, self.above = instance, length, below, above
        group = np.arange(instance.operators) if group is None else group
        count = np.bincount(group, minlength=int(group.max(initial=-1)) + 1)
        self.between = (below >= 0) & (above < length) & (count[group] == 1)
        rows: dict[int, list[int]] = {}
        for v in np.flatnonzero(count[group] > 1).tolist():
            rows.setdefault(int(group[v]), []).append(v)
        self.tied = [(np.array(row), self._reach(np.array(row))) for row in rows.values()]
        self.tie = np.full(instance.operators, -1, dtype=np.int64)
        for number, (members, _) in enumerate(self.tied):
            self.tie[members] = number

    def _reach(self, members: IntArray) -> IntArray:
        """For every i, the first j whose stretch has one of the operators between i and j; the length if none has."""
        first = np.full(self.length + 1, self.length, dtype=np.int64)
        there = members[self.below[members] >= 0]
        np.minimum.at(first, self.below[there], self.above[there])
        reach = np.minimum.accumulate(first[::-1])[::-1][: self.length]
        return np.where(reach < self.length, np.maximum(reach, np.arange(self.length)), self.length)

    def _in_call(self, members: IntArray) -> IntArray:
        """As :meth:`_reach`, for operators that are between i and j or tied to one that is."""
        reach = self._reach(members)
        for number in {*self.tie[members].tolist()} - {-1}:
            reach = np.minimum(reach, self.tied[number][1])
        return reach

    def _sums(self, weights: FloatArray) -> FloatMatrix:
        """The sum of weights of operators between i and j, and of those tied to them."""
        table = np.zeros((self.length, self.length))
        np.add.at(table, (self.below[self.between], self.above[self.between]), weights[self.between])
        table = np.cumsum(table[::-1], axis=0)[::-1].copy()
        for members, reach in self.tied:
            there = np.flatnonzero(reach < self.length)
            table[there, reach[there]] += weights[members].sum()
        return np.cumsum(table, axis=1)

    def seconds(self, k: int) -> FloatMatrix:
        """Least seconds of every stretch on accelerator k; inf if it cannot run it."""
        seconds = self.instance.seconds[:, k]
        known = np.isfinite(seconds)
        table = self._sums(np.where(known, seconds, 0.0))
        table += self._brought(self.instance.bring[:, k]) + self._given(self.instance.give[:, k])
        table[self._sums(np.where(known, 0.0, 1.0)) > 0.0] = np.inf
        table[self.held * (1.0 - SUMMATION) > self.capacity(k)] = np.inf
        for members, reach in self.tied:  # nothing in the call is before or behind the stretch
            first, last = int(self.above[members].min()), int(self.below[members].max())
            for i in np.flatnonzero(reach < self.length).tolist():
                table[i, reach[i] : self.length if first < i else max(reach[i], last)] = np.inf
        table[np.tril_indices(self.length, -1)] = np.inf
        return table

    def capacity(self, k: int) -> float:
        """Bytes of an accelerator."""
        capacity = int(self.instance.whole.capacity[self.instance.accelerators[k]])
        return math.inf if capacity == NO_LIMIT else float(capacity)

    @cached_property
    def held(self) -> FloatMatrix:
        """Bytes that every stretch holds."""
        return self._sums(self.instance.whole.memory.astype(np.float64)) + self._parameters()

    def beside(self, k: int) -> FloatMatrix:
        """Least seconds for what a stretch reads that is neither before nor in it; 0 in an order.

        The call brings it in, or runs what makes it. At a price for memory, it pays for that in the second case, and
        memory that is left is refunded; every price gives a lower bound.
        """
        extra = np.zeros((self.length, self.length))
        for price in self._prices(k):
            if price == 0.0 or math.isfinite(self.capacity(k)):
                left = 0.0 if price == 0.0 else price * (self.capacity(k) - self.held * (1.0 - SUMMATION))
                np.maximum(extra, self._optional(k, price) * (1.0 - SUMMATION) - left, out=extra)
        return extra

    def beside_exactly(self, k: int, i: int, j: int) -> float:
        """As :meth:`beside` for one stretch, with the best choice of what is brought in.

        Operators that are tied together are brought in, or run, all at once.
        """
        _, inner, bring = self._either(k, 0.0)
        able = [v for v, reach, forced in self.choices if reach[i] <= j < forced[i]]
        things: dict[tuple[int, int], list[int]] = {}
        for v in able:
            things.setdefault((-1, v) if self.tie[v] < 0 else (int(self.tie[v]), -1), []).append(v)
        rows = []
        for (tie, _), members in things.items():
            whole = members if tie < 0 else self.tied[tie][0].tolist()
            apart = self.above[whole].min() < i or self.below[whole].max() > j  # its call is another one
            drawn = sum(float(self.instance.seconds[v, k]) for v in whole if v not in members)
            run = math.inf if apart else sum(float(inner[v]) for v in members) + drawn
            rows.append((sum(float(self._own[v]) for v in whole), float(bring[members].sum()), run))
        size, outside, running = np.array(rows, dtype=np.float64).reshape(-1, 3).T
        least = np.minimum(running, outside)
        known = np.isfinite(least)
        saved = np.where(known & np.isfinite(outside), np.maximum(0.0, outside - least), 0.0)[known]
        room = self.capacity(k) - float(self.held[i, j]) * (1.0 - SUMMATION)
        best = most_saved(size[known], saved, room) * (1.0 + SUMMATION)
        return float((least[known] + saved).sum()) * (1.0 - SUMMATION) - best

    def _prices(self, k: int) -> list[float]:
        """Prices at which bringing something in costs as much as the memory for what makes it, for some of them."""
        makers = self.instance.producer
        own, bring = self._own[makers], self.instance.bring[:, k]
        able = (own > 0.0) & (bring > 0.0) & np.isfinite(bring) & (self.below[makers] < self.above[makers])
        ratios = np.quantile(bring[able] / own[able], SOME) if able.any() else np.zeros(0)
        return [0.0, *np.unique(ratios).tolist()]

    @cached_property
    def last_read(self) -> IntArray:
        """The last ``below`` of the readers of every tensor, or of what is tied to them. Shape (tensors,)."""
        readers, below = self.instance.readers, self.below.copy()
        for members, _ in self.tied:
            below[members] = below[members].max()
        return np.asarray(np.maximum.reduceat(below[readers.items], readers.start[:-1]), dtype=np.int64)

    @cached_property
    def _own(self) -> FloatArray:
        return own_bytes(self.instance)

    @cached_property
    def choices(self) -> list[tuple[int, IntArray, IntArray]]:
        """Operators that may be beside a stretch that reads what they make.

        With them, for every i, come the first j from which on the stretch reads it, and the first j from which on the
        operator is in the call because it is tied to one that is.
        """
        instance, found = self.instance, list[tuple[int, IntArray, IntArray]]()
        never = np.full(self.length, self.length, dtype=np.int64)
        last = np.full(instance.operators, -1, dtype=np.int64)
        np.maximum.at(last, instance.producer, np.minimum(self.last_read, self.length))
        for v in np.flatnonzero((last > self.below) & (self.below < self.above)).tolist():
            reach = self._reach(np.concatenate([instance.readers[t] for t in instance.outputs[v].tolist()]))
            reach[: self.below[v] + 1] = self.length
            reach[self.above[v] + 1 :] = self.length
            found.append((v, reach, never if self.tie[v] < 0 else self.tied[self.tie[v]][1]))
        return found

    def _optional(self, k: int, price: float) -> FloatMatrix:
        """What a stretch pays at a price of memory for inputs that are neither before nor in it."""
        table, apart = (np.zeros((self.length, self.length)) for _ in range(2))
        cost, _, _ = self._either(k, price)
        for v, reach, forced in self.choices:
            if cost[v] > 0.0 and np.isfinite(cost[v]):
                rows = np.flatnonzero(reach < self.length)
                if self.tie[v] < 0:
                    table[rows, reach[rows]] += cost[v]
                    continue
                for i in rows.tolist():
                    apart[i, reach[i] : forced[i]] += cost[v]
        return np.cumsum(table, axis=1) + apart

    def _either(self, k: int, price: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Least cost of an input of a call, and of its two ways: run and hold what makes it, or bring it in.

        The first way pays for the inputs of the maker in turn, as far as nothing else reads them. Those that are tied
        to other operators are left out, because the call may have them anyway. Shape (operators,) each.
        """
        instance = self.instance
        inner = instance.seconds[:, k] + price * self._own
        cost, bring = np.zeros(instance.operators), np.zeros(instance.operators)
        after, outputs = instance.whole.after, instance.outputs
        for v in topological_order(after).tolist():
            made = outputs[v]
            if len(made):
                bring[v] = instance.bring[made, k].min()
                cost[v] = min(bring[v], inner[v])
                if len(after[v]) == 1 and self.tie[v] < 0:
                    inner[after[v][0]] += cost[v]
        return cost, inner, bring

    def _brought(self, seconds: FloatArray) -> FloatMatrix:
        """Transfers of tensors that are made before i and read in the call."""
        table = np.zeros((self.length, self.length))
        made = self.above[self.instance.producer]
        for t in np.flatnonzero((made < self.last_read) & (seconds > 0.0)).tolist():
            reach = self._in_call(self.instance.readers[t])
            there = made[t] + 1 + np.flatnonzero(reach[made[t] + 1 :] < self.length)
            table[there, reach[there]] += seconds[t]
        return np.cumsum(table, axis=1)

    def _given(self, seconds: FloatArray) -> FloatMatrix:
        """Transfers of tensors that are made in the call and read behind j."""
        table, apart = (np.zeros((self.length, self.length)) for _ in range(2))
        makers = self.instance.producer
        below, above, tie = (each[makers] for each in (self.below, self.above, self.tie))
        there = (tie >= 0) | ((below >= 0) & (above < self.last_read))
        for t in np.flatnonzero(there & (seconds > 0.0)).tolist():
            last = int(self.last_read[t])
            if tie[t] < 0:
                table[below[t], above[t] : last] += seconds[t]
                continue
            forced = self.tied[tie[t]][1]
            for i in np.flatnonzero(forced < last).tolist():
                apart[i, forced[i] : last] += seconds[t]
        return np.cumsum(table[::-1], axis=0)[::-1] + apart

    def _parameters(self) -> FloatMatrix:
        """Bytes of the parameters of operators between i and j, each once."""
        whole = self.instance.whole
        table = np.zeros((self.length, self.length))
        users = whole.parameters.reversed(len(whole.parameter_bytes))
        for p in np.flatnonzero(whole.parameter_bytes > 0).tolist():
            reach = self._in_call(users[p])
            there = np.flatnonzero(reach < self.length)
            table[there, reach[there]] += float(whole.parameter_bytes[p])
        return np.cumsum(table, axis=1)


def most_saved(sizes: FloatArray, savings: FloatArray, room: float) -> float:
    """Most that things save which fit together; more than that if there are too many to find out.

    Examples
    --------
    >>> most_saved(np.array([3.0, 2.0, 2.0]), np.array([4.0, 2.5, 2.5]), 4.0)
    5.0
    """
    free = (sizes <= 0.0) & (savings > 0.0)
    able = np.flatnonzero((sizes > 0.0) & (sizes <= room) & (savings > 0.0))
    order = able[np.argsort(-savings[able] / sizes[able], kind="stable")]
    size: list[float] = sizes[order].tolist()
    gain: list[float] = savings[order].tolist()

    def relaxed(at: int, left: float) -> float:
        total = 0.0
        for s, g in zip(size[at:], gain[at:], strict=True):
            if s > left:
                return total + g * left / s
            left, total = left - s, total + g
        return total

    best, looked = 0.0, 0
    stack = [(0, room, 0.0)]
    while stack:
        at, left, won = stack.pop()
        looked += 1
        best = max(best, won)
        if looked > MOST_LOOKED:
            best = relaxed(0, room)
            break
        if at < len(size) and won + relaxed(at, left) > best:
            stack.append((at + 1, left, won))
            if size[at] <= left:
                stack.append((at + 1, left - size[at], won + gain[at]))
    return best + float(savings[free].sum())


Stretch = tuple[int, int, int]
"""Class of the accelerator, first position, and the position behind the last one."""


def cheapest(tables: list[FloatMatrix], most: list[int | None], host: FloatArray) -> tuple[float, list[Stretch]]:
    """Stretches for calls with which the sum over calls and positions on the host is least, and the sum.

    Parameters
    ----------
    tables
        Seconds of every stretch, for every class of accelerators.
    most
        Most calls of every class; None for any number.
    host
        Seconds of every position on the host.
    """
    shape, length = [1 if number is None else number + 1 for number in most], len(host)
    states = math.prod(shape)
    counts = np.stack(np.unravel_index(np.arange(states), shape), axis=1) if shape else np.zeros((1, 0), dtype=np.int64)
    strides = [0 if number is None else math.prod(shape[c + 1 :]) for c, number in enumerate(most)]
    least = np.full((states, length + 1), np.inf)
    least[0, 0] = 0.0
    by, since = (np.full((states, length + 1), -1, dtype=np.int64) for _ in range(2))
    for i in range(1, length + 1):
        least[:, i] = least[:, i - 1] + host[i - 1]
        for c, table in enumerate(tables):
            able = np.flatnonzero((counts[:, c] > 0) | (most[c] is None))
            if not len(able):
                continue
            sums = least[able - strides[c], :i] + table[:i, i - 1]
            j = sums.argmin(axis=1)
            value = sums[np.arange(len(able)), j]
            better = value < least[able, i]
            least[able[better], i], by[able[better], i], since[able[better], i] = value[better], c, j[better]
    state, i, found = int(least[:, length].argmin()), length, list[Stretch]()
    value = float(least[state, length])
    while i > 0 and math.isfinite(value):
        c = int(by[state, i])
        if c < 0:
            i -= 1
            continue
        found.append((c, int(since[state, i]), i))
        state, i = state - strides[c], int(since[state, i])
    return value, found

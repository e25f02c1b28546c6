"""What calls take that run a stretch of a path or of an order: computing, transfers and memory, as tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opweave.formulations.placement.calls import CallInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatMatrix, IntArray
from opweave.problems.graph_arrays import topological_order
from opweave.solvers.rounding import SUMMATION

SOME = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Which of all prices of memory are tried, as shares of them in ascending order."""


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

    def _sums(self, weights: FloatArray) -> FloatMatrix:
        """The sum of weights of operators between i and j, and of those tied to them."""
        table = np.zeros((self.length, self.length))
        np.add.at(table, (self.below[self.between], self.above[self.between]), weights[self.between])
        table = np.cumsum(table[::-1], axis=0)[::-1].copy()
        for members, reach in self.tied:
            there = np.flatnonzero(reach < self.length)
            table[there, reach[there]] += weights[members].sum()
        return np.cumsum(table, axis=1)

    def seconds(self, k: int, prices: Sequence[float] = ()) -> FloatMatrix:
        """Least seconds of every stretch on accelerator k; inf if it cannot run it.

        Parameters
        ----------
        prices
            Seconds for a byte of memory. Each counts what a stretch reads that is neither before nor in it: the call
            brings it in, or runs what makes it, and pays for that memory. Memory that is left is refunded, so every
            price gives a lower bound. None if all operators are between.
        """
        instance = self.instance
        known = np.isfinite(instance.seconds[:, k])
        table = self._sums(np.where(known, instance.seconds[:, k], 0.0))
        table += self._brought(instance.bring[:, k]) + self._given(instance.give[:, k])
        table[self._sums(np.where(known, 0.0, 1.0)) > 0.0] = np.inf
        capacity = int(instance.whole.capacity[instance.accelerators[k]])
        held, extra = np.zeros_like(table), np.zeros_like(table)
        if capacity != NO_LIMIT:
            held = self._sums(instance.whole.memory.astype(np.float64)) + self._parameters()
            table[held * (1.0 - SUMMATION) > capacity] = np.inf
        for price in prices:
            if price > 0.0 and capacity == NO_LIMIT:
                continue
            paid = self._optional(k, price)
            np.maximum(extra, paid * (1.0 - SUMMATION) - price * (capacity - held * (1.0 - SUMMATION)), out=extra)
        table += extra
        table[np.tril_indices(self.length, -1)] = np.inf
        return table

    def prices(self, k: int) -> list[float]:
        """Prices at which bringing something in costs as much as the memory for what makes it, for some of them."""
        makers = self.instance.producer
        own, bring = own_bytes(self.instance)[makers], self.instance.bring[:, k]
        able = (own > 0.0) & (bring > 0.0) & np.isfinite(bring) & (self.below[makers] < self.above[makers])
        ratios = np.quantile(bring[able] / own[able], SOME) if able.any() else np.zeros(0)
        return [0.0, *np.unique(ratios).tolist()]

    def _optional(self, k: int, price: float) -> FloatMatrix:
        """What a stretch pays for inputs that are neither before nor in it."""
        instance, table, apart = self.instance, *(np.zeros((self.length, self.length)) for _ in range(2))
        cost = self._either(k, price)
        for v in np.flatnonzero((cost > 0.0) & np.isfinite(cost) & (self.below < self.above)).tolist():
            readers = np.concatenate([instance.readers[t] for t in instance.outputs[v].tolist()])
            reach = self._reach(readers)
            first, last = self.below[v] + 1, min(int(self.above[v]) + 1, self.length)
            rows = first + np.flatnonzero(reach[first:last] < self.length)
            if self.tie[v] < 0:
                table[rows, reach[rows]] += cost[v]
                continue
            forced = self.tied[self.tie[v]][1]  # from there on the stretch has it anyway
            for i in rows.tolist():
                apart[i, reach[i] : forced[i]] += cost[v]
        return np.cumsum(table, axis=1) + apart

    def _either(self, k: int, price: float) -> FloatArray:
        """Least cost of an input of a call: bring it in, or run and hold its maker and pay for that one's inputs."""
        instance = self.instance
        whole, own, seconds = instance.whole, own_bytes(self.instance), instance.seconds[:, k]
        inner = seconds + price * own
        cost = np.zeros(instance.operators)
        only = np.full(instance.operators, -1, dtype=np.int64)  # the only reader of everything that an operator makes
        for v in topological_order(whole.after).tolist():
            made = instance.outputs[v]
            if not len(made):
                continue
            cost[v] = min(float(instance.bring[made, k].min()), inner[v])
            readers = whole.after[v]
            only[v] = readers[0] if len(readers) == 1 else -1
            if only[v] >= 0:
                inner[only[v]] += cost[v]
        return cost

    def _brought(self, seconds: FloatArray) -> FloatMatrix:
        """Transfers of tensors that are made before i and read between i and j."""
        table = np.zeros((self.length, self.length))
        made = self.above[self.instance.producer]
        for t in np.flatnonzero((made < self.length - 1) & (seconds > 0.0)).tolist():
            reach = self._reach(self.instance.readers[t])
            there = made[t] + 1 + np.flatnonzero(reach[made[t] + 1 :] < self.length)
            table[there, reach[there]] += seconds[t]
        return np.cumsum(table, axis=1)

    def _given(self, seconds: FloatArray) -> FloatMatrix:
        """Transfers of tensors that are made between i and j and read behind j."""
        table = np.zeros((self.length, self.length))
        below, above = self.below[self.instance.producer], self.above[self.instance.producer]
        for t in np.flatnonzero((below >= 0) & (seconds > 0.0)).tolist():
            last = int(self.below[self.instance.readers[t]].max())
            table[below[t], above[t] : last] += seconds[t]
        return np.cumsum(table[::-1], axis=0)[::-1]

    def _parameters(self) -> FloatMatrix:
        """Bytes of the parameters of operators between i and j, each once."""
        whole = self.instance.whole
        table = np.zeros((self.length, self.length))
        users = whole.parameters.reversed(len(whole.parameter_bytes))
        for p in np.flatnonzero(whole.parameter_bytes > 0).tolist():
            reach = self._reach(users[p])
            for number in {*self.tie[users[p]].tolist()} - {-1}:
                reach = np.minimum(reach, self.tied[number][1])
            there = np.flatnonzero(reach < self.length)
            table[there, reach[there]] += float(whole.parameter_bytes[p])
        return np.cumsum(table, axis=1)

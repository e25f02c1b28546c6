"""The disjunctive linear program over dimension and device subset of every operator.

For every operator v and set P of devices there are a weight z, copies of the shares u (which sum to z) and of the
shares that the producers hold, y_e (each sums to z), received bytes c and a time t:

* t >= intercept_k z + slope_k u_k + sum over e of c_ek / rate_k, for k in P
* c_ek >= per_share_e u_k + extra_ek z - size_e y_ek, for k in P (summed over e for operators that join channels)
* least z <= u_k <= most_k z, and where rows are few, u and t are mixtures of whole rows (:mod:`.instant`); such
  operators have separate options along the channels, where every part needs all of every input
* the weights of an operator sum to 1, and for every flow and device the y of all sets of the reader sum to the u of all
  sets of the producer.

The objective is the sum of all t, minimised. Every plan is a feasible point with z = 1 for the set that takes part
(:mod:`.blocks` proves the rows), so the least value is a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.engines.apart import with_highs
from opweave.solvers.linear import LinearProgram, SparseRows, highs_with, proved_value
from opweave.solvers.patience import patiently
from opweave.solvers.slicing.bounds.blocks import Blocks, subsets
from opweave.solvers.slicing.bounds.instant import Compositions, compositions, countable

SCALE = 1000.0
"""Units of the program in the seconds of the slowest devices, transfers included."""


def relax(blocks: Blocks, left: Callable[[], float | None] = lambda: None) -> float | None:
    """Lower bound of the latency, in seconds, by the program; None when the time is up or the engine fails.

    ``left`` gives the seconds left, None without a limit. The engine's prices of the rows are accurate only up to its
    tolerances, but the bound that they prove is exact; see :func:`~opweave.solvers.linear.proved_value`.
    """
    unit = _unit(blocks) / SCALE
    program = written(blocks, unit, lambda: left() == 0.0)
    seconds = left()
    if program is None or seconds == 0.0:
        return None
    prices = with_highs(_priced, (program, seconds), seconds)
    return None if prices is None else proved(program, prices) * unit


def proved(program: LinearProgram, prices: FloatArray) -> float:
    """What any prices of the rows prove, 0 at least."""
    return max(0.0, proved_value(program.cost, *program.rows(), (program.lower, program.upper), prices))


def _unit(blocks: Blocks) -> float:
    """Seconds of the slowest devices for everything, transfers included; 1 where nothing takes time."""
    whole = blocks.intercept + blocks.slope
    total = float(np.where(np.isfinite(whole), whole, 0.0).max(axis=1).sum())
    return total + float(blocks.size.sum() / blocks.rate.min()) or 1.0


def written(blocks: Blocks, unit: float, should_stop: Callable[[], bool] = lambda: False) -> LinearProgram | None:
    """The program; None if it has to stop before. Times are counted in ``unit`` seconds.

    Upper bounds are those that some optimal solution keeps.
    """
    program = _Program(blocks, unit)
    for v in range(blocks.operators):
        if should_stop():
            return None
        sets = [members for members in subsets(blocks.devices) if all(blocks.most[v, k] > 0.0 for k in members)]
        told = compositions(blocks, v, sets) if countable(blocks, v) else {}
        for members in sets:
            if told and members not in told:
                continue  # more devices than rows
            columns = program.add_set(v, members, by_rows=True)
            if members in told:
                program.add_whole_rows(told[members], *columns)
        for members in sets if told and blocks.channels[v] else ():
            if 1 < len(members) <= blocks.channels[v]:
                program.add_set(v, members, by_rows=False)
    cost, upper = np.asarray(program.cost), np.asarray(program.upper)
    return LinearProgram.of(cost, upper, program.most, program.equal)


class _Program:
    """Columns and rows under construction."""

    def __init__(self, blocks: Blocks, unit: float) -> None:
        self.most, self.equal = SparseRows(), SparseRows()
        self.cost: list[float] = []
        self.upper: list[float] = []
        self._blocks, self._unit = blocks, unit
        self._one = self.equal.open(np.ones(blocks.operators))
        flows = len(blocks.producer)
        self._feeds = [np.flatnonzero(blocks.producer == v) for v in range(blocks.operators)]
        self._couplings = self.equal.open(np.zeros(flows * blocks.devices)).reshape(flows, blocks.devices)

    def _columns(self, count: int, cost: float = 0.0) -> IntArray:
        first = len(self.cost)
        self.cost += [cost] * count
        self.upper += [1.0] * count
        return np.arange(first, first + count)

    def add_set(self, v: int, members: tuple[int, ...], *, by_rows: bool) -> tuple[IntArray, IntArray, IntArray]:
        """One operator's columns and rows for one set of devices; returns the columns z, t and u.

        If not by rows, it is cut along channels, each of which reads everything.
        """
        blocks, chosen, most, equal = self._blocks, list(members), self.most, self.equal
        fixed, slope = blocks.intercept[v, chosen] / self._unit, blocks.slope[v, chosen] / self._unit
        z, t, u = self._columns(1), self._columns(1, cost=1.0), self._columns(len(members))
        self.upper[t[0]] = float((fixed + slope).max())
        total, rows = equal.open(np.zeros(1)), most.open(np.zeros(3 * len(members))).reshape(3, len(members))
        equal.put(np.append(self._one[v], total), z, np.asarray([1.0, -1.0]))
        equal.put(total, u, 1.0)
        equal.put(self._couplings[self._feeds[v]][:, chosen], u, -1.0)
        least, times = np.full(len(members), blocks.least[v]), rows[2]  # the other rows are for least and most shares
        most.put(rows, u, np.stack([np.full(len(members), -1.0), np.ones(len(members)), slope]))
        most.put(rows, z, np.stack([least, -blocks.most[v, chosen], fixed]))
        most.put(times, t, -1.0)
        flows = np.arange(blocks.first_flow[v], blocks.first_flow[v + 1])
        for group in filter(len, [flows] if blocks.joined[v] else flows[:, None]):
            self._add_flows(group, members, (z, t, u), times, by_rows=by_rows)
        return z, t, u

    def _add_flows(
        self,
        group: IntArray,
        members: tuple[int, ...],
        columns: tuple[IntArray, IntArray, IntArray],
        times: IntArray,
        *,
        by_rows: bool,
    ) -> None:
        """The bytes c that the members receive of some flows together, and the shares y that the producers hold."""
        blocks, (z, t, u), chosen = self._blocks, columns, list(members)
        scale = max(float(blocks.size[group].sum()), 1.0)
        seconds = scale / blocks.rate[chosen] / self._unit
        share = float(blocks.per_share[group].sum()) / scale if by_rows else 0.0
        extra = sum((blocks.extra(int(e), members) for e in group), np.zeros(len(members)))
        fixed = (extra if by_rows else np.full(len(members), blocks.size[group].sum())) / scale
        c, rows = self._columns(len(members)), self.most.open(np.zeros(len(members)))
        self.most.put(times, c, seconds)
        self.most.put(rows, c, -1.0)
        self.most.put(rows, u, share)
        self.most.put(rows, z, fixed)
        received = share + np.maximum(0.0, fixed)
        self.upper[c[0] : c[-1] + 1] = received.tolist()
        self.upper[t[0]] += float((received * seconds).sum())
        y = self._columns(len(group) * blocks.devices).reshape(len(group), blocks.devices)
        sums = self.equal.open(np.zeros(len(group)))
        self.equal.put(sums, z, -1.0)
        self.equal.put(np.stack([np.repeat(sums[:, None], blocks.devices, 1), self._couplings[group]]), y, 1.0)
        self.most.put(rows, y[:, chosen], -blocks.size[group][:, None] / scale)

    def add_whole_rows(self, found: Compositions, z: IntArray, t: IntArray, u: IntArray) -> None:
        """The shares are a mixture of compositions, and the time is at least the mixture of theirs."""
        others = found.others or 0.0
        weights = self._columns(len(found.seconds))
        rest = self._columns(0 if found.others is None else len(u))  # the shares of all other compositions
        self.upper[t[0]] += float(found.seconds.max(initial=others)) / self._unit
        total, shares = self.equal.open(np.zeros(1)), self.equal.open(np.zeros(len(u)))
        time = self.most.open(np.zeros(1))
        every = np.concatenate([weights, rest])
        seconds = np.append(found.seconds, np.full(len(rest), others)) / self._unit
        self.equal.put(total, every, 1.0)
        self.equal.put(total, z, -1.0)
        self.most.put(time, every, seconds)
        self.most.put(time, t, -1.0)
        self.equal.put(shares, u, -1.0)
        self.equal.put(shares[:, None], weights, found.shares.T)
        self.equal.put(shares[: len(rest)], rest, 1.0)


def _priced(task: tuple[LinearProgram, float | None], _: Callable[[], bool]) -> FloatArray | None:
    """Nearly optimal prices of the rows, by HiGHS's interior-point method without crossover; None if it fails."""
    import highspy

    program, seconds = task
    limit = math.inf if seconds is None else max(0.01, seconds)
    unbounded = replace(program, upper=np.full(len(program.upper), np.inf))
    engine = highs_with(unbounded, time_limit=limit, solver="ipm", run_crossover="off", threads=1)
    if engine is None:
        return None
    patiently(engine.run)
    if engine.getModelStatus() not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kUnknown):
        return None
    prices = np.asarray(engine.getSolution().row_dual, dtype=np.float64)
    return prices if len(prices) == engine.getNumRow() and np.isfinite(prices).all() else None

"""The disjunctive linear program over dimension and device subset of every operator.

For every operator v and set P of devices there are a weight z, copies of the shares u (which sum to z) and of the
shares that the producers hold, y_e (each sums to z), received bytes c and a time t:

* t >= intercept_k z + slope_k u_k + sum over e of c_ek / rate_k, for k in P
* c_ek >= per_share_e u_k + extra_ek z - size_e y_ek, for k in P (summed over e for operators that join channels)
* least z <= u_k <= most_k z, and where rows are few, u and t are mixtures of whole rows (:mod:`.whole_rows`); such
  operators have separate options along the channels, where every part needs all of every input
* the weights of an operator sum to 1, and for every flow and device the y of all sets of the reader sum to the u of all
  sets of the producer.

The objective is the sum of all t, minimised. Every plan is a feasible point with z = 1 for the set that takes part
(:mod:`.blocks` proves the rows), so the least value is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.engines.apart import with_highs
from opweave.solvers.linear import proved_value
from opweave.solvers.patience import patiently
from opweave.solvers.slicing.bounds.blocks import Blocks, subsets
from opweave.solvers.slicing.bounds.whole_rows import Compositions, compositions, countable

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SCALE = 1000.0
"""Units of the program in the seconds of the slowest devices, transfers included."""


@dataclass(eq=False)
class _Program:
    """Columns and rows under construction: minimise cost x, low <= A x <= high, 0 <= x.

    ``most`` holds upper bounds of the columns that some optimal solution keeps.
    """

    cost: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def add_columns(self, count: int, cost: float = 0.0, most: float = 1.0) -> list[int]:
        first = len(self.cost)
        self.cost.extend([cost] * count)
        self.most.extend([most] * count)
        return list(range(first, first + count))

    def add_row(self, low: float, high: float) -> int:
        self.low.append(low)
        self.high.append(high)
        return len(self.low) - 1

    def put(self, row: int, column: int, value: float) -> None:
        if value != 0.0:
            self.row.append(row)
            self.column.append(column)
            self.value.append(value)


def relax(blocks: Blocks, seconds: float | None = None) -> float | None:
    """Lower bound of the latency, in seconds, by the program; None when the time is up or the engine fails.

    The engine's prices of the rows are accurate only up to its tolerances, but the bound that they prove is exact; see
    :func:`~opweave.solvers.linear.proved_value`.
    """
    unit = _unit(blocks) / SCALE
    program = _write(blocks, unit)
    matrix = _matrix(program)
    prices = _prices(program, matrix, seconds)
    return None if prices is None else _proved(program, matrix, prices) * unit


def _unit(blocks: Blocks) -> float:
    """Seconds of the slowest devices for everything, transfers included; 1 where nothing takes time."""
    whole = blocks.intercept + blocks.slope
    total = float(np.where(np.isfinite(whole), whole, 0.0).max(axis=1).sum())
    return total + float(blocks.size.sum() / blocks.rate.min()) or 1.0


def _write(blocks: Blocks, unit: float) -> _Program:
    program, devices = _Program(), blocks.devices
    couplings = np.asarray(
        [[program.add_row(0.0, 0.0) for _ in range(devices)] for _ in range(len(blocks.producer))], dtype=np.int64
    ).reshape(-1, devices)
    feeds: list[list[int]] = [[] for _ in range(blocks.operators)]
    for e, j in enumerate(blocks.producer.tolist()):
        feeds[j].append(e)
    for v in range(blocks.operators):
        one = program.add_row(1.0, 1.0)
        sets = [members for members in subsets(devices) if all(blocks.most[v, k] > 0.0 for k in members)]
        told = compositions(blocks, v, sets) if countable(blocks, v) else {}
        for members in sets:
            if told and members not in told:
                continue  # more devices than rows
            written = _write_set(program, blocks, v, members, unit, couplings, feeds[v], one, by_rows=True)
            if members in told:
                _write_whole_rows(program, told[members], written, unit)
        for members in sets if told and blocks.channels[v] else ():
            if 1 < len(members) <= blocks.channels[v]:
                _write_set(program, blocks, v, members, unit, couplings, feeds[v], one, by_rows=False)
    return program


def _write_set(
    program: _Program,
    blocks: Blocks,
    v: int,
    members: tuple[int, ...],
    unit: float,
    couplings: IntArray,
    feeds: list[int],
    one: int,
    *,
    by_rows: bool,
) -> tuple[int, int, list[int]]:
    """One operator's columns and rows for one set of devices; returns the columns z, t and u.

    If not by rows, it is cut along channels, each of which reads everything.
    """
    (z,) = program.add_columns(1)
    longest = float((blocks.intercept[v, list(members)] + blocks.slope[v, list(members)]).max()) / unit
    (t,) = program.add_columns(1, 1.0, longest)
    u = program.add_columns(len(members))
    program.put(one, z, 1.0)
    total = program.add_row(0.0, 0.0)
    program.put(total, z, -1.0)
    times = []
    for i, k in enumerate(members):
        program.put(total, u[i], 1.0)
        for bound, sign in ((blocks.least[v], -1.0), (blocks.most[v, k], 1.0)):
            row = program.add_row(-np.inf, 0.0)
            program.put(row, u[i], sign)
            program.put(row, z, -sign * float(bound))
        for e in feeds:
            program.put(int(couplings[e, k]), u[i], -1.0)
        times.append(program.add_row(-np.inf, 0.0))
        program.put(times[i], t, -1.0)
        program.put(times[i], z, float(blocks.intercept[v, k]) / unit)
        program.put(times[i], u[i], float(blocks.slope[v, k]) / unit)
    flows = list(range(int(blocks.first_flow[v]), int(blocks.first_flow[v + 1])))
    groups = [flows] if blocks.joined[v] else [[e] for e in flows]
    for group in filter(None, groups):
        scale = max(sum(float(blocks.size[e]) for e in group), 1.0)
        c = program.add_columns(len(members))
        rows = []
        for i, k in enumerate(members):
            seconds = scale / float(blocks.rate[k]) / unit
            program.put(times[i], c[i], seconds)
            rows.append(program.add_row(-np.inf, 0.0))
            program.put(rows[i], c[i], -1.0)
            share = sum(float(blocks.per_share[e]) for e in group) if by_rows else 0.0
            fixed = sum(float(blocks.extra(e, members)[i] if by_rows else blocks.size[e]) for e in group)
            program.put(rows[i], u[i], share / scale)
            program.put(rows[i], z, fixed / scale)
            program.most[c[i]] = (share + max(0.0, fixed)) / scale
            program.most[t] += program.most[c[i]] * seconds
        for e in group:
            y = program.add_columns(blocks.devices)
            sums = program.add_row(0.0, 0.0)
            program.put(sums, z, -1.0)
            for k in range(blocks.devices):
                program.put(sums, y[k], 1.0)
                program.put(int(couplings[e, k]), y[k], 1.0)
            for i, k in enumerate(members):
                program.put(rows[i], y[k], -float(blocks.size[e]) / scale)
    return z, t, u


def _write_whole_rows(program: _Program, found: Compositions, written: tuple[int, int, list[int]], unit: float) -> None:
    """The shares are a mixture of compositions, and the time is at least the mixture of theirs."""
    z, t, u = written
    weights = program.add_columns(len(found.seconds))
    rest = [] if found.others is None else program.add_columns(len(u))
    program.most[t] += max([*found.seconds.tolist(), found.others or 0.0]) / unit
    total, time = program.add_row(0.0, 0.0), program.add_row(-np.inf, 0.0)
    program.put(total, z, -1.0)
    program.put(time, t, -1.0)
    shares = [program.add_row(0.0, 0.0) for _ in u]
    for i, column in enumerate(u):
        program.put(shares[i], column, -1.0)
    for weight, share, seconds in zip(weights, found.shares, found.seconds, strict=True):
        program.put(total, weight, 1.0)
        program.put(time, weight, float(seconds) / unit)
        for i, part in enumerate(share.tolist()):
            program.put(shares[i], weight, part)
    for i, column in enumerate(rest):  # the shares of all other compositions
        program.put(total, column, 1.0)
        program.put(time, column, float(found.others or 0.0) / unit)
        program.put(shares[i], column, 1.0)


def _matrix(program: _Program) -> csr_matrix:
    from scipy.sparse import csr_matrix

    shape = (len(program.low), len(program.cost))
    return csr_matrix((program.value, (program.row, program.column)), shape=shape)


def _prices(program: _Program, matrix: csr_matrix, seconds: float | None) -> FloatArray | None:
    """Nearly optimal prices of the rows, by an interior-point method without crossover."""
    return with_highs(_priced, (program, matrix, seconds), seconds)


def _priced(task: tuple[_Program, csr_matrix, float | None], _: Callable[[], bool]) -> FloatArray | None:
    """Let HiGHS find the prices; None if it fails."""
    import highspy

    program, matrix, seconds = task
    rows, columns = matrix.shape
    engine = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in (("output_flag", False), ("solver", "ipm"), ("run_crossover", "off"), ("threads", 1)):
        engine.setOptionValue(name, value)
    if seconds is not None:
        engine.setOptionValue("time_limit", max(0.01, seconds))
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = columns, rows
    model.col_cost_ = np.asarray(program.cost)
    model.col_lower_, model.col_upper_ = np.zeros(columns), np.full(columns, np.inf)
    model.row_lower_, model.row_upper_ = np.asarray(program.low), np.asarray(program.high)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.num_col_, model.a_matrix_.num_row_ = columns, rows
    model.a_matrix_.start_, model.a_matrix_.index_ = matrix.indptr, matrix.indices
    model.a_matrix_.value_ = matrix.data
    if engine.passModel(model) == highspy.HighsStatus.kError or engine.getNumRow() != rows:
        return None
    patiently(engine.run)
    if engine.getModelStatus() not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kUnknown):
        return None
    prices = np.asarray(engine.getSolution().row_dual, dtype=np.float64)
    return prices if len(prices) == rows and np.isfinite(prices).all() else None


def _proved(program: _Program, matrix: csr_matrix, prices: FloatArray) -> float:
    low, high, most = np.asarray(program.low), np.asarray(program.high), np.asarray(program.most)
    box = np.zeros(len(most)), most
    return max(0.0, proved_value(np.asarray(program.cost), matrix, low, high, box, prices))

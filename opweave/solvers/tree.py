"""Integer programs: points that HiGHS finds, and lower bounds that are proved.

A bound comes from branch and bound in which every leaf is proved by its own prices. Each node is the linear program
with narrower columns. HiGHS solves it, but only its prices count: the bound that they prove
(:class:`~opweave.solvers.linear.Dual`) is the node's bound. The program's bound is the smallest bound of the leaves
that cover it, at whatever moment the search ends. Tolerances, those of the engine and those for integrality here,
therefore affect the quality of the bound but never its validity:

* An infeasible node is dropped only if prices prove that it is infeasible; otherwise it keeps its parent's bound.
* A node whose point looks integral is not divided further and keeps its own bound, whatever the cost of that point.
* A column is fixed by its reduced cost only if the proved bound, with the column's part moved to the other value,
  reaches the ceiling.

Source: Neumaier and Shcherbina, "Safe bounds in linear and mixed-integer linear programming" (Mathematical Programming
99, 2004), section 4; Achterberg, Koch and Martin, "Branching rules revisited" (Operations Research Letters 33, 2005).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.engines.highs_child import highspy_fits, never, solution_of, with_highs
from opweave.solvers.linear import Dual, LinearProgram, highs_with

if TYPE_CHECKING:
    import highspy

FRACTION = 1e-6
"""Distance from an integer above which a value is divided."""

CLOSE = 1e-7
"""Relative distance from the ceiling that counts as reaching it."""

CANDIDATES = 8
RELIABLE = 2
"""Number of columns that are tried before one is chosen, and number of tries after which its mean gain is trusted."""

MOST_NODES = 100_000


class Proved(NamedTuple):
    """A lower bound, whether it is final, and the point of its leaf if that is where all columns seem integral."""

    bound: float
    settled: bool
    point: FloatArray | None = None


class Relaxed(NamedTuple):
    """A node's bound, point and reduced costs; no point if there is none or none was found."""

    bound: float
    point: FloatArray | None
    reduced: FloatArray | None


@dataclass(frozen=True, slots=True, order=True)
class _Node:
    bound: float
    number: int
    low: FloatArray = field(compare=False)
    high: FloatArray = field(compare=False)
    column: int = field(compare=False, default=-1)
    value: float = field(compare=False, default=0.0)
    """The column to divide at a value; -1 for none."""


def least_whole(
    program: LinearProgram,
    whole: IntArray,
    endless: BoolArray,
    ceiling: float,
    seconds: float,
    should_stop: Callable[[float], bool] = never,
) -> Proved:
    """A lower bound on the smallest cost of points of a program whose chosen columns are integral.

    Parameters
    ----------
    program
        The program. All columns have finite bounds, and those of integral columns are integers.
    whole
        Which columns are integral: those with numbers above 0. The largest are divided first. Shape (columns,).
    endless
        Columns, such as times, that only the ceiling keeps within their upper bounds. Shape (columns,).
    ceiling
        The bound never exceeds this; the search ends there.
    seconds
        Time limit.
    should_stop
        Told the bound so far at every node, in the calling thread. Where HiGHS needs a process of its own, it is told
        -inf instead.
    """
    if seconds <= 0.0:
        return Proved(-math.inf, False)
    task = program, whole, endless, ceiling, seconds
    if highspy_fits():
        return _search(task, should_stop)
    return with_highs(_search, task, seconds, lambda: should_stop(-math.inf)) or Proved(-math.inf, False)


def _search(task: tuple[LinearProgram, IntArray, BoolArray, float, float], should_stop: Callable[..., bool]) -> Proved:
    """Search until the time is up."""
    return _Tree(*task, should_stop).run()


def whole_point(
    program: LinearProgram,
    whole: BoolArray,
    seconds: float | None,
    should_stop: Callable[[], bool] = never,
    **options: float,
) -> FloatArray | None:
    """The best point with integral columns that HiGHS finds; None if it finds none.

    Parameters
    ----------
    program, whole, should_stop
        As for :func:`least_whole`.
    seconds
        Time limit; None for no limit.
    options
        Options of HiGHS, such as ``mip_rel_gap``.
    """
    return with_highs(_point, (program, whole, seconds, options), seconds, should_stop)


def _point(
    task: tuple[LinearProgram, BoolArray, float | None, dict[str, float]], _: Callable[[], bool]
) -> FloatArray | None:
    """Solve with one thread; runs where highspy can be loaded."""
    import highspy

    program, whole, seconds, options = task
    limit = math.inf if seconds is None else max(0.05, seconds)
    # HiGHS 1.15 has called wrong points optimal after restarts
    fixed = {"time_limit": limit, "threads": 1, "mip_allow_restart": False}
    engine = highs_with(program, whole, **fixed, **options)
    if engine is None:
        return None
    engine.run()
    point = solution_of(engine)
    highspy.Highs.resetGlobalScheduler(True)
    return point


class _Tree:
    """The search: nodes with the smallest bound first."""

    def __init__(
        self,
        program: LinearProgram,
        whole: IntArray,
        endless: BoolArray,
        ceiling: float,
        seconds: float,
        should_stop: Callable[[float], bool],
    ) -> None:
        self.columns = np.flatnonzero(whole).astype(np.int64)
        self.rank = whole[self.columns]
        self.ceiling, self.end, self.should_stop = ceiling, perf_counter() + seconds, should_stop
        self.relaxation = Relaxation(program, self.columns, endless, self.end)
        self.gain = np.zeros((2, len(self.columns)))
        self.times = np.zeros((2, len(self.columns)))
        self.heap: list[_Node] = []
        self.bound, self.least_closed = -math.inf, math.inf
        self.point: FloatArray | None = None
        self.number = 0

    def run(self) -> Proved:
        """Divide the node with the smallest bound until it cannot be divided, the ceiling is reached, or time is up."""
        low, high = self.relaxation.lower[self.columns].copy(), self.relaxation.upper[self.columns].copy()
        self._open(self.relaxation.solve(low, high, -math.inf), low, high, -math.inf)
        while self.heap and self.number < MOST_NODES and self.heap[0].bound < self.least_closed:
            self.bound = self.heap[0].bound
            if self._late() or self.bound >= self.ceiling - CLOSE * abs(self.ceiling):
                break
            self._divide(heapq.heappop(self.heap))
        open_ = self.heap[0].bound if self.heap else math.inf
        bound = min(open_, self.least_closed, self.ceiling)
        settled = not self.heap or self.least_closed <= open_ or bound >= self.ceiling * (1.0 - CLOSE)
        return Proved(bound, settled, self.point if self.least_closed <= min(open_, self.ceiling) else None)

    def _late(self) -> bool:
        return perf_counter() >= self.end or self.should_stop(self.bound)

    def _divide(self, node: _Node) -> None:
        """Replace a node by its two halves."""
        for side in (0, 1):
            low, high = _half(node.low, node.high, node.column, node.value, side)
            found = self.relaxation.solve(low, high, node.bound)
            self._learn(side, node.column, node.value, found.bound - node.bound)
            self._open(found, low, high, node.bound)

    def _open(self, found: Relaxed, low: FloatArray, high: FloatArray, known: float) -> None:
        """Keep a node, either among those to divide or as a leaf."""
        bound = max(known, found.bound)
        column, value = -1, 0.0
        if found.point is not None and bound < self.ceiling:
            if found.reduced is not None:
                self._fix(found, bound, low, high)
            column, value, bound = self._choose(found, bound, low, high)
        if bound >= self.ceiling:
            return
        if column < 0:
            if bound < self.least_closed:
                self.least_closed, self.point = bound, found.point
            return
        self.number += 1
        heapq.heappush(self.heap, _Node(bound, self.number, low, high, column, value))

    def _fix(self, found: Relaxed, bound: float, low: FloatArray, high: FloatArray) -> None:
        """Fix columns by their reduced costs if their other values would reach the ceiling."""
        assert found.reduced is not None
        room = (self.ceiling - found.bound) * (1.0 + 1e-6) + 1e-9 * abs(self.ceiling)
        if not math.isfinite(room) or found.bound < bound:
            return
        reduced = found.reduced[self.columns]
        high[(reduced > room) & (high > low)] = low[(reduced > room) & (high > low)]
        low[(reduced < -room) & (high > low)] = high[(reduced < -room) & (high > low)]

    def _choose(self, found: Relaxed, bound: float, low: FloatArray, high: FloatArray) -> tuple[int, float, float]:
        """The column to divide, its value, and the bound proved on the way; -1 if all are integral."""
        assert found.point is not None
        values = found.point[self.columns]
        apart = np.abs(values - np.round(values))
        split = np.flatnonzero((apart > FRACTION) & (high > low))
        if not len(split):
            return -1, 0.0, bound
        split = split[self.rank[split] == self.rank[split].max()]
        down, up = values - np.floor(values), np.ceil(values) - values
        mean = self.gain / np.maximum(self.times, 1.0)
        known = self.times.sum(axis=1)
        usual = np.where(known > 0, self.gain.sum(axis=1) / np.maximum(known, 1.0), 1.0)
        mean = np.where(self.times > 0, mean, usual[:, None])
        score = np.maximum(mean[0] * down, 1e-9) * np.maximum(mean[1] * up, 1e-9)
        ranked = split[np.lexsort((-apart[split], -score[split]))]
        best, choice = -1.0, int(ranked[0])
        for i in ranked[:CANDIDATES].tolist():
            if self.times[:, i].min() >= RELIABLE:
                gains = np.maximum([mean[0, i] * down[i], mean[1, i] * up[i]], 1e-9)
            elif self._late():
                break
            else:
                gains, least = self._try(i, float(values[i]), bound, low, high)
                bound = max(bound, least)
                if bound >= self.ceiling:
                    break
            value = float(gains.prod())
            if value > best:
                best, choice = value, i
        return choice, float(values[choice]), bound

    def _try(self, i: int, value: float, bound: float, low: FloatArray, high: FloatArray) -> tuple[FloatArray, float]:
        """The gains of dividing a column on both sides, and the bound that this proves for both together."""
        bounds = np.zeros(2)
        for side in (0, 1):
            bounds[side] = self.relaxation.solve(*_half(low, high, i, value, side), bound).bound
            self._learn(side, i, value, float(bounds[side]) - bound)
        return np.maximum(np.minimum(bounds, self.ceiling) - bound, 1e-9), float(bounds.min())

    def _learn(self, side: int, i: int, value: float, gain: float) -> None:
        far = value - math.floor(value) if side == 0 else math.ceil(value) - value
        if far > 0.0 and math.isfinite(gain):
            self.gain[side, i] += max(gain, 0.0) / far
            self.times[side, i] += 1.0


def _half(low: FloatArray, high: FloatArray, column: int, value: float, side: int) -> tuple[FloatArray, FloatArray]:
    """The box with one column below (0) or above (1) a value."""
    low, high = low.copy(), high.copy()
    if side == 0:
        high[column] = math.floor(value)
    else:
        low[column] = math.floor(value) + 1.0
    return low, high


class Relaxation:
    """One program in the engine; the boxes of its integral columns change from node to node.

    Parameters
    ----------
    program
        The program; all columns have finite bounds.
    columns
        Columns whose bounds change.
    endless
        Columns that the engine may move beyond the box.
    end
        When to stop, on the clock of ``perf_counter``.
    """

    def __init__(self, program: LinearProgram, columns: IntArray, endless: BoolArray, end: float) -> None:
        self.lower, self.upper, self.columns, self.end = program.lower, program.upper, columns, end
        matrix, low, high = program.rows()
        self.dual = Dual(program.cost, matrix, low, high)
        self.rays = Dual(np.zeros(len(program.cost)), matrix, low, high)
        # a point beyond the box has a bound beyond the ceiling, which is easier to prove than infeasibility
        upper = np.where(endless, np.inf, program.upper)
        self.engine = highs_with(replace(program, upper=upper), presolve="off", solver="simplex")

    def solve(self, low: FloatArray, high: FloatArray, known: float) -> Relaxed:
        """A node's bound (inf if the node is proved infeasible), which is at least ``known``."""
        left = self.end - perf_counter()
        engine = self.engine
        if engine is None or left <= 0.0:
            return Relaxed(known, None, None)
        box = (self.lower.copy(), self.upper.copy())
        box[0][self.columns], box[1][self.columns] = low, high
        engine.changeColsBounds(len(self.columns), self.columns.astype(np.int32), low, high)
        engine.setOptionValue("time_limit", engine.getRunTime() + left)
        engine.run()
        if engine.getModelStatus().name == "kUnknown":  # a basis of the node before may be too bad to go on from
            engine.clearSolver()
            engine.run()
        status = engine.getModelStatus().name
        if status == "kInfeasible":
            return Relaxed(self._emptiness(engine, box, known), None, None)
        if status != "kOptimal":
            return Relaxed(known, None, None)
        solution = engine.getSolution()
        prices = np.asarray(solution.row_dual, dtype=np.float64)
        point = np.asarray(solution.col_value, dtype=np.float64)
        value, reduced = self.dual.priced(prices, box)
        return Relaxed(max(known, value), point, reduced if value >= known else None)

    def _emptiness(self, engine: highspy.Highs, box: tuple[FloatArray, FloatArray], known: float) -> float:
        """Inf if the engine's ray proves infeasibility, otherwise ``known``."""
        _, there, ray = engine.getDualRay()  # type: ignore[attr-defined]
        if there:
            prices = np.asarray(ray, dtype=np.float64)
            if any(self.rays.value(sign * prices, box) > 0.0 for sign in (1.0, -1.0)):
                return math.inf
        return known
